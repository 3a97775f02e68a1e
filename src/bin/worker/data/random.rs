//! The loader's random numbers: small, seedable, the same on every machine.

use orchestrate::random::SplitMix64;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(super) struct Random(SplitMix64);

impl Random {
    /// The stream of `parts`: equal parts give the same stream, different parts give unrelated ones.
    pub(super) fn of(parts: &[u64]) -> Self {
        let mut random = SplitMix64::of(0x6f72_6368_6573_7472, parts);
        random.draw();
        Random(random)
    }

    /// A number below `end`, which is not 0. By multiplication (Lemire 2019); its bias of at most `end` ÷ 2⁶⁴ does not
    /// matter here.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.0.draw()) * u128::from(end)) >> 64) as u64
    }

    /// A number in `low .. high`.
    pub(super) fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.unit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_range_and_fill_it() {
        let mut random = Random::of(&[7]);
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            seen[random.below(10) as usize] += 1;
            let value = random.uniform(-1.0, 2.0);
            assert!((-1.0..2.0).contains(&value));
        }
        // Each count is binomial with mean 1000 and standard deviation 30; the seed is fixed.
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
    }
}
