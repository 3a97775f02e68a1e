//! The CSV files. Column names contain the units; an unknown value is `NA`, never blank and never 0.

use std::collections::{HashMap, HashSet};

use super::analyse::Analysis;
use super::audit::audit;
use super::axes::Effect;
use super::columns::{
    CurveLine, FailureLine, JobLine, OfferLine, PointLine, RunLine, TimeLine, TraceLine, axis_columns,
    breakdown_columns, class_columns, comparison_columns, curve_columns, effect_columns, exclusion_columns,
    failure_columns, history_columns, job_columns, offer_columns, point_columns, run_columns,
    summary_columns, time_columns, trace_columns,
};
use super::counted::{counter_columns, counters, kernel_columns, kernel_lines, kernels};
use super::group::Row;
use super::history::History;
use super::operators::{operator_columns, operator_lines};
use super::own::Own;
use super::roofline::Roofline;
use super::scaling::Curve;
use super::sequence::Placed;
use super::trace::RowTraces;
use super::tradeoff::{Offer, Tradeoff};
use super::versus::{Line, Versus};
use super::{Cell, Run};
use crate::job::JobId;

pub use super::cell_type::CellType;
#[cfg(test)]
pub use super::column::Table;
pub use super::column::{About, CsvTable, NOT_KNOWN, Rows, Section};
pub use super::role::Role;
pub use super::source::Source;
pub use super::table_keys::{ForeignKey, Keys};

/// A CSV file of a report.
#[derive(Debug)]
pub struct CsvFile {
    /// Its name.
    pub name: &'static str,
    /// The subject of its lines, to complete "one line per …".
    pub line: &'static str,
    /// Its keys.
    pub keys: Keys,
    /// Its rows.
    pub rows: for<'a> fn(&'a Analysis<'_>) -> Rows<'a>,
    /// The description of its columns in the manual.
    pub sections: fn() -> Vec<Section>,
}

/// Every CSV file that `aggregate` and `report` write beside the pages. This table determines the written files,
/// the list on the pages, and the manual's reference of columns.
pub const CSV_FILES: &[CsvFile] = &[
    CsvFile {
        name: "metrics.csv",
        line: "job, including failed jobs and jobs that were not run",
        keys: Keys::JOBS,
        rows: metrics,
        sections: || job_columns(&Own::in_manual()).sections(),
    },
    CsvFile {
        name: "summary.csv",
        line: "row of the results",
        keys: Keys::ROWS,
        rows: summary,
        sections: summary_sections,
    },
    CsvFile {
        name: "axes.csv",
        line: "value of an axis, compared with the reference of that axis",
        keys: Keys::EFFECTS,
        rows: axes,
        sections: || effect_columns().sections(),
    },
    CsvFile {
        name: "roofline_points.csv",
        line: "point: measured, modelled and estimated",
        keys: Keys::WITHIN_ROWS,
        rows: roofline_points,
        sections: point_sections,
    },
    CsvFile {
        name: "failures.csv",
        line: "job whose last attempt failed",
        keys: Keys::OF_JOBS,
        rows: failures,
        sections: || failure_columns(&Own::in_manual()).sections(),
    },
    CsvFile {
        name: "exclusions.csv",
        line: "row with a result, with the runs that marks leave out and without them",
        keys: Keys::OF_ROWS,
        rows: exclusions,
        sections: || exclusion_columns(&Own::in_manual()).sections(),
    },
    CsvFile {
        name: "counters.csv",
        line: "row and counter, from profiled jobs",
        keys: Keys::COUNTERS,
        rows: counters,
        sections: || counter_columns(&Own::in_manual()).sections(),
    },
    CsvFile {
        name: "kernels.csv",
        line: "row and kernel, for the kernels that took longest under Nsight Compute",
        keys: Keys::KERNELS,
        rows: kernels,
        sections: || kernel_columns(&Own::in_manual()).sections(),
    },
    CsvFile {
        name: "operators.csv",
        line: "row and operator, from a profile of a few iterations",
        keys: Keys::OPERATORS,
        rows: operators,
        sections: operator_sections,
    },
];

/// `metrics.csv`.
pub fn metrics<'a>(analysis: &'a Analysis<'_>) -> Rows<'a> {
    let rows = RowOf::all(&analysis.rows);
    job_columns(&analysis.own)
        .rows(analysis.runs.iter().map(move |run| JobLine { run, row: rows.of_run(run) }))
}

