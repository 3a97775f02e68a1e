//! What every kind of finding claims, evaluated on the numbers as they are printed, over random tables.

use std::collections::BTreeSet;

use strum::IntoEnumIterator;

use super::FindingKind;
use crate::analysis::{Analysis, analyse, random_table};

/// How many tables are drawn. Every kind of finding must appear in some of them.
const TABLES: u64 = 600;

/// The first claim of `analysis` that does not hold for what is printed, or a finding without a claim.
fn broken(analysis: &Analysis<'_>) -> Option<String> {
    let findings = analysis.findings.iter();
    let of_finding = |finding: &super::Finding| {
        let broken = finding.claims.iter().find(|claim| !claim.holds_in(&finding.text));
        match broken {
            Some(claim) => Some(format!("{}\n{claim:?}", finding.text)),
            None => finding.claims.is_empty().then(|| format!("{} claims nothing", finding.text)),
        }
    };
    findings.filter_map(of_finding).next()
}

#[test]
fn every_finding_holds_for_the_numbers_that_it_prints() {
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
