//! The throughput of each config in each version. A version is a commit of the matrix, a worker, or the bytes of the
//! matrix file. [`history`] makes a [`History`] with one [`Point`] per config, machine and version.
//!
//! A point is compared, by the rules of `compare`, with the last earlier version that ran the config on the same
//! machine. For example, `cpu_resnet18_fp32_bs16` on `bench-1` has 98.1 images/s in `3f2a…`, `slower` than in `77c0…`.
//! There is no
//! comparison if the samples differ in unit or work.
//!
//! Callers assign runs to versions. The runs of each version are judged separately, so a result that a re-run replaced
//! still counts for its version.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use super::compare::{Settings, compare};
use super::group::{Row, unit};
use super::versus::{ConfigComparison, OfSide, comparable, rates};
use super::{Judged, Study, judge};
use crate::job::{ConfigOf, Key, distinction, varying_parameters};
use crate::protocol::SampleUnit;
use crate::record::{HostFacts, Machine};

/// The runs of a version.
#[derive(Clone, Debug)]
pub struct Version {
    /// The commit, or the beginning of a hash.
    pub name: String,
    /// The jobs with the records of this version.
    pub study: Study,
}

/// The throughput of a config in a version.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The config.
    pub config: String,
    /// The name of the host, with the id of the machine if several machines share the name.
    pub host: String,
    /// The version.
    pub version: String,
    /// The start of the first run.
    pub since: DateTime<Utc>,
    /// The runs that count.
    pub runs: OfSide,
    /// The earlier version that this one is compared with; `None` for the first one.
    pub before: Option<String>,
    /// The comparison, or the reason why there is none.
    pub result: Result<ConfigComparison, String>,
}

/// The history of a matrix.
#[derive(Clone, Debug)]
pub struct History {
    /// The points, sorted by config, machine and time.
    pub points: Vec<Point>,
    /// The unit of the samples.
    pub unit: SampleUnit,
}

/// A version with its judged runs.
struct JudgedVersion<'v> {
    name: &'v str,
    since: DateTime<Utc>,
    judged: Judged<'v>,
}

impl<'v> JudgedVersion<'v> {
    fn of(Version { name, study }: &'v Version) -> Option<Self> {
        let since = study.cells.iter().filter_map(|cell| Some(cell.record()?.started_at)).min()?;
        Some(JudgedVersion { name, since, judged: judge(study) })
    }

    /// The rows with statistics.
    fn rows(&self) -> impl Iterator<Item = &Row<'v>> {
        self.judged.rows.iter().filter(|row| row.statistics.is_ok())
    }
}

/// The machines of all versions, in the order in which they first occur. A machine is identified by its index.
struct Machines<'v>(Vec<Machine<'v>>);

impl<'v> Machines<'v> {
    /// The machine of `row`; `None` if the row has no record.
    fn of(&mut self, row: &Row<'v>) -> Option<usize> {
        let host: &'v HostFacts = &row.runs.first()?.cell.record()?.provenance.host;
        let known = self.0.iter_mut().position(|machine| machine.admits(host));
        if known.is_none() {
            self.0.push(Machine::of(host));
        }
        Some(known.unwrap_or(self.0.len() - 1))
    }

    /// `host`, a name of this machine, with the machine's id if another machine shares the name.
    fn host_text(&self, machine: usize, host: &str) -> String {
        let others = self.0.iter().enumerate().filter(|(other, _)| *other != machine);
        let is_shared = others.flat_map(|(_, other)| other.names()).any(|name| name == host);
        let id = self.0[machine].id_text().filter(|_| is_shared);
        format!("{host}{}", id.map(|id| format!(" (machine {id})")).unwrap_or_default())
    }

    /// The sort key of a machine: its first name, its id, its index.
    fn order(&self, machine: usize) -> (Option<&'v str>, Option<&'v str>, usize) {
        let known = &self.0[machine];
        (known.names().first().copied(), known.id_text(), machine)
    }
}

