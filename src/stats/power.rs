//! Power: the number of repeats that would decide a test.

use super::student;

/// The greatest result.
pub const MOST_REPEATS: usize = 10_000;

/// The design of a test before its repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Design {
    /// The variance of the estimate times the repeats: of one difference if paired, of one run of each side together if
    /// not.
    pub variance: f64,
    /// The degrees of freedom that one repeat adds to the variance: 1 if paired, 2 if not.
    pub freedom_each: f64,
    /// The additional degrees of freedom from other rows, by shrinking.
    pub lent: f64,
    /// The probability of a false decision.
    pub error: f64,
    /// The wanted probability of a decision.
    pub power: f64,
}

impl Design {
    /// The least number of repeats that find a true `difference` from 0 by a two-sided test; `None` beyond
    /// [`MOST_REPEATS`]. The power is that of a shifted Student's t, which is slightly below the exact one.
    pub fn repeats_to_find(&self, difference: f64) -> Option<usize> {
        self.least(difference.abs(), self.error / 2.0, 1.0 - self.power)
    }

    /// The least number of repeats that show a true `difference` to be within `margin` by two one-sided tests; `None`
    /// beyond [`MOST_REPEATS`], and if it is not within. A miss on either side is accounted for.
    pub fn repeats_to_equate(&self, difference: f64, margin: f64) -> Option<usize> {
        self.least(margin - difference.abs(), self.error, (1.0 - self.power) / 2.0)
    }

    /// The least difference from 0 that this number of `repeats` finds by a two-sided test: the one for which
    /// [`Design::repeats_to_find`] is `repeats`.
    pub fn resolves(&self, repeats: usize) -> f64 {
        self.reach(repeats, self.error / 2.0, 1.0 - self.power) * (self.variance / repeats as f64).sqrt()
    }

    /// The least distance, in standard errors of n repeats.
    fn reach(&self, n: usize, error: f64, miss: f64) -> f64 {
        let freedom = self.freedom_each * (n - 1) as f64 + self.lent;
        student::upper_quantile(error, freedom) + student::upper_quantile(miss, freedom)
    }

    /// The least n for which `distance` is at least [`Design::reach`] standard errors.
    fn least(&self, distance: f64, error: f64, miss: f64) -> Option<usize> {
        let decides = |n: usize| self.reach(n, error, miss) * (self.variance / n as f64).sqrt() <= distance;
        if distance <= 0.0 || !decides(MOST_REPEATS) {
            return None;
        }
        let (mut below, mut enough) = (1, MOST_REPEATS);
        while enough - below > 1 {
            let middle = usize::midpoint(below, enough);
            if decides(middle) { enough = middle } else { below = middle }
        }
        Some(enough.max(super::MEAN_INTERVAL_NEEDS))
    }
}
