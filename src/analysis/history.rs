//! How fast each config was in each version of what was measured: the commits of a matrix, its workers, or the bytes of
//! its file. A version is compared, as `compare` would, with the last one before it that ran the config on the same
//! machine. If a sample is another thing or other work there, nothing is told.
//!
//! Callers say which version a run is of. The runs of a version are judged by themselves, so what a re-run replaced
//! counts for its own version.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use super::compare::{Settings, compare};
use super::group::{Row, unit};
use super::versus::{OfSide, Told, comparable, rates};
use super::{Judged, Study, judge};
use crate::job::{ConfigOf, Key, distinction, varying_parameters};
use crate::protocol::SampleUnit;
use crate::record::{HostFacts, Machine};

/// The runs of a version.
#[derive(Clone, Debug)]
pub struct Version {
    /// Its name: the commit, or the beginning of a hash.
    pub name: String,
    /// The jobs with the records of this version.
    pub study: Study,
}

/// The throughput of a config in a version.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The config.
    pub config: String,
    /// The host, with the id of its machine if several machines have its name.
    pub host: String,
    /// The version.
    pub version: String,
    /// When the first of its runs began.
    pub since: DateTime<Utc>,
    /// Its runs that count.
    pub runs: OfSide,
    /// The version that it is compared with; `None` for the first one.
    pub before: Option<String>,
    /// What the comparison tells, or why it tells nothing.
    pub told: Result<Told, String>,
}

/// The history of a matrix.
#[derive(Clone, Debug)]
pub struct History {
    /// The points, by config and machine, and then by time.
    pub points: Vec<Point>,
    /// What the samples are.
    pub unit: SampleUnit,
}

/// A version after its runs were judged.
struct Era<'v> {
    name: &'v str,
    since: DateTime<Utc>,
    judged: Judged<'v>,
}

impl<'v> Era<'v> {
    fn of(Version { name, study }: &'v Version) -> Option<Self> {
        let since = study.cells.iter().filter_map(|cell| Some(cell.record()?.started_at)).min()?;
        Some(Era { name, since, judged: judge(study) })
    }

    /// The rows with statistics.
    fn rows(&self) -> impl Iterator<Item = &Row<'v>> {
        self.judged.rows.iter().filter(|row| row.statistics.is_ok())
    }
}

/// The machines of all versions, in the order in which they are met. A machine is told by its place.
struct Machines<'v>(Vec<Machine<'v>>);

impl<'v> Machines<'v> {
    /// The machine of `row`; `None` if no run tells.
    fn of(&mut self, row: &Row<'v>) -> Option<usize> {
        let host: &'v HostFacts = &row.runs.first()?.cell.record()?.provenance.host;
        let known = self.0.iter_mut().position(|machine| machine.admits(host));
        if known.is_none() {
            self.0.push(Machine::of(host));
        }
        Some(known.unwrap_or(self.0.len() - 1))
    }

    /// `host`, a name of this machine, with the machine's id if another one has the name, too.
    fn host_text(&self, machine: usize, host: &str) -> String {
        let others = self.0.iter().enumerate().filter(|(other, _)| *other != machine);
        let is_shared = others.flat_map(|(_, other)| other.names()).any(|name| name == host);
        let id = self.0[machine].id_text().filter(|_| is_shared);
        format!("{host}{}", id.map(|id| format!(" (machine {id})")).unwrap_or_default())
    }

    /// What the machines are sorted by: their first names.
    fn order(&self, machine: usize) -> (Option<&'v str>, Option<&'v str>, usize) {
        let known = &self.0[machine];
        (known.names().first().copied(), known.id_text(), machine)
    }
}

