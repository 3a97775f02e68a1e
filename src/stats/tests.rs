//! Worked examples and laws of the statistics.

use proptest::prelude::*;

use super::intervals::median_coverage;
use super::*;

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * (1.0 + a.abs().max(b.abs()))
}

fn numbers(least: usize) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(-1e6..1e6f64, least..40)
}

#[test]
fn too_few_numbers_are_an_error() {
    assert_eq!(median(&[]), Err(TooFew { n: 0, needs: 1 }));
    assert_eq!(mad(&[1.0]), Err(TooFew { n: 1, needs: 2 }));
    assert_eq!(standard_deviation(&[1.0]), Err(TooFew { n: 1, needs: 2 }));
    assert_eq!(mean_interval(&[1.0, 2.0], CONFIDENCE), Err(TooFew { n: 2, needs: 3 }));
    assert_eq!(median_interval(&[1.0; 5], CONFIDENCE), Err(TooFew { n: 5, needs: 6 }));
    assert_eq!(theil_sen(&[1.0; 9], CONFIDENCE), Err(TooFew { n: 9, needs: 10 }));
    assert_eq!(TooFew { n: 5, needs: 6 }.to_string(), "n too small (5 of at least 6)");
}

#[test]
fn worked_examples() {
    let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
    assert_eq!(median(&values), Ok(4.5));
    assert_eq!(mad(&values), Ok(0.5));
    assert_eq!(mean(&values), Ok(5.0));
    assert!(close(standard_deviation(&values).unwrap(), (32.0f64 / 7.0).sqrt()));
    // Student's factor for four degrees of freedom is 2.776445.
    let interval = mean_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95).unwrap();
    assert!(close(interval.high - 3.0, 2.776_445_1 * (2.5f64 / 5.0).sqrt()), "{interval}");
}

/// From the published table of ranks for the 95 % interval of the median.
#[test]
fn median_intervals_have_the_published_ranks() {
    for (n, k, percent) in [(6, 1, 96.88), (8, 1, 99.22), (9, 2, 96.09), (10, 2, 97.85), (20, 6, 95.86)] {
        let values: Vec<f64> = (1..=n).map(f64::from).collect();
        let interval = median_interval(&values, 0.95).unwrap();
        assert_eq!((interval.low, interval.high), (f64::from(k), f64::from(n + 1 - k)), "n = {n}");
        assert!((100.0 * interval.coverage - percent).abs() < 0.01, "n = {n}: {interval}");
    }
}

/// Each number is equally likely to be below or above the median. Counting all patterns is an oracle that does not
/// use the binomial distribution.
#[test]
fn coverage_equals_a_count_of_all_patterns() {
    for n in 2..=14usize {
        for k in 1..=n / 2 {
            let covered = (0..1u32 << n)
                .filter(|pattern| (k..=n - k).contains(&(pattern.count_ones() as usize)))
                .count();
            assert!(close(median_coverage(n, k), covered as f64 / f64::from(1u32 << n)), "{n} {k}");
        }
    }
}

#[test]
fn an_outlier_does_not_change_the_slope() {
    let mut values: Vec<f64> = (0..50).map(|i| 10.0 + 0.5 * f64::from(i)).collect();
    values[7] = 1e6;
    let slope = theil_sen(&values, 0.95).unwrap();
    assert!(close(slope.per_step, 0.5) && slope.is_significant());
}

#[test]
fn a_series_is_split_into_nearly_equal_parts() {
    let values: Vec<f64> = (0..7).map(f64::from).collect();
    assert_eq!(medians_of_parts(&values, 7), values);
    assert_eq!(medians_of_parts(&values, 3), [0.5, 2.5, 5.0]);
    assert_eq!(medians_of_parts(&[], 3), [0.0; 0]);
}

/// Fisher's lady tasting tea: by chance, she gets all four cups right with 1/70 and at least three with 17/70.
#[test]
fn the_lady_tasting_tea() {
    assert!(close(chance_of_at_least(4, 4, 4, 8), 1.0 / 70.0));
    assert!(close(chance_of_at_least(3, 4, 4, 8), 17.0 / 70.0));
    assert_eq!(chance_of_at_least(0, 4, 4, 8), 1.0);
    assert_eq!(chance_of_at_least(1, 9, 4, 8), 1.0);
}

proptest! {
    #[test]
    fn half_of_the_numbers_lie_on_each_side_of_the_median(values in numbers(1)) {
        let m = median(&values).unwrap();
        let at_most = values.iter().filter(|&&value| value <= m).count();
        let at_least = values.iter().filter(|&&value| value >= m).count();
        prop_assert!(2 * at_most >= values.len() && 2 * at_least >= values.len());
    }

    #[test]
    fn half_of_the_numbers_lie_within_the_mad(values in numbers(2)) {
        let (m, d) = (median(&values).unwrap(), mad(&values).unwrap());
        // The tolerance covers the rounding of m ± d itself.
        let within = values.iter().filter(|&&value| (value - m).abs() <= d + 1e-6).count();
        let beyond = values.iter().filter(|&&value| (value - m).abs() >= d - 1e-6).count();
        prop_assert!(2 * within >= values.len() && 2 * beyond >= values.len());
    }

    #[test]
    fn the_standard_deviation_follows_from_all_pairs(values in numbers(2)) {
        // s² = Σ over pairs of (a − b)² ÷ (n (n − 1)).
        let n = values.len() as f64;
        let pairs: f64 = values
            .iter()
            .enumerate()
            .flat_map(|(i, a)| values[..i].iter().map(move |b| (a - b).powi(2)))
            .sum();
        prop_assert!(close(standard_deviation(&values).unwrap(), (pairs / (n * (n - 1.0))).sqrt()));
    }

    #[test]
    fn intervals_contain_their_centre(values in numbers(6)) {
        let interval = median_interval(&values, 0.95).unwrap();
        let m = median(&values).unwrap();
        prop_assert!(interval.low <= m && m <= interval.high && interval.coverage >= 0.95);
        let interval = mean_interval(&values, 0.95).unwrap();
        let m = mean(&values).unwrap();
        prop_assert!(interval.low <= m && m <= interval.high);
    }

    #[test]
    fn the_slope_is_equivariant_under_shift_scale_and_trend(values in numbers(10), trend in -100.0..100.0f64) {
        let plain = theil_sen(&values, 0.95).unwrap();
        prop_assert!(plain.interval.low <= plain.per_step && plain.per_step <= plain.interval.high);
        let tilted: Vec<f64> =
            values.iter().enumerate().map(|(i, value)| 3.0 * value + 7.0 + trend * i as f64).collect();
        let tilted = theil_sen(&tilted, 0.95).unwrap();
        prop_assert!(close(tilted.per_step, 3.0 * plain.per_step + trend));
        prop_assert!(close(tilted.interval.high, 3.0 * plain.interval.high + trend));
    }
}
