//! Columns that are specific to a study: the parameters that its matrix declares, and the metrics that its workers
//! report.

use std::collections::BTreeSet;

use super::Run;
use super::group::Row;
use crate::protocol::OwnMetric;
use crate::stats::median;

/// The names of the columns that depend on the study.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// Every parameter that differs from its default in some config.
    pub parameters: Vec<String>,
    /// Every custom metric of a worker.
    pub metrics: Vec<Metric>,
}

/// A custom metric of a worker, as it is compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// Whether its rate is compared: the number ÷ the seconds of the window.
    pub per_second: bool,
    /// The unit of the number or of the rate, if known.
    pub unit: Option<String>,
}

/// A metric over the runs of a row that count and report it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The number of these runs.
    pub n: usize,
    /// Their median.
    pub median: f64,
    /// The least of them.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Own {
    /// Of `runs`, all of a study.
    pub(super) fn of(runs: &[Run<'_>]) -> Own {
        let parameters: BTreeSet<&str> =
            runs.iter().flat_map(|run| run.cell.job.key().params.keys()).collect();
        let metrics: BTreeSet<Metric> = runs.iter().flat_map(|run| reported(run).map(|(it, _)| it)).collect();
        Own {
            parameters: parameters.into_iter().map(str::to_owned).collect(),
            metrics: metrics.into_iter().collect(),
        }
    }

    /// As the manual names them.
    pub(super) fn in_manual() -> Own {
        let metric = |per_second| Metric { name: "NAME".to_owned(), per_second, unit: None };
        Own { parameters: vec!["NAME".to_owned()], metrics: vec![metric(false), metric(true)] }
    }
}

impl Metric {
    fn of(name: &str, metric: &OwnMetric) -> Metric {
        Metric {
            name: name.to_owned(),
            per_second: metric.per_second,
            unit: metric.compared_unit(name).map(std::borrow::Cow::into_owned),
        }
    }

    /// The metric in `run`: its number or its rate.
    pub(super) fn of_run(&self, run: &Run<'_>) -> Option<f64> {
        reported(run).find(|(metric, _)| metric == self)?.1
    }

    /// The metric over the runs of `row` that count; `None` if none of them reports it.
    pub fn summary(&self, row: &Row<'_>) -> Option<Summary> {
        let counted = row.runs.iter().filter(|run| run.counts());
        let mut values: Vec<f64> = counted.filter_map(|run| self.of_run(run)).collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        Some(Summary { n: values.len(), median: median(&values).ok()?, min, max })
    }
}

/// The metrics that `run` reports, if it has a result, each with the compared number.
fn reported<'a>(run: &'a Run<'_>) -> impl Iterator<Item = (Metric, Option<f64>)> + 'a {
    let measured = run.cell.success().map(|(_, measured)| measured).filter(|_| run.cell.is_timing());
    measured.into_iter().flat_map(|measured| {
        let metrics = measured.metrics.iter();
        // The seconds of an unsynchronised window are meaningless.
        let is_known = |metric: &OwnMetric| !metric.per_second || measured.synchronized;
        metrics.map(move |(name, metric)| {
            let compared = metric.compared(measured.elapsed_s).filter(|_| is_known(metric));
            (Metric::of(name, metric), compared)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::{StudyBuilder, key};

    /// A study of runs of one config, each with these metrics and at 16 samples per second for 10 s.
    fn study(metrics: &[&str]) -> crate::analysis::Study {
        let runs = metrics.iter().zip(1..);
        runs.fold(StudyBuilder::new(), |study, (metrics, repeat)| {
            study.run_with(key("cpu", "resnet18", 16, repeat), 16.0, |record| {
                record.measurement.as_mut().unwrap().metrics = serde_json::from_str(metrics).unwrap();
            })
        })
        .build()
    }

    #[test]
    fn a_metric_is_summarised_over_the_runs_that_report_it() {
        let study = study(&[
            r#"{ "tokens": { "value": 1000, "per_second": true }, "accuracy": { "value": 0.5 } }"#,
            r#"{ "tokens": { "value": 2000, "per_second": true }, "accuracy": { "value": null } }"#,
            r#"{ "tokens": { "value": 4000, "per_second": true } }"#,
        ]);
        let analysis = analyse(&study);
        let names: Vec<_> = analysis.own.metrics.iter().map(|it| (it.name.as_str(), it.per_second)).collect();
        assert_eq!(names, [("accuracy", false), ("tokens", true)]);
        let [accuracy, tokens] = &analysis.own.metrics[..] else { panic!("{names:?}") };
        assert_eq!(tokens.unit.as_deref(), Some("tokens/s"));
        let row = &analysis.rows[0];
        assert_eq!(accuracy.summary(row), Some(Summary { n: 1, median: 0.5, min: 0.5, max: 0.5 }));
        assert_eq!(tokens.summary(row), Some(Summary { n: 3, median: 200.0, min: 100.0, max: 400.0 }));
    }

    #[test]
    fn numbers_with_different_units_are_different_metrics() {
        let study = study(&[
            r#"{ "lag": { "value": 3, "unit": "ms" } }"#,
            r#"{ "lag": { "value": 3, "unit": "s" } }"#,
        ]);
        let analysis = analyse(&study);
        let n = analysis.own.metrics.iter().map(|metric| metric.summary(&analysis.rows[0]).unwrap().n);
        assert_eq!(n.collect::<Vec<_>>(), [1, 1]);
    }
}