/// The rows of a version, each with its machine.
struct Measured<'r, 'v> {
    version: &'v str,
    rows: Vec<(&'r Row<'v>, usize)>,
    /// The same by config and machine.
    by_config: HashMap<(ConfigOf<'r>, usize), Vec<&'r Row<'v>>>,
}

impl<'r, 'v> Measured<'r, 'v> {
    fn of(era: &'r Era<'v>, machines: &mut Machines<'v>) -> Self {
        let rows: Vec<(&'r Row<'v>, usize)> =
            era.rows().filter_map(|row| Some((row, machines.of(row)?))).collect();
        let mut by_config: HashMap<(ConfigOf<'r>, usize), Vec<&'r Row<'v>>> = HashMap::new();
        for &(row, machine) in &rows {
            by_config.entry((ConfigOf::new(&row.config), machine)).or_default().push(row);
        }
        Measured { version: era.name, rows, by_config }
    }

    /// The rows of the config of `row` on this machine.
    fn alike<'s>(&'s self, row: &'s Row<'_>, machine: usize) -> &'s [&'r Row<'v>] {
        match self.by_config.get(&(ConfigOf::new(&row.config), machine)) {
            Some(rows) => rows,
            None => &[],
        }
    }
}

/// The version before, with its row; or why there is nothing to compare with, and the version if there is one.
type Before<'r, 'v> = Result<(&'v str, &'r Row<'v>), (Option<&'v str>, String)>;

/// A row of a version, and that of the version before it.
struct Step<'r, 'v> {
    row: &'r Row<'v>,
    machine: usize,
    before: Before<'r, 'v>,
}

/// The history of `versions`, in whatever order. Versions without a run that counts are left out.
pub fn history(versions: &[Version]) -> History {
    let mut eras: Vec<Era<'_>> = versions.iter().filter_map(Era::of).collect();
    eras.sort_by(|one, other| (one.since, one.name).cmp(&(other.since, other.name)));
    let keys = || eras.iter().flat_map(Era::rows).map(|row| &row.config);
    let varying = varying_parameters(keys());
    let mut machines = Machines(Vec::new());
    let measured: Vec<Measured<'_, '_>> = eras.iter().map(|era| Measured::of(era, &mut machines)).collect();
    let points = measured
        .iter()
        .enumerate()
        .flat_map(|(place, now)| points(now, &measured[..place], &machines, &varying));
    let mut points: Vec<(usize, Point)> = points.collect();
    // A stable sort: the versions of a config stay in their order.
    points.sort_by_cached_key(|(machine, point)| (point.config.clone(), machines.order(*machine)));
    let points = points.into_iter().map(|(_, point)| point).collect();
    History { points, unit: unit(eras.iter().flat_map(Era::rows)) }
}

/// The points of the version `now`, each with its machine. All of its comparisons make one table, whatever they are
/// with.
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
    let told = steps.into_iter().map(|Step { row, machine, before }| match before {
        Ok((name, _)) => {
            let told = Told::of(&comparison, index.next().expect("there is no last number"));
            (row, machine, Some(name), told)
        }
        Err((name, why)) => (row, machine, name, Err(why)),
    });
    told.filter_map(|(row, machine, before, told)| {
        let counting = row.runs.iter().filter(|run| run.counts()).filter_map(|run| run.cell.record());
        let point = Point {
            config: label(row, now.alike(row, machine), varying),
            host: machines.host_text(machine, row.circumstances.as_ref()?.host()),
            version: now.version.to_owned(),
            since: counting.map(|record| record.started_at).min()?,
            runs: OfSide::of(row)?,
            before: before.map(str::to_owned),
            told,
        };
        Some((machine, point))
    })
    .collect()
}

/// The row of the last of `earlier` that has the config of `row`, which is of the version `now`, on its machine.
fn before<'r, 'v>(row: &Row<'_>, machine: usize, now: &str, earlier: &[Measured<'r, 'v>]) -> Before<'r, 'v> {
    let found = earlier.iter().rev().find_map(|measured| {
        let alike = measured.alike(row, machine);
        (!alike.is_empty()).then_some((measured.version, alike))
    });
    match found {
        None => Err((None, "the first version on this machine".to_owned())),
        Some((version, [one])) => match comparable(one, row) {
            Ok(()) => Ok((version, *one)),
            Err(apart) => {
                let names = [version, now].map(|name| format!("version {name}"));
                Err((Some(version), apart.of_named_sides(&names)))
            }
        },
        Some((version, several)) => {
            let why = format!("its runs before are {} rows, which differ in more", several.len());
            Err((Some(version), why))
        }
    }
}

