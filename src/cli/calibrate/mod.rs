//! `orchestrate calibrate`: measures the scatter of runs on this machine, and the differences that they can resolve.
//!
//! It runs an ordinary matrix in the store, so it can be interrupted, resumed, reported and compared like any other.
//! The name of the matrix begins with `calibration-`, and `plan` and `report` look for that name.

mod known;
mod text;

use std::path::PathBuf;

use super::exit::leave;
use super::find::load_inventory;
use super::load::load_matrix_plan;
use super::output::{print, print_json, say, write_files};
use super::run::{HowArgs, execute};
use super::{Exit, Failure, Global};
use crate::analysis::calibration::SIDES;
use crate::analysis::noise::CALIBRATION;
use crate::host::probe_host;
use crate::job::Device;
use crate::plan::{Decision, Inventory, Needs, Plan, Present, Standing, decide};
use crate::store::Store;

use known::calibrated;

pub(super) use known::{add_noise, calibrations};

/// The arguments of `orchestrate calibrate`.
#[derive(Debug, clap::Args)]
pub(super) struct CalibrateArgs {
    /// The device: cpu, mps, cuda or cuda:<index>.
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: Device,
    /// About how long to measure. More minutes mean more repeats.
    #[arg(long, value_name = "M", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    minutes: u32,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// The training: small, so that a window has many iterations on any device.
const TRAINING: &str =
    "models: [squeezenet1_1]\nbatches: [16]\nprecisions: [fp32]\nprofile: { ops: false }\n";
const SETTINGS: &str = "warmup: 5, input_size: 64, classes: 10, data: { synthetic: true }";

/// The iterations of the first run, which measures the time of an iteration.
const FIRST_ITERATIONS: u64 = 20;

/// The intended seconds of a window, and the seconds of a run outside of its window.
const WINDOW_S: f64 = 3.0;
const BESIDE_S: f64 = 2.0;

/// The fewest and the most iterations and repeats.
const ITERATIONS: (u64, u64) = (20, 5000);
const REPEATS: (u32, u32) = (10, 200);

/// Measures the noise and prints it.
pub(super) fn run(args: CalibrateArgs, global: &Global) -> Result<Exit, Failure> {
    if let Some(why) = probe_host().no_gpu(args.device) {
        return Err(Failure::new(Exit::Unexpected, why).hint("`orchestrate doctor` lists the GPUs"));
    }
    let store = Store::create(&global.store).map_err(Failure::store)?;
    let first = Task { device: args.device, is_first: true, iterations: FIRST_ITERATIONS, repeats: 1 };
    let (plan, exit) = first.run(&store, global)?;
    if exit != Exit::Done {
        return Ok(exit);
    }
    let inventory = load_inventory(&store)?;
    let Some(iteration_s) = iteration_s(&plan, &inventory) else {
        return Err(Failure::new(Exit::NothingToAggregate, "the first run has no result")
            .hint(format!("`orchestrate status {}` shows why", plan.matrix.name)));
    };
    let task = Task { is_first: false, ..sized(args.device, iteration_s, args.minutes) };
    let (plan, exit) = task.run(&store, global)?;
    if !matches!(exit, Exit::Done | Exit::SomeFailed) {
        return Ok(exit);
    }
    let known = calibrated(&plan, &load_inventory(&store)?, &store, global)?;
    if args.json {
        print_json(&known.noise)?;
    } else {
        print(&text::page(&known))?;
    }
    let is_wrong = known.noise.is_wrong;
    leave(known);
    if is_wrong {
        say(&format!(
            "warning: equal envs seem to differ. By chance, this happens in at most one of twenty calibrations; \
             `orchestrate compare {} {} --matrix {}` shows the numbers",
            SIDES[0], SIDES[1], plan.matrix.name
        ));
    }
    Ok(exit)
}

/// A matrix to run.
struct Task {
    device: Device,
    /// Whether it is the one that measures the time of an iteration.
    is_first: bool,
    iterations: u64,
    repeats: u32,
}

impl Task {
    fn name(&self) -> String {
        let device = self.device.to_string().replace(':', "-");
        let first = if self.is_first { "first-" } else { "" };
        format!("{first}{CALIBRATION}-{device}")
    }

