//! Worked examples and properties of the statistics.

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

#[test]
fn equal_numbers_have_an_interval_without_width() {
    for value in [0.1, 5.0 / 3.0, 1e-300, 1e300] {
        let interval = geometric_mean_interval(&[value; 7], 0.95).unwrap();
        assert_eq!((interval.low, interval.high), (value, value));
        assert_eq!(geometric_mean(&[value; 7]), Ok(value));
    }
    assert!(close(geometric_mean(&[2.0, 8.0, 4.0]).unwrap(), 4.0));
    assert_eq!(geometric_mean(&[]), Err(TooFew { n: 0, needs: 1 }));
}

/// As `numpy.quantile` gives them.
#[test]
fn quantiles_are_interpolated_between_neighbours() {
    let values = [7.0, 1.0, 4.0, 2.0];
    for (share, expected) in [(0.0, 1.0), (0.1, 1.3), (0.5, 3.0), (0.9, 6.1), (1.0, 7.0)] {
        assert!(close(quantile(&values, share).unwrap(), expected), "{share}");
    }
    assert_eq!(quantile(&[3.1; 4], 0.1), Ok(3.1), "rounding does not move it away from equal numbers");
    assert_eq!(quantile(&[-1e308, 1e308], 0.5), Ok(0.0));
    assert_eq!(quantile(&[5.0], 0.9), Ok(5.0));
    assert_eq!(quantile(&[], 0.5), Err(TooFew { n: 0, needs: 1 }));
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

/// Wright's example of Holm's procedure (1992): p = 0.01, 0.04, 0.03, 0.005.
#[test]
fn holm_steps_down_and_keeps_the_order() {
    let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
    assert!(adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]).all(|(a, b)| close(*a, b)), "{adjusted:?}");
    assert_eq!(holm(&[0.4, 0.4, 0.9]), [1.0, 1.0, 1.0]);
    assert_eq!(holm(&[]), [0.0; 0]);
}

#[test]
fn blocks_without_common_rows_cannot_be_compared() {
    let cell = |row, block, value| Cell { row, block, value };
    let apart = [
        cell(0, 0, 1.0),
        cell(0, 1, 2.0),
        cell(1, 2, 3.0),
        cell(1, 3, 4.0),
        cell(0, 0, 1.5),
        cell(1, 3, 3.5),
    ];
    assert_eq!(block_effects(&apart), Err(NoEffects::Apart));
    assert_eq!(block_effects(&[cell(0, 0, 1.0), cell(0, 1, 2.0)]), Err(NoEffects::NoScatter));
    assert_eq!(block_effects(&[]), Err(NoEffects::NoScatter));
    // Row 1 connects blocks 0 and 2, although no row contains both.
    let chain = [cell(0, 0, 1.0), cell(0, 1, 2.0), cell(1, 1, 5.0), cell(1, 2, 7.0), cell(0, 0, 1.0)];
    let effects: Vec<f64> = block_effects(&chain).unwrap().iter().map(|effect| effect.value).collect();
    assert!(close(effects[1] - effects[0], 1.0) && close(effects[2] - effects[1], 2.0), "{effects:?}");
    assert!(close(effects.iter().sum::<f64>(), 0.0));
}

#[test]
fn few_or_constant_variances_are_not_shrunk() {
    let rows =
        |values: &[f64]| values.iter().map(|&value| Variance { value, freedom: 4.0 }).collect::<Vec<_>>();
    for rows in [rows(&[1.0, 2.0, 3.0, 4.0]), rows(&[0.0, 0.0, 0.0, 1.0, 2.0]), rows(&[])] {
        assert_eq!(shrink(&rows), Shrunk { prior: None, rows });
    }
    // One row without scatter does not make the prior infinitely wide: it counts as a little.
    let prior = shrink(&rows(&[0.0, 1.0, 1.1, 1.2, 0.9, 1.0])).prior.unwrap();
    assert!(prior.freedom > 0.1 && prior.value > 0.0, "{prior:?}");
    // Equal variances differ less than by chance: they are pooled, with the degrees of freedom of all.
    let shrunk = shrink(&rows(&[2.0; 6]));
    assert_eq!(shrunk.prior, Some(Variance { value: 2.0, freedom: f64::INFINITY }));
    assert!(shrunk.rows.iter().all(|row| *row == Variance { value: 2.0, freedom: 24.0 }));
}

