//! Code shared by `aggregate` and `report`: loads a plan and its records as a [`Study`], writes the files of a report,
//! and prints the table of results.
#![expect(clippy::disallowed_methods, reason = "the command line creates the report's directory")]

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use comfy_table::CellAlignment;

use super::catalogue::{PEAKS_DIR, load_catalogue};
use super::cell::{cell, load_iterations};
use super::drift::{renamed_hints, renamed_lines, warn_of_drift};
use super::find::{find_plan, while_reading};
use super::needs::needs;
use super::output::{Layout, table, table_text};
use super::{Exit, Failure, Global};
use crate::analysis::cost::FlopsConvention;
use crate::analysis::group::{Row, unit};
use crate::analysis::idle::Idle;
use crate::analysis::printed::Throughput;
use crate::analysis::table::{CSV_FILES, CsvFile};
use crate::analysis::versus::is_same_worker;
use crate::analysis::{Analysis, Cell, Span, Study};
use crate::files::{sync_directory, write_atomic, write_atomic_by, write_one_of_many};
use crate::job::{Job, Name};
use crate::plan::{Absences, Inventory, Plan, PlannedEnv, Standing, quote, renamed};
use crate::report::{FIGURES, File, tables_package};
use crate::store::Store;
use crate::text::significant;
use crate::threads;

/// The plan, and inputs in addition to the store.
#[derive(Debug, clap::Args)]
pub(super) struct StudyArgs {
    /// Name or file of a matrix that was run [default: the last one].
    #[arg(value_name = "NAME|FILE")]
    matrix: Option<String>,
    /// Directory of reports; the files go to its subdirectory with the matrix's name.
    #[arg(long, value_name = "DIR", default_value = "report")]
    out: PathBuf,
    /// Directory of the peaks.
    #[arg(long, value_name = "DIR", default_value = PEAKS_DIR)]
    peaks_dir: PathBuf,
    /// How the FLOPs of a training step are counted.
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    flops_convention: FlopsConvention,
    /// Include runs in the statistics that are left out because of their marks, such as contended ones. The tables and
    /// the report mention this. Runs with an unsynchronised window have no throughput, so they stay out.
    #[arg(long)]
    include_marked: bool,
}

impl StudyArgs {
    /// The arguments of `orchestrate report` without options.
    pub(super) fn without_options() -> StudyArgs {
        StudyArgs {
            matrix: None,
            out: "report".into(),
            peaks_dir: PEAKS_DIR.into(),
            flops_convention: FlopsConvention::default(),
            include_marked: false,
        }
    }

    /// The jobs of the plan with their records.
    pub(super) fn load(&self, global: &Global) -> Result<Study, Failure> {
        let store = Store::at(&global.store).map_err(Failure::store)?;
        self.reading().load(&store, self.matrix.as_deref(), global)
    }

    /// The settings for reading a plan and its records.
    pub(super) fn reading(&self) -> Reading<'_> {
        Reading {
            peaks_dir: &self.peaks_dir,
            convention: self.flops_convention,
            include_marked: self.include_marked,
        }
    }

    /// The commands that repeat the measurements of `study` and report its numbers, with each argument that affects a
    /// number.
    pub(super) fn commands(&self, study: &Study) -> [String; 2] {
        let mut report = format!("orchestrate report {}", quote(&study.matrix.name));
        if self.peaks_dir != Path::new(PEAKS_DIR) {
            report += &format!(" --peaks-dir {}", quote(&self.peaks_dir.display().to_string()));
        }
        if self.flops_convention != FlopsConvention::default() {
            report += &format!(" --flops-convention {}", self.flops_convention.as_str());
        }
        if self.include_marked {
            report += " --include-marked";
        }
        [format!("orchestrate run {}", quote(&study.matrix.path)), report]
    }

    /// The directory of the report about `matrix`.
    pub(super) fn directory(&self, matrix: &Name) -> PathBuf {
        self.out.join(matrix.as_str())
    }

    /// Writes the tables below the report's directory, and returns it.
    pub(super) fn write_tables(&self, analysis: &Analysis<'_>, matrix: &Name) -> Result<PathBuf, Failure> {
        let directory = self.directory(matrix);
        make_directory(&directory)?;
        let written = threads::each(CSV_FILES.len(), |number| {
            let CsvFile { name, rows, .. } = CSV_FILES[number];
            write_atomic_by(&directory.join(name), |file| rows(analysis).write_csv(file))
        });
        written.into_iter().collect::<Result<(), _>>()?;
        let package = tables_package(matrix.as_str(), analysis);
        write_atomic(&directory.join(package.path), &package.contents)?;
        Ok(directory)
    }
}

