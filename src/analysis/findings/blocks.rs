//! Findings about blocks that were slower or faster than the other blocks of their machine.

use super::finding::{Finding, finding};
use super::kind::FindingKind;
use crate::analysis::block_shift::{ShiftedBlock, shifted_blocks};
use crate::analysis::claim::{Claim, Compared, Limit, Relation, Sentence, threshold_limit};
use crate::analysis::group::Row;
use crate::analysis::marks::{Threshold, Thresholds};
use crate::text::LastDigit;

pub(super) fn shifted(rows: &[Row<'_>], thresholds: &Thresholds) -> Vec<Finding> {
    let blocks = shifted_blocks(rows, thresholds);
    blocks.iter().map(|block| finding(FindingKind::ShiftedBlock, sentence(block, thresholds))).collect()
}

fn sentence(block: &ShiftedBlock, thresholds: &Thresholds) -> Sentence {
    let ShiftedBlock { host, repeat, shift, .. } = block;
    let is_slower = shift.change < 0.0;
    let sizes = if is_slower {
        [-shift.change, -shift.interval.high, -shift.interval.low]
    } else {
        [shift.change, shift.interval.low, shift.interval.high]
    };
    let [size, low, high] = sizes.map(|share| 100.0 * share);
    let decimals = LastDigit::of_interval(low, high).map_or(1, LastDigit::decimals);
    let threshold = threshold_limit(Threshold::BlockShift, thresholds.of(Threshold::BlockShift));
    let from_zero = Limit::understood(0.0);
    let [size, low, high] = Compared::all(
        [
            (size, Relation::Above, threshold),
            (low, Relation::Above, from_zero),
            (high, Relation::Above, from_zero),
        ],
        decimals,
    );
    let text = format!(
        "On {host}, the block of repeat {repeat} ({}) was {} % {} than {} others, in {} of {} rows (95 % interval \
         {} to {} %, threshold {}).",
        time_text(block),
        size.number(),
        if is_slower { "slower" } else { "faster" },
        shift.others,
        shift.agree,
        shift.rows,
        low.number(),
        high.number(),
        size.limit(),
    );
    Sentence::new(text, [size, low, high]).claiming([Claim::of(shift.agree, shift.rows)])
}

/// `2026-11-24 14:02 to 14:20 UTC`
fn time_text(block: &ShiftedBlock) -> String {
    let is_one_day = block.started_at.date_naive() == block.ended_at.date_naive();
    let end = if is_one_day { "%H:%M UTC" } else { "%Y-%m-%d %H:%M UTC" };
    format!("{} to {}", block.started_at.format("%Y-%m-%d %H:%M"), block.ended_at.format(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::block_shift::Shift;
    use crate::stats::Interval;
    use chrono::DateTime;
    use proptest::prelude::*;

    fn block(change: f64, [low, high]: [f64; 2]) -> ShiftedBlock {
        let interval = Interval { low, high, coverage: 0.95 };
        let started_at = DateTime::from_timestamp(1_763_992_920, 0).unwrap();
        ShiftedBlock {
            host: "h".to_owned(),
            repeat: 3,
            started_at,
            ended_at: started_at + chrono::TimeDelta::hours(12),
            shift: Shift { block: 2, others: 4, rows: 12, agree: 11, change, interval },
        }
    }

    #[test]
    fn a_block_that_ends_on_another_day_says_so() {
        assert_eq!(
            sentence(&block(-0.04, [-0.0491, -0.0309]), &Thresholds::default()).text,
            "On h, the block of repeat 3 (2025-11-24 14:02 to 2025-11-25 02:02 UTC) was 4.00 % slower than 4 others, \
             in 11 of 12 rows (95 % interval 3.09 to 4.91 %, threshold 1 %)."
        );
    }

    proptest! {
        #[test]
        fn printed_numbers_agree_with_the_sentence(
            size in 0.01..0.5f64,
            reach in 1e-6..1.0f64,
            is_slower in any::<bool>(),
        ) {
            prop_assume!(size > 0.01);
            let (near, far) = (size * (1.0 - reach), size * (1.0 + reach));
            let block = if is_slower { block(-size, [-far, -near]) } else { block(size, [near, far]) };
            let Sentence { text, claims } = sentence(&block, &Thresholds::default());
            prop_assert!(claims.len() == 4 && claims.iter().all(|claim| claim.is_true_in(&text)), "{text}");
            let number = |text: &str| text.split_once(' ').unwrap().0.parse::<f64>().unwrap();
            let printed = number(text.split_once("UTC) was ").unwrap().1);
            let low = number(text.split_once("interval ").unwrap().1);
            let high = number(text.rsplit_once(" to ").unwrap().1);
            prop_assert!(low <= printed && printed <= high, "{text}");
            prop_assert_eq!(text.contains("slower"), is_slower);
        }
    }
}