/// The row of every run.
struct RowOf<'a> {
    /// By cell. A cell is in one row at most.
    by_cell: HashMap<*const Cell, &'a Row<'a>>,
    /// By config, for jobs that are in no row: those without a result, and profiled ones. `None` if the config's rows
    /// differ in cost.
    by_config: HashMap<JobId, Option<&'a Row<'a>>>,
}

impl<'a> RowOf<'a> {
    fn all(rows: &'a [Row<'_>]) -> Self {
        let (mut by_cell, mut by_config) = (HashMap::new(), HashMap::new());
        for row in rows {
            by_cell.extend(row.runs.iter().map(|run| (std::ptr::from_ref(run.cell), row)));
            let known: &mut Option<&Row<'_>> = by_config.entry(row.config.id()).or_insert(Some(row));
            *known = known.filter(|known| known.cost == row.cost);
        }
        RowOf { by_cell, by_config }
    }

    fn of_run(&self, run: &Run<'_>) -> Option<&'a Row<'a>> {
        let of_row = self.by_cell.get(&std::ptr::from_ref(run.cell)).copied();
        of_row.or_else(|| *self.by_config.get(&run.cell.job.key().timing_config().id())?)
    }
}

/// `summary.csv`.
pub fn summary<'a>(analysis: &'a Analysis<'_>) -> Rows<'a> {
    summary_columns(&analysis.own)
        .rows(&analysis.rows)
        .beside(class_columns().rows(&analysis.classes))
        .beside(breakdown_columns().rows(&analysis.breakdowns))
}

fn summary_sections() -> Vec<Section> {
    let mut sections = summary_columns(&Own::in_manual()).sections_beside(&class_columns());
    let breakdown = breakdown_columns().sections().into_iter().flat_map(|section| section.columns);
    if let Some(last) = sections.last_mut() {
        last.columns.extend(breakdown);
    }
    sections
}

/// The breakdown of the time of some rows, by their indices, for a figure.
pub fn time_table(rows: &[usize], analysis: &Analysis<'_>) -> CsvTable {
    let lines = rows.iter().map(|row| TimeLine { row: &analysis.rows[*row] });
    let breakdowns = rows.iter().map(|row| &analysis.breakdowns[*row]);
    time_columns(&analysis.own).rows(lines).beside(breakdown_columns().rows(breakdowns)).written()
}

/// The sections of the manual for a [`time_table`].
pub fn time_sections() -> Vec<Section> {
    time_columns(&Own::in_manual()).sections_beside(&breakdown_columns())
}

/// `failures.csv`.
pub fn failures<'a>(analysis: &'a Analysis<'_>) -> Rows<'a> {
    let failed = analysis.runs.iter().map(|run| run.cell).filter(|cell| cell.is_failure());
    failure_columns(&analysis.own).rows(failed.map(FailureLine))
}

/// `exclusions.csv`.
pub fn exclusions<'a>(analysis: &'a Analysis<'_>) -> Rows<'a> {
    exclusion_columns(&analysis.own).rows(audit(&analysis.rows))
}

/// The runs with a result of some rows, by their indices, for a figure of single runs.
pub fn runs_table(rows: &[usize], analysis: &Analysis<'_>) -> CsvTable {
    let of_rows: HashSet<usize> = rows.iter().copied().collect();
    let placed = analysis.sequences.iter().flat_map(|sequence| &sequence.runs);
    let placed: HashMap<(usize, usize), Placed> = placed
        .filter(|placed| of_rows.contains(&placed.row))
        .map(|placed| ((placed.row, placed.run), *placed))
        .collect();
    let line = |(row, run): (usize, usize)| RunLine {
        row: &analysis.rows[row],
        run: &analysis.rows[row].runs[run],
        placed: placed.get(&(row, run)).copied(),
    };
    let runs = rows.iter().flat_map(|row| (0..analysis.rows[*row].runs.len()).map(move |run| (*row, run)));
    run_columns(&analysis.own).rows(runs.map(line)).written()
}

/// Some runs of a machine, by time.
pub fn sequence_table(runs: &[Placed], analysis: &Analysis<'_>) -> CsvTable {
    let line = |placed: &Placed| RunLine {
        row: &analysis.rows[placed.row],
        run: &analysis.rows[placed.row].runs[placed.run],
        placed: Some(*placed),
    };
    run_columns(&analysis.own).rows(runs.iter().map(line)).written()
}

