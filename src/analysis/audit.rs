//! The exclusion audit: the throughput of each row with and without the runs that marks leave out ([`Audited`]), and
//! the mean effect over all rows ([`Bias`]).
//!
//! Except for `spilled`, marks depend on the activity of the machine and not on throughput, so they do not select slow
//! runs. The runs left out can still be slower than the others, and then leaving them out makes a table faster. The
//! audit shows this, whether or not the user includes marked runs in the statistics.

use std::collections::BTreeMap;

use super::Run;
use super::claim::{Compared, Limit, Relation, Sentence};
use super::group::Row;
use super::marks::{Mark, Threshold};
use super::versus::ratio_texts;
use crate::stats::{self, CONFIDENCE, Interval};
use crate::text::count_text;

/// A row with and without the runs that marks leave out.
#[derive(Clone, Debug)]
pub struct Audited<'a> {
    /// The row.
    pub row: &'a Row<'a>,
    /// The number of its runs that marks leave out.
    pub left_out: usize,
    /// The number of earlier results of its jobs that marks leave out and that a re-run replaced.
    pub replaced: usize,
    /// The number of these runs and results by mark, sorted by name. A run with two marks is counted twice.
    pub by_mark: BTreeMap<&'static str, usize>,
    /// The throughput of the runs that are not left out.
    pub without: Throughput,
    /// The throughput of all runs, including replaced ones.
    pub with: Throughput,
    /// The throughput of the runs left out, including replaced ones.
    pub excluded: Throughput,
}

/// The throughput of some runs of a row. An unsynchronised run has none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    /// The number of runs that have a throughput.
    pub n: usize,
    /// The geometric mean of their throughputs, in samples per second.
    pub mean: Option<f64>,
}

/// The effect of leaving out runs, over the rows that have runs of both kinds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bias {
    /// The number of these rows.
    pub rows: usize,
    /// The throughput of the runs left out ÷ that of the others of their row: the geometric mean over the rows.
    pub excluded: f64,
    /// Student's interval of `excluded`, over the logs; `None` for fewer than three rows.
    pub interval: Option<Interval>,
    /// The throughput without the runs left out ÷ that of all runs: the geometric mean over the rows.
    pub table: f64,
}

impl Throughput {
    fn of<'r, 'a: 'r>(runs: impl Iterator<Item = &'r Run<'a>>) -> Throughput {
        let rates: Vec<f64> = runs.filter_map(Run::samples_per_s).collect();
        Throughput { n: rates.len(), mean: stats::geometric_mean(&rates).ok() }
    }

    /// The ratio of the geometric means, `self` ÷ `other`.
    fn over(self, other: Throughput) -> Option<f64> {
        Some(self.mean? / other.mean?)
    }
}

impl<'a> Audited<'a> {
    fn of(row: &'a Row<'a>) -> Audited<'a> {
        let is_excluded = |run: &&Run<'_>| run.marks.iter().any(Mark::disqualifies);
        let excluded = || row.runs.iter().filter(is_excluded).chain(&row.replaced);
        let mut by_mark = BTreeMap::new();
        for run in excluded() {
            for name in super::marks::mark_names(run.marks.iter().filter(|mark| mark.disqualifies())) {
                *by_mark.entry(name).or_default() += 1;
            }
        }
        Audited {
            row,
            left_out: row.runs.iter().filter(is_excluded).count(),
            replaced: row.replaced.len(),
            by_mark,
            without: Throughput::of(row.runs.iter().filter(|run| !is_excluded(run))),
            with: Throughput::of(row.runs.iter().chain(&row.replaced)),
            excluded: Throughput::of(excluded()),
        }
    }

    /// The throughput without the runs left out ÷ that of all runs. `None` if no run remains, or none has a throughput.
    pub fn ratio(&self) -> Option<f64> {
        self.without.over(self.with)
    }

    /// The throughput of the runs left out ÷ that of the others. `None` if either has no run with a throughput.
    pub fn excluded_ratio(&self) -> Option<f64> {
        self.excluded.over(self.without)
    }

    /// The number of runs left out or replaced that have no throughput.
    pub fn without_throughput(&self) -> usize {
        self.left_out + self.replaced - self.excluded.n
    }
}

