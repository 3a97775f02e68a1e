//! Marks from the seconds of single iterations: trends, periods, slow first iterations. They need a synchronised clock.

use super::kinds::bimodal;
use super::shift::level_shift;
use super::stalls::stalls;
use super::{Mark, Threshold, Thresholds};
use crate::job::{Key, ParamValue};
use crate::protocol::Iterations;
use crate::stats;

/// The confidence that a trend needs. A report looks at dozens of windows; at 95 %, one in twenty would pass by chance.
const TREND_CONFIDENCE: f64 = 0.99;

/// The most numbers that a slope is computed over, since its cost grows with their square. A longer window is cut into
/// as many equal parts, and the slope is that of their medians.
const TREND_PARTS: usize = 200;

/// The longest period that is looked for.
const LONGEST_PERIOD: usize = 20;

/// The most iterations in which a period is looked for: a real one is visible from the beginning.
const PERIOD_WITHIN: usize = 2000;

/// The least number of recurrences of a period.
const RECURRENCES: usize = 3;

/// The share of the iterations on either side that must be slow or fast as the period predicts. The rest are outliers.
const PERIOD_PURITY: f64 = 0.9;

/// The tolerated probability that a series without a period shows one by chance, over all periods looked for.
const PERIOD_CHANCE: f64 = 1e-4;

/// The least number of iterations for a slow first one.
const SLOW_FIRST_NEEDS: usize = 5;

/// The share of the other iterations that may be outliers and are ignored when the first one is judged.
const OUTLIERS: f64 = 0.02;

/// The tolerated probability that the first of equal iterations stands out by chance.
const FIRST_CHANCE: f64 = 0.005;

/// The doubts about the window of a run of `key` that `iterations` raise.
pub(super) fn marks(key: &Key, iterations: &Iterations, thresholds: &Thresholds) -> Vec<Mark> {
    // Several passes per optimizer step are a declared period.
    let declared = match key.param("grad_accum_steps") {
        Some(ParamValue::Int(steps)) => usize::try_from(steps).ok().filter(|steps| *steps > 1),
        _ => None,
    };
    // Waiting for data is a separate finding.
    let Some(compute) = iterations.compute_s() else { return Vec::new() };
    let first = slow_first(&compute, thresholds);
    // A step is a trend too. The trend takes precedence, since it says more about later iterations.
    let course = trend(&compute, thresholds).or_else(|| level_shift(&compute, thresholds));
    // Periodic iterations are of two kinds too, and the period is more specific.
    let kinds = periodic(&compute, declared, thresholds).or_else(|| bimodal(&compute, declared, thresholds));
    // Only single long iterations remain; the first has a separate mark.
    let is_explained = kinds.is_some() || matches!(course, Some(Mark::LevelShift { .. }));
    let others = &compute[usize::from(first.is_some())..];
    let kinds = if is_explained { kinds } else { stalls(others, declared, thresholds) };
    [first, course, kinds].into_iter().flatten().collect()
}

/// The Theil–Sen slope over the whole window, if it is beyond the threshold and beyond the noise of a level series with
/// correlated neighbours.
fn trend(seconds: &[f64], thresholds: &Thresholds) -> Option<Mark> {
    let parts = stats::medians_of_parts(seconds, TREND_PARTS);
    let slope = stats::correlated_slope(&parts, TREND_CONFIDENCE).ok()?;
    let median = stats::median(seconds).ok().filter(|median| *median > 0.0)?;
    // There is one step fewer than there are parts.
    let whole = |per_step: f64| per_step * (parts.len() - 1) as f64 / median;
    let change = whole(slope.per_step);
    (slope.is_significant() && change.abs() > thresholds.of(Threshold::Trend)).then(|| Mark::Trend {
        change,
        interval: (whole(slope.interval.low), whole(slope.interval.high)),
        n: seconds.len(),
        threshold: thresholds.of(Threshold::Trend),
    })
}

