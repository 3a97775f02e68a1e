//! Evaluates the claims of every kind of finding on the printed numbers, over random tables.

use std::collections::BTreeSet;

use strum::IntoEnumIterator;

use super::FindingKind;
use crate::analysis::{Analysis, analyse, random_table};

/// The number of random tables. Every kind of finding must appear in at least one.
const TABLES: u64 = 600;

/// The first claim of `analysis` that is false for the printed numbers, or the first finding without a claim.
fn broken(analysis: &Analysis<'_>) -> Option<String> {
    let findings = analysis.findings.iter();
    let of_finding = |finding: &super::Finding| {
        let broken = finding.claims.iter().find(|claim| !claim.is_true_in(&finding.text));
        match broken {
            Some(claim) => Some(format!("{}\n{claim:?}", finding.text)),
            None => finding.claims.is_empty().then(|| format!("{} claims nothing", finding.text)),
        }
    };
    findings.filter_map(of_finding).next()
}

#[test]
fn claims_of_every_kind_of_finding_are_true_as_printed() {
    let mut seen = BTreeSet::new();
    for seed in 0..TABLES {
        let study = random_table::study(seed);
        let analysis = analyse(&study);
        assert_eq!(broken(&analysis), None, "table {seed}");
        seen.extend(analysis.findings.iter().map(|finding| finding.kind));
    }
    let unseen: Vec<FindingKind> = FindingKind::iter().filter(|kind| !seen.contains(kind)).collect();
    assert_eq!(unseen, [], "no table has such a finding");
}