/// The audit of each of `rows` that has a run with a result, in order.
pub fn audit<'a>(rows: &'a [Row<'_>]) -> Vec<Audited<'a>> {
    rows.iter().filter(|row| !row.runs.is_empty()).map(Audited::of).collect()
}

/// The mean effect of leaving out runs, over the `audited` rows. `None` if no row has runs of both kinds.
pub fn bias(audited: &[Audited<'_>]) -> Option<Bias> {
    let both = audited.iter().filter_map(|line| Some((line.excluded_ratio()?, line.ratio()?)));
    let (excluded, table): (Vec<f64>, Vec<f64>) = both.unzip();
    Some(Bias {
        rows: excluded.len(),
        excluded: stats::geometric_mean(&excluded).ok()?,
        interval: stats::geometric_mean_interval(&excluded, CONFIDENCE).ok(),
        table: stats::geometric_mean(&table).ok()?,
    })
}

impl Bias {
    /// The share by which the runs left out are slower or faster than the others.
    pub fn distance(&self) -> f64 {
        (self.excluded - 1.0).abs()
    }

    /// Whether the runs left out are significantly slower or faster than the others. `false` for fewer than three rows.
    pub fn is_significant(&self) -> bool {
        self.interval.is_some_and(|interval| interval.low > 1.0 || interval.high < 1.0)
    }

    /// Both ratios as sentences, with the `threshold` that the first one exceeds.
    pub fn sentence(&self, threshold: f64) -> Sentence {
        let size = Compared::passed(Threshold::ExclusionBias, self.distance(), threshold, 1);
        let ends = self.interval.map(|interval| self.significant_ends(interval));
        let printed = ends.as_ref().map(|ends| ends.each_ref().map(|end| end.number().to_owned()));
        let text = self.text(size.number(), printed, &format!("; threshold {}", size.limit()));
        Sentence::new(text, [size]).claiming(ends.into_iter().flatten())
    }

    /// Both ratios as sentences, significant or not.
    pub fn words(&self) -> String {
        let printed = self.interval.map(|interval| {
            let [_, low, high] = ratio_texts(self.excluded, interval);
            [low, high]
        });
        self.text(&percent(self.excluded), printed, "")
    }

    /// The ends of an interval that excludes 1, with that claim.
    fn significant_ends(&self, Interval { low, high, .. }: Interval) -> [Compared; 2] {
        let relation = if self.excluded < 1.0 { Relation::Below } else { Relation::Above };
        Compared::all([low, high].map(|end| (end, relation, Limit::understood(1.0))), 3)
    }

    fn text(&self, size: &str, interval: Option<[String; 2]>, threshold: &str) -> String {
        let rows = count_text(self.rows, "row");
        let interval = match interval {
            Some([low, high]) => format!("95 % interval of the ratio {low} to {high}"),
            None => "too few rows for an interval".to_owned(),
        };
        let than = match size {
            NO_CHANGE => "as fast as".to_owned(),
            _ => format!("{size} % {} than", if self.excluded < 1.0 { "slower" } else { "faster" }),
        };
        let table = match &*percent(self.table) {
            NO_CHANGE => "hardly changes their throughput".to_owned(),
            by => {
                format!("{} their throughput by {by} %", if self.table < 1.0 { "lowers" } else { "raises" })
            }
        };
        format!(
            "The runs that marks leave out were {than} the others of their rows (geometric mean over {rows}, \
             {interval}{threshold}). Leaving them out {table}."
        )
    }
}

/// The text of [`percent`] for a ratio of nearly 1.
const NO_CHANGE: &str = "0.0";

/// The difference of `ratio` from 1, in percent with one decimal.
fn percent(ratio: f64) -> String {
    format!("{:.1}", 100.0 * (ratio - 1.0).abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture::{StudyBuilder, key};
    use crate::analysis::{Study, analyse};
    use crate::record::Record;

    type Change = fn(&mut Record);

    const CONTENDED: Change = |record| record.observed.host_steal_s = Some(1e6);
    const UNSYNCHRONISED: Change = |record| record.measurement.as_mut().unwrap().synchronized = false;
    const BOTH: Change = |record| {
        CONTENDED(record);
        record.observed.asleep_s = Some(9.0);
    };
    const NOTHING: Change = |_| {};

    /// A study with one row (batch 1, 2, …) for each of `rows`: the samples per second of its runs, and their changes.
    fn study(rows: &[&[(f64, Change)]]) -> StudyBuilder {
        rows.iter().zip(1..).fold(StudyBuilder::new(), |builder, (runs, batch)| {
            runs.iter().zip(1..).fold(builder, |builder, ((rate, change), repeat)| {
                builder.run_with(key("cpu", "resnet18", batch, repeat), *rate, change)
            })
        })
    }

    fn near(value: Option<f64>, expected: f64) -> bool {
        value.is_some_and(|value| (value - expected).abs() < 1e-9)
    }

    fn lines(study: &Study) -> Vec<(usize, [usize; 3], Option<f64>)> {
        let analysis = analyse(study);
        let line = |line: &Audited<'_>| {
            (line.left_out, [line.without.n, line.with.n, line.excluded.n], line.ratio())
        };
        audit(&analysis.rows).iter().map(line).collect()
    }

    #[test]
    fn a_row_is_audited_with_and_without_its_marked_runs() {
        let row: &[(f64, Change)] = &[(10.0, NOTHING), (12.0, NOTHING), (6.0, CONTENDED), (8.0, BOTH)];
        for study in [study(&[row]).build(), study(&[row]).include_marked().build()] {
            let analysis = analyse(&study);
            let [line] = &audit(&analysis.rows)[..] else { panic!("one row") };
            assert_eq!((line.left_out, line.without_throughput()), (2, 0));
            assert_eq!(line.by_mark, [("contended", 2), ("suspended", 1)].into());
            let (without, with, excluded) = (120f64.sqrt(), 5760f64.powf(0.25), 48f64.sqrt());
            assert!(near(line.without.mean, without) && near(line.with.mean, with));
            assert!(near(line.excluded.mean, excluded) && near(line.ratio(), without / with));
            assert!(near(line.excluded_ratio(), excluded / without));
        }
    }

    /// After `replace_marked`, no run of a row is left out, but the replaced runs were.
    #[test]
    fn replaced_runs_are_audited() {
        let row: &[(f64, Change)] = &[(10.0, NOTHING), (12.0, NOTHING), (11.0, NOTHING)];
        let earlier: &[(f64, Change)] = &[(5.0, CONTENDED), (30.0, NOTHING)];
        let study = Study { replaced: study(&[earlier]).build().cells, ..study(&[row]).build() };
        let analysis = analyse(&study);
        let [line] = &audit(&analysis.rows)[..] else { panic!("one row") };
        assert_eq!((line.left_out, line.replaced, line.with.n, line.without.n), (0, 1, 4, 3));
        assert_eq!(line.by_mark, [("contended", 1)].into());
        let (without, with) = (1320f64.cbrt(), 6600f64.powf(0.25));
        assert!(near(line.without.mean, without) && near(line.with.mean, with), "{line:?}");
        assert_eq!(analysis.rows[0].statistics.as_ref().unwrap().n, 3);
        let elsewhere: &[&[(f64, Change)]] = &[&[], &[(5.0, CONTENDED)]];
        let study = Study { replaced: self::study(elsewhere).build().cells, ..study };
        assert_eq!(audit(&analyse(&study).rows)[0].replaced, 0, "of another config");
    }

    /// Two matrices ran simultaneously on a host that does not record its load, and both were repeated.
    #[test]
    fn replaced_runs_that_overlapped_are_audited() {
        let row: &[(f64, Change)] = &[(10.0, NOTHING), (12.0, NOTHING), (11.0, NOTHING)];
        let replaced = |is_simultaneous: bool| {
            let earlier = [4, 1].into_iter().fold(StudyBuilder::new(), |builder, batch| {
                builder.run_with(key("cpu", "resnet18", batch, 1), 5.0, |record| {
                    record.observed.host_busy_s = None;
                    let took = record.ended_at - record.started_at;
                    let by = if is_simultaneous { 0 } else { i64::from(batch) };
                    record.started_at = chrono::DateTime::UNIX_EPOCH + chrono::TimeDelta::days(by);
                    record.ended_at = record.started_at + took;
                })
            });
            let study = Study { replaced: earlier.build().cells, ..study(&[row]).build() };
            audit(&analyse(&study).rows)[0].replaced
        };
        assert_eq!((replaced(true), replaced(false)), (1, 0));
    }

    #[test]
    fn rows_without_both_kinds_of_runs_have_no_ratio() {
        let all_out: &[(f64, Change)] = &[(10.0, CONTENDED), (12.0, CONTENDED)];
        let without_throughput: &[(f64, Change)] = &[(10.0, NOTHING), (99.0, UNSYNCHRONISED)];
        let nothing: &[(f64, Change)] = &[(99.0, UNSYNCHRONISED)];
        let found = lines(&study(&[all_out, without_throughput, nothing]).build());
        assert_eq!(found[0], (2, [0, 2, 2], None));
        assert_eq!((found[1].0, found[1].1), (1, [1, 1, 0]));
        assert!(near(found[1].2, 1.0));
        assert_eq!(found[2], (1, [0, 0, 0], None));
        let failed = StudyBuilder::new().not_run(key("cpu", "vgg16", 4, 1), "not run yet").build();
        assert_eq!(lines(&failed), [], "a row without a result");
    }

    fn bias_of(rows: &[&[(f64, Change)]]) -> Option<Bias> {
        let study = study(rows).build();
        let analysis = analyse(&study);
        bias(&audit(&analysis.rows))
    }

    #[test]
    fn the_bias_is_over_the_rows_with_both_kinds_of_runs() {
        let slow = |rate: f64| [(10.0, NOTHING), (10.0, NOTHING), (rate, CONTENDED)];
        let (one, two, three) = (slow(8.0), slow(7.0), slow(7.5));
        let none: &[(f64, Change)] = &[(10.0, NOTHING)];
        let all: &[(f64, Change)] = &[(1.0, CONTENDED)];
        assert_eq!(bias_of(&[none, all]), None);
        let few = bias_of(&[&one, &two, none, all]).unwrap();
        assert!(few.rows == 2 && near(Some(few.excluded), 0.56f64.sqrt()) && few.interval.is_none());
        assert!(!few.is_significant(), "two rows are too few");
        assert!(near(Some(few.table), 0.56f64.powf(-1.0 / 6.0)), "{few:?}");
        let enough = bias_of(&[&one, &two, &three]).unwrap();
        assert!(near(Some(enough.excluded), 0.42f64.cbrt()) && enough.is_significant());
        let faster = slow(20.0);
        assert!(!bias_of(&[&one, &faster, &three]).unwrap().is_significant(), "some are faster, some slower");
    }

    #[test]
    fn a_bias_reads_as_sentences() {
        let bias = |excluded, table, interval| Bias { rows: 3, excluded, interval, table };
        let interval = Some(Interval { low: 0.79, high: 0.9, coverage: 0.95 });
        assert_eq!(
            bias(0.8444, 1.031, interval).words(),
            "The runs that marks leave out were 15.6 % slower than the others of their rows (geometric mean over 3 rows, \
             95 % interval of the ratio 0.790 to 0.900). Leaving them out raises their throughput by 3.1 %."
        );
        assert_eq!(
            Bias { rows: 1, ..bias(1.0004, 0.9996, None) }.words(),
            "The runs that marks leave out were as fast as the others of their rows (geometric mean over 1 row, too few \
             rows for an interval). Leaving them out hardly changes their throughput."
        );
        assert!(bias(1.25, 0.9, None).words().contains("25.0 % faster than"));
        let near = Interval { low: 0.79, high: 0.9997, coverage: 0.95 };
        let Sentence { text, .. } = bias(0.979_99, 1.0, Some(near)).sentence(0.02);
        assert!(
            text.contains("2.001 % slower") && text.contains("0.7900 to 0.9997; threshold 2 %"),
            "{text}"
        );
    }
}
