//! The loader's random numbers: small, seedable, the same on every machine.

/// SplitMix64 (Steele, Lea, Flood 2014): one 64-bit state, every seed is good.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// The stream of `parts`: equal parts give equal streams, any difference an unrelated one.
    pub(super) fn of(parts: &[u64]) -> Self {
        let mut random = Random(0x6f72_6368_6573_7472);
        for part in parts {
            random.0 = random.next() ^ part;
        }
        random.next();
        random
    }

    /// The next 64 bits.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 up to, but without, `end`, which is not 0. By multiplication (Lemire 2019); the bias of at most
    /// `end` ÷ 2⁶⁴ is of no matter here.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// A number in `low .. high`.
    pub(super) fn uniform(&mut self, low: f64, high: f64) -> f64 {
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        low + (high - low) * unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_in_every_part_and_repeat() {
        let first = |parts: &[u64]| Random::of(parts).next();
        assert_eq!(first(&[1, 2]), first(&[1, 2]));
        let all =
            [first(&[1, 2]), first(&[2, 1]), first(&[1, 3]), first(&[1, 2, 0]), first(&[0, 0]), first(&[])];
        let distinct: std::collections::BTreeSet<u64> = all.into_iter().collect();
        assert_eq!(distinct.len(), all.len());
    }

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