/// The rows of a version, each with its machine.
struct Measured<'r, 'v> {
    version: &'v str,
    rows: Vec<(&'r Row<'v>, usize)>,
    /// The rows by config and machine.
    by_config: HashMap<(ConfigOf<'r>, usize), Vec<&'r Row<'v>>>,
}

impl<'r, 'v> Measured<'r, 'v> {
    fn of(version: &'r JudgedVersion<'v>, machines: &mut Machines<'v>) -> Self {
        let rows: Vec<(&'r Row<'v>, usize)> =
            version.rows().filter_map(|row| Some((row, machines.of(row)?))).collect();
        let mut by_config: HashMap<(ConfigOf<'r>, usize), Vec<&'r Row<'v>>> = HashMap::new();
        for &(row, machine) in &rows {
            by_config.entry((ConfigOf::new(&row.config), machine)).or_default().push(row);
        }
        Measured { version: version.name, rows, by_config }
    }

    /// The rows of the config of `row` on this machine.
    fn alike<'s>(&'s self, row: &'s Row<'_>, machine: usize) -> &'s [&'r Row<'v>] {
        match self.by_config.get(&(ConfigOf::new(&row.config), machine)) {
            Some(rows) => rows,
            None => &[],
        }
    }
}

/// The earlier version with its row; or the reason why the row is not compared, with the version if there is one.
type Before<'r, 'v> = Result<(&'v str, &'r Row<'v>), (Option<&'v str>, String)>;

/// A row of a version, and the row of the earlier version.
struct Step<'r, 'v> {
    row: &'r Row<'v>,
    machine: usize,
    before: Before<'r, 'v>,
}

/// The history of `versions`, which can be in any order. Versions without a run that counts are left out.
pub fn history(versions: &[Version]) -> History {
    let mut judged: Vec<JudgedVersion<'_>> = versions.iter().filter_map(JudgedVersion::of).collect();
    judged.sort_by(|one, other| (one.since, one.name).cmp(&(other.since, other.name)));
    let keys = || judged.iter().flat_map(JudgedVersion::rows).map(|row| &row.config);
    let varying = varying_parameters(keys());
    let mut machines = Machines(Vec::new());
    let measured: Vec<Measured<'_, '_>> =
        judged.iter().map(|version| Measured::of(version, &mut machines)).collect();
    let points = measured
        .iter()
        .enumerate()
        .flat_map(|(place, now)| points(now, &measured[..place], &machines, &varying));
    let mut points: Vec<(usize, Point)> = points.collect();
    // A stable sort keeps the versions of a config in order.
    points.sort_by_cached_key(|(machine, point)| (point.config.clone(), machines.order(*machine)));
    let points = points.into_iter().map(|(_, point)| point).collect();
    History { points, unit: unit(judged.iter().flat_map(JudgedVersion::rows)) }
}

