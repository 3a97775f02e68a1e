//! Workers whose limit is known by construction: products alone, streams alone, sleep, and mixtures of them. They show
//! how often the class of a row is right.
//!
//! ```text
//! zoo-worker --list [--device cuda]
//! zoo-worker --behave ANIMAL --device cpu --precision fp32 --batch N [--iters N] [--out FILE] [--simulate SEED]
//! ```
//!
//! An [`animal`] divides its time among kinds of work. It does this work ([`real`]), or with `--simulate` only
//! reports the times that they would take below known roofs ([`simulated`]): then the same seed gives the same
//! measurement.
//! `--list` prints each animal of a device with its class.
//!
//! Each kind of work is an operator with a distinct name, and reports its class, FLOPs and bytes.
#![expect(
    clippy::disallowed_methods,
    reason = "a worker is a separate program; this one takes time and measures it"
)]

mod animal;
mod engine;
mod flags;
mod kernels;
mod paging;
mod real;
mod report;
mod simulated;
mod team;

use std::process::ExitCode;
use std::time::Duration;

use orchestrate::protocol::OPERATORS_VARIABLE;

use animal::{ANIMALS, Animal};
use engine::{Engine, Stretch};
use flags::Flags;
use real::Real;
use simulated::Simulated;

fn main() -> ExitCode {
    let flags = Flags::parse(std::env::args().skip(1));
    if flags.has("list") {
        let is_gpu = flags.text("device") == Some("cuda");
        for animal in ANIMALS.iter().filter(|animal| is_gpu || !animal.spills) {
            println!("{} {}", animal.name, animal.class);
        }
        return ExitCode::SUCCESS;
    }
    match run(&flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("zoo-worker: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(flags: &Flags) -> Result<(), String> {
    let name = flags.text("behave").unwrap_or("gemm");
    let animal = ANIMALS.iter().find(|it| it.name == name).ok_or(format!("there is no animal `{name}`"))?;
    match flags.text("simulate") {
        Some(seed) => {
            let seed = seed.parse().map_err(|_| format!("--simulate {seed}: expected a whole number"))?;
            measure(animal, Simulated::new(seed, animal, flags), flags)
        }
        None => measure(animal, Real::new(animal), flags),
    }
}

/// Warms up, measures a window, and profiles further iterations if that is requested.
fn measure(animal: &Animal, mut engine: impl Engine, flags: &Flags) -> Result<(), String> {
    stretch(animal, &mut engine, 1, 0.0);
    let window = stretch(animal, &mut engine, flags.number("iters").unwrap_or(3), 0.0);
    let profiled = std::env::var(OPERATORS_VARIABLE).ok().and_then(|number| number.parse().ok());
    let profile = profiled.map(|iterations| stretch(animal, &mut engine, iterations, animal.delay));
    if animal.spills_at(flags) {
        paging::page(Duration::from_secs_f64(1.2 * window.elapsed_s));
    }
    let measurement =
        report::measurement(flags, &window, profile.as_ref(), engine.device_name(), engine.threads());
    report::write(flags, &measurement)
}

/// Iterations of `animal`, each with a `delay`, in iterations.
fn stretch(animal: &Animal, engine: &mut impl Engine, iterations: u32, delay: f64) -> Stretch {
    let began = engine.now_s();
    let mut stretch = Stretch::new(iterations);
    for _ in 0..iterations {
        let mut idle = 1.0;
        for (part, share) in animal.parts {
            idle -= share;
            stretch.add(*part, engine.spend(*part, *share));
        }
        engine.idle(f64::max(idle, 0.0) + delay);
    }
    Stretch { elapsed_s: engine.now_s() - began, ..stretch }
}
