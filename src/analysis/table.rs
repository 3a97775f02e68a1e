//! The CSV files, as tables of words. Units stand in the column names; what is not known is `NA`, never blank and never
//! 0.

use std::collections::HashMap;

use super::analyse::Analysis;
use super::columns::{
    FailureLine, JobLine, PointLine, RunLine, failure_columns, job_columns, point_columns, run_columns,
    summary_columns,
};
use super::cost::Cost;
use super::counted::{counter_columns, counters, kernel_columns, kernels};
use super::group::Row;
use super::roofline::Roofline;
use super::{Cell, Run};
use crate::job::JobId;

pub use super::column::{About, NOT_KNOWN, Rows, Section, Table};

/// A CSV file of a report.
#[derive(Debug)]
pub struct CsvFile {
    /// Its name.
    pub name: &'static str,
    /// What each of its lines is about, to complete "one line per …".
    pub line: &'static str,
    /// Its rows.
    pub rows: for<'a> fn(&'a Analysis<'_>) -> Rows<'a>,
    /// What the manual says about its columns.
    pub sections: fn() -> Vec<Section>,
}

/// Every CSV file that `aggregate` and `report` write beside the pages. This table decides which files are written,
/// which ones the pages list, and what the manual's reference of columns says.
pub const CSV_FILES: &[CsvFile] = &[
    CsvFile {
        name: "metrics.csv",
        line: "job, including failed jobs and jobs that were not run",
        rows: metrics,
        sections: || job_columns().sections(),
    },
    CsvFile {
        name: "summary.csv",
        line: "row of the results",
        rows: summary,
        sections: || summary_columns().sections(),
    },
    CsvFile {
        name: "roofline_points.csv",
        line: "point: measured, modelled and estimated",
        rows: roofline_points,
        sections: point_sections,
    },
    CsvFile {
        name: "failures.csv",
        line: "job whose last attempt failed",
        rows: failures,
        sections: || failure_columns().sections(),
    },
    CsvFile {
        name: "counters.csv",
        line: "row and counter, from profiled jobs",
        rows: counters,
        sections: || counter_columns().sections(),
    },
    CsvFile {
        name: "kernels.csv",
        line: "row and kernel, for the kernels that took longest under Nsight Compute",
        rows: kernels,
        sections: || kernel_columns().sections(),
    },
];

/// `metrics.csv`.
pub fn metrics<'a>(analysis: &'a Analysis<'_>) -> Rows<'a> {
    let costs = Costs::of(&analysis.rows);
    job_columns().rows(analysis.runs.iter().map(move |run| JobLine { run, cost: costs.of_run(run) }))
}

/// What an image costs, for every run.
struct Costs<'a> {
    /// By cell. A cell is in one row at most, and the parts of a split config may differ in cost.
    by_cell: HashMap<*const Cell, Option<&'a Cost>>,
    /// By config, for jobs without a result, which are in no row; `None` if the config's parts differ.
    by_config: HashMap<JobId, Option<&'a Cost>>,
}

impl<'a> Costs<'a> {
    fn of(rows: &'a [Row<'_>]) -> Self {
        let (mut by_cell, mut by_config) = (HashMap::new(), HashMap::new());
        for row in rows {
            let cost = row.cost.as_ref().ok();
            by_cell.extend(row.runs.iter().map(|run| (std::ptr::from_ref(run.cell), cost)));
            let known = by_config.entry(row.config.id()).or_insert(cost);
            *known = known.filter(|known| Some(*known) == cost);
        }
        Costs { by_cell, by_config }
    }

    fn of_run(&self, run: &Run<'_>) -> Option<&'a Cost> {
        let of_row = self.by_cell.get(&std::ptr::from_ref(run.cell));
        let of_config = || self.by_config.get(&run.cell.job.key().config().id());
        *of_row.or_else(of_config)?
    }
}

/// `summary.csv`.
pub fn summary<'a>(analysis: &'a Analysis<'_>) -> Rows<'a> {
    summary_columns().rows(&analysis.rows)
}

/// `failures.csv`.
pub fn failures<'a>(analysis: &'a Analysis<'_>) -> Rows<'a> {
    let failed = analysis.runs.iter().map(|run| run.cell).filter(|cell| cell.is_failure());
    failure_columns().rows(failed.map(FailureLine))
}

/// What the throughput figure of `env` shows: its runs with a result.
pub fn throughput_table(env: &str, analysis: &Analysis<'_>) -> Table {
    let rows = analysis.rows.iter().filter(|row| row.config.env == env);
    run_columns().rows(rows.flat_map(|row| row.runs.iter().map(move |run| RunLine { row, run }))).table()
}