/// The points of the version `now`, each with its machine. Holm's correction is over all comparisons of the version.
fn points(
    now: &Measured<'_, '_>,
    earlier: &[Measured<'_, '_>],
    machines: &Machines<'_>,
    varying: &[String],
) -> Vec<(usize, Point)> {
    let steps = now.rows.iter();
    let steps: Vec<Step<'_, '_>> = steps
        .map(|&(row, machine)| Step { row, machine, before: before(row, machine, now.version, earlier) })
        .collect();
    let pairs: Vec<[&Row<'_>; 2]> =
        steps.iter().filter_map(|step| Some([step.before.as_ref().ok()?.1, step.row])).collect();
    let comparison = compare(&rates(&pairs), Settings::default());
    let mut index = 0..;
    let results = steps.into_iter().map(|Step { row, machine, before }| match before {
        Ok((name, _)) => {
            let index = index.next().expect("the range is unbounded");
            (row, machine, Some(name), ConfigComparison::of(&comparison, index))
        }
        Err((name, why)) => (row, machine, name, Err(why)),
    });
    results
        .filter_map(|(row, machine, before, result)| {
            let counting = row.runs.iter().filter(|run| run.counts()).filter_map(|run| run.cell.record());
            let point = Point {
                config: label(row, now.alike(row, machine), varying),
                host: machines.host_text(machine, row.circumstances.as_ref()?.host()),
                version: now.version.to_owned(),
                since: counting.map(|record| record.started_at).min()?,
                runs: OfSide::of(row)?,
                before: before.map(str::to_owned),
                result,
            };
            Some((machine, point))
        })
        .collect()
}

/// The last of the `earlier` versions that ran the config of `row` on its machine. `now` is the version of `row`.
fn before<'r, 'v>(row: &Row<'_>, machine: usize, now: &str, earlier: &[Measured<'r, 'v>]) -> Before<'r, 'v> {
    let found = earlier.iter().rev().find_map(|measured| {
        let alike = measured.alike(row, machine);
        (!alike.is_empty()).then_some((measured.version, alike))
    });
    match found {
        None => Err((None, "the first version on this machine".to_owned())),
        Some((version, [one])) => match comparable(one, row) {
            Ok(()) => Ok((version, *one)),
            Err(reason) => {
                let names = [version, now].map(|name| format!("version {name}"));
                Err((Some(version), reason.text_by_name(&names)))
            }
        },
        Some((version, several)) => {
            let why = format!("its earlier runs are {} rows, which differ in more", several.len());
            Err((Some(version), why))
        }
    }
}

/// `cpu_resnet18_fp32_bs16 compile=true (1 of 2)`: the number is that of `row` among the rows `alike` of the version.
fn label(row: &Row<'_>, alike: &[&Row<'_>], varying: &[String]) -> String {
    let Key { env, model, precision, batch, .. } = &row.config;
    let place = alike.iter().position(|other| std::ptr::eq(*other, row)).filter(|_| alike.len() > 1);
    let part = place.map(|place| format!(" ({} of {})", place + 1, alike.len())).unwrap_or_default();
    format!("{env}_{model}_{precision}_bs{batch}{}{part}", distinction(&row.config, varying))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::compare::Verdict;
    use crate::analysis::fixture::{StudyBuilder, key};
    use crate::record::{MachineIds, Record};

    /// A version whose runs started `hours` later.
    fn version(name: &str, hours: i64, rates: &[f64]) -> Version {
        changed(name, hours, rates, |_, _| {})
    }

    fn on_host(name: &str, hours: i64, host: &str, rates: &[f64]) -> Version {
        changed(name, hours, rates, |_, record| record.provenance.host.hostname = host.to_owned())
    }

    /// A version with changed records; `change` gets the repeat of each.
    fn changed(name: &str, hours: i64, rates: &[f64], change: impl Fn(u32, &mut Record)) -> Version {
        let mut study = StudyBuilder::new();
        for (repeat, rate) in (1..).zip(rates) {
            study = study.run_with(key("cpu", "resnet18", 16, repeat), *rate, |record| {
                record.started_at += chrono::Duration::hours(hours);
                record.ended_at += chrono::Duration::hours(hours);
                change(repeat, record);
            });
        }
        Version { name: name.to_owned(), study: study.build() }
    }

    /// Moves `record` to the machine with the id `machine` × 32. All machines have the same name.
    fn put_on(record: &mut Record, machine: &str) {
        record.provenance.host.machine =
            Some(MachineIds { hardware: Some(machine.repeat(32)), system: None });
    }

    /// The config, host, version and earlier version of each point.
    fn places(points: &[Point]) -> Vec<[&str; 4]> {
        let places = points.iter().map(|point| {
            let before = point.before.as_deref().unwrap_or("none");
            [point.config.as_str(), point.host.as_str(), point.version.as_str(), before]
        });
        places.collect()
    }

    /// The version, the earlier version and the verdict of each point.
    fn verdicts(versions: &[Version]) -> Vec<(String, Option<String>, Option<Verdict>)> {
        let points = history(versions).points.into_iter();
        let verdict = |point: &Point| point.result.as_ref().ok().map(|comparison| comparison.verdict);
        points.map(|point| (point.version.clone(), point.before.clone(), verdict(&point))).collect()
    }

    #[test]
    fn versions_are_sorted_by_time_and_compared_with_the_previous_one() {
        let of =
            |name: &str, before: Option<&str>, verdict| (name.to_owned(), before.map(str::to_owned), verdict);
        let versions = [
            version("c", 20, &[80.0, 80.1, 79.9]),
            version("a", 0, &[100.0, 100.1, 99.9]),
            version("b", 10, &[100.1, 100.0, 99.9]),
        ];
        assert_eq!(
            verdicts(&versions),
            [
                of("a", None, None),
                of("b", Some("a"), Some(Verdict::Same)),
                of("c", Some("b"), Some(Verdict::Slower))
            ]
        );
    }

    #[test]
    fn a_config_is_never_compared_with_another_machine() {
        let versions = [
            version("a", 0, &[100.0, 100.1, 99.9]),
            on_host("b", 10, "bench-2", &[50.0, 50.1, 49.9]),
            version("c", 20, &[120.0, 120.1, 119.9]),
        ];
        let found = history(&versions).points;
        let names: Vec<(&str, Option<&str>)> =
            found.iter().map(|point| (point.version.as_str(), point.before.as_deref())).collect();
        assert_eq!(names, [("a", None), ("c", Some("a")), ("b", None)]);
        assert_eq!(found[2].result, Err("the first version on this machine".to_owned()));
    }

    #[test]
    fn machines_of_one_name_are_two_series() {
        let on = |name: &str, hours: i64, machine: &'static str| {
            changed(name, hours, &[100.0, 100.1, 99.9], move |_, record| put_on(record, machine))
        };
        let found = history(&[on("a", 0, "f"), on("b", 10, "e"), on("c", 20, "f")]).points;
        let config = "cpu_resnet18_fp32_bs16";
        assert_eq!(
            places(&found),
            [
                [config, "bench-1 (machine eeeeeeee)", "b", "none"],
                [config, "bench-1 (machine ffffffff)", "a", "none"],
                [config, "bench-1 (machine ffffffff)", "c", "a"],
            ]
        );
    }

    /// The numbers of rows follow the order of runs within a version, so they do not identify a machine.
    #[test]
    fn each_machine_is_one_series_if_two_ran_the_config() {
        let on_both = |name: &str, hours: i64, machines: [&'static str; 2]| {
            changed(name, hours, &[100.0, 100.1, 99.9, 100.0, 100.1, 99.9], move |repeat, record| {
                put_on(record, machines[usize::from(repeat > 3)]);
            })
        };
        let found = history(&[on_both("a", 0, ["e", "f"]), on_both("b", 10, ["f", "e"])]).points;
        let config = "cpu_resnet18_fp32_bs16";
        assert_eq!(
            places(&found),
            [
                [config, "bench-1 (machine eeeeeeee)", "a", "none"],
                [config, "bench-1 (machine eeeeeeee)", "b", "a"],
                [config, "bench-1 (machine ffffffff)", "a", "none"],
                [config, "bench-1 (machine ffffffff)", "b", "a"],
            ]
        );
    }

    /// A worker that counts tokens instead of images is not faster because of that.
    #[test]
    fn versions_with_different_units_are_not_compared() {
        let of_tokens = |name: &str, hours: i64| {
            changed(name, hours, &[100.0, 100.1, 99.9], |_, record| {
                let unit = serde_json::from_str("\"tokens\"").unwrap();
                record.measurement.as_mut().unwrap().unit = Some(unit);
            })
        };
        let versions = [version("a", 0, &[50.0, 50.1, 49.9]), of_tokens("b", 10), of_tokens("c", 20)];
        let found = history(&versions).points;
        let verdicts: Vec<Result<Verdict, &str>> = found
            .iter()
            .map(|point| point.result.as_ref().map(|result| result.verdict).map_err(String::as_str))
            .collect();
        let other = "the samples differ: images with version a, tokens with version b";
        assert_eq!(verdicts, [Err("the first version on this machine"), Err(other), Ok(Verdict::Same)]);
        assert_eq!(found[1].before.as_deref(), Some("a"), "the earlier version is known");
    }

    #[test]
    fn a_version_without_a_run_that_counts_is_left_out() {
        let empty = Version {
            name: "none".to_owned(),
            study: StudyBuilder::new().not_run(key("cpu", "resnet18", 16, 1), "not run").build(),
        };
        assert_eq!(verdicts(&[empty, version("a", 0, &[100.0])]).len(), 1);
        assert!(history(&[]).points.is_empty());
    }
}
