//! Judges the course of a training by what rounding can do to it.

use super::comparison::Comparison;

/// Differences beyond this many standard deviations are not due to rounding.
const DEVIATIONS: f64 = 6.0;

/// A bound above this share of what training has changed the loss by could hide a wrong computation, so it checks
/// nothing. For the first loss, it is a share of the loss itself, and for a distance, of the distance.
const LOOSE: f64 = 0.25;

/// The least number of losses to compare. The first one tests the forward pass, the second one the first step, and the
/// third one the optimizer's state.
const LEAST_LOSSES: usize = 3;

/// The least number of distances to compare. The distance of SGD's first step tests the length of the gradient. The
/// loss alone might not: a step that is a little too long can result in the same loss.
const LEAST_DISTANCES: usize = 1;

/// The least deviation of a distance, relative to it. AdamW's first step divides by 1 − β₂, which is 0.001. Computed in
/// single precision, it is off by the unit roundoff of 1.
const LEAST_DEVIATION: f64 = f32::EPSILON as f64 / 2.0 / (1.0 - 0.999);

/// The losses and distances of the first iterations of a training.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Course {
    /// The loss of each iteration.
    pub(super) losses: Vec<f64>,
    /// After each step, how far all weights together are from where they began: the root of the sum of all squares.
    pub(super) distances: Vec<f64>,
}

/// The expected course of a training.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expected {
    /// Without rounding.
    pub(super) exact: Course,
    /// The same training with random errors in all factors, a few times.
    pub(super) disturbed: Vec<Course>,
}

impl Expected {
    /// Compares what was `found`, as long as the bounds are tight. `None` if they are too loose from the beginning.
    pub(super) fn compare(&self, found: &Course) -> Option<Vec<Comparison>> {
        let Course { losses, distances } = &self.exact;
        let changes: Vec<f64> = losses
            .iter()
            .enumerate()
            .map(|(index, loss)| if index == 0 { *loss } else { loss - losses[0] })
            .collect();
        let of_losses = Series {
            what: "loss of iteration",
            exact: losses,
            disturbed: self.disturbed.iter().map(|course| &course.losses[..]).collect(),
            scales: &changes,
            least_deviation: 0.0,
        };
        let of_distances = Series {
            what: "distance of all weights from their start after step",
            exact: distances,
            disturbed: self.disturbed.iter().map(|course| &course.distances[..]).collect(),
            scales: distances,
            least_deviation: LEAST_DEVIATION,
        };
        let mut compared = of_losses.compare(&found.losses, LEAST_LOSSES)?;
        compared.extend(of_distances.compare(&found.distances, LEAST_DISTANCES)?);
        Some(compared)
    }
}

/// Numbers of consecutive iterations.
struct Series<'a> {
    what: &'static str,
    exact: &'a [f64],
    disturbed: Vec<&'a [f64]>,
    /// The numbers that bounds are compared with to decide whether they are tight.
    scales: &'a [f64],
    /// The least credible deviation, relative to a number.
    least_deviation: f64,
}

impl Series<'_> {
    /// How far rounding alone can take each number from the exact one: six standard deviations. Relative errors only
    /// grow while a network trains, so one that is smaller by chance than the previous one is ignored.
    fn bounds(&self) -> Vec<f64> {
        let draws = self.disturbed.len() as f64;
        let mut largest = self.least_deviation;
        let bound = |(index, exact): (usize, &f64)| {
            let squares = self.disturbed.iter().map(|numbers| (numbers[index] / exact - 1.0).powi(2));
            largest = largest.max((squares.sum::<f64>() / draws).sqrt());
            DEVIATIONS * largest * exact
        };
        self.exact.iter().enumerate().map(bound).collect()
    }

    /// Compares the numbers `found`, as long as the bounds are tight. `None` if fewer than `least` of them are.
    fn compare(&self, found: &[f64], least: usize) -> Option<Vec<Comparison>> {
        let bounds = self.bounds();
        let is_tight = |index: &usize| bounds[*index] <= LOOSE * self.scales[*index].abs();
        let count = (0..bounds.len()).take_while(is_tight).count();
        // A missing number becomes NaN, which fails every comparison.
        let found = found.iter().copied().chain(std::iter::repeat(f64::NAN));
        let compare = |(index, found)| {
            Comparison::near(&format!("{} {}", self.what, index + 1), found, self.exact[index], bounds[index])
        };
        (count >= least).then(|| found.take(count).enumerate().map(compare).collect())
    }
}

