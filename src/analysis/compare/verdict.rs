//! The verdict on a config, and the number of repeats that would decide it.

use super::{Comparison, Pairing, Verdict, WouldDecide, distance};
use crate::stats::Design;

impl Verdict {
    /// Every verdict.
    pub const ALL: [Verdict; 4] = [Verdict::Faster, Verdict::Slower, Verdict::Same, Verdict::CannotTell];

    /// The verdict in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Same => "same",
            Verdict::CannotTell => "cannot tell",
        }
    }
}

/// The p-values and the direction that a verdict is computed from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tested {
    pub(super) log_ratio: f64,
    pub(super) p_equal: f64,
    pub(super) p_beyond: f64,
}

/// The verdict at a probability of `error`.
pub(super) fn verdict(tested: Tested, error: f64) -> Verdict {
    if tested.p_beyond <= error {
        Verdict::Same
    } else if tested.p_equal > error {
        Verdict::CannotTell
    } else if tested.log_ratio > 0.0 {
        Verdict::Faster
    } else {
        Verdict::Slower
    }
}

impl Comparison {
    /// How many repeats of each side would decide config `index`, if its true ratio and scatter are the observed ones.
    /// `None` if it is decided or has no ratio, or if no number would. The observed ratio is uncertain, so this is a
    /// guide.
    pub fn would_decide(&self, index: usize) -> Option<WouldDecide> {
        let config = self.configs.get(index)?.as_ref().ok()?;
        if config.verdict != Verdict::CannotTell {
            return None;
        }
        let compared = self.configs.iter().filter(|config| config.is_ok()).count();
        let (freedom_each, repeats) = match config.pairing {
            Pairing::ByBlock(pairs) => (1.0, pairs),
            Pairing::Unpaired { from, to } => (2.0, from.min(to)),
        };
        let lent = (config.log_ratio.freedom - freedom_each * (repeats - 1) as f64).max(0.0);
        // Holm's first step is the strictest, so this is enough for any verdicts of the other configs.
        let error = self.settings.error / compared as f64;
        let design =
            Design { variance: config.variance, freedom_each, lent, error, power: self.settings.power };
        let seen = config.log_ratio.value;
        let differs = if seen > 0.0 { Verdict::Faster } else { Verdict::Slower };
        let found = design.repeats_to_find(seen).map(|repeats| (repeats, differs));
        let equated = design
            .repeats_to_equate(seen, distance(self.settings.margin))
            .map(|repeats| (repeats, Verdict::Same));
        let (least, verdict) = found.into_iter().chain(equated).min_by_key(|(repeats, _)| *repeats)?;
        Some(WouldDecide { repeats: least.max(repeats + 1), verdict })
    }
}