#[test]
fn a_slowly_moving_series_has_a_smaller_effective_size() {
    let slow: Vec<f64> = (0..40).map(|i| f64::from(i / 10)).collect();
    assert!(effective_size(&slow).unwrap() < 4.0);
    let swinging: Vec<f64> = (0..40).map(|i| f64::from(i % 2)).collect();
    assert!(autocorrelation(&swinging).unwrap() < -0.9);
    assert_eq!(effective_size(&swinging), Ok(40.0));
    assert_eq!(autocorrelation(&[1.0; 10]), Ok(0.0));
    assert_eq!(autocorrelation(&[1.0; 9]), Err(TooFew { n: 9, needs: AUTOCORRELATION_NEEDS }));
}

#[test]
fn more_scatter_or_smaller_differences_need_more_repeats() {
    let design = |deviation: f64| Design {
        variance: deviation.powi(2),
        freedom_each: 1.0,
        lent: 0.0,
        error: 0.05,
        power: 0.8,
    };
    let found = [0.05, 0.03, 0.01].map(|difference| design(0.02).repeats_to_find(difference).unwrap());
    assert!(found.is_sorted() && found[0] < found[2], "{found:?}");
    assert!(design(0.01).repeats_to_find(0.01) < design(0.02).repeats_to_find(0.01));
    assert_eq!(design(0.02).repeats_to_find(0.0), None);
    assert_eq!(design(0.02).repeats_to_equate(0.02, 0.02), None);
    assert_eq!(design(0.02).repeats_to_find(1e-6), None);
    assert_eq!(design(0.0).repeats_to_find(0.01), Some(MEAN_INTERVAL_NEEDS));
}

#[test]
fn common_disturbances_of_a_block_widen_the_interval_of_the_mean() {
    let moved = [0.3, -0.1, 0.2, -0.4];
    let rows: Vec<Vec<(usize, f64)>> = (0..5)
        .map(|row| moved.iter().enumerate().map(|(block, by)| (block, f64::from(row) + by)).collect())
        .collect();
    let estimate = mean_over_blocks(&rows).unwrap();
    let student = Estimate::mean(&moved.map(|by| 2.0 + by)).unwrap();
    assert!(close(estimate.value, student.value) && close(estimate.standard_error, student.standard_error));
    assert_eq!(estimate.freedom, student.freedom);
    assert_eq!(mean_over_blocks(&[vec![(0, 1.0), (1, 2.0)]]), Err(TooFew { n: 2, needs: 3 }));
    assert!(mean_over_blocks(&[vec![(0, 1.0), (1, 2.0), (2, 1.0)], vec![]]).is_err());
}

proptest! {
    #[test]
    fn half_of_the_numbers_are_on_each_side_of_the_median(values in numbers(1)) {
        let m = median(&values).unwrap();
        let at_most = values.iter().filter(|&&value| value <= m).count();
        let at_least = values.iter().filter(|&&value| value >= m).count();
        prop_assert!(2 * at_most >= values.len() && 2 * at_least >= values.len());
    }

    #[test]
    fn half_of_the_numbers_are_within_the_mad(values in numbers(2)) {
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

    #[test]
    fn swapped_sides_have_the_opposite_difference(from in numbers(3), to in numbers(3)) {
        let (there, back) = (Estimate::welch(&from, &to).unwrap(), Estimate::welch(&to, &from).unwrap());
        prop_assert!(close(there.value, -back.value) && close(there.standard_error, back.standard_error));
        prop_assert!(close(there.freedom, back.freedom));
        prop_assert!(close(there.p_at_least(0.5), back.p_at_most(-0.5)));
        prop_assert!(close(there.p_at_least(0.5) + there.p_at_most(0.5), 1.0));
    }

    /// A test and its interval agree: a value is rejected at 5 % if and only if the 95 % interval excludes it.
    #[test]
    fn intervals_contain_the_values_that_tests_do_not_reject(values in numbers(3), at in -1e6..1e6f64) {
        let estimate = Estimate::mean(&values).unwrap();
        let interval = estimate.interval(0.95);
        prop_assert_eq!(estimate.p_equal(at) > 0.05, interval.low < at && at < interval.high);
        let narrow = estimate.interval(0.90);
        let margin = at.abs();
        prop_assert_eq!(estimate.p_beyond(margin) <= 0.05, -margin <= narrow.low && narrow.high <= margin);
    }
}