/// `cpu_resnet18_fp32_bs16 compile=true`, and which of the rows `alike` of the version.
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

    /// A version whose runs began `hours` after the first ones.
    fn version(name: &str, hours: i64, rates: &[f64]) -> Version {
        changed(name, hours, rates, |_, _| {})
    }

    fn on_host(name: &str, hours: i64, host: &str, rates: &[f64]) -> Version {
        changed(name, hours, rates, |_, record| record.provenance.host.hostname = host.to_owned())
    }

    /// A version whose records were changed, each by its repeat.
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

    /// The machine of this letter. All machines have one name.
    fn put_on(record: &mut Record, machine: &str) {
        record.provenance.host.machine =
            Some(MachineIds { hardware: Some(machine.repeat(32)), system: None });
    }

    /// Where each point is: its config, its host, its version and the one before.
    fn places(points: &[Point]) -> Vec<[&str; 4]> {
        let places = points.iter().map(|point| {
            let before = point.before.as_deref().unwrap_or("none");
            [point.config.as_str(), point.host.as_str(), point.version.as_str(), before]
        });
        places.collect()
    }

    fn told(versions: &[Version]) -> Vec<(String, Option<String>, Option<Verdict>)> {
        let points = history(versions).points.into_iter();
        let verdict = |point: &Point| point.told.as_ref().ok().map(|told| told.verdict);
        points.map(|point| (point.version.clone(), point.before.clone(), verdict(&point))).collect()
    }

    #[test]
    fn versions_stand_in_the_order_of_time_each_against_the_one_before() {
        let of =
            |name: &str, before: Option<&str>, verdict| (name.to_owned(), before.map(str::to_owned), verdict);
        let versions = [
            version("c", 20, &[80.0, 80.1, 79.9]),
            version("a", 0, &[100.0, 100.1, 99.9]),
            version("b", 10, &[100.1, 100.0, 99.9]),
        ];
        assert_eq!(
            told(&versions),
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
        assert_eq!(found[2].told, Err("the first version on this machine".to_owned()));
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

    /// The rows of a version are numbered by its own runs, so their numbers tell no machine.
    #[test]
    fn a_machine_is_one_series_although_another_one_ran_the_config_too() {
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

    /// A worker that counts tokens instead of images is not faster by that.
    #[test]
    fn a_sample_that_became_another_thing_tells_nothing() {
        let of_tokens = |name: &str, hours: i64| {
            changed(name, hours, &[100.0, 100.1, 99.9], |_, record| {
                let unit = serde_json::from_str("\"tokens\"").unwrap();
                record.measurement.as_mut().unwrap().unit = Some(unit);
            })
        };
        let versions = [version("a", 0, &[50.0, 50.1, 49.9]), of_tokens("b", 10), of_tokens("c", 20)];
        let found = history(&versions).points;
        let told: Vec<Result<Verdict, &str>> = found
            .iter()
            .map(|point| point.told.as_ref().map(|told| told.verdict).map_err(String::as_str))
            .collect();
        let other = "the samples differ: images with version a, tokens with version b";
        assert_eq!(told, [Err("the first version on this machine"), Err(other), Ok(Verdict::Same)]);
        assert_eq!(found[1].before.as_deref(), Some("a"), "the reason stands beside it");
    }

    #[test]
    fn a_version_without_a_run_that_counts_is_left_out() {
        let empty = Version {
            name: "none".to_owned(),
            study: StudyBuilder::new().not_run(key("cpu", "resnet18", 16, 1), "not run").build(),
        };
        assert_eq!(told(&[empty, version("a", 0, &[100.0])]).len(), 1);
        assert!(history(&[]).points.is_empty());
    }
}
