//! Judges losses by what rounding can do to them.

use super::comparison::Comparison;

/// Differences beyond this many standard deviations are not due to rounding.
pub(super) const DEVIATIONS: f64 = 6.0;

/// A bound above this share of what training has changed the loss by could hide a wrong computation, so it checks
/// nothing. For the first loss, it is a share of the loss itself.
pub(super) const LOOSE: f64 = 0.25;

/// The least number of losses to be compared. The first one shows the forward pass, the second one the gradients and
/// the optimizer's first step, the third one what the optimizer remembers.
pub(super) const LEAST: usize = 3;

/// What the losses of the first iterations should be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expected {
    /// The losses without rounding.
    pub(super) exact: Vec<f64>,
    /// The same training with random errors in all factors, a few times.
    pub(super) disturbed: Vec<Vec<f64>>,
}

impl Expected {
    /// How far rounding alone can take each loss from the exact one: six standard deviations. Relative errors only grow
    /// while a network trains, so one that is smaller by chance than the one before is not believed.
    fn bounds(&self) -> Vec<f64> {
        let draws = self.disturbed.len() as f64;
        let mut largest: f64 = 0.0;
        let bound = |(index, exact): (usize, &f64)| {
            let squares = self.disturbed.iter().map(|losses| (losses[index] / exact - 1.0).powi(2));
            largest = largest.max((squares.sum::<f64>() / draws).sqrt());
            DEVIATIONS * largest * exact
        };
        self.exact.iter().enumerate().map(bound).collect()
    }

    /// Compares the losses `found`, as long as the bounds are tight. `None` if they are too loose from the beginning.
    pub(super) fn compare(&self, found: &[f64]) -> Option<Vec<Comparison>> {
        let bounds = self.bounds();
        let is_tight = |index: &usize| {
            let change = if *index == 0 { self.exact[0] } else { self.exact[*index] - self.exact[0] };
            bounds[*index] <= LOOSE * change.abs()
        };
        let count = (0..bounds.len()).take_while(is_tight).count();
        if count < LEAST {
            return None;
        }
        let mut compared =
            vec![Comparison::at_least("iterations with a loss", found.len() as f64, count as f64)];
        for (index, found) in found.iter().enumerate().take(count) {
            let what = format!("loss of iteration {}", index + 1);
            compared.push(Comparison::near(&what, *found, self.exact[index], bounds[index]));
        }
        Some(compared)
    }
}

/// One iteration of a training with a loss scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scaled {
    /// Its loss.
    pub(super) loss: f64,
    /// The loss scale before it; `None` without one.
    pub(super) before: Option<f64>,
    /// The loss scale after it.
    pub(super) after: Option<f64>,
}

impl Scaled {
    /// Whether the optimizer left the step out, because a gradient was not finite. It halves the scale then.
    pub(super) fn is_skipped(&self) -> bool {
        self.before.zip(self.after).is_some_and(|(before, after)| after < before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected() -> Expected {
        let exact = vec![2.0, 1.0, 0.5, 0.25];
        // Relative deviations of 0.0005, 0.003, 0.002 and 4.
        let off = [0.001, 0.003, 0.001, 1.0];
        let disturbed =
            [1.0, -1.0].map(|sign| exact.iter().zip(off).map(|(loss, off)| loss + sign * off).collect());
        Expected { exact, disturbed: disturbed.to_vec() }
    }

    fn all_hold(found: &[f64]) -> bool {
        expected().compare(found).unwrap().iter().all(|comparison| comparison.holds)
    }

    #[test]
    fn a_bound_is_six_deviations_and_never_shrinks() {
        for (found, bound) in expected().bounds().into_iter().zip([0.006, 0.018, 0.009, 6.0]) {
            assert!((found - bound).abs() < 1e-12, "{found} {bound}");
        }
        let compared = expected().compare(&[2.0, 1.0, 0.5, 0.25]).unwrap();
        assert_eq!(compared.len(), 1 + 3, "the last bound is too loose to show anything");
    }

    #[test]
    fn losses_hold_within_their_bounds_and_no_further() {
        assert!(all_hold(&[2.0, 1.0, 0.5]) && all_hold(&[2.0059, 0.983, 0.5089, 99.0]));
        for wrong in [[2.0061, 1.0, 0.5], [2.0, 0.9819, 0.5], [2.0, 1.0, 0.5091], [2.0, f64::NAN, 0.5]] {
            assert!(!all_hold(&wrong), "{wrong:?}");
        }
        assert!(!all_hold(&[2.0, 1.0]), "a loss is missing");
    }

    #[test]
    fn loose_bounds_show_nothing() {
        let mut loose = expected();
        loose.disturbed[0][2] = 0.6;
        assert_eq!(loose.compare(&[2.0, 1.0, 0.5, 0.25]), None);
    }

    #[test]
    fn a_step_is_skipped_if_the_scale_falls() {
        let skipped = |before, after| Scaled { loss: 1.0, before, after }.is_skipped();
        assert!(skipped(Some(65536.0), Some(32768.0)));
        assert!(!skipped(Some(65536.0), Some(65536.0)));
        assert!(!skipped(Some(65536.0), Some(131_072.0)));
        assert!(!skipped(None, None));
    }
}