/// What the manual says about the columns of a [`throughput_table`].
pub fn run_sections() -> Vec<Section> {
    run_columns().sections()
}

/// `roofline_points.csv`: all points of all rooflines, estimated ones included.
pub fn roofline_points<'a>(analysis: &'a Analysis<'_>) -> Rows<'a> {
    point_rows(analysis, &analysis.rooflines)
}

/// The points of some rooflines.
pub fn roofline_table(analysis: &Analysis<'_>, rooflines: &[Roofline<'_>]) -> Table {
    point_rows(analysis, rooflines).table()
}

fn point_rows<'a>(analysis: &'a Analysis<'_>, rooflines: &'a [Roofline<'_>]) -> Rows<'a> {
    let points = rooflines.iter().flat_map(move |roofline| {
        let points = roofline.points.iter();
        points.map(move |point| PointLine { row: &analysis.rows[point.row], peaks: roofline.peaks, point })
    });
    point_columns().rows(points)
}

/// What the manual says about the columns of a [`roofline_table`].
pub fn point_sections() -> Vec<Section> {
    point_columns().sections()
}

#[cfg(test)]
mod tests {
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
        insta::assert_snapshot!("runs", throughput_table("cpu", &analyse(&study_with_peaks())).csv());
    }

    /// Promise 8: never 0, never blank, never dropped.
    #[test]
    fn a_failed_job_is_a_row_with_a_reason_and_without_a_number() {
        let study = StudyBuilder::new()
            .failure(key("cpu", "vgg16", 16, 1), Outcome::Signalled { signal: 11 })
            .not_run(key("cpu", "vgg16", 16, 2), "nobody has tried")
            .build();
        let [metrics, summary, failures, points] = tables(&study);
        let cell = |table: &Table, row: usize, name: &str| {
            table.rows[row][table.header.iter().position(|column| column == name).unwrap()].clone()
        };
        assert_eq!(metrics.rows.len(), 2);
        for (row, status) in [(0, "failed"), (1, "not_run")] {
            assert_eq!(cell(&metrics, row, "status"), status);
            assert_eq!(cell(&metrics, row, "images_per_s"), "NA");
            assert_ne!(cell(&metrics, row, "reason"), "none");
        }
        assert_eq!(cell(&summary, 0, "median_images_per_s"), "NA");
        assert!(cell(&summary, 0, "reason").contains("signal 11"));
        assert_eq!((failures.rows.len(), points.rows.len()), (1, 0));
        for table in [&metrics, &summary, &failures, &points] {
            assert!(table.rows.iter().flatten().all(|word| !word.is_empty()));
            assert!(table.rows.iter().all(|row| row.len() == table.header.len()));
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
        let column = metrics.header.iter().position(|name| name == "training_gflop_per_image").unwrap();
        let gflops: Vec<&str> = metrics.rows.iter().map(|row| row[column].as_str()).collect();
        let of = |name, size| crate::architecture::network(name, size, 1000).unwrap().training_flops();
        let [large, small, vgg] = [("resnet18", 224), ("resnet18", 64), ("vgg16", 224)]
            .map(|(name, size)| (of(name, size) as f64 / 1e9).to_string());
        assert_eq!(gflops, [&large, &small, "NA", &vgg, &vgg]);
    }

    #[test]
    fn every_column_is_explained_and_has_a_name_of_its_own() {
        for file in CSV_FILES {
            let sections = (file.sections)();
            let columns: Vec<&About> = sections.iter().flat_map(|section| &section.columns).collect();
            let study = study_with_peaks();
            let table = (file.rows)(&analyse(&study)).table();
            let names: Vec<&str> = columns.iter().map(|about| about.name).collect();
            assert_eq!(table.header, names, "{}: the manual and the file differ", file.name);
            for (place, About { name, meaning, absent }) in columns.into_iter().enumerate() {
                assert!(meaning.ends_with('.'), "{}, `{name}`: say what it means, in sentences", file.name);
                let is_clause = absent.is_none_or(|absent| !absent.is_empty() && !absent.ends_with('.'));
                assert!(is_clause, "{}, `{name}`: say when it is `NA`, as a clause", file.name);
                assert!(!names[..place].contains(name), "{}: two columns are called `{name}`", file.name);
            }
        }
    }

    #[test]
    fn tables_without_rows_keep_their_columns() {
        let columns = |study: &Study| tables(study).map(|table| table.header);
        let [_, _, failures, points] =
            columns(&StudyBuilder::new().run("cpu", "resnet18", 16, 1, 1.0).build());
        let [_, _, full_failures, full_points] = columns(&study_with_peaks());
        assert_eq!((failures, points), (full_failures, full_points));
    }
}
