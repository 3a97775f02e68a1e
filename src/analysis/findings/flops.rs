//! Findings about the FLOPs of rows: the count that is used, compared with other counts of the same work.

use std::collections::BTreeSet;
use std::fmt;

use super::finding::{Finding, finding};
use super::kind::FindingKind;
use crate::analysis::claim::{Claim, Compared, Limit, Relation, Sentence};
use crate::analysis::cost::{Cost, Reported};
use crate::analysis::group::Row;
use crate::analysis::marks::{Threshold, Thresholds};
use crate::analysis::unconfirmed::listed;
use crate::text::count_text;

pub(super) fn flops(rows: &[Row<'_>], thresholds: &Thresholds) -> Vec<Finding> {
    let mut found = far_from_model(rows, thresholds);
    found.extend(reported_otherwise(rows, thresholds));
    found.extend(counted_otherwise(rows, thresholds));
    found.extend(uncounted_operators(rows));
    found
}

/// Rows whose device executed more or fewer operations than the network has, by more than a threshold.
fn far_from_model(rows: &[Row<'_>], thresholds: &Thresholds) -> Vec<Finding> {
    let of_row = |row: &Row<'_>| {
        let executed = row.counted.ncu.as_ref()?.flops_per_sample()?;
        let modelled = row.cost.as_ref().ok()?.needed_flops();
        let far = Distance::of(Threshold::ExecutedFlops, executed, modelled, thresholds)?;
        let text = format!(
            "Per sample of {}, the device executed {} GFLOP and the network has {} ({far}). Algorithms such as \
             Winograd's need fewer. Padding needs more, and so do undescribed operations.",
            row.label(),
            far.one(),
            far.other(),
        );
        Some(finding(FindingKind::ExecutedFlops, Sentence::new(text, far.claims())).about(row.label()))
    };
    rows.iter().filter_map(of_row).collect()
}

/// Rows whose worker reports other FLOPs than the network has, by more than a threshold.
fn reported_otherwise(rows: &[Row<'_>], thresholds: &Thresholds) -> Vec<Finding> {
    let of_row = |row: &Row<'_>| {
        let described = row.cost.as_ref().ok()?.described()?;
        let (reported, counted) = (described.reported_flops?, described.needed_flops as f64);
        let (_, cause) = described.miscounted()?;
        let far = Distance::of(Threshold::ReportedFlops, reported, counted, thresholds)?;
        let text = format!(
            "Per sample of {}, the worker counts {} GFLOP and orchestrate {} ({far}): {cause}. orchestrate's number is \
             used.",
            row.label(),
            far.one(),
            far.other(),
        );
        Some(finding(FindingKind::ReportedFlops, Sentence::new(text, far.claims())).about(row.label()))
    };
    rows.iter().filter_map(of_row).collect()
}

/// Rows whose worker's library counted other FLOPs than those that are used, by more than a threshold.
fn counted_otherwise(rows: &[Row<'_>], thresholds: &Thresholds) -> Vec<Finding> {
    let of_row = |row: &Row<'_>| {
        let cost = row.cost.as_ref().ok()?;
        let used =
            if cost.described().is_some() { "orchestrate's description" } else { "the worker's declaration" };
        let far =
            Distance::of(Threshold::CountedFlops, cost.counted_flops()?, cost.needed_flops(), thresholds)?;
        let text = format!(
            "Per sample of {}, the worker's library counted {} GFLOP in an iteration, and {used} has {} ({far}): one \
             of them counts another network or other operations. The latter is used.",
            row.label(),
            far.one(),
            far.other(),
        );
        Some(finding(FindingKind::CountedFlops, Sentence::new(text, far.claims())).about(row.label()))
    };
    rows.iter().filter_map(of_row).collect()
}

/// Rows whose counted FLOPs lack those of some operators.
fn uncounted_operators(rows: &[Row<'_>]) -> Vec<Finding> {
    let of_row = |row: &Row<'_>| {
        let Ok(Cost::Reported(Reported { is_counted: true, .. })) = row.cost else { return None };
        let names: BTreeSet<&String> =
            row.measurements().flat_map(|measured| &measured.details.uncounted_operators).collect();
        let names: Vec<&String> = names.into_iter().collect();
        let text = format!(
            "The FLOPs of {} lack those of {} without a formula ({}): its GFLOP/s and its share of the peak are too \
             low, unless the worker declares `details.flops_per_sample`.",
            row.label(),
            count_text(names.len(), "operator"),
            listed(&names),
        );
        let n = Claim::some(names.len());
        (!names.is_empty())
            .then(|| finding(FindingKind::UncountedOperators, Sentence::new(text, [n])).about(row.label()))
    };
    rows.iter().filter_map(of_row).collect()
}

/// The distance between two counts of FLOPs, if it exceeds a threshold.
struct Distance {
    is_more: bool,
    /// The first count in GFLOP, compared with the second.
    flops: Compared,
    /// The difference in percent of the second count, compared with the threshold.
    share: Compared,
}

impl Distance {
    /// `None` within the threshold.
    fn of(threshold: Threshold, one: f64, other: f64, thresholds: &Thresholds) -> Option<Distance> {
        let (share, limit) = (one / other - 1.0, thresholds.of(threshold));
        let relation = if share > 0.0 { Relation::Above } else { Relation::Below };
        // So many decimals that the larger count has four significant digits.
        let decimals = (3 - (one.max(other) / 1e9).max(1e-9).log10().floor() as i32).clamp(0, 12) as usize;
        (share.abs() > limit).then(|| Distance {
            is_more: share > 0.0,
            flops: Compared::new(one / 1e9, relation, Limit::printed(other / 1e9, decimals), decimals),
            share: Compared::passed(threshold, share.abs(), limit, 0),
        })
    }

    fn one(&self) -> &str {
        self.flops.number()
    }

    fn other(&self) -> String {
        self.flops.limit()
    }

    fn claims(self) -> [Compared; 2] {
        [self.flops, self.share]
    }
}

impl fmt::Display for Distance {
    /// `+98 %; threshold 5 %`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_more { '+' } else { '-' };
        write!(f, "{sign}{} %; threshold {}", self.share.number(), self.share.limit())
    }
}
