//! A finding about the throughput of the runs that marks leave out.

use super::finding::{Finding, finding};
use super::kind::FindingKind;
use crate::analysis::audit::{audit, bias};
use crate::analysis::group::Row;
use crate::analysis::marks::{Threshold, Thresholds};

/// A finding if the runs that marks leave out are slower or faster than the others, significantly and by more than the
/// threshold.
pub(super) fn exclusion(rows: &[Row<'_>], thresholds: &Thresholds) -> Option<Finding> {
    let bias = bias(&audit(rows))?;
    let threshold = thresholds.of(Threshold::ExclusionBias);
    (bias.is_significant() && bias.distance() > threshold)
        .then(|| finding(FindingKind::ExclusionBias, bias.sentence(threshold)))
}