/// Writes the other `files` of a report below its `directory`, and removes those figures of an earlier report that it
/// no longer has. Their paths consist of valid names, so nothing is written elsewhere.
pub(super) fn write_files(directory: &Path, files: &[File]) -> Result<(), Failure> {
    let place = |file: &File| directory.join(&file.path).parent().unwrap_or(directory).to_owned();
    let places: BTreeSet<PathBuf> = files.iter().map(place).collect();
    for place in &places {
        make_directory(place)?;
    }
    let written = threads::each(files.len(), |number| {
        let File { path, contents } = &files[number];
        write_one_of_many(&directory.join(path), contents)
    });
    written.into_iter().collect::<Result<(), _>>()?;
    for path in places {
        sync_directory(&path).map_err(|source| MakeError { path, source })?;
    }
    remove_old_figures(directory, files)?;
    Ok(())
}

/// The settings for making a [`Study`] from a plan and its records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading<'a> {
    /// The directory of the peaks.
    pub(super) peaks_dir: &'a Path,
    /// How FLOPs are counted.
    pub(super) convention: FlopsConvention,
    /// Whether marked runs count.
    pub(super) include_marked: bool,
}

impl Reading<'_> {
    /// The jobs of a plan with their records: that of a matrix file, the saved one with this name, or the last one.
    ///
    /// # Errors
    /// There is no such plan, the store cannot be read, or the plan has no record in it.
    pub(super) fn load(
        &self,
        store: &Store,
        matrix: Option<&str>,
        global: &Global,
    ) -> Result<Study, Failure> {
        let (plan, inventory) = while_reading(store, || find_plan(store, matrix));
        let plan = plan?;
        warn_of_drift(&plan, "these are the results of the saved plan", global);
        self.study(plan, &inventory.map_err(Failure::store)?, store, global)
    }

    /// The jobs of `plan` with their records in the `inventory` of `store`.
    ///
    /// # Errors
    /// The plan has no record, or the peaks cannot be read.
    pub(super) fn study(
        &self,
        plan: Plan,
        inventory: &Inventory,
        store: &Store,
        global: &Global,
    ) -> Result<Study, Failure> {
        let mut cells = cells(&plan, inventory);
        load_iterations(&mut cells, store, global);
        if cells.iter().all(|cell| cell.record().is_none()) {
            return Err(no_records(&plan, inventory, store));
        }
        let replaced = replaced(&cells, store);
        Ok(Study {
            matrix: plan.matrix,
            description: plan.description,
            declared: plan.declared,
            cells,
            spans: inventory.records().map(Span::of).collect(),
            peaks: load_catalogue(self.peaks_dir, global)?,
            convention: self.convention,
            include_marked: self.include_marked,
            thresholds: plan.thresholds,
            replaced,
            noise: Vec::new(),
            idle: Idle::of(inventory.records()),
        })
    }
}

