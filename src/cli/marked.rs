//! Marks of attempts and of their rows, for the verbs that report on jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::Global;
use super::catalogue::{PEAKS_DIR, peaks_so_far};
use super::cell::{cell, load_iterations};
use super::global::store_flag;
use crate::analysis::bound::Class;
use crate::analysis::cost::FlopsConvention;
use crate::analysis::group::Row;
use crate::analysis::idle::Idle;
use crate::analysis::marks::{Mark, Thresholds, mark_names, marks};
use crate::analysis::peaks::Catalogue;
use crate::analysis::printed::Throughput;
use crate::analysis::{Cell, Run, Span, Study, analyse};
use crate::job::{Job, JobId};
use crate::plan::{Inventory, NotDone, Plan};
use crate::record::Record;
use crate::store::Store;
use crate::text::jobs_text;

/// The cells of `jobs` of `plan` for `analysis`. They lack peaks and costs, which are not needed here, and the times
/// of iterations, which never affect what counts and would be read every two seconds by `status --watch`.
pub(super) fn study<'a>(plan: &Plan, inventory: &Inventory, jobs: impl Iterator<Item = &'a Job>) -> Study {
    let standings = inventory.standings();
    Study {
        matrix: plan.matrix.clone(),
        description: plan.description.clone(),
        declared: plan.declared.clone(),
        cells: jobs.map(|job| cell(job.clone(), &standings, NotDone::to_string)).collect(),
        spans: inventory.records().map(Span::of).collect(),
        peaks: Catalogue::default(),
        convention: FlopsConvention::default(),
        include_marked: false,
        thresholds: plan.thresholds,
        replaced: Vec::new(),
        noise: Vec::new(),
        idle: Idle::of(inventory.records()),
    }
}

/// The marks that leave runs of `plan` out of its statistics, by job. Jobs without such marks are absent.
pub(super) fn left_out(plan: &Plan, inventory: &Inventory) -> BTreeMap<JobId, Vec<Mark>> {
    let study = study(plan, inventory, plan.jobs.iter());
    let cells: Vec<&Cell> = study.cells.iter().collect();
    let found = marks(&cells, &study.spans, &study.idle, &study.thresholds);
    let against = |marks: Vec<Mark>| marks.into_iter().filter(Mark::disqualifies).collect::<Vec<_>>();
    let named = cells.iter().zip(found).map(|(cell, marks)| (cell.job.id(), against(marks)));
    named.filter(|(_, marks)| !marks.is_empty()).collect()
}

/// `marks` with their numbers, in one line.
pub(super) fn sentence(marks: &[Mark]) -> String {
    marks.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// A message with the number of done jobs among `ids` that are left out of the statistics, and the next commands;
/// `None` if all count. `again` is the command that resumes their plan.
pub(super) fn left_out_message(
    left_out: &BTreeMap<JobId, Vec<Mark>>,
    ids: &BTreeSet<JobId>,
    again: &str,
    global: &Global,
) -> Option<String> {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for marks in left_out.iter().filter(|(id, _)| ids.contains(id)).map(|(_, marks)| marks) {
        *kinds.entry(mark_names(marks).join(" and ")).or_default() += 1;
    }
    let number: usize = kinds.values().sum();
    let why = match kinds.first_key_value() {
        None => return None,
        Some((only, _)) if kinds.len() == 1 => only.clone(),
        Some(_) => {
            kinds.iter().map(|(names, number)| format!("{number} {names}")).collect::<Vec<_>>().join(", ")
        }
    };
    let are = if number == 1 { "is" } else { "are" };
    Some(format!(
        "{} {are} done but left out of the statistics ({why}); `orchestrate explain JOB{}` explains \
         the marks, `{again} --rerun-marked` repeats the jobs",
        jobs_text(number),
        store_flag(global)
    ))
}

/// The latest readable plan that contains `job`.
pub(super) fn plan_of(store: &Store, job: &Job) -> Option<Plan> {
    let names = store.plan_names().unwrap_or_default();
    let mut plans = names.iter().filter_map(|name| store.load_plan(name).ok());
    plans.find(|plan| plan.jobs().any(|held| held.id() == job.id()))
}

/// The doubts about a done job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Doubts {
    /// The marks of its run.
    pub(super) run: Vec<Mark>,
    /// The marks of its row as a whole.
    pub(super) row: Vec<Mark>,
    /// The bound of its row; `None` if it is in no row.
    pub(super) class: Option<Class>,
    /// The throughput of its row with its scatter, if several runs count: `26.12 images/s over 3 runs, 95 %
    /// interval 26.00 to 26.90`.
    pub(super) of_row: Option<String>,
}

