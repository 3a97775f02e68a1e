//! Promised bounds of simulated shares, for the simulations of this room.

use std::fmt;

/// A promise.
#[derive(Clone, Copy)]
pub(super) enum Promise {
    AtMost(f64),
    AtLeast(f64),
    /// No bound; the share is only printed.
    None,
}

/// A simulated share.
pub(super) struct Share {
    /// The simulated event.
    pub(super) name: String,
    pub(super) share: f64,
    pub(super) promise: Promise,
}

impl Promise {
    /// Whether `share` keeps it, with a tolerance of `slack` standard errors of this number of simulations.
    pub(super) fn is_kept(self, share: f64, simulations: usize, slack: f64) -> bool {
        let error = |promised: f64| slack * (promised * (1.0 - promised) / simulations as f64).sqrt();
        match self {
            Promise::AtMost(promised) => share <= promised + error(promised),
            Promise::AtLeast(promised) => share >= promised - error(promised),
            Promise::None => true,
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Promise::AtMost(promised) => write!(f, "≤ {:.1} %", 100.0 * promised),
            Promise::AtLeast(promised) => write!(f, "≥ {:.1} %", 100.0 * promised),
            Promise::None => f.write_str("–"),
        }
    }
}

/// Prints `shares` below `header` as a table of the manual, and fails if a promise is not kept. The tolerance is two
/// standard errors, because a test that exhausts its error exceeds it in every second simulation.
pub(super) fn print(header: &str, shares: impl Iterator<Item = Share>, simulations: usize) {
    println!("| {header} | promised |\n|---|---|---|");
    let mut broken = Vec::new();
    for Share { name, share, promise } in shares {
        println!("| {name} | {:.1} % | {promise} |", 100.0 * share);
        if !promise.is_kept(share, simulations, 2.0) {
            broken.push(name);
        }
    }
    assert!(broken.is_empty(), "not kept: {broken:#?}");
}
