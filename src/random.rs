//! Reproducible pseudorandom numbers, [`SplitMix64`], equal on all platforms and in all versions: for orders, data and
//! pictures that a seed determines. Any room may call it; it uses no other room. It never takes a seed from the clock
//! or the system.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014): one 64-bit state, and every
/// seed is good. Saved plans, data sets and the order of images depend on its numbers.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        SplitMix64(seed)
    }

    /// The sequence determined by `seed` and `parts`. Any difference in them results in an unrelated sequence.
    pub fn of(seed: u64, parts: &[u64]) -> Self {
        let mut random = SplitMix64(seed);
        for part in parts {
            random.0 = random.draw() ^ part;
        }
        random
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next number in `0.0..1.0`, with the 53 bits of a double.
    pub fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A standard normal number, by Box and Muller (1958), for simulations.
    #[cfg(test)]
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published test vector.
    #[test]
    fn the_generator_is_splitmix64() {
        let mut generator = SplitMix64::new(1_234_567);
        let drawn: Vec<u64> = (0..5).map(|_| generator.draw()).collect();
        assert_eq!(
            drawn,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821
            ]
        );
    }

    #[test]
    fn sequences_differ_in_every_part_and_repeat() {
        let first = |parts: &[u64]| SplitMix64::of(7, parts).draw();
        assert_eq!(first(&[1, 2]), first(&[1, 2]));
        let all = [&[1, 2][..], &[2, 1], &[1, 3], &[1, 2, 0], &[0, 0], &[]].map(first);
        let distinct = std::collections::BTreeSet::from(all);
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn units_stay_below_one_and_fill_the_range() {
        let mut random = SplitMix64::new(7);
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            seen[(random.unit() * 10.0) as usize] += 1;
        }
        // Each count is binomial with mean 1000 and standard deviation 30; the seed is fixed.
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
    }
}
