//! How fast each config was in each version of what was measured: the commits of a matrix, its workers, or the bytes of
//! its file. A version is compared, as `compare` would, with the last one before it that ran the config on the same
//! machine.
//!
//! Callers say which version a run is of. The runs of a version are judged by themselves, so what a re-run replaced
//! counts for its own version.

use chrono::{DateTime, Utc};

use super::compare::{Settings, compare};
use super::group::{Row, unit};
use super::versus::{OfSide, Told, on_machine_of, rates};
use super::{Judged, Study, judge};
use crate::job::{Key, distinction, varying_parameters};
use crate::protocol::SampleUnit;

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
    /// The host.
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
    /// The points, by config and host, and then by time.
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

/// A row of a version, and that of the version before it.
struct Step<'r, 'v> {
    row: &'r Row<'v>,
    /// The earlier version with its row, or why it has none.
    before: Result<(&'r str, &'r Row<'v>), (Option<&'r str>, String)>,
}

/// The history of `versions`, in whatever order. Versions without a run that counts are left out.
pub fn history(versions: &[Version]) -> History {
    let mut eras: Vec<Era<'_>> = versions.iter().filter_map(Era::of).collect();
    eras.sort_by(|one, other| (one.since, one.name).cmp(&(other.since, other.name)));
    let keys = || eras.iter().flat_map(Era::rows).map(|row| &row.config);
    let varying = varying_parameters(keys());
    let points = (0..eras.len()).flat_map(|place| points(&eras, place, &varying));
    let mut points: Vec<Point> = points.collect();
    // A stable sort: the versions of a config stay in their order.
    points.sort_by(|one, other| (&one.config, &one.host).cmp(&(&other.config, &other.host)));
    History { points, unit: unit(eras.iter().flat_map(Era::rows)) }
}

/// The points of the version at `place`. All of its comparisons make one table, whatever they are with.
fn points(eras: &[Era<'_>], place: usize, varying: &[String]) -> Vec<Point> {
    let era = &eras[place];
    let steps: Vec<Step<'_, '_>> =
        era.rows().map(|row| Step { row, before: before(row, &eras[..place]) }).collect();
    let pairs: Vec<[&Row<'_>; 2]> =
        steps.iter().filter_map(|step| Some([step.before.as_ref().ok()?.1, step.row])).collect();
    let comparison = compare(&rates(&pairs), Settings::default());
    let mut index = 0..;
    let told = steps.into_iter().map(|Step { row, before }| match before {
        Ok((name, _)) => {
            let told = Told::of(&comparison, index.next().expect("there is no last number"));
            (row, Some(name), told)
        }
        Err((name, why)) => (row, name, Err(why)),
    });
    told.filter_map(|(row, before, told)| {
        let first = row.runs.iter().filter(|run| run.counts()).filter_map(|run| run.cell.record());
        Some(Point {
            config: label(row, varying),
            host: row.circumstances.as_ref()?.host().to_owned(),
            version: era.name.to_owned(),
            since: first.map(|record| record.started_at).min()?,
            runs: OfSide::of(row)?,
            before: before.map(str::to_owned),
            told,
        })
    })
    .collect()
}

/// The row of the last of `eras` that has the config of `row` on its machine.
fn before<'r, 'v>(
    row: &Row<'v>,
    eras: &'r [Era<'v>],
) -> Result<(&'r str, &'r Row<'v>), (Option<&'r str>, String)> {
    for era in eras.iter().rev() {
        let same: Vec<&Row<'_>> = era.rows().filter(|other| other.config == row.config).collect();
        match &on_machine_of(row, &same)[..] {
            [] => {}
            [one] => return Ok((era.name, one)),
            several => {
                let why = format!("its runs before are {} rows, which differ in more", several.len());
                return Err((Some(era.name), why));
            }
        }
    }
    Err((None, "the first version on this machine".to_owned()))
}

/// `cpu_resnet18_fp32_bs16 compile=true`, and which of several rows of the version.
fn label(row: &Row<'_>, varying: &[String]) -> String {
    let Key { env, model, precision, batch, .. } = &row.config;
    let part = if row.part.1 > 1 { format!(" ({} of {})", row.part.0, row.part.1) } else { String::new() };
    format!("{env}_{model}_{precision}_bs{batch}{}{part}", distinction(&row.config, varying))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::compare::Verdict;
    use crate::analysis::fixture::{StudyBuilder, key};

    /// A version whose runs began `hours` after the first ones.
    fn version(name: &str, hours: i64, rates: &[f64]) -> Version {
        on_host(name, hours, "bench-1", rates)
    }

    fn on_host(name: &str, hours: i64, host: &str, rates: &[f64]) -> Version {
        let mut study = StudyBuilder::new();
        for (repeat, rate) in (1..).zip(rates) {
            study = study.run_with(key("cpu", "resnet18", 16, repeat), *rate, |record| {
                record.started_at += chrono::Duration::hours(hours);
                record.ended_at += chrono::Duration::hours(hours);
                let mut provenance = (*record.provenance).clone();
                let mut facts = (*provenance.host).clone();
                facts.hostname = host.to_owned();
                provenance.host = facts.into();
                record.provenance = provenance.into();
            });
        }
        Version { name: name.to_owned(), study: study.build() }
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
    fn a_version_without_a_run_that_counts_is_left_out() {
        let empty = Version {
            name: "none".to_owned(),
            study: StudyBuilder::new().not_run(key("cpu", "resnet18", 16, 1), "not run").build(),
        };
        assert_eq!(told(&[empty, version("a", 0, &[100.0])]).len(), 1);
        assert!(history(&[]).points.is_empty());
    }
}