/// The earlier results of timing jobs that a re-run with the same worker replaced. Unreadable ones are left out,
/// because no number depends on them.
fn replaced(cells: &[Cell], store: &Store) -> Vec<Cell> {
    let mut found = Vec::new();
    for cell in cells.iter().filter(|cell| cell.is_timing()) {
        let Some((current, _)) = cell.success().filter(|(current, _)| current.attempt > 1) else { continue };
        let attempts = store.job_dir(&cell.job).attempts().unwrap_or_default();
        let earlier = attempts.iter().filter(|attempt| attempt.number() < current.attempt);
        let records = earlier.filter_map(|attempt| attempt.load_record().ok().flatten());
        let earlier = records.filter(|record| record.outcome.is_success() && is_same_worker(record, current));
        found.extend(earlier.map(|record| Cell {
            record: Ok(Arc::new(record)),
            iterations: None,
            ..cell.clone()
        }));
    }
    found
}

/// The failure for a `plan` without records. Names records of a renamed env, if there are any.
fn no_records(plan: &Plan, inventory: &Inventory, store: &Store) -> Failure {
    let (name, renamed) = (&plan.matrix.name, renamed(plan, inventory));
    let mut message = format!("the store {} has no record of {name}", store.root().display());
    let mut remedy = format!("run it first: `orchestrate run {}`", plan.matrix.path);
    if !renamed.is_empty() {
        message = [vec![message], renamed_lines(&renamed)].concat().join("; ");
        remedy = renamed_hints(&renamed, &plan.matrix.path).join("; ");
    }
    Failure::new(Exit::NothingToAggregate, message).hint(remedy)
}

fn make_directory(path: &Path) -> Result<(), MakeError> {
    std::fs::create_dir_all(path).map_err(|source| MakeError { path: path.to_owned(), source })
}

/// A directory that cannot be created, cleaned up or synced.
#[derive(Debug, thiserror::Error)]
#[error("cannot create, clean up or sync {}", path.display())]
struct MakeError {
    path: PathBuf,
    source: std::io::Error,
}

/// Removes figures of an earlier report that this one no longer has, because they would contradict it. Only files with
/// names of figures are removed.
fn remove_old_figures(directory: &Path, files: &[File]) -> Result<(), MakeError> {
    let figures = directory.join("figures");
    let wrong = |source| MakeError { path: figures.clone(), source };
    if !figures.is_dir() {
        return Ok(());
    }
    let written: HashSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    for entry in std::fs::read_dir(&figures).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let ours = FIGURES.iter().any(|figure| figure.owns(&name));
        if ours && !written.contains(format!("figures/{name}").as_str()) {
            std::fs::remove_file(entry.path()).map_err(wrong)?;
        }
    }
    Ok(())
}

fn cells(plan: &Plan, inventory: &Inventory) -> Vec<Cell> {
    // A stale job is done: its record and its rows show what it ran with.
    let standings = inventory.standings();
    let needs = needs(plan, inventory);
    let absences = Absences::new(plan, inventory, &needs);
    let cell_of = |job: Job| {
        let reason = match standings.of(&job) {
            Standing::Done(_) => String::new(),
            // A repeat that is not needed is not missing.
            Standing::NotDone(not_done) => absences.why(&job, &not_done)?,
        };
        let PlannedEnv { peaks, usd_per_hour, .. } = plan.env(job.key()).clone();
        Some(Cell { peaks, usd_per_hour, ..cell(job, &standings, |_| reason) })
    };
    plan.jobs().filter_map(cell_of).collect()
}

/// The results as a table for the terminal, with a note below if they include marked runs.
pub(super) fn results_text(study: &Study, analysis: &Analysis<'_>) -> String {
    format!("{}\n{}", results_table(analysis), notes(study)).trim_end().to_owned()
}

/// The notes on the statistics of `study`, one line each.
pub(super) fn notes(study: &Study) -> String {
    let mut text = String::new();
    if study.convention.leaves_out_work() {
        let convention = study.convention.as_str();
        text +=
            &format!("the FLOPs are counted by `{convention}`, which leaves out work, only for comparison\n");
    }
    if study.include_marked {
        text += &format!("{MARKED_ARE_INCLUDED}\n");
    }
    text
}