/// A first iteration beyond the threshold that also stands out from the slowest of the others, except a few outliers.
/// Its distance from the median is more than [`standing_out`] times theirs.
fn slow_first(seconds: &[f64], thresholds: &Thresholds) -> Option<Mark> {
    let (first, others) = seconds.split_first()?;
    let median = stats::median(others).ok().filter(|median| *median > 0.0)?;
    let mut slowest = others.to_vec();
    slowest.sort_by(|left, right| right.total_cmp(left));
    let outliers = (OUTLIERS * others.len() as f64) as usize;
    let stands_out = first - median > standing_out(others.len(), outliers) * (slowest[outliers] - median);
    let ratio = first / median;
    (seconds.len() >= SLOW_FIRST_NEEDS && stands_out && ratio > thresholds.of(Threshold::SlowFirst))
        .then_some(Mark::SlowFirst { ratio, threshold: thresholds.of(Threshold::SlowFirst) })
}

/// The least whole number c that chance reaches at most once in 200. Reached means: the first of `others` + 1 equal
/// iterations is further out than c times the slowest of the others, after `outliers` of them are removed.
///
/// Delays by other work have an exponential tail at worst. For that, the chance is the product of i ÷ (i + c) over all
/// i from `outliers` + 1 to `others`. It is the Laplace transform, at c, of an order statistic (Rényi 1953).
fn standing_out(others: usize, outliers: usize) -> f64 {
    let chance = |c: f64| -> f64 { (outliers + 1..=others).map(|i| i as f64 / (i as f64 + c)).product() };
    let mut c = 1.0;
    // With four others, the fewest, it is 6.
    while chance(c) > FIRST_CHANCE && c < 100.0 {
        c += 1.0;
    }
    c
}

/// The shortest period k of 2 to 20 iterations in `seconds`, if there is one. Multiples of a `declared` period do not
/// count.
///
/// Iterations at one phase of k are compared with all others. They are a period if
///
/// 1. their medians differ by the threshold's factor,
/// 2. nine tenths of each side are on the expected side of the line halfway between the medians, and
/// 3. by Fisher's exact test, the probability that chance arranges the iterations around that line so is at most 1 in
///    10⁴, over all periods and phases looked at. That takes some two dozen iterations for k = 2 and a hundred for k =
///    20.
///
/// The second condition excludes multiples of k and neighbours of a slow stretch; the third excludes noise.
pub(super) fn periodic(seconds: &[f64], declared: Option<usize>, thresholds: &Thresholds) -> Option<Mark> {
    let seconds = &seconds[..seconds.len().min(PERIOD_WITHIN)];
    let n = seconds.len();
    let longest = LONGEST_PERIOD.min(n / RECURRENCES);
    let tests: usize = (2..=longest).sum();
    let is_declared = |every: usize| declared.is_some_and(|declared| every.is_multiple_of(declared));
    (2..=longest).filter(|every| !is_declared(*every)).find_map(|every| {
        let ratio = (0..every).find_map(|phase| {
            let split = Phase::of(seconds, every, phase)?;
            let is_far = split.ratio().max(1.0 / split.ratio()) > thresholds.of(Threshold::Periodic);
            (is_far && split.is_pure() && split.chance() * tests as f64 <= PERIOD_CHANCE)
                .then(|| split.ratio())
        })?;
        Some(Mark::Periodic { every, ratio, n, threshold: thresholds.of(Threshold::Periodic) })
    })
}

/// The iterations at one phase of a period, and all others.
struct Phase {
    /// The number of iterations at the phase, and of the others.
    numbers: [usize; 2],
    /// Their medians, in seconds.
    medians: [f64; 2],
    /// How many of each are above the line halfway between the medians.
    above: [usize; 2],
}

impl Phase {
    /// `None` if a median is 0, since a ratio to it is undefined.
    fn of(seconds: &[f64], every: usize, phase: usize) -> Option<Phase> {
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for (index, value) in seconds.iter().enumerate() {
            if index % every == phase { own.push(*value) } else { others.push(*value) }
        }
        let medians = [stats::median(&own).ok()?, stats::median(&others).ok()?];
        let line = f64::midpoint(medians[0], medians[1]);
        let above = [&own, &others].map(|side| side.iter().filter(|value| **value > line).count());
        let phase = Phase { numbers: [own.len(), others.len()], medians, above };
        medians.iter().all(|median| *median > 0.0).then_some(phase)
    }

