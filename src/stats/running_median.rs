//! The median of a growing set of numbers.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// The median of the numbers so far. Adding one takes O(log n), the median O(1).
#[derive(Clone, Debug, Default)]
pub struct RunningMedian {
    /// The lower half, the middle number included.
    low: BinaryHeap<Ordered>,
    /// The upper half.
    high: BinaryHeap<Reverse<Ordered>>,
}

impl RunningMedian {
    /// Adds a finite number.
    pub fn add(&mut self, value: f64) {
        debug_assert!(value.is_finite(), "statistics are over finite numbers");
        // Through the lower half, so that its greatest number is never above the upper half.
        self.low.push(Ordered(value));
        self.high.extend(self.low.pop().map(Reverse));
        if self.high.len() > self.low.len() {
            self.low.extend(self.high.pop().map(|Reverse(value)| value));
        }
    }

    /// [`super::median`] of all numbers added; `None` if there are none.
    pub fn get(&self) -> Option<f64> {
        let Ordered(low) = *self.low.peek()?;
        Some(match self.high.peek() {
            Some(Reverse(Ordered(high))) if self.low.len() == self.high.len() => f64::midpoint(low, *high),
            _ => low,
        })
    }
}

/// A number in [`f64::total_cmp`]'s order.
#[derive(Clone, Copy, Debug)]
struct Ordered(f64);

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ordered {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::median;

    proptest! {
        #[test]
        fn equals_the_median_of_the_numbers_so_far(
            values in prop::collection::vec(prop_oneof![-3.0..3.0_f64, Just(0.0), Just(-0.0), Just(1.0)], 0..60),
        ) {
            let mut running = RunningMedian::default();
            prop_assert_eq!(running.get(), None);
            for n in 0..values.len() {
                running.add(values[n]);
                let expected = median(&values[..=n]).unwrap();
                prop_assert_eq!(running.get().map(f64::to_bits), Some(expected.to_bits()));
            }
        }
    }
}
