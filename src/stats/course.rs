//! A stopping rule: when the interval of a mean is narrow enough.

use super::MEAN_INTERVAL_NEEDS;
use super::student;

/// The number of further numbers after the interval was narrow for the first time.
const CONFIRMING: usize = 5;

/// The course of a growing set of numbers towards a narrow interval of their mean.
///
/// Stopping at the first narrow interval prefers numbers with a small scatter by chance: an interval of 95 % then
/// covers as little as 90 %. So the rule is that of Chow and Robbins (1965), followed by a few more numbers.
/// Simons (1968) shows that finitely many are enough: "On the cost of not knowing the variance when making a
/// fixed-width confidence interval for the mean", Annals of Mathematical Statistics 39. The number for Student's
/// interval is from a simulation: with [`CONFIRMING`] it covers 94 to 95 %. `docs/statistics.md` has the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Course {
    /// The half-width that is narrow enough.
    aim: f64,
    confidence: f64,
    n: usize,
    mean: f64,
    /// The sum of squared differences from the mean.
    squares: f64,
    /// The n at which the interval was narrow for the first time.
    narrow_at: Option<usize>,
}

impl Course {
    /// The least n that can be enough.
    pub const LEAST: usize = MEAN_INTERVAL_NEEDS + CONFIRMING;

    /// No numbers yet, on the way to an interval of half-width `aim`, which is greater than 0.
    pub fn towards(aim: f64, confidence: f64) -> Self {
        debug_assert!(aim > 0.0, "the half-width must be positive");
        Course { aim, confidence, n: 0, mean: 0.0, squares: 0.0, narrow_at: None }
    }

    /// Adds the next number. The variance is updated by Welford's method (1962).
    pub fn add(&mut self, value: f64) {
        self.n += 1;
        let before = value - self.mean;
        self.mean += before / self.n as f64;
        self.squares += before * (value - self.mean);
        if self.narrow_at.is_none() && self.is_narrow() {
            self.narrow_at = Some(self.n);
        }
    }

    /// The number of numbers.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Half the width of Student's interval of the mean; `None` if n is too small for one.
    pub fn half_width(&self) -> Option<f64> {
        (self.n >= MEAN_INTERVAL_NEEDS).then(|| self.half_width_at(self.n))
    }

    /// Whether the numbers suffice: the interval is narrow, and has been for [`CONFIRMING`] numbers.
    pub fn is_enough(&self) -> bool {
        self.narrow_at.is_some_and(|first| self.n >= first + CONFIRMING) && self.is_narrow()
    }

    /// How many numbers will suffice if the scatter stays the same. At most `most` unless there are more already.
    pub fn expected(&self, most: usize) -> usize {
        let least = match self.narrow_at {
            _ if self.is_enough() => self.n,
            Some(first) => (first + CONFIRMING).max(self.n + 1),
            None if self.n < MEAN_INTERVAL_NEEDS => Course::LEAST,
            None => {
                let narrow = (self.n + 1..most).find(|n| self.half_width_at(*n) <= self.aim);
                narrow.map_or(most, |n| n + CONFIRMING)
            }
        };
        least.min(most).max(self.n)
    }

    fn is_narrow(&self) -> bool {
        // Student's factor takes long to compute, and is greater than 1 at any useful level of confidence.
        let can_be = self.n >= MEAN_INTERVAL_NEEDS && self.standard_error_at(self.n) <= self.aim;
        can_be && self.half_width_at(self.n) <= self.aim
    }

    /// Half the width with `n` numbers of the same scatter.
    fn half_width_at(&self, n: usize) -> f64 {
        let factor = student::upper_quantile((1.0 - self.confidence) / 2.0, (n - 1) as f64);
        factor * self.standard_error_at(n)
    }

    fn standard_error_at(&self, n: usize) -> f64 {
        let variance = self.squares / (self.n - 1) as f64;
        (variance / n as f64).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::{CONFIDENCE, mean_interval};

    fn course(values: &[f64], aim: f64) -> Course {
        let mut course = Course::towards(aim, CONFIDENCE);
        values.iter().for_each(|value| course.add(*value));
        course
    }

    /// The definition, by the intervals of every prefix of `values`.
    fn is_enough(values: &[f64], aim: f64) -> bool {
        let narrow = |n: usize| {
            mean_interval(&values[..n], CONFIDENCE)
                .is_ok_and(|interval| interval.high - interval.low <= 2.0 * aim)
        };
        let first = (1..=values.len()).find(|n| narrow(*n));
        narrow(values.len()) && first.is_some_and(|first| values.len() - first >= 5)
    }

    #[test]
    fn the_first_narrow_interval_does_not_suffice() {
        let values: Vec<f64> = (0..9).map(|index| f64::from(index % 2) * 0.001).collect();
        let enough: Vec<usize> = (0..=9).filter(|n| course(&values[..*n], 0.01).is_enough()).collect();
        assert_eq!(enough, [8, 9]);
    }

    #[test]
    fn the_expected_number_follows_from_the_scatter() {
        assert_eq!(course(&[], 0.02).expected(20), 8);
        assert_eq!(course(&[], 0.02).expected(5), 5);
        assert_eq!(course(&[0.0, 0.001, 0.0], 0.02).expected(20), 8, "narrow from the start");
        // sd 0.02: Student's factor times 0.02 ÷ √n is 0.02 between n = 6 and 7.
        assert_eq!(course(&[-0.02, 0.0, 0.02], 0.02).expected(20), 7 + 5);
        assert_eq!(course(&[-0.2, 0.0, 0.2], 0.02).expected(20), 20);
        assert_eq!(course(&[-0.2, 0.0, 0.2, 0.1], 0.02).expected(3), 4, "more than the most");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn agrees_with_the_intervals_of_all_prefixes(
            values in prop::collection::vec(-0.05..0.05, 0..14),
            aim in 0.005..0.1,
        ) {
            let course = course(&values, aim);
            prop_assert_eq!(course.is_enough(), is_enough(&values, aim));
            prop_assert!(course.expected(14) >= values.len());
            prop_assert!(course.is_enough() == (course.expected(1000) == values.len() && !values.is_empty()));
        }
    }
}
