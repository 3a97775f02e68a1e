//! The marks of single runs, for the verbs that speak of jobs.

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

/// `jobs` of `plan` as `analysis` wants them. Peaks and costs are not asked for here, so none are given; nor are the
/// seconds of iterations, since nothing that they say decides what counts, and `status --watch` looks every two seconds.
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

/// The marks that keep runs of `plan` out of its statistics, by job; none of them without one.
pub(super) fn left_out(plan: &Plan, inventory: &Inventory) -> BTreeMap<JobId, Vec<Mark>> {
    let jobs: Vec<Job> = plan.jobs().collect();
    let study = study(plan, inventory, jobs.iter());
    let cells: Vec<&Cell> = study.cells.iter().collect();
    let found = marks(&cells, &study.spans, &study.thresholds);
    let against = |marks: Vec<Mark>| marks.into_iter().filter(Mark::disqualifies).collect::<Vec<_>>();
    let named = cells.iter().zip(found).map(|(cell, marks)| (cell.job.id(), against(marks)));
    named.filter(|(_, marks)| !marks.is_empty()).collect()
}

/// `marks`, each with its number, as one sentence.
pub(super) fn sentence(marks: &[Mark]) -> String {
    marks.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Says how many runs of the jobs `ids` are done and do not count, and what can be done; `None` if there is none. `again`
/// is the command that goes on with their plan.
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
        "{} {are} done but left out of the statistics ({why}); `orchestrate explain JOB{}` says what stands against a \
         run, `{again} --rerun-marked` repeats them",
        jobs_text(number),
        store_flag(global)
    ))
}

/// The latest saved plan that holds `job`, of those that can be read.
pub(super) fn plan_of(store: &Store, job: &Job) -> Option<Plan> {
    let names = store.plan_names().unwrap_or_default();
    let mut plans = names.iter().filter_map(|name| store.load_plan(name).ok());
    plans.find(|plan| plan.jobs().any(|held| held.id() == job.id()))
}

/// The marks of the run of `job`, by its own record and iterations and by the other runs of `plan`; without a plan, by
/// its own alone.
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
        assert_eq!(tell(&[4]), None, "the selected ones alone");
        assert_eq!(
            tell(&[1]).unwrap(),
            "1 job is done but left out of the statistics (contended); `orchestrate explain JOB` says what stands against \
             a run, `orchestrate resume t --rerun-marked` repeats them"
        );
        let several = tell(&[1, 2, 3]).unwrap();
        assert!(
            several.contains("3 jobs are") && several.contains("(2 contended, 1 contended and unsettled)")
        );
        assert_eq!(sentence(&all[&id(3)]), "contended: others were at work; unsettled: it was hot");
    }
}