/// The note below statistics with `--include-marked`.
pub(super) const MARKED_ARE_INCLUDED: &str =
    "these statistics include marked runs (--include-marked) and thus differ from undisturbed ones";

fn results_table(analysis: &Analysis<'_>) -> String {
    let mut header: Vec<String> = ["env", "model", "precision", "batch"].map(str::to_owned).into();
    header.extend(analysis.varying.iter().cloned());
    header.extend(["n".to_owned(), format!("{}/s", unit(&analysis.rows))]);
    header.extend(["95 % interval", "GFLOP/s", "% of peak", "note"].map(str::to_owned));
    let last = header.len() - 1;
    let mut table = table(header, Layout::lines());
    for row in &analysis.rows {
        table.add_row(result_cells(row, &analysis.varying));
    }
    let texts = 3;
    for (index, column) in table.column_iter_mut().enumerate() {
        if index >= texts && index < last {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table_text(&table).trim_end().to_owned()
}

fn result_cells(row: &Row<'_>, varying: &[String]) -> Vec<String> {
    let key = &row.config;
    let mut cells =
        vec![key.env.to_string(), key.model.to_string(), key.precision.to_string(), key.batch.to_string()];
    cells
        .extend(varying.iter().map(|name| key.param(name).map_or("-".to_owned(), |value| value.to_string())));
    let number =
        |value: Option<f64>, digits| value.map_or("-".to_owned(), |value| significant(value, digits));
    match &row.statistics {
        Ok(statistics) => {
            let Throughput { geometric_mean, interval, .. } = Throughput::of(statistics);
            cells.extend([statistics.n.to_string(), geometric_mean, interval]);
            cells.push(number(row.attained().map(|attained| attained / 1e9), 4));
            cells.push(row.share_of_peak().map_or("-".to_owned(), |share| share.times(100.0).text(3)));
            cells.push(note(row));
        }
        Err(reason) => {
            cells.extend(["0", "-", "-", "-", "-"].map(str::to_owned));
            cells.push(reason.clone());
        }
    }
    cells
}

/// The note of a row with numbers.
fn note(row: &Row<'_>) -> String {
    let mut words: Vec<String> = row.marks().into_iter().map(str::to_owned).collect();
    for (n, what) in [(row.left_out(), "left out"), (row.included(), "included")] {
        if n > 0 {
            words.push(format!("{n} of {} {what}", row.runs.len()));
        }
    }
    if row.counts.failed > 0 {
        words.push(format!("{} failed", row.counts.failed));
    }
    if row.counts.not_run > 0 {
        words.push(format!("{} not run", row.counts.not_run));
    }
    if row.part.1 > 1 {
        words.push(format!("part {} of {}", row.part.0, row.part.1));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture::study_with_peaks;

    /// With other arguments, a report has other numbers.
    #[test]
    fn the_commands_have_each_argument_that_changes_a_number() {
        let plain = || StudyArgs { out: "elsewhere".into(), ..StudyArgs::without_options() };
        let mut study = study_with_peaks();
        let report = |args: StudyArgs| args.commands(&study_with_peaks())[1].clone();
        assert_eq!(report(plain()), "orchestrate report test");
        let peaks = StudyArgs { peaks_dir: "my peaks".into(), ..plain() };
        assert_eq!(report(peaks), "orchestrate report test --peaks-dir 'my peaks'");
        let seed = StudyArgs { flops_convention: FlopsConvention::Seed1, include_marked: true, ..plain() };
        assert_eq!(report(seed), "orchestrate report test --flops-convention seed1 --include-marked");
        study.matrix.path = "my matrices/it's.yaml".to_owned();
        assert_eq!(plain().commands(&study)[0], r"orchestrate run 'my matrices/it'\''s.yaml'");
    }
}