/// One iteration of a training with a loss scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scaled {
    /// The loss scale before it; `None` without one.
    pub(super) before: Option<f64>,
    /// The loss scale after it.
    pub(super) after: Option<f64>,
}

impl Scaled {
    /// Whether the optimizer left the step out, because a gradient was not finite. It halves the scale then.
    pub(super) fn is_skipped(self) -> bool {
        self.before.zip(self.after).is_some_and(|(before, after)| after < before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(losses: &[f64], distances: &[f64]) -> Course {
        Course { losses: losses.to_vec(), distances: distances.to_vec() }
    }

    fn expected() -> Expected {
        // Relative deviations of 0.0005, 0.003, 0.002 and 4; of distances, of 0.01 and 1.
        let (losses, off) = ([2.0, 1.0, 0.5, 0.25], [0.001, 0.003, 0.001, 1.0]);
        let (distances, off_distance) = ([0.5, 1.0], [0.005, 1.0]);
        let sums = |exact: &[f64], off: &[f64], sign: f64| -> Vec<f64> {
            exact.iter().zip(off).map(|(exact, off)| exact + sign * off).collect()
        };
        let disturbed = [1.0, -1.0]
            .map(|sign| course(&sums(&losses, &off, sign), &sums(&distances, &off_distance, sign)));
        Expected { exact: course(&losses, &distances), disturbed: disturbed.to_vec() }
    }

    fn all_pass(losses: &[f64], distances: &[f64]) -> bool {
        expected().compare(&course(losses, distances)).unwrap().iter().all(|comparison| comparison.holds)
    }

    #[test]
    fn a_bound_is_six_deviations_and_shrinks_with_its_number_only() {
        let Expected { exact, disturbed } = expected();
        let disturbed = disturbed.iter().map(|course| &course.losses[..]).collect();
        let series = Series {
            what: "loss",
            exact: &exact.losses,
            disturbed,
            scales: &exact.losses,
            least_deviation: 0.0,
        };
        for (found, bound) in series.bounds().into_iter().zip([0.006, 0.018, 0.009, 6.0]) {
            assert!((found - bound).abs() < 1e-12, "{found} {bound}");
        }
        let least = Series { disturbed: vec![&exact.losses], least_deviation: 0.001, ..series };
        assert!(
            least
                .bounds()
                .iter()
                .zip(&exact.losses)
                .all(|(bound, loss)| (bound - 0.006 * loss).abs() < 1e-12)
        );
        let compared = expected().compare(&exact).unwrap();
        assert_eq!(compared.len(), 3 + 1, "the last bound of each is too loose to show anything");
    }

    #[test]
    fn numbers_pass_up_to_and_including_their_bounds() {
        assert!(
            all_pass(&[2.0, 1.0, 0.5], &[0.5]) && all_pass(&[2.0059, 0.983, 0.5089, 99.0], &[0.5299, 99.0])
        );
        for wrong in [[2.0061, 1.0, 0.5], [2.0, 0.9819, 0.5], [2.0, 1.0, 0.5091], [2.0, f64::NAN, 0.5]] {
            assert!(!all_pass(&wrong, &[0.5]), "{wrong:?}");
        }
        assert!(!all_pass(&[2.0, 1.0, 0.5], &[0.5301]) && !all_pass(&[2.0, 1.0, 0.5], &[f64::INFINITY]));
        assert!(!all_pass(&[2.0, 1.0], &[0.5]) && !all_pass(&[2.0, 1.0, 0.5], &[]), "a number is missing");
    }

    #[test]
    fn loose_bounds_are_not_compared() {
        let exact = expected().exact;
        let mut loose = expected();
        loose.disturbed[0].losses[2] = 0.6;
        assert_eq!(loose.compare(&exact), None);
        let mut loose = expected();
        loose.disturbed[0].distances[0] = 0.6;
        assert_eq!(loose.compare(&exact), None);
    }

    #[test]
    fn a_step_is_skipped_if_the_scale_falls() {
        let skipped = |before, after| Scaled { before, after }.is_skipped();
        assert!(skipped(Some(65536.0), Some(32768.0)));
        assert!(!skipped(Some(65536.0), Some(65536.0)));
        assert!(!skipped(Some(65536.0), Some(131_072.0)));
        assert!(!skipped(None, None));
    }
}