/// The doubts about the job of `record`, from its record, its iterations and, with a plan, the other runs of `plan`.
pub(super) fn doubts_of(
    record: &Record,
    plan: Option<&Plan>,
    inventory: &Inventory,
    store: &Store,
    global: &Global,
) -> Doubts {
    let job = Job::new(record.key.clone());
    let standings = inventory.standings();
    let placed = |job: Job| {
        let peaks = plan.and_then(|plan| plan.envs.get(&job.key().env)?.peaks.clone());
        Cell { peaks, ..cell(job, &standings, NotDone::to_string) }
    };
    let mut own = [placed(job.clone())];
    load_iterations(&mut own, store, global);
    let others = plan.into_iter().flat_map(Plan::jobs).filter(|other| other.id() != job.id());
    let others = others.map(placed);
    let study = Study {
        matrix: (*record.provenance.matrix).clone(),
        description: None,
        declared: plan.map(|plan| plan.declared.clone()).unwrap_or_default(),
        cells: own.into_iter().chain(others).collect(),
        spans: inventory.records().map(Span::of).collect(),
        peaks: peaks_so_far(Path::new(PEAKS_DIR), global).unwrap_or_default(),
        convention: FlopsConvention::default(),
        include_marked: false,
        thresholds: plan.map_or_else(Thresholds::default, |plan| plan.thresholds),
        replaced: Vec::new(),
        noise: Vec::new(),
        idle: Idle::of(inventory.records()),
    };
    let analysis = analyse(&study);
    let is_own = |run: &&Run<'_>| run.cell.job.id() == job.id();
    let run = analysis.runs.iter().find(is_own).map(|run| run.marks.clone());
    let of_run = |row: &Row<'_>| row.runs.iter().any(|run| is_own(&run));
    // A profiling job belongs to the rows of its config.
    let of_config = |row: &Row<'_>| row.config == job.key().timing_config();
    let rows = &analysis.rows;
    let row = rows.iter().position(of_run).or_else(|| rows.iter().position(of_config));
    Doubts {
        run: run.unwrap_or_default(),
        row: row.map(|row| analysis.rows[row].doubts.clone()).unwrap_or_default(),
        class: row.map(|row| analysis.classes[row].clone()),
        of_row: row.and_then(|row| row_text(&rows[row])),
    }
}

/// The throughput of `row` with its scatter. `None` if fewer than two runs count.
fn row_text(row: &Row<'_>) -> Option<String> {
    let statistics = row.statistics.as_ref().ok().filter(|statistics| statistics.n > 1)?;
    let Throughput { geometric_mean, interval } = Throughput::of(statistics);
    let interval = match statistics.interval {
        Ok(_) => format!("95 % interval {interval}"),
        Err(_) => interval,
    };
    Some(format!("{geometric_mean} {}/s over {} runs, {interval}", row.unit(), statistics.n))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::analysis::fixture;
    use crate::matrix::check;
    use crate::plan::{Standing, expand};
    use crate::record::MatrixFacts;

    #[test]
    fn message_counts_left_out_runs_and_names_the_remedy() {
        let global = Global { store: "runs".into(), quiet: false };
        let id = |repeat| fixture::key("cpu", "resnet18", 16, repeat).id();
        let contended = || Mark::Contended { by: "others were at work".into() };
        let all = BTreeMap::from([
            (id(1), vec![contended()]),
            (id(2), vec![contended()]),
            (id(3), vec![contended(), Mark::Unsettled { by: "it was hot".into() }]),
        ]);
        let message = |repeats: &[u32]| {
            left_out_message(
                &all,
                &repeats.iter().map(|repeat| id(*repeat)).collect(),
                "orchestrate resume t",
                &global,
            )
        };
        assert_eq!(message(&[4]), None, "only selected jobs count");
        assert_eq!(
            message(&[1]).unwrap(),
            "1 job is done but left out of the statistics (contended); `orchestrate explain JOB` explains the \
             marks, `orchestrate resume t --rerun-marked` repeats the jobs"
        );
        let several = message(&[1, 2, 3]).unwrap();
        assert!(
            several.contains("3 jobs are") && several.contains("(2 contended, 1 contended and unsettled)")
        );
        assert_eq!(sentence(&all[&id(3)]), "contended: others were at work; unsettled: it was hot");
    }

    #[test]
    fn marks_of_a_run_and_of_its_row_are_separate() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::at(directory.path()).unwrap();
        let global = Global { store: "runs".into(), quiet: true };
        let matrix = "name: m\nmodels: [vgg16]\nbatches: [4]\nrepeats: 4\nenvs: { cpu: { device: cpu } }\n";
        let plan = expand(&check(matrix).unwrap(), MatrixFacts::example());
        let mut inventory = Inventory::default();
        let mut records = Vec::new();
        for (key, rate) in plan.keys().zip([100.0, 120.0, 140.0, 160.0]) {
            let mut record = fixture::record(key.clone(), rate, records.len() as i64);
            record.provenance.host.power_source = (key.repeat == 1).then(|| "battery".into());
            inventory.jobs.insert(record.id, Standing::Done(Arc::new(record.clone())));
            records.push(record);
        }
        let doubts = |record: &Record, plan| doubts_of(record, plan, &inventory, &store, &global);
        let own = doubts(&records[0], Some(&plan));
        assert_eq!((mark_names(&own.run), mark_names(&own.row)), (vec!["on-battery"], vec![]), "its own row");
        let other = doubts(&records[1], Some(&plan));
        assert_eq!((mark_names(&other.run), mark_names(&other.row)), (vec![], vec!["high-variation"]));
        let alone = doubts(&records[1], None);
        assert!(alone.run.is_empty() && alone.row.is_empty(), "one run does not scatter: {alone:?}");
    }
}
