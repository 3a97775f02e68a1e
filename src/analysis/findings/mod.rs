//! The findings of a report: [`findings`] derives [`Finding`]s from rows, runs and rooflines.
//!
//! Each is a sentence about a computed number with its threshold, such as `cpu_vgg16_fp32_bs4 waited for data during
//! 34 % of its window, median of n = 3 (threshold 10 %).` Below the threshold there is no finding. A finding carries
//! its claims about the numbers, and a test evaluates them on the numbers as printed.

mod alike;
mod blocks;
mod comparability;
mod exclusion;
mod finding;
mod flops;
mod host;
mod kind;
mod noise;
mod roof;

#[cfg(test)]
mod claims_tests;
#[cfg(test)]
mod tests;

use super::Run;
use super::bound::Class;
use super::group::Row;
use super::marks::Thresholds;
use super::noise::Calibrated;
use super::roofline::Roofline;
use blocks::shifted;
use comparability::{comparability, completeness};
use exclusion::exclusion;
use host::{host, spread};
use noise::noise;
use roof::roof;

pub use alike::{Alike, alike};
pub use finding::Finding;
pub use kind::{FindingKind, Remedy};

/// All findings, sorted by remedy and kind.
pub fn findings(
    runs: &[Run<'_>],
    rows: &[Row<'_>],
    rooflines: &[Roofline<'_>],
    classes: &[Class],
    thresholds: &Thresholds,
    calibrated: &[Calibrated],
) -> Vec<Finding> {
    let mut found = Vec::from_iter(completeness(runs));
    found.extend(comparability(runs, rows));
    found.extend(exclusion(rows, thresholds));
    found.extend(spread(rows));
    found.extend(noise(rows, calibrated));
    found.extend(host(runs, rows, thresholds));
    found.extend(shifted(rows, thresholds));
    found.extend(roof(rows, rooflines, classes, thresholds));
    found.sort_by_key(|finding| (finding.kind.remedy(), finding.kind));
    found
}