/// The rows of some curves.
pub fn curve_table(curves: &[&Curve], analysis: &Analysis<'_>) -> CsvTable {
    let lines = curves.iter().flat_map(|curve| {
        curve.steps.iter().enumerate().map(|(place, step)| CurveLine {
            row: &analysis.rows[step.row],
            step: *step,
            is_knee: curve.knee == Some(place),
        })
    });
    curve_columns(&analysis.own).rows(lines).written()
}

/// The sections of the manual for a [`curve_table`].
pub fn curve_sections() -> Vec<Section> {
    curve_columns(&Own::in_manual()).sections()
}

/// The iterations of some rows, by parts of their windows.
pub fn trace_table(traces: &[RowTraces], analysis: &Analysis<'_>) -> CsvTable {
    let lines = traces.iter().flat_map(|of_row| {
        let row = &analysis.rows[of_row.row];
        of_row.traces.iter().flat_map(move |trace| {
            let run = &row.runs[trace.run];
            trace.parts.iter().map(move |part| TraceLine { row, run, iterations: *part })
        })
    });
    trace_columns(&analysis.own).rows(lines).written()
}

/// The sections of the manual for a [`trace_table`].
pub fn trace_sections() -> Vec<Section> {
    trace_columns(&Own::in_manual()).sections()
}

/// The rows of some tradeoffs, with their costs.
pub fn offer_table(tradeoffs: &[&Tradeoff], analysis: &Analysis<'_>) -> CsvTable {
    let lines = tradeoffs.iter().flat_map(|tradeoff| {
        let line = |offer: Offer| OfferLine { row: &analysis.rows[offer.row], price: tradeoff.price, offer };
        tradeoff.offers.iter().copied().map(line)
    });
    offer_columns(&analysis.own).rows(lines).written()
}

/// The sections of the manual for an [`offer_table`].
pub fn offer_sections() -> Vec<Section> {
    offer_columns(&Own::in_manual()).sections()
}

/// The sections of the manual for a [`runs_table`].
pub fn run_sections() -> Vec<Section> {
    run_columns(&Own::in_manual()).sections()
}

/// `roofline_points.csv`: all points of all rooflines, estimated ones included.
pub fn roofline_points<'a>(analysis: &'a Analysis<'_>) -> Rows<'a> {
    point_columns(&analysis.own).rows(point_lines(analysis, &analysis.rooflines))
}

/// The points of some rooflines that figures show.
pub fn roofline_table(analysis: &Analysis<'_>, rooflines: &[Roofline<'_>]) -> CsvTable {
    let lines = point_lines(analysis, rooflines).filter(|line| line.point.source.is_drawn());
    point_columns(&analysis.own).rows(lines).written()
}

fn point_lines<'a>(
    analysis: &'a Analysis<'_>,
    rooflines: &'a [Roofline<'_>],
) -> impl Iterator<Item = PointLine<'a>> {
    rooflines.iter().flat_map(move |roofline| {
        let points = roofline.points.iter();
        points.map(move |point| PointLine { row: &analysis.rows[point.row], peaks: roofline.peaks, point })
    })
}

/// The kernels of `row`, as its kernel roofline shows them.
pub fn kernel_table(row: &Row<'_>, analysis: &Analysis<'_>) -> CsvTable {
    kernel_columns(&analysis.own).rows(kernel_lines(row)).written()
}

/// The sections of the manual for a [`kernel_table`].
pub fn kernel_sections() -> Vec<Section> {
    kernel_columns(&Own::in_manual()).sections()
}

/// `operators.csv`: the time of an iteration by operator.
pub fn operators<'a>(analysis: &'a Analysis<'_>) -> Rows<'a> {
    let lines = (0..analysis.rows.len()).flat_map(|row| operator_lines(analysis, row));
    operator_columns(&analysis.own).rows(lines)
}

/// The operators of the row with the number `row`, as its roofline shows them.
pub fn operator_table(row: usize, analysis: &Analysis<'_>) -> CsvTable {
    operator_columns(&analysis.own).rows(operator_lines(analysis, row)).written()
}

/// The sections of the manual for an [`operator_table`].
pub fn operator_sections() -> Vec<Section> {
    operator_columns(&Own::in_manual()).sections()
}

