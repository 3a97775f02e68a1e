//! The operators that account for the difference between two rows.

use std::collections::BTreeMap;

use super::breakdown::Breakdown;
use super::sentence::title;
use crate::protocol::{OperatorClass, Phase};
use crate::text::significant;

/// The most operators that a sentence names.
const NAMED: usize = 3;

/// An operator is named if it accounts for at least this share of the difference.
const LEAST_SHARE: f64 = 0.1;

/// Time outside of all operators, in place of an operator's name.
const OUTSIDE: &str = "time outside of operators";

/// A breakdown with the samples of an iteration.
pub(in crate::analysis) type Profiled<'b, 'r> = (&'b Breakdown<'r>, u32);

/// The operators that account for the difference between `from` and `to`, as a clause about `to`; `None` if both take
/// the same time.
///
/// `7.6 ms more per sample: convolutions +5.0 ms in the backward pass, normalisation +2.1 ms in the forward pass`
pub(in crate::analysis) fn difference(from: Profiled<'_, '_>, to: Profiled<'_, '_>) -> Option<String> {
    let [before, after] = [from, to].map(seconds_per_sample);
    let [whole_before, whole_after] = [&before, &after].map(|all| all.values().sum::<f64>());
    let difference = whole_after - whole_before;
    if difference == 0.0 {
        return None;
    }
    let mut changes: Vec<(&Place, f64)> = after
        .keys()
        .chain(before.keys().filter(|place| !after.contains_key(place)))
        .map(|place| {
            let of = |all: &BTreeMap<Place, f64>| all.get(place).copied().unwrap_or(0.0);
            (place, of(&after) - of(&before))
        })
        .filter(|(_, change)| change / difference >= LEAST_SHARE)
        .collect();
    changes.sort_by(|left, right| right.1.abs().total_cmp(&left.1.abs()).then(left.0.cmp(right.0)));
    let named: Vec<String> = changes
        .iter()
        .take(NAMED)
        .map(|(place, change)| format!("{} {}", place.text(), signed(*change)))
        .collect();
    let direction = if difference > 0.0 { "more" } else { "less" };
    let size = milliseconds(difference.abs());
    let list = if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) };
    Some(format!("{size} {direction} per sample{list}"))
}

/// Operators of one class in one part of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// `None` for time outside of all operators.
    class: Option<OperatorClass>,
    phase: Option<Phase>,
}

impl Place {
    fn text(self) -> String {
        let name = self.class.map_or(OUTSIDE, title);
        match self.phase {
            Some(Phase::Forward) => format!("{name} in the forward pass"),
            Some(Phase::Backward) => format!("{name} in the backward pass"),
            Some(Phase::Optimizer | Phase::Data) | None => name.to_owned(),
        }
    }
}

/// The seconds of a sample, by class and phase. Together they are those of a profiled iteration ÷ its samples.
fn seconds_per_sample((breakdown, samples): Profiled<'_, '_>) -> BTreeMap<Place, f64> {
    let mut found: BTreeMap<Place, f64> = BTreeMap::new();
    let mut rest = 1.0;
    for operator in &breakdown.operators {
        let share = operator.rates.time_share;
        let place = Place { class: Some(operator.class), phase: operator.sample.phase };
        *found.entry(place).or_default() += share;
        rest -= share;
    }
    found.insert(Place { class: None, phase: None }, rest.max(0.0));
    let per_sample = breakdown.iteration_s / f64::from(samples);
    found.values_mut().for_each(|share| *share *= per_sample);
    found
}

fn signed(seconds: f64) -> String {
    let sign = if seconds < 0.0 { '-' } else { '+' };
    format!("{sign}{}", milliseconds(seconds.abs()))
}

fn milliseconds(seconds: f64) -> String {
    format!("{} ms", significant(1e3 * seconds, 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::{StudyBuilder, key, operator, profile};
    use crate::protocol::OperatorSample;

    fn phase(phase: Phase, sample: OperatorSample) -> OperatorSample {
        OperatorSample { phase: Some(phase), ..sample }
    }

    /// Two rows of 16 samples whose operators are these, over two iterations.
    fn between(before: Vec<OperatorSample>, after: Vec<OperatorSample>, elapsed: [f64; 2]) -> Option<String> {
        let study = StudyBuilder::new()
            .operators(&key("a", "resnet18", 16, 1), 10.0, profile(elapsed[0], before))
            .operators(&key("b", "resnet18", 16, 1), 8.0, profile(elapsed[1], after))
            .build();
        let analysis = analyse(&study);
        let [one, other] = [0, 1].map(|row: usize| analysis.breakdowns[row].as_ref().unwrap());
        difference((one, 16), (other, 16))
    }

    #[test]
    fn the_operators_that_differ_are_named_with_their_share_of_the_difference() {
        let conv =
            |seconds| phase(Phase::Backward, operator("conv", OperatorClass::Convolution, seconds, 1.0, 1.0));
        let norm = |seconds| {
            phase(Phase::Forward, operator("norm", OperatorClass::Normalisation, seconds, 0.0, 1.0))
        };
        let found = between(vec![conv(1.6), norm(0.8)], vec![conv(2.24), norm(0.96)], [3.2, 4.0]);
        // 32 samples in 3.2 and 4.0 s: 100 and 125 ms each.
        assert_eq!(
            found.as_deref(),
            Some(
                "25 ms more per sample: convolutions in the backward pass +20 ms, normalisation in the forward pass \
                 +5.0 ms"
            )
        );
        let back = between(vec![conv(2.24)], vec![conv(1.6)], [4.0, 3.36]).unwrap();
        assert_eq!(back, "20 ms less per sample: convolutions in the backward pass -20 ms");
    }

    #[test]
    fn operators_of_one_side_and_time_outside_of_operators_count() {
        let conv = || operator("conv", OperatorClass::Convolution, 1.6, 1.0, 1.0);
        let copy = || operator("copy", OperatorClass::Copy, 0.32, 0.0, 1.0);
        let found = between(vec![conv()], vec![conv(), copy()], [3.2, 4.16]).unwrap();
        assert_eq!(found, "30 ms more per sample: time outside of operators +20 ms, copies +10 ms");
        assert_eq!(between(vec![conv()], vec![conv()], [3.2, 3.2]), None);
    }
}
