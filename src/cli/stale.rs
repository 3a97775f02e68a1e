//! Stale jobs, for several verbs: the current state of the machine, decisions with it, and messages.

use std::collections::{BTreeMap, BTreeSet};

use super::global::store_flag;
use super::needs::needs;
use super::output::warn;
use super::{Failure, Global};
use crate::analysis::unconfirmed::count_unconfirmed;
use crate::host::{Programs, ProgramsError, probe_host, probe_present};
use crate::job::JobId;
use crate::plan::{
    Decided, Decision, Inventory, Plan, Present, Standing, changes_text, decide, missing_scripts,
};
use crate::record::HostFacts;
use crate::store::{Store, StoreError};
use crate::text::{jobs_text, with_causes};

/// The current state of the machine.
pub(super) struct Here {
    /// The machine.
    pub(super) host: HostFacts,
    /// Its programs, or why they cannot be found. In that case no job is stale.
    pub(super) programs: Result<Programs, ProgramsError>,
    /// The missing scripts that were already warned of.
    named: BTreeSet<String>,
}

impl Here {
    /// Probes the machine.
    pub(super) fn probe() -> Here {
        let host = probe_host();
        Here { programs: Programs::probe(&host), host, named: BTreeSet::new() }
    }

    /// The programs and settings that done jobs of `plan` would run with now.
    pub(super) fn present(&mut self, plan: &Plan, inventory: &Inventory) -> Present {
        match &mut self.programs {
            Ok(programs) => probe_present(programs, plan, inventory, &self.host),
            Err(_) => Present::default(),
        }
    }

    /// Decides for every job of `plan`, in its order.
    pub(super) fn decide(&mut self, plan: &Plan, inventory: &Inventory) -> Vec<Decided> {
        let present = self.present(plan, inventory);
        for script in missing_scripts(inventory.records(), &self.host, &present) {
            if self.named.insert(script.to_owned()) {
                warn(&format!("{script} is not here; it may have changed since it ran"));
            }
        }
        decide(plan, inventory, &self.host, &present, &needs(plan, inventory))
    }
}

/// A job in the latest saved plan that contains it.
pub(super) struct Planned {
    /// The name of the plan.
    pub(super) plan: String,
    /// The job and the decision about it.
    pub(super) decided: Decided,
}

/// Every job of every saved plan. Warns of unreadable plans and leaves them out.
///
/// # Errors
/// The directory of the plans cannot be read.
pub(super) fn planned_jobs(
    store: &Store,
    inventory: &Inventory,
    here: &mut Here,
) -> Result<BTreeMap<JobId, Planned>, Failure> {
    let mut planned = BTreeMap::new();
    for name in store.plan_names().map_err(Failure::store)? {
        let plan = match store.load_plan(&name) {
            Ok(plan) => plan,
            Err(error) => {
                warn_of_plan(&name, &error);
                continue;
            }
        };
        for decided in here.decide(&plan, inventory) {
            let id = decided.job.id();
            planned.entry(id).or_insert_with(|| Planned { plan: name.clone(), decided });
        }
    }
    Ok(planned)
}

/// Warns, so that jobs of an unreadable plan are not mistaken for jobs without a plan.
fn warn_of_plan(name: &str, error: &StoreError) {
    warn(&format!("the plan `{name}` is left out: {}", with_causes(error)));
}

/// The changes that made jobs of `decided` stale, with the number of jobs.
pub(super) fn stale_reasons(decided: &[Decided]) -> BTreeMap<String, usize> {
    let mut reasons = BTreeMap::new();
    for decided in decided {
        if let Decision::Stale { changes } = &decided.decision {
            *reasons.entry(changes_text(changes)).or_default() += 1;
        }
    }
    reasons
}

/// A message with the number of stale jobs, the reason and the next commands; `None` if no job is stale. `again` is the
/// command that resumes their plan.
pub(super) fn stale_message(decided: &[Decided], again: &str, global: &Global) -> Option<String> {
    let reasons = stale_reasons(decided);
    let number: usize = reasons.values().sum();
    let why = match reasons.first_key_value() {
        None => return None,
        Some((only, _)) if reasons.len() == 1 => only.clone(),
        Some((first, _)) => format!("{first}; others have other changes"),
    };
    let are = if number == 1 { "is" } else { "are" };
    Some(format!(
        "{} {are} done but stale ({why}); `{again} --rerun-stale` repeats them, `orchestrate accept --all{}` keeps \
         their results",
        jobs_text(number),
        store_flag(global)
    ))
}

/// The number of done jobs of `decided`, by the parameters that their records do not confirm.
pub(super) fn unconfirmed_jobs(inventory: &Inventory, decided: &[Decided]) -> BTreeMap<Vec<String>, usize> {
    count_unconfirmed(decided.iter().filter_map(|Decided { job, .. }| match inventory.jobs.get(&job.id())? {
        Standing::Done(record) => Some((job.key(), &**record)),
        Standing::NotDone(_) => None,
    }))
}

/// The next commands for stale jobs, if the reasons are shown elsewhere. `again` is the verb and arguments that resume
/// their plan.
pub(super) fn stale_hint(again: &str, global: &Global) -> String {
    let store = store_flag(global);
    format!(
        "`orchestrate {again} --rerun-stale{store}` repeats stale jobs, `orchestrate accept --all{store}` keeps them"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture;
    use crate::job::Job;
    use crate::plan::Change;

    #[test]
    fn stale_jobs_are_counted_by_change() {
        let global = Global { store: "runs".into(), quiet: false };
        let stale = |repeat, to: &str| {
            let change = Change { what: "driver".into(), from: "570.1".into(), to: to.into() };
            let job = Job::new(fixture::key("cpu", "resnet18", 16, repeat));
            Decided { job, decision: Decision::Stale { changes: vec![change] } }
        };
        let done = Decided { job: Job::new(fixture::key("cpu", "vgg16", 16, 1)), decision: Decision::Skip };
        let message = |decided: &[Decided]| stale_message(decided, "orchestrate resume t", &global);
        assert_eq!(message(std::slice::from_ref(&done)), None);
        assert_eq!(
            message(&[stale(1, "580.2"), done]).unwrap(),
            "1 job is done but stale (driver 570.1 → 580.2); `orchestrate resume t --rerun-stale` repeats them, \
             `orchestrate accept --all` keeps their results"
        );
        let several = message(&[stale(1, "580.2"), stale(2, "580.2"), stale(3, "590.0")]).unwrap();
        assert!(
            several
                .starts_with("3 jobs are done but stale (driver 570.1 → 580.2; others have other changes)"),
            "{several}"
        );
    }
}
