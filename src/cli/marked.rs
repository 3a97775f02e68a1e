//! The marks of single attempts, for the verbs that report on jobs.

use std::collections::{BTreeMap, BTreeSet};

use super::Global;
use super::global::store_flag;
use super::study::{cell, load_iterations};
use crate::analysis::cost::FlopsConvention;
use crate::analysis::marks::{Mark, Thresholds, mark_names, marks};
use crate::analysis::peaks::Catalogue;
use crate::analysis::{Cell, Span, Study};
use crate::job::{Job, JobId};
use crate::plan::{Inventory, NotDone, Plan};
use crate::store::Store;
use crate::text::jobs_text;

/// The cells of `jobs` of `plan` for `analysis`. They lack peaks and costs, which are not needed here, and the seconds
/// of iterations. Those never decide what counts, and `status --watch` would read them every two seconds.
pub(super) fn study<'a>(plan: &Plan, inventory: &Inventory, jobs: impl Iterator<Item = &'a Job>) -> Study {
    Study {
        matrix: plan.matrix.clone(),
        description: plan.description.clone(),
        cells: jobs.map(|job| cell(job.clone(), inventory, NotDone::to_string)).collect(),
        spans: inventory.records().map(Span::of).collect(),
        peaks: Catalogue::default(),
        convention: FlopsConvention::default(),
        include_marked: false,
        thresholds: plan.thresholds,
    }
}

/// The marks that leave runs of `plan` out of its statistics, by job. Jobs without such marks are absent.
pub(super) fn left_out(plan: &Plan, inventory: &Inventory) -> BTreeMap<JobId, Vec<Mark>> {
    let jobs: Vec<Job> = plan.jobs().collect();
    let study = study(plan, inventory, jobs.iter());
    let cells: Vec<&Cell> = study.cells.iter().collect();
    let found = marks(&cells, &study.spans, &study.thresholds);
    let against = |marks: Vec<Mark>| marks.into_iter().filter(Mark::disqualifies).collect::<Vec<_>>();
    let named = cells.iter().zip(found).map(|(cell, marks)| (cell.job.id(), against(marks)));
    named.filter(|(_, marks)| !marks.is_empty()).collect()
}

/// `marks` with their numbers, in one line.
pub(super) fn sentence(marks: &[Mark]) -> String {
    marks.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Tells how many of the jobs `ids` are done but do not count, and the next commands; `None` if all count. `again` is
/// the command that resumes their plan.
pub(super) fn tell_left_out(
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

/// The marks of the run of `job`, from its record, its iterations and, with a plan, the other runs of `plan`.
pub(super) fn marks_of(
    job: &Job,
    plan: Option<&Plan>,
    inventory: &Inventory,
    store: &Store,
    global: &Global,
) -> Vec<Mark> {
    let others = plan.into_iter().flat_map(Plan::jobs).filter(|other| other.id() != job.id());
    let mut own = [cell(job.clone(), inventory, NotDone::to_string)];
    load_iterations(&mut own, store, global);
    let others: Vec<Cell> = others.map(|other| cell(other, inventory, NotDone::to_string)).collect();
    let cells: Vec<&Cell> = own.iter().chain(&others).collect();
    let spans: Vec<Span> = inventory.records().map(Span::of).collect();
    let thresholds = plan.map_or_else(Thresholds::default, |plan| plan.thresholds);
    marks(&cells, &spans, &thresholds).swap_remove(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture;

    #[test]
    fn runs_that_do_not_count_are_said_with_what_to_do() {
        let global = Global { store: "runs".into(), quiet: false };
        let id = |repeat| fixture::key("cpu", "resnet18", 16, repeat).id();
        let contended = || Mark::Contended { by: "others were at work".into() };
        let all = BTreeMap::from([
            (id(1), vec![contended()]),
            (id(2), vec![contended()]),
            (id(3), vec![contended(), Mark::Unsettled { by: "it was hot".into() }]),
        ]);
        let tell = |repeats: &[u32]| {
            tell_left_out(
                &all,
                &repeats.iter().map(|repeat| id(*repeat)).collect(),
                "orchestrate resume t",
                &global,
            )
        };
        assert_eq!(tell(&[4]), None, "only selected jobs count");
        assert_eq!(
            tell(&[1]).unwrap(),
            "1 job is done but left out of the statistics (contended); `orchestrate explain JOB` explains the \
             marks, `orchestrate resume t --rerun-marked` repeats the jobs"
        );
        let several = tell(&[1, 2, 3]).unwrap();
        assert!(
            several.contains("3 jobs are") && several.contains("(2 contended, 1 contended and unsettled)")
        );
        assert_eq!(sentence(&all[&id(3)]), "contended: others were at work; unsettled: it was hot");
    }
}