/// The sections of the manual for a [`roofline_table`].
pub fn point_sections() -> Vec<Section> {
    point_columns(&Own::in_manual()).sections()
}

/// `axes.csv`: the effect of each axis.
pub fn axes<'a>(analysis: &'a Analysis<'_>) -> Rows<'a> {
    effect_columns().rows(&analysis.axes)
}

/// The data of a forest plot of `effect`: `lines`, its configs, each with the axis in front.
pub fn effect_table(effect: &Effect, lines: &[&Line]) -> CsvTable {
    let configs = comparison_columns().rows(lines.iter().copied().cloned());
    axis_columns().rows(lines.iter().map(|_| effect)).beside(configs).written()
}

/// The sections of the manual for an [`effect_table`].
pub fn effect_sections() -> Vec<Section> {
    axis_columns().sections_beside(&comparison_columns())
}

/// `history.csv`: one line per config, host and version.
pub fn history_table(history: &History) -> CsvTable {
    history_columns().rows(&history.points).written()
}

/// The sections of the manual for a [`history_table`].
pub fn history_sections() -> Vec<Section> {
    history_columns().sections()
}

/// `comparison.csv`: one line per config of either side.
pub fn comparison_table(versus: &Versus) -> CsvTable {
    comparison_columns().rows(versus.lines.iter().cloned()).written()
}

