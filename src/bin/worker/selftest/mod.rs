//! `worker selftest`: whether a device computes what it should, and has what a measurement needs. It prints one JSON
//! object on standard output, and its progress on standard error.
//!
//! | module | what it is |
//! |---|---|
//! | [`report`] | the printed report and its verdict |
//! | [`comparison`] | a value that was found, beside the expected one |
//! | [`session`] | runs the checks one after the other, within a time limit |
//! | [`training`] | every precision, memory layout and optimizer |
//! | [`reference`] | the expected course: double precision on the processor, with and without rounding errors |
//! | [`course`] | judges the course of a training |
//! | [`facilities`] | flags, memory, copies, marks for profilers, operators, iteration times |
//! | [`times`] | judges iteration times |

mod comparison;
mod course;
mod facilities;
mod reference;
mod report;
mod session;
mod times;
mod training;

use std::env::consts::{ARCH, OS};
use std::process::ExitCode;
use std::time::Instant;

use super::arguments::Selftest;
use super::device::{self, OpenDevice};
use super::failure::WorkerError;
use super::{request, settings, shim};
use reference::References;
use report::Machine;
use session::{Clock, Found, Planned};
use training::{Lab, Way};

/// Tests the device and prints the report. `started` is when `main` began.
///
/// # Errors
/// [`WorkerError::Unsupported`] if this machine lacks the device, [`WorkerError::Write`] if the report cannot be
/// printed.
pub(crate) fn run(arguments: &Selftest, started: Instant) -> Result<ExitCode, WorkerError> {
    settings::refuse_rounding()?;
    settings::silence_profiler();
    let device = OpenDevice::open(request::backend(&arguments.device)?)?;
    shim::keep_memory();
    settings::set_threads(arguments.threads);
    let clock = Clock::new(started, arguments.seconds);
    let machine = machine(&device);
    let mut lab = Lab { device, clock, started, references: References::default() };
    let verdict = session::run(machine, clock, plan(), &mut lab)?;
    Ok(ExitCode::from(verdict.exit_code()))
}

/// The facts about the machine that are known before any check.
fn machine(device: &OpenDevice) -> Machine {
    Machine {
        worker: env!("CARGO_PKG_VERSION").to_owned(),
        system: format!("{OS} {ARCH}"),
        macos: device::macos_version(),
        device: device.device,
        device_name: device.name.clone(),
        device_uuid: device.uuid.clone(),
        compute_capability: device.capability.map(|(major, minor)| format!("{major}.{minor}")),
        free_memory_bytes: shim::free_memory().map(|memory| memory.free),
        threads: settings::threads(),
        versions: shim::versions().collect(),
    }
}

/// All checks. The quick ones come first, so that a device that lacks the basics fails early.
fn plan() -> Vec<Planned<Lab>> {
    let mut plan = facilities();
    plan.extend(Way::all().into_iter().map(|way| Planned {
        name: way.name(),
        shows: "training takes the course of double precision, up to rounding",
        body: Box::new(move |lab: &mut Lab| way.check(lab)),
    }));
    plan.push(planned(
        "operators",
        "libtorch's profiler sees every convolution, and on CUDA its kernels",
        facilities::operators,
    ));
    plan.push(planned(
        "iteration times",
        "the times of single iterations are those of the device and add up",
        facilities::iteration_times,
    ));
    plan
}

/// The checks of the facilities that training needs of a device.
fn facilities() -> Vec<Planned<Lab>> {
    vec![
        planned(
            "first kernels",
            "this libtorch has kernels for the device, and they compute",
            facilities::first_kernels,
        ),
        planned("flags", "libtorch's global flags are what they are set to", facilities::flags),
        planned(
            "pinned memory",
            "batches reach the device through page-locked memory, unchanged",
            facilities::pinned_memory,
        ),
        planned(
            "copy stream",
            "batches that are copied on a separate stream arrive in time, and do not overwrite one that is still read",
            facilities::copy_stream,
        ),
        planned("peak memory", "the device's memory is counted", facilities::peak_memory),
        planned("profiler marks", "a profiler can see where the window is", facilities::profiler_marks),
        planned(
            "out of memory",
            "too little memory is recognised as that, and the device works on",
            facilities::out_of_memory,
        ),
        planned(
            "cuda graph",
            "a recorded training step takes the course of double precision, up to rounding",
            training::recorded_step,
        ),
    ]
}

fn planned(name: &str, shows: &'static str, body: fn(&mut Lab) -> Found) -> Planned<Lab> {
    Planned { name: name.to_owned(), shows, body: Box::new(body) }
}
