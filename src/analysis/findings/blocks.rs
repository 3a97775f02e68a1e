//! Findings about blocks that were slower or faster than others.

use super::finding::{Finding, Topic, finding};
use crate::analysis::block_shift::{ShiftedBlock, shifted_blocks};
use crate::analysis::group::Row;
use crate::analysis::marks::{Threshold, Thresholds};
use crate::text::LastDigit;

pub(super) fn shifted(rows: &[Row<'_>], thresholds: &Thresholds) -> Vec<Finding> {
    let blocks = shifted_blocks(rows, thresholds);
    blocks.iter().map(|block| finding(Topic::Host, sentence(block, thresholds))).collect()
}

fn sentence(block: &ShiftedBlock, thresholds: &Thresholds) -> String {
    let ShiftedBlock { host, repeat, shift, .. } = block;
    let limit = thresholds.of(Threshold::BlockShift);
    let is_slower = shift.change < 0.0;
    let [size, low, high] = if is_slower {
        [-shift.change, -shift.interval.high, -shift.interval.low]
    } else {
        [shift.change, shift.interval.low, shift.interval.high]
    };
    let [size, low, high, limit_percent] = [size, low, high, limit].map(|share| 100.0 * share);
    let digit = LastDigit::of_interval(low, high).expect("blocks without scatter are not told");
    let digit = digit.telling_apart(size, limit_percent);
    format!(
        "On {host}, the block of repeat {repeat} ({}) was {} % {} than {} others, in {} of {} rows (95 % interval \
         {} to {} %, threshold {}).",
        time_text(block),
        digit.text(size),
        if is_slower { "slower" } else { "faster" },
        shift.others,
        shift.agree,
        shift.rows,
        digit.text(low),
        digit.text(high),
        thresholds.text(Threshold::BlockShift),
    )
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
            sentence(&block(-0.04, [-0.0491, -0.0309]), &Thresholds::default()),
            "On h, the block of repeat 3 (2025-11-24 14:02 to 2025-11-25 02:02 UTC) was 4.00 % slower than 4 others, \
             in 11 of 12 rows (95 % interval 3.09 to 4.91 %, threshold 1 %)."
        );
    }

    proptest! {
        /// What is told follows from the numbers as they are printed.
        #[test]
        fn the_printed_numbers_say_what_the_sentence_says(
            size in 0.01..0.5f64,
            reach in 1e-6..1.0f64,
            is_slower in any::<bool>(),
        ) {
            prop_assume!(size > 0.01);
            let (near, far) = (size * (1.0 - reach), size * (1.0 + reach));
            let block = if is_slower { block(-size, [-far, -near]) } else { block(size, [near, far]) };
            let text = sentence(&block, &Thresholds::default());
            let number = |text: &str| text.split_once(' ').unwrap().0.parse::<f64>().unwrap();
            let printed = number(text.split_once("UTC) was ").unwrap().1);
            let low = number(text.split_once("interval ").unwrap().1);
            let high = number(text.rsplit_once(" to ").unwrap().1);
            prop_assert!(printed > 1.0 && low > 0.0 && low <= printed && printed <= high, "{text}");
            prop_assert_eq!(text.contains("slower"), is_slower);
        }
    }
}