/// The sections of the manual for a [`comparison_table`].
pub fn comparison_sections() -> Vec<Section> {
    comparison_columns().sections()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::analysis::fixture::{StudyBuilder, key, study_with_peaks};
    use crate::analysis::{Study, analyse};
    use crate::record::Outcome;

    fn tables(study: &Study) -> [Table; 4] {
        let analysis = analyse(study);
        [metrics(&analysis), summary(&analysis), failures(&analysis), roofline_points(&analysis)]
            .map(Rows::table)
    }

    #[test]
    fn every_table() {
        for (name, table) in
            ["metrics", "summary", "failures", "roofline_points"].iter().zip(tables(&study_with_peaks()))
        {
            insta::assert_snapshot!(*name, table.csv());
        }
        insta::assert_snapshot!("runs", runs_table(&[0, 1, 2, 3], &analyse(&study_with_peaks())).csv);
    }

    /// A complete row, one with a disturbed run, and one without a remaining run.
    #[test]
    fn exclusions_are_a_table() {
        let contended = |record: &mut crate::record::Record| record.observed.host_busy_s = Some(1e6);
        let unsynchronised =
            |record: &mut crate::record::Record| record.measurement.as_mut().unwrap().synchronized = false;
        let study = StudyBuilder::new()
            .runs("cpu", "resnet18", 4, &[8.0, 8.5])
            .runs("cpu", "resnet18", 16, &[10.0, 12.0])
            .run_with(key("cpu", "resnet18", 16, 3), 5.0, contended)
            .run_with(key("cpu", "resnet18", 16, 4), 99.0, unsynchronised)
            .run_with(key("cpu", "resnet18", 32, 1), 5.0, contended)
            .not_run(key("cpu", "vgg16", 4, 1), "not run yet")
            .build();
        insta::assert_snapshot!(exclusions(&analyse(&study)).table().csv());
    }

    fn cell(table: &Table, row: usize, name: &str) -> String {
        table.rows[row][table.header().iter().position(|column| column == name).unwrap()].clone()
    }

    /// Promise 8: never 0, never blank, never dropped.
    #[test]
    fn a_failed_job_is_a_row_with_a_reason_and_without_a_number() {
        let study = StudyBuilder::new()
            .failure(key("cpu", "vgg16", 16, 1), Outcome::Signalled { signal: 11 })
            .not_run(key("cpu", "vgg16", 16, 2), "not started")
            .build();
        let [metrics, summary, failures, points] = tables(&study);
        assert_eq!(metrics.rows.len(), 2);
        for (row, status) in [(0, "failed"), (1, "not_run")] {
            assert_eq!(cell(&metrics, row, "status"), status);
            assert_eq!(cell(&metrics, row, "samples_per_s"), "NA");
            assert_ne!(cell(&metrics, row, "reason"), "none");
        }
        assert_eq!(cell(&summary, 0, "median_samples_per_s"), "NA");
        assert!(cell(&summary, 0, "reason").contains("signal 11"));
        assert_eq!((failures.rows.len(), points.rows.len()), (1, 0));
        for table in [&metrics, &summary, &failures, &points] {
            assert!(table.rows.iter().flatten().all(|word| !word.is_empty()));
            assert!(table.rows.iter().all(|row| row.len() == table.header().len()));
        }
    }

    /// The seconds of an unsynchronised window are kept as they are reported, but nothing is derived from them.
    #[test]
    fn no_number_of_an_unsynchronised_window_is_published() {
        let study = StudyBuilder::new()
            .run_with(key("cpu", "vgg16", 16, 1), 10.0, |record| {
                let measured = record.measurement.as_mut().unwrap();
                measured.synchronized = false;
                measured.metrics = serde_json::from_str(
                    r#"{ "tokens": { "value": 320, "per_second": true }, "accuracy": { "value": 0.5 } }"#,
                )
                .unwrap();
            })
            .build();
        let metrics = metrics(&analyse(&study)).table();
        let rates = ["samples_per_s", "mean_iteration_s", "attained_gflop_per_s", "metric_tokens_per_s"];
        assert_eq!(rates.map(|name| cell(&metrics, 0, name)), ["NA"; 4]);
        assert_eq!(
            [cell(&metrics, 0, "synchronized"), cell(&metrics, 0, "metric_accuracy")],
            ["false", "0.5"]
        );
    }

    /// Every table with the FLOPs of a network names the convention by which they are counted.
    #[test]
    fn every_table_of_flops_names_their_convention() {
        use crate::analysis::cost::FlopsConvention;
        for (convention, name) in
            [(FlopsConvention::LayerByLayer, "layer-by-layer"), (FlopsConvention::Seed2, "seed2")]
        {
            let study = Study { convention, ..study_with_peaks() };
            let mut found = 0;
            for file in CSV_FILES {
                let table = (file.rows)(&analyse(&study)).table();
                let is_of_network = |column: &String| {
                    column.starts_with("training_gflop") || column.starts_with("attained_gflop")
                };
                if table.header().iter().any(is_of_network) {
                    found += 1;
                    let rows = 0..table.rows.len();
                    assert!(
                        rows.into_iter().all(|row| cell(&table, row, "flops_convention") == name),
                        "{}",
                        file.name
                    );
                }
            }
            assert_eq!(found, 3);
        }
    }

    /// The two parts trained on images of different sizes; the failed job could have belonged to either.
    #[test]
    fn runs_have_the_flops_of_their_own_part() {
        let small = |record: &mut crate::record::Record| {
            record.measurement.as_mut().unwrap().effective.settings.set("input_size", 64);
        };
        let failed = || Outcome::Signalled { signal: 11 };
        let split = StudyBuilder::new()
            .run("cpu", "resnet18", 16, 1, 10.0)
            .run_with(key("cpu", "resnet18", 16, 2), 10.0, small)
            .failure(key("cpu", "resnet18", 16, 3), failed());
        let whole = split.run("cpu", "vgg16", 16, 1, 10.0).failure(key("cpu", "vgg16", 16, 2), failed());
        let study = whole.build();
        let metrics = metrics(&analyse(&study)).table();
        let column = metrics.header().iter().position(|name| name == "training_gflop_per_sample").unwrap();
        let gflops: Vec<&str> = metrics.rows.iter().map(|row| row[column].as_str()).collect();
        let of = |name, size| crate::architecture::network(name, size, 1000).unwrap().training_flops();
        let [large, small, vgg] = [("resnet18", 224), ("resnet18", 64), ("vgg16", 224)]
            .map(|(name, size)| (of(name, size) as f64 / 1e9).to_string());
        assert_eq!(gflops, [&large, &small, "NA", &vgg, &vgg]);
    }

    #[test]
    fn every_column_is_explained_and_has_a_unique_name() {
        for file in CSV_FILES {
            let sections = (file.sections)();
            let columns: Vec<&About> = sections.iter().flat_map(|section| &section.columns).collect();
            let study = study_with_peaks();
            let table = (file.rows)(&analyse(&study)).table();
            let names: Vec<&str> = columns.iter().map(|about| about.name.as_ref()).collect();
            // This study has no parameters or metrics with separate columns.
            let everywhere: Vec<&str> = names.iter().copied().filter(|name| !name.contains("NAME")).collect();
            assert_eq!(table.header(), everywhere, "{}: the manual and the file differ", file.name);
            for (place, about) in columns.into_iter().enumerate() {
                let About { name, meaning, absent, cell_type, .. } = about;
                assert!(
                    !cell_type.is_number() || about.unit().is_some(),
                    "{}, `{name}`: end its name with a unit, or say in units.rs what it counts",
                    file.name
                );
                assert!(meaning.ends_with('.'), "{}, `{name}`: say what it means, in sentences", file.name);
                let is_clause = absent.is_none_or(|absent| !absent.is_empty() && !absent.ends_with('.'));
                assert!(is_clause, "{}, `{name}`: say when it is `NA`, as a clause", file.name);
                assert!(
                    !names[..place].contains(&name.as_ref()),
                    "{}: two columns are called `{name}`",
                    file.name
                );
            }
        }
    }

    /// The condition for joining the files with pandas: the same names, and one row of the summary for each run.
    #[test]
    fn metrics_and_summary_join_by_config_and_part() {
        let own = |name: &str, repeat| {
            let mut key = key("cpu", "resnet18", 16, repeat);
            key.params.insert("compile".into(), crate::job::ParamValue::Bool(name == "compiled"));
            key
        };
        let mut study = StudyBuilder::new();
        for (repeat, host) in [(1, "a"), (2, "a"), (3, "b")] {
            for name in ["eager", "compiled"] {
                study = study.run_with(own(name, repeat), 10.0, |record| {
                    let mut provenance = (*record.provenance).clone();
                    let mut facts = (*provenance.host).clone();
                    facts.hostname = host.to_owned();
                    provenance.host = facts.into();
                    record.provenance = provenance.into();
                    record.measurement.as_mut().unwrap().metrics =
                        serde_json::from_str(r#"{ "tokens": { "value": 320, "per_second": true } }"#)
                            .unwrap();
                });
            }
        }
        let study = study.build();
        let [metrics, summary, _, _] = tables(&study);
        let by = ["env", "device", "model", "precision", "batch", "params", "param_compile", "part", "unit"];
        let keys = |table: &Table| -> Vec<Vec<String>> {
            let places = by.map(|name| table.header().iter().position(|it| it == name).expect(name));
            table.rows.iter().map(|row| places.map(|place| row[place].clone()).into()).collect()
        };
        let rows = keys(&summary);
        assert_eq!(rows.len(), 4);
        for run in keys(&metrics) {
            assert_eq!(rows.iter().filter(|row| **row == run).count(), 1, "{run:?} in {rows:?}");
        }
        assert!(rows.iter().any(|row| row[6] == "true" && row[7] == "2 of 2"), "{rows:?}");
        let columns = ["metric_tokens_per_s_n", "metric_tokens_per_s_median", "metric_tokens_per_s_unit"];
        assert_eq!(columns.map(|name| cell(&summary, 0, name)), ["2", "20", "tokens/s"]);
        assert_eq!(cell(&metrics, 0, "metric_tokens_per_s"), "20");
    }

    #[test]
    fn no_two_metrics_share_a_column() {
        let study = StudyBuilder::new()
            .run_with(key("cpu", "vgg16", 16, 1), 10.0, |record| {
                record.measurement.as_mut().unwrap().metrics = serde_json::from_str(
                    r#"{ "tokens": { "value": 320, "per_second": true }, "tokens_per_s": { "value": 7 },
                         "loss": { "value": 1 }, "loss_unit": { "value": 2 }, "loss_max": { "value": 3 } }"#,
                )
                .unwrap();
            })
            .build();
        let [metrics, summary, _, _] = tables(&study);
        for table in [&metrics, &summary] {
            let columns: BTreeSet<String> = table.header().into_iter().collect();
            assert_eq!(columns.len(), table.header().len());
        }
        let columns = ["metric_tokens_per_s", "metric_tokens_per_s_", "metric_loss", "metric_loss_unit_"];
        assert_eq!(columns.map(|name| cell(&metrics, 0, name)), ["20", "7", "1", "2"]);
        assert_eq!(cell(&summary, 0, "metric_loss_max__median"), "3");
    }

    #[test]
    fn tables_without_rows_keep_their_columns() {
        let columns = |study: &Study| tables(study).map(|table| table.header());
        let [_, _, failures, points] =
            columns(&StudyBuilder::new().run("cpu", "resnet18", 16, 1, 1.0).build());
        let [_, _, full_failures, full_points] = columns(&study_with_peaks());
        assert_eq!((failures, points), (full_failures, full_points));
    }
}
