//! What is promised of a simulated share, for the simulations of this room.

use std::fmt;

/// A promise.
#[derive(Clone, Copy)]
pub(super) enum Promise {
    AtMost(f64),
    AtLeast(f64),
    /// Nothing; the share is told all the same.
    None,
}

/// A simulated share.
pub(super) struct Share {
    /// What was simulated.
    pub(super) name: String,
    pub(super) share: f64,
    pub(super) promise: Promise,
}

impl Promise {
    /// Whether `share` keeps it, but for `slack` standard errors of so many simulations.
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

/// Prints `shares` below `header` as a table of the manual, and fails if a promise is not kept. Tests that spend their
/// error to the full lie above it in every second simulation, so there are two standard errors of slack.
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