    fn yaml(&self) -> String {
        let Task { device, iterations, repeats, .. } = self;
        let envs = if self.is_first { &SIDES[..1] } else { &SIDES[..] };
        let envs: Vec<String> = envs.iter().map(|env| format!("{env}: {{ device: \"{device}\" }}")).collect();
        format!(
            "name: {}\ndescription: How much equal runs of this machine differ on {device}\n{TRAINING}\
             repeats: {repeats}\nparams: {{ {SETTINGS}, iters: {iterations} }}\nenvs: {{ {} }}\n",
            self.name(),
            envs.join(", ")
        )
    }

    /// Runs its jobs that are not done.
    fn run(&self, store: &Store, global: &Global) -> Result<(Plan, Exit), Failure> {
        let directory: PathBuf = store.root().join(".calibration");
        let file = format!("{}.yaml", self.name());
        write_files(&directory, &[(&file, self.yaml())])?;
        let plan = load_matrix_plan(&directory.join(file))?;
        let inventory = store.load_inventory();
        if inventory.as_ref().is_ok_and(|inventory| is_done(&plan, inventory)) {
            return Ok((plan, Exit::Done));
        }
        if let Some(why) = not_here(&plan) {
            return Err(Failure::new(Exit::Unexpected, why).hint("`orchestrate doctor` lists the devices"));
        }
        let exit = execute(&plan, inventory, &HowArgs::default(), global)?;
        Ok((plan, exit))
    }
}

fn is_done(plan: &Plan, inventory: &Inventory) -> bool {
    let standings = inventory.standings();
    plan.jobs.iter().all(|job| matches!(standings.of(job), Standing::Done(_)))
}

/// Why no job of `plan` can run here; `None` if one can.
fn not_here(plan: &Plan) -> Option<String> {
    let decided = decide(plan, &Inventory::default(), &probe_host(), &Present::default(), &Needs::default());
    decided.into_iter().find_map(|decided| match decided.decision {
        Decision::NotHere { why } => Some(why),
        _ => None,
    })
}

/// The matrix that takes about `minutes`. Its iterations are rounded, so that small differences between first runs
/// rarely change the matrix.
fn sized(device: Device, iteration_s: f64, minutes: u32) -> Task {
    let wanted = WINDOW_S / iteration_s;
    let decade = 10f64.powf(wanted.log10().floor());
    let round = [5.0, 2.0, 1.0].into_iter().find(|step| step * decade <= wanted).unwrap_or(1.0) * decade;
    let iterations = (round as u64).clamp(ITERATIONS.0, ITERATIONS.1);
    let run_s = iterations as f64 * iteration_s + BESIDE_S;
    let repeats = (60.0 * f64::from(minutes) / (2.0 * run_s)) as u32;
    Task { device, is_first: false, iterations, repeats: repeats.clamp(REPEATS.0, REPEATS.1) }
}

/// The seconds of an iteration of the only job of `plan`.
fn iteration_s(plan: &Plan, inventory: &Inventory) -> Option<f64> {
    match inventory.standings().of(plan.jobs.first()?) {
        Standing::Done(record) => {
            let measurement = record.measurement.as_ref()?;
            Some(measurement.elapsed_s / FIRST_ITERATIONS as f64)
        }
        Standing::NotDone(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_lasts_some_seconds_on_any_device() {
        for iteration_s in [1e-5, 1e-4, 3e-3, 0.05, 0.4, 20.0] {
            let Task { iterations, repeats, .. } = sized(Device::Cpu, iteration_s, 5);
            let window_s = iterations as f64 * iteration_s;
            assert!(iterations <= 5000 && repeats >= 10, "{iteration_s}: {iterations}, {repeats}");
            assert!(window_s >= WINDOW_S / 2.6 || iterations == 5000, "{iteration_s}: {window_s}");
            assert!(window_s <= WINDOW_S || iterations == 20, "{iteration_s}: {window_s}");
        }
    }

    #[test]
    fn both_matrices_are_valid() {
        for is_first in [true, false] {
            let task = Task { device: Device::Cpu, is_first, iterations: 50, repeats: 10 };
            let matrix = crate::matrix::check(&task.yaml()).unwrap();
            assert_eq!(matrix.configs().count(), if is_first { 1 } else { 2 });
            assert!(matrix.configs().all(|config| config.profiles.is_empty()), "only timings are compared");
        }
    }
}
