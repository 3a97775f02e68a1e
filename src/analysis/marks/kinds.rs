//! Bimodal iterations: two kinds in no regular order.

use super::{Mark, Threshold, Thresholds};
use crate::stats;

/// The least number of iterations in which two kinds are looked for. With fewer, gaps occur by chance.
const MODES_NEED: usize = 30;

/// The smallest share of the iterations that is a kind. Fewer are outliers.
const MODE_SHARE: f64 = 0.2;

/// Start of the valley between the kinds that must be nearly empty, as a share of their distance. Its end is as far
/// from the slower kind.
const VALLEY_FROM: f64 = 0.3;

/// The tolerated share of iterations in the valley. With a single kind of any shape, a sixth or more are there: of 30
/// iterations, none is with a probability below 0.3 %.
const IN_VALLEY: f64 = 0.03;

/// Two kinds of iterations in `seconds`. They are split where the logarithms of each side differ least from their mean,
/// then again at the line halfway between the medians of both sides. Each side must contain a fifth of the iterations,
/// and the medians must differ by the threshold's factor. The valley between them must be nearly empty, for any number
/// of iterations. With a `declared` period, two kinds are expected and not marked.
pub(super) fn bimodal(seconds: &[f64], declared: Option<usize>, thresholds: &Thresholds) -> Option<Mark> {
    // A time that was too short for the clock has no logarithm.
    let mut logs: Vec<f64> = seconds.iter().filter(|seconds| **seconds > 0.0).map(|it| it.ln()).collect();
    let n = logs.len();
    if n < MODES_NEED || declared.is_some() {
        return None;
    }
    logs.sort_by(f64::total_cmp);
    let least = (MODE_SHARE * n as f64).ceil() as usize;
    let at = tightest(&logs, least);
    let line = f64::midpoint(stats::median(&logs[..at]).ok()?, stats::median(&logs[at..]).ok()?);
    let at = logs.partition_point(|log| *log <= line);
    if at < least || n - at < least {
        return None;
    }
    let (fast, slow) = (stats::median(&logs[..at]).ok()?, stats::median(&logs[at..]).ok()?);
    let edge = VALLEY_FROM * (slow - fast);
    let between = logs.iter().filter(|log| (fast + edge..=slow - edge).contains(*log)).count();
    let ratio = (slow - fast).exp();
    (ratio > thresholds.of(Threshold::Bimodal) && between as f64 <= IN_VALLEY * n as f64)
        .then(|| Mark::Bimodal { ratio, numbers: (at, n - at), threshold: thresholds.of(Threshold::Bimodal) })
}

/// Where to split `sorted` numbers, with at least `least` on each side: where the squared distances from the mean of
/// each side are least. That is equivalent to the largest variance between the sides (Otsu 1979).
fn tightest(sorted: &[f64], least: usize) -> usize {
    let n = sorted.len();
    let total: f64 = sorted.iter().sum();
    let mut sum = 0.0;
    let sums = sorted.iter().map(|number| {
        sum += number;
        sum
    });
    let splits = sums.zip(1..).filter(|(_, at)| (least..=n - least).contains(at));
    let between = |(sum, at): (f64, usize)| {
        let (left, right) = (at as f64, (n - at) as f64);
        (left * right * ((total - sum) / right - sum / left).powi(2), at)
    };
    let best = splits.map(between).max_by(|one, other| one.0.total_cmp(&other.0));
    best.map_or(least, |(_, at)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    fn thresholds() -> Thresholds {
        Thresholds::default()
    }

    /// A number in 0..1.
    fn uniform(seed: u64, place: usize, what: u64) -> f64 {
        SplitMix64::of(seed, &[place as u64, what]).unit()
    }

    /// A standard normal number: Box and Muller.
    fn normal(seed: u64, place: usize) -> f64 {
        let radius = (-2.0 * (1.0 - uniform(seed, place, 1)).ln()).sqrt();
        radius * (std::f64::consts::TAU * uniform(seed, place, 2)).cos()
    }

    /// How many of a hundred series of `n` iterations are marked.
    fn marked(n: usize, of: impl Fn(u64, usize) -> f64) -> usize {
        let series = |seed: u64| (0..n).map(|place| of(seed, place)).collect::<Vec<f64>>();
        (0..100).filter(|seed| bimodal(&series(*seed), None, &thresholds()).is_some()).count()
    }

    #[test]
    fn two_kinds_are_found_at_every_length() {
        let kinds = |seed, place| {
            let kind = if uniform(seed, place, 0) < 0.5 { 1.5 } else { 1.0 };
            kind * (1.0 + 0.04 * normal(seed, place))
        };
        for n in [30, 100, 1000, 5000] {
            assert!(marked(n, kinds) >= 90, "{n}: {}", marked(n, kinds));
            // One in a hundred waits for an unrelated event.
            let with_outliers = |seed, place| kinds(seed, place) * if place % 100 == 7 { 10.0 } else { 1.0 };
            assert!(marked(n, with_outliers) >= 90, "{n}: {}", marked(n, with_outliers));
        }
    }

    #[test]
    fn one_kind_of_any_shape_is_not_marked() {
        type Shape = fn(u64, usize) -> f64;
        let shapes: [(&str, Shape); 5] = [
            ("narrow", |seed, place| 1.0 + 0.04 * normal(seed, place)),
            ("wide", |seed, place| (0.3 * normal(seed, place)).exp()),
            ("even", |seed, place| 1.0 + uniform(seed, place, 3)),
            ("with a long tail", |seed, place| 1.0 - (1.0 - uniform(seed, place, 3)).ln()),
            ("with spikes", |seed, place| {
                1.0 + 0.04 * normal(seed, place) + if uniform(seed, place, 4) < 0.03 { 0.5 } else { 0.0 }
            }),
        ];
        for (name, shape) in shapes {
            for n in [30, 100, 1000] {
                assert!(marked(n, shape) <= 1, "{name}, {n}: {}", marked(n, shape));
            }
        }
    }

    #[test]
    fn a_kind_needs_a_fifth_of_the_iterations_and_a_distance() {
        // Shuffled, so that there is no period.
        let with = |slow: usize, n: usize, factor: f64| {
            let mut order: Vec<usize> = (0..n).collect();
            order.sort_by(|left, right| uniform(9, *left, 0).total_cmp(&uniform(9, *right, 0)));
            let mut seconds: Vec<f64> = (0..n).map(|place| 1.0 + 0.02 * uniform(5, place, 0)).collect();
            order[..slow].iter().for_each(|&place| seconds[place] *= factor);
            bimodal(&seconds, None, &thresholds()).is_some()
        };
        assert_eq!((with(40, 100, 1.5), with(40, 100, 1.15)), (true, false), "the threshold");
        assert_eq!((with(20, 100, 1.5), with(19, 100, 1.5)), (true, false), "outliers are no kind");
        assert_eq!((with(80, 100, 1.5), with(81, 100, 1.5)), (true, false), "nor are fast ones");
        assert_eq!((with(15, 30, 1.5), with(14, 29, 1.5)), (true, false), "too few");
        let seconds: Vec<f64> = (0..64).map(|i| if i % 7 < 3 { 0.5 } else { 0.25 }).collect();
        assert_eq!(bimodal(&seconds, Some(2), &thresholds()), None, "declared");
        let Some(Mark::Bimodal { ratio, numbers, .. }) = bimodal(&seconds, None, &thresholds()) else {
            panic!("there are two kinds")
        };
        assert!((ratio - 2.0).abs() < 1e-12 && numbers == (36, 28), "{ratio} {numbers:?}");
    }
}
