//! The noise of this machine, from the calibrations in the store.

use crate::analysis::calibration;
use crate::analysis::noise::{Calibrated, is_calibration};
use crate::analysis::{Study, judge};
use crate::cli::cell::load_iterations;
use crate::cli::find::load_inventory;
use crate::cli::marked::study;
use crate::cli::{Exit, Failure, Global};
use crate::job::Device;
use crate::plan::{Inventory, Plan};
use crate::store::Store;

/// The calibration from the runs of `plan` in `inventory` and their iterations.
///
/// # Errors
/// Exit 13 if too few of them count.
pub(super) fn calibrated(
    plan: &Plan,
    inventory: &Inventory,
    store: &Store,
    global: &Global,
) -> Result<Calibrated, Failure> {
    let mut study = study(plan, inventory, plan.jobs.iter());
    load_iterations(&mut study.cells, store, global);
    let name = &plan.matrix.name;
    calibration::calibrated(name, &judge(&study)).map_err(|few| {
        let message =
            format!("too few runs of {name} to determine the noise; blocks in which both runs count: {few}");
        Failure::new(Exit::NothingToAggregate, message)
            .hint(format!("`orchestrate status {name}` shows which runs were left out, and why"))
    })
}

/// Adds the noise of calibrated machines in its store to `study`.
///
/// # Errors
/// The store cannot be read.
pub(in crate::cli) fn add_noise(study: &mut Study, global: &Global) -> Result<(), Failure> {
    let store = Store::at(&global.store).map_err(Failure::store)?;
    if plans(&store).next().is_some() {
        let devices: Vec<Device> = study.cells.iter().map(|cell| cell.job.key().device).collect();
        study.noise = calibrations(&store, &load_inventory(&store)?, &devices);
    }
    Ok(())
}

/// The calibrations of these `devices` in the store. Those with runs of several machines are skipped. The times of
/// iterations are not read, because they do not affect the resolution.
pub(in crate::cli) fn calibrations(
    store: &Store,
    inventory: &Inventory,
    devices: &[Device],
) -> Vec<Calibrated> {
    let wanted = |plan: &Plan| plan.keys().any(|key| devices.contains(&key.device));
    let known = plans(store).filter(wanted).filter_map(|plan| {
        let study = study(&plan, inventory, plan.jobs.iter());
        let found = calibration::calibrated(&plan.matrix.name, &judge(&study)).ok()?;
        let mut records = study.cells.iter().filter_map(|cell| cell.record());
        records.all(|record| found.is_of(&record.provenance.host)).then_some(found)
    });
    known.collect()
}

/// The saved plans of calibrations.
fn plans(store: &Store) -> impl Iterator<Item = Plan> {
    let names = store.plan_names().unwrap_or_default().into_iter();
    let own = names.filter(|name| name.parse().is_ok_and(|name| is_calibration(&name)));
    own.filter_map(|name| store.load_plan(&name).ok())
}
