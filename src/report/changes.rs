//! The axis of distances from the median of a row, which figures of single runs share.

use super::scale::Scale;
use crate::analysis::sequence::Placed;
use crate::text::decimals;

/// The axis shows at least this distance to both sides, so that noise does not fill the plot.
const LEAST: f64 = 0.01;

/// The share of the runs that the axis covers. The others are at its edges, so that an outlier does not compress the
/// others.
const SHOWN: f64 = 0.95;

/// The range of the axis beyond the last covered run, as a factor.
const ROOM: f64 = 1.25;

/// The axis of `runs`: `axis` creates it from its range to both sides.
pub(super) fn changes_axis<'r>(runs: impl Iterator<Item = &'r Placed>, axis: impl Fn(f64) -> Scale) -> Scale {
    let mut distances: Vec<f64> = runs.filter_map(|placed| placed.change).map(f64::abs).collect();
    distances.sort_by(f64::total_cmp);
    let shown = (SHOWN * distances.len() as f64).ceil() as usize;
    let reach = distances.get(shown.saturating_sub(1)).copied().unwrap_or(LEAST);
    axis(LEAST.max(ROOM * reach))
}

/// Its ticks with their texts, `-2 %` to `2 %`.
pub(super) fn percent_ticks(scale: &Scale) -> Vec<(f64, String)> {
    let ticks = scale.ticks().into_iter();
    ticks.map(|tick| (scale.place(tick), format!("{} %", decimals(100.0 * tick, 4)))).collect()
}

/// The position of `placed`, and whether it is within the axis; runs beyond it are at the edge.
pub(super) fn place_change(placed: &Placed, scale: &Scale) -> Option<(f64, bool)> {
    let change = placed.change?;
    let is_within = (scale.low..=scale.high).contains(&change);
    Some((scale.place(change.clamp(scale.low, scale.high)), is_within))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::scale::Kind;

    #[test]
    fn a_run_far_from_all_others_is_at_the_edge() {
        let of = |change: f64| Placed { row: 0, run: 0, place: 1, block: 1, change: Some(change) };
        let runs: Vec<Placed> = (0..100).map(|run| of(f64::from(run) / 2000.0)).chain([of(-0.9)]).collect();
        let axis = |reach: f64| Scale { kind: Kind::Linear, low: -reach, high: reach, from: 0.0, to: 100.0 };
        let scale = changes_axis(runs.iter(), axis);
        assert!((0.04..0.06).contains(&scale.high), "{scale:?}");
        assert_eq!(place_change(&of(-0.9), &scale), Some((0.0, false)));
        assert_eq!(place_change(&of(0.0), &scale), Some((50.0, true)));
        let still = changes_axis([of(0.0), of(0.001)].iter(), axis);
        assert!((still.high - LEAST).abs() < 1e-12);
    }
}
