//! The columns of metrics of the workers' own. They depend on the study.

use super::job_line::JobLine;
use crate::analysis::column::{Column, Sourced, of};
use crate::analysis::group::Row;
use crate::analysis::own::{Metric, Own, Summary};
use crate::analysis::source::Source;

const NO_METRIC: &str = "the worker does not report it so, or the job has no result";
const NO_SUMMARY: &str = "no run that counts reports it, or they do so in different units";

/// What the names of a metric's columns end with, in both tables.
const ENDINGS: [&str; 6] = ["", "_unit", "_n", "_median", "_min", "_max"];

/// The metrics by the name of their column. Those that share one differ in their units at most: a rate of `tokens` and
/// a metric called `tokens_per_s` are two.
fn by_column(own: &Own) -> Vec<(String, Vec<Metric>)> {
    let mut columns: Vec<(String, Vec<Metric>)> = Vec::new();
    for metric in &own.metrics {
        let same = |it: &Metric| (&it.name, it.per_second) == (&metric.name, metric.per_second);
        match columns.iter_mut().find(|(_, found)| same(&found[0])) {
            Some((_, found)) => found.push(metric.clone()),
            None => columns.push((free_name(metric, &columns), vec![metric.clone()])),
        }
    }
    columns
}

/// `metric_tokens_per_s`, with `_` behind it for as long as one of `columns` has a name in common with it.
fn free_name(metric: &Metric, columns: &[(String, Vec<Metric>)]) -> String {
    let names = |name: &str| ENDINGS.map(|ending| format!("{name}{ending}"));
    let taken: Vec<String> = columns.iter().flat_map(|(name, _)| names(name)).collect();
    let mut name = format!("metric_{}{}", metric.name, if metric.per_second { "_per_s" } else { "" });
    while names(&name).iter().any(|name| taken.contains(name)) {
        name.push('_');
    }
    name
}

/// The columns of the metrics in `metrics.csv`.
pub(super) fn run_metric_columns<'a>(own: &Own) -> Vec<Sourced<JobLine<'a>>> {
    let columns = |(name, metrics): (String, Vec<Metric>)| {
        let Metric { name: metric, per_second, .. } = &metrics[0];
        let (meaning, source) = if *per_second {
            let meaning = format!("The metric {metric} ÷ `window_s`, if the worker counts it per second.");
            (meaning, Source::Computed)
        } else {
            (format!("The metric {metric}, which the worker reports."), Source::Worker)
        };
        let others = metrics.clone();
        [
            Column::maybe(name.clone(), meaning, NO_METRIC, move |line: &JobLine<'a>| {
                metrics.iter().find_map(|metric| metric.of_run(line.run))
            })
            .from(source),
            Column::maybe(
                format!("{name}_unit"),
                "Its unit.",
                "the worker names none, or does not report the metric",
                move |line: &JobLine<'a>| {
                    others.iter().find(|metric| metric.of_run(line.run).is_some())?.unit.clone()
                },
            )
            .from(Source::Worker),
        ]
    };
    by_column(own).into_iter().flat_map(columns).collect()
}

/// The columns of the metrics in `summary.csv`. A row whose runs name different units has no statistics.
pub(super) fn row_metric_columns<'a>(own: &Own) -> Vec<Sourced<&'a Row<'a>>> {
    let columns = |(name, metrics): (String, Vec<Metric>)| {
        let column = |suffix: &str, meaning: &'static str, value: fn(&Summary) -> f64| {
            let metrics = metrics.clone();
            Column::maybe(format!("{name}_{suffix}"), meaning, NO_SUMMARY, move |row: &&'a Row<'a>| {
                Some(value(&only(&metrics, row)?.1))
            })
        };
        let others = metrics.clone();
        let n = metrics.clone();
        let numbers = of(
            Source::Computed,
            [
                Column::maybe(
                    format!("{name}_n"),
                    "Runs that count and report it.",
                    NO_SUMMARY,
                    move |row: &&'a Row<'a>| Some(only(&n, row)?.1.n),
                ),
                column("median", "Their median.", |it| it.median),
                column("min", "The least of them.", |it| it.min),
                column("max", "The greatest of them.", |it| it.max),
            ],
        );
        let unit = Column::maybe(
            format!("{name}_unit"),
            "Its unit.",
            "no worker names one, or no run reports the metric",
            move |row: &&'a Row<'a>| only(&others, row)?.0.unit.clone(),
        );
        numbers.into_iter().chain([unit.from(Source::Worker)])
    };
    by_column(own).into_iter().flat_map(columns).collect()
}

/// The one of `metrics` that the runs of `row` report, if it is only one.
fn only<'m>(metrics: &'m [Metric], row: &Row<'_>) -> Option<(&'m Metric, Summary)> {
    let mut found = metrics.iter().filter_map(|metric| Some((metric, metric.summary(row)?)));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}
