//! Stalls: single iterations that took much longer than the rest and cost a share of the window.

use super::{Mark, Threshold, Thresholds};
use crate::stats;

/// The least number of iterations in which stalls are looked for.
const STALLS_NEED: usize = 20;

/// A stall is above the upper quartile by at least this multiple of the interquartile range (Tukey's outer fence).
const FENCE: f64 = 3.0;

/// The least duration of a stall, as a multiple of the median.
const LONG: f64 = 1.2;

/// Stalls in `seconds`, if they cost the window more than the threshold's share of its time. Their cost is their time
/// beyond the median. With a `declared` period, long iterations are expected and never stalls.
pub(super) fn stalls(seconds: &[f64], declared: Option<usize>, thresholds: &Thresholds) -> Option<Mark> {
    let n = seconds.len();
    if n < STALLS_NEED || declared.is_some() {
        return None;
    }
    let median = stats::median(seconds).ok().filter(|median| *median > 0.0)?;
    let [low, high] = [stats::quantile(seconds, 0.25).ok()?, stats::quantile(seconds, 0.75).ok()?];
    let line = (high + FENCE * (high - low)).max(LONG * median);
    let stalled: Vec<f64> = seconds.iter().copied().filter(|seconds| *seconds > line).collect();
    let beyond: f64 = stalled.iter().map(|seconds| seconds - median).sum();
    let cost = beyond / seconds.iter().sum::<f64>();
    let threshold = thresholds.of(Threshold::Stalls);
    (cost > threshold).then(|| Mark::Stalls {
        stalled: stalled.len(),
        n,
        ratio: stats::median(&stalled).map_or(1.0, |of_stalled| of_stalled / median),
        cost,
        threshold,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(seconds: &[f64]) -> Option<Mark> {
        stalls(seconds, None, &Thresholds::default())
    }

    /// 50 iterations within 1 % of a second, of which those at `places` take `factor` times as long.
    fn with(places: &[usize], factor: f64) -> Vec<f64> {
        let mut seconds: Vec<f64> = (0..50).map(|at| 1.0 + 0.002 * ((at * 7) % 6) as f64).collect();
        places.iter().for_each(|&at| seconds[at] *= factor);
        seconds
    }

    #[test]
    fn a_few_long_iterations_are_stalls_if_they_cost_the_window() {
        let Some(Mark::Stalls { stalled: 3, n: 50, ratio, cost, .. }) = found(&with(&[7, 20, 41], 3.0))
        else {
            panic!("there are stalls")
        };
        assert!((ratio - 3.0).abs() < 0.02 && (cost - 6.0 / 56.0).abs() < 0.002, "{ratio} {cost}");
        assert!(matches!(found(&with(&[20], 4.0)), Some(Mark::Stalls { stalled: 1, .. })));
        assert_eq!(found(&with(&[20], 3.0)), None, "4 % of the window");
        assert_eq!(found(&with(&[], 1.0)), None);
    }

    #[test]
    fn wide_scatter_has_no_stalls() {
        // A scatter as wide as the stalls.
        let wide: Vec<f64> = (0..50).map(|at| 1.0 + f64::from(at) / 25.0).collect();
        assert_eq!(found(&wide), None);
        assert_eq!(found(&[1.0; 50]), None);
        assert_eq!(found(&[0.0; 50]), None, "a clock that is too coarse");
        assert_eq!(found(&[&[30.0], [1.0; 18].as_slice()].concat()), None, "too few");
        assert_eq!(stalls(&with(&[7, 20, 41], 3.0), Some(4), &Thresholds::default()), None, "declared");
    }
}