    /// The median at the phase, as a multiple of that of the others.
    fn ratio(&self) -> f64 {
        self.medians[0] / self.medians[1]
    }

    /// How many of each are on the expected side of the line: the slower ones above it, the faster ones below.
    fn right(&self) -> [usize; 2] {
        let [own, others] = [0, 1].map(|side| (self.above[side], self.numbers[side] - self.above[side]));
        if self.ratio() > 1.0 { [own.0, others.1] } else { [own.1, others.0] }
    }

    fn is_pure(&self) -> bool {
        let right = self.right();
        [0, 1].iter().all(|&side| right[side] as f64 >= PERIOD_PURITY * self.numbers[side] as f64)
    }

    /// The probability that at least as many at the phase are on the expected side by chance.
    fn chance(&self) -> f64 {
        let [own, others] = self.right();
        let there = own + self.numbers[1] - others;
        stats::chance_of_at_least(own, self.numbers[0], there, self.numbers[0] + self.numbers[1])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;
    use crate::analysis::fixture;
    use crate::protocol::IterationClock;
    use crate::random::SplitMix64;

    fn thresholds() -> Thresholds {
        Thresholds::default()
    }

    /// A pseudorandom number in 0..1 for a seed and an index: SplitMix64.
    fn uniform(seed: u64, place: usize) -> f64 {
        SplitMix64::of(seed, &[place as u64]).unit()
    }

    /// A level series as a virtual machine shows it: most iterations within some percent, one in ten half as long
    /// again.
    fn noise(seed: u64, n: usize, width: f64) -> Vec<f64> {
        noise_with(seed, n, width, 0.1)
    }

    fn noise_with(seed: u64, n: usize, width: f64, spikes: f64) -> Vec<f64> {
        (0..n)
            .map(|place| {
                let spike = if uniform(seed ^ 0xFACE, place) < spikes { 0.5 } else { 0.0 };
                1.0 + width * (uniform(seed, place) + uniform(!seed, place) - 1.0) + spike
            })
            .collect()
    }

    #[test]
    fn a_trend_is_beyond_its_threshold_and_beyond_noise() {
        let rising =
            |change: f64| -> Vec<f64> { (0..50).map(|i| 1.0 + change * f64::from(i) / 49.0).collect() };
        assert_eq!(trend(&rising(0.09), &thresholds()), None);
        assert_eq!(trend(&rising(-0.09), &thresholds()), None);
        let Some(Mark::Trend { change, interval: (low, high), n: 50, .. }) =
            trend(&rising(0.3), &thresholds())
        else {
            panic!("no trend")
        };
        // As a share of the median, which is halfway.
        assert!((change - 0.3 / 1.15).abs() < 1e-9 && low <= change && change <= high);
        assert!(
            matches!(trend(&rising(-0.3), &thresholds()), Some(Mark::Trend { change, .. }) if change < -0.1)
        );
        assert_eq!(trend(&rising(0.3)[..9], &thresholds()), None, "too few");
        assert_eq!(trend(&[0.0; 50], &thresholds()), None, "a clock that is too coarse");
    }

    /// A level series with 10 % of scatter whose neighbours correlate by `correlation`.
    fn correlated(seed: u64, n: usize, correlation: f64) -> Vec<f64> {
        let normal = |place: usize| {
            let radius = (-2.0 * (1.0 - uniform(seed, place)).ln()).sqrt();
            radius * (std::f64::consts::TAU * uniform(!seed, place)).cos()
        };
        let mut last = normal(0);
        let follow = |place: usize| {
            last = correlation * last + (1.0 - correlation * correlation).sqrt() * normal(place);
            1.0 + 0.1 * last
        };
        (1..=n).map(follow).collect()
    }

    #[test]
    fn series_with_correlated_neighbours_rarely_have_a_trend() {
        let marked = |n: usize, correlation: f64, change: f64| {
            let series = |seed: u64| {
                let rise = |(value, place): (f64, usize)| value + change * place as f64 / (n - 1) as f64;
                correlated(seed, n, correlation).into_iter().zip(0..).map(rise).collect::<Vec<f64>>()
            };
            (0..400).filter(|seed| trend(&series(*seed), &thresholds()).is_some()).count()
        };
        // Of 400, 2 % are 8.
        for (n, correlation) in [(10, 0.0), (30, 0.0), (30, 0.5), (100, 0.5), (100, 0.8)] {
            let count = marked(n, correlation, 0.0);
            assert!(count <= 8, "{n} iterations, correlation {correlation}: {count} of 400");
        }
        // A real trend is found.
        assert!(marked(100, 0.5, 0.5) >= 380, "{}", marked(100, 0.5, 0.5));
    }

    /// Longer windows are judged by the medians of their parts.
    #[test]
    fn long_windows_have_the_same_trend() {
        let rising: Vec<f64> = (0..5000).map(|i| 1.0 + 0.3 * f64::from(i) / 4999.0).collect();
        let Some(Mark::Trend { change, n: 5000, .. }) = trend(&rising, &thresholds()) else {
            panic!("no trend")
        };
        assert!((change - 0.3 / 1.15).abs() < 2.0 / TREND_PARTS as f64, "{change}");
    }

    #[test]
    fn a_slow_first_iteration_is_slower_than_the_others() {
        let with = |first: f64, n: usize, other: f64| {
            let mut seconds = vec![1.0; n];
            seconds[0] = first;
            seconds[n - 1] = other;
            slow_first(&seconds, &thresholds()).is_some()
        };
        assert_eq!((with(1.99, 12, 1.0), with(2.01, 12, 1.0)), (false, true));
        assert_eq!(
            (with(2.1, 12, 1.5), with(2.1, 12, 1.3)),
            (false, true),
            "three times as far as the slowest other"
        );
        assert_eq!((with(2.1, 50, 2.2), with(2.1, 51, 2.2)), (false, true), "one in fifty may be an outlier");
        assert_eq!((with(2.1, 4, 1.0), with(2.1, 5, 1.0)), (false, true), "too few");
        assert_eq!(slow_first(&[], &thresholds()), None);
    }

    /// The chance is 1 ÷ C(others + c, c) without outliers.
    #[test]
    fn a_first_iteration_stands_out_by_chance_once_in_200() {
        for (others, outliers, c) in
            [(4, 0, 6.0), (9, 0, 3.0), (19, 0, 2.0), (18, 0, 3.0), (210, 0, 1.0), (99, 1, 2.0)]
        {
            assert_eq!(standing_out(others, outliers), c, "{others} others");
        }
    }

    /// A ratio to an iteration that took no time is undefined.
    #[test]
    fn iterations_of_zero_seconds_raise_no_mark() {
        let found = |seconds: fn(usize) -> f64| {
            let seconds: Vec<f64> = (0..64).map(seconds).collect();
            let all = [slow_first, trend, |seconds: &[f64], thresholds: &Thresholds| {
                periodic(seconds, None, thresholds).or_else(|| bimodal(seconds, None, thresholds))
            }];
            all.iter().filter_map(|rule| rule(&seconds, &thresholds())).collect::<Vec<_>>()
        };
        assert_eq!(found(|i| if i == 0 { 1.0 } else { 0.0 }), []);
        assert_eq!(found(|i| if i < 33 { 0.0 } else { i as f64 }), []);
        assert_eq!(found(|i| if i % 4 == 1 { 1.0 } else { 0.0 }), []);
        assert_eq!(found(|i| if i % 7 < 3 { 1.0 } else { 0.0 }), []);
    }

    /// The ratio does not depend on the unit of the seconds.
    #[test]
    fn ratios_are_of_the_odd_iterations_to_the_others() {
        let of = |seconds: fn(usize) -> f64, rule: fn(&[f64], &Thresholds) -> Option<Mark>| {
            let seconds: Vec<f64> = (0..64).map(seconds).collect();
            rule(&seconds, &thresholds())
        };
        let Some(Mark::SlowFirst { ratio, .. }) = of(|i| if i == 0 { 0.6 } else { 0.2 }, slow_first) else {
            panic!("the first iteration is slow")
        };
        assert!((ratio - 3.0).abs() < 1e-9, "{ratio}");
        let period = |seconds| match of(seconds, |seconds, limits| periodic(seconds, None, limits)) {
            Some(Mark::Periodic { every, ratio, n: 64, .. }) => (every, ratio),
            other => panic!("{other:?}"),
        };
        assert_eq!(period(|i| if i % 4 == 1 { 0.5 } else { 0.25 }), (4, 2.0));
        assert_eq!(period(|i| if i % 4 == 1 { 0.25 } else { 0.5 }), (4, 0.5));
        // One in five of the others is exactly halfway, which counts as their side.
        assert_eq!(
            period(|i| if i % 4 == 1 {
                3.0
            } else if i % 5 == 0 {
                2.0
            } else {
                1.0
            }),
            (4, 3.0)
        );
    }

    /// Every k-th iteration, at some phase, takes `factor` times as long.
    fn with_period(mut seconds: Vec<f64>, every: usize, factor: f64) -> Vec<f64> {
        for value in seconds.iter_mut().skip(every / 2).step_by(every) {
            *value *= factor;
        }
        seconds
    }

    fn found(seconds: &[f64]) -> Option<usize> {
        match periodic(seconds, None, &thresholds()) {
            Some(Mark::Periodic { every, .. }) => Some(every),
            _ => None,
        }
    }

    #[test]
    fn finds_every_period_from_2_to_20() {
        for every in 2..=LONGEST_PERIOD {
            // Spikes as slow as the period's iterations could hide it, so there are none at 0.7 and 1.4.
            for (factor, spikes) in [(0.2, 0.04), (0.7, 0.0), (1.4, 0.0), (5.0, 0.04)] {
                let seconds = with_period(noise_with(7, 100, 0.1, spikes), every, factor);
                assert_eq!(found(&seconds), Some(every), "factor {factor}");
            }
        }
    }

    #[test]
    fn a_period_has_a_threshold_and_needs_enough_iterations() {
        let level = vec![1.0; 100];
        assert_eq!(found(&with_period(level.clone(), 4, 1.19)), None);
        assert_eq!(found(&with_period(level.clone(), 4, 1.21)), Some(4));
        assert_eq!(found(&with_period(level.clone(), 4, 1.0 / 1.19)), None);
        assert_eq!(found(&with_period(level.clone(), 4, 1.0 / 1.21)), Some(4));
        assert_eq!(found(&with_period(level[..12].to_vec(), 2, 2.0)), None);
        assert_eq!(found(&with_period(level[..24].to_vec(), 2, 2.0)), Some(2));
        // With fewer possible periods, fewer iterations are enough.
        assert_eq!(found(&with_period(level[..22].to_vec(), 2, 2.0)), Some(2));
        assert_eq!(found(&with_period(level[..14].to_vec(), 2, 2.0)), None);
        assert_eq!(found(&with_period(level.clone(), 21, 2.0)), None);
        assert_eq!((found(&level), found(&[0.0; 100]), found(&[])), (None, None, None));
        // A slow half or a single slow stretch is not a period.
        let half: Vec<f64> = (0..100).map(|i| if i < 50 { 1.0 } else { 2.0 }).collect();
        assert_eq!(found(&half), None);
    }

    #[test]
    fn a_period_takes_precedence_over_two_kinds() {
        let all: Vec<(f64, f64)> =
            with_period(vec![1.0; 100], 2, 1.5).into_iter().map(|value| (value, 0.0)).collect();
        let iterations = Iterations::new(IterationClock::Host, &all).unwrap();
        let found = marks(&fixture::key("cpu", "resnet18", 16, 1), &iterations, &thresholds());
        assert!(matches!(found[..], [Mark::Periodic { every: 2, .. }]), "{found:?}");
    }

    /// 50 iterations that differ by 1 %, each times its factor.
    fn found_in(factor: impl Fn(usize) -> f64) -> Vec<Mark> {
        let second = |at: usize| (factor(at) * (1.0 + 0.002 * ((at * 7) % 6) as f64), 0.0);
        let seconds: Vec<(f64, f64)> = (0..50).map(second).collect();
        let iterations = Iterations::new(IterationClock::Host, &seconds).unwrap();
        marks(&fixture::key("cpu", "resnet18", 16, 1), &iterations, &thresholds())
    }

    #[test]
    fn each_cause_has_one_mark() {
        let stall = |at: usize| if [7, 20, 41].contains(&at) { 3.0 } else { 1.0 };
        assert!(matches!(found_in(stall)[..], [Mark::Stalls { stalled: 3, .. }]));
        // A slow first iteration is not a stall.
        let found = found_in(|at| if at == 0 { 9.0 } else { stall(at) });
        assert!(matches!(found[..], [Mark::SlowFirst { .. }, Mark::Stalls { stalled: 3, .. }]), "{found:?}");
        // Long iterations side by side are a stretch.
        let found = found_in(|at| if (21..29).contains(&at) { 2.0 } else { 1.0 });
        assert!(matches!(found[..], [Mark::LevelShift { places: (22, 29), .. }]), "{found:?}");
        // The two halves of a trend have two levels.
        let found = found_in(|at| 1.0 + 0.3 * at as f64 / 49.0);
        assert!(matches!(found[..], [Mark::Trend { .. }]), "{found:?}");
        assert_eq!(found_in(|_| 1.0), []);
    }

    /// Four passes per optimizer step make every fourth iteration longer, and so every eighth.
    #[test]
    fn a_declared_period_is_not_reported() {
        for every in [4, 8, 20] {
            let seconds = with_period(vec![1.0; 100], every, 1.5);
            assert_eq!(periodic(&seconds, Some(4), &thresholds()), None, "every {every}");
        }
        let mut key = fixture::key("cpu", "resnet18", 16, 1);
        let seconds: Vec<(f64, f64)> =
            with_period(vec![1.0; 100], 4, 1.5).into_iter().map(|value| (value, 0.0)).collect();
        let iterations = Iterations::new(IterationClock::Host, &seconds).unwrap();
        let count = |key: &Key| marks(key, &iterations, &thresholds()).len();
        assert_eq!(count(&key), 1);
        key.params.insert("grad_accum_steps".into(), ParamValue::Int(4));
        assert_eq!(count(&key), 0);
    }

    /// A loader that delivers batches in bursts makes the training wait periodically, which is a separate finding.
    #[test]
    fn a_periodic_data_wait_is_not_missing_synchronisation() {
        let seconds: Vec<(f64, f64)> =
            with_period(vec![1.0; 100], 4, 3.0).into_iter().map(|value| (value, value - 1.0)).collect();
        let key = fixture::key("cpu", "resnet18", 16, 1);
        for clock in [IterationClock::Host, IterationClock::DeviceEvents] {
            let iterations = Iterations::new(clock, &seconds).unwrap();
            assert_eq!(marks(&key, &iterations, &thresholds()), [], "{clock:?}");
        }
    }

    /// A fixed seed, because a rule that is true with probability 1 - 10⁻⁴ can fail by chance.
    fn fixed() -> ProptestConfig {
        ProptestConfig { cases: 128, rng_seed: RngSeed::Fixed(4), ..ProptestConfig::default() }
    }

    proptest! {
        #![proptest_config(fixed())]

        #[test]
        fn noise_has_no_period(seed in any::<u64>(), n in 0..300usize, width in 0.0..0.3f64) {
            prop_assert_eq!(found(&noise(seed, n, width)), None);
        }

        #[test]
        fn noise_has_no_trend(seed in any::<u64>(), n in 10..120usize) {
            prop_assert_eq!(trend(&noise(seed, n, 0.05), &thresholds()), None);
        }

        #[test]
        fn arbitrary_seconds_do_not_panic(
            seconds in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1e9f64, Just(f64::MIN_POSITIVE)], 0..60)
        ) {
            let seconds: Vec<(f64, f64)> = seconds.into_iter().map(|value| (value, value / 2.0)).collect();
            if let Some(iterations) = Iterations::new(IterationClock::Host, &seconds) {
                let key = fixture::key("cpu", "resnet18", 16, 1);
                for mark in marks(&key, &iterations, &thresholds()) {
                    prop_assert!(!mark.disqualifies());
                }
            }
        }
    }
}
