//! Level shifts: a stretch of the window in which iterations took longer or shorter than in the rest of it.

use super::{Mark, Threshold, Thresholds};
use crate::stats;

/// The tolerated probability that the iterations of a level window show such a stretch by chance.
const SHIFT_CHANCE: f64 = 0.01;

/// The most numbers that are searched, since the time grows with their square. A longer window is cut into as many
/// equal parts, and their medians are searched.
const SHIFT_PARTS: usize = 200;

/// A stretch of `seconds` whose level differs from that of the rest, as [`stats::level_shift`] finds it on logarithms.
/// It is marked if the slower level costs the window more than the threshold's share of its time. Levels are medians.
pub(super) fn level_shift(seconds: &[f64], thresholds: &Thresholds) -> Option<Mark> {
    let parts = stats::medians_of_parts(seconds, SHIFT_PARTS);
    if parts.iter().any(|seconds| *seconds <= 0.0) {
        return None;
    }
    let logs: Vec<f64> = parts.iter().map(|seconds| seconds.ln()).collect();
    let found = stats::level_shift(&logs).ok().filter(|found| found.p <= SHIFT_CHANCE)?;
    let n = seconds.len();
    let [from, to] = [found.from, found.to].map(|part| part * n / parts.len());
    let outside: Vec<f64> = seconds[..from].iter().chain(&seconds[to..]).copied().collect();
    let ratio = stats::median(&seconds[from..to]).ok()? / stats::median(&outside).ok()?;
    let inside = (to - from) as f64 / n as f64;
    // As shares of the time that the window would take at the faster level.
    let beyond = if ratio > 1.0 { inside * (ratio - 1.0) } else { (1.0 - inside) * (1.0 / ratio - 1.0) };
    let cost = beyond / (1.0 + beyond);
    let threshold = thresholds.of(Threshold::LevelShift);
    (cost > threshold).then_some(Mark::LevelShift { places: (from + 1, to), n, ratio, cost, threshold })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    fn found(seconds: &[f64]) -> Option<Mark> {
        level_shift(seconds, &Thresholds::default())
    }

    fn stepped(n: usize, at: usize, factor: f64) -> Vec<f64> {
        let mut random = SplitMix64::new(3);
        let mut second = |place| (if place < at { 1.0 } else { factor }) * (1.0 + 0.02 * random.normal());
        (0..n).map(&mut second).collect()
    }

    #[test]
    fn a_step_is_marked_with_its_place_size_and_cost() {
        let Some(Mark::LevelShift { places: (1, 25), n: 50, ratio, cost, .. }) =
            found(&stepped(50, 25, 1.15))
        else {
            panic!("there is a step: {:?}", found(&stepped(50, 25, 1.15)))
        };
        assert!((ratio - 1.0 / 1.15).abs() < 0.02 && (cost - 0.075 / 1.075).abs() < 0.01, "{ratio} {cost}");
        assert_eq!(found(&stepped(50, 25, 1.05)), None, "2.4 % of the window");
        assert_eq!(found(&stepped(50, 25, 1.0)), None);
        assert_eq!(found(&[0.0; 50]), None, "a clock that is too coarse");
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn long_windows_are_searched_by_their_parts() {
        let Some(Mark::LevelShift { places: (1, 2500), n: 5000, .. }) = found(&stepped(5000, 2500, 0.8))
        else {
            panic!("there is a step: {:?}", found(&stepped(5000, 2500, 0.8)))
        };
    }
}
