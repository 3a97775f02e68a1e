//! The tables of two published reports, if `AUDIT_LEDGERS` names a directory that contains them.
#![expect(clippy::disallowed_methods, reason = "the tables are not part of this project")]

use std::path::{Path, PathBuf};

use super::{Rule, Severity, audit, read};
use crate::analysis::peaks::Catalogue;

/// Rules, each with the lines to which it objects.
type Lines = &'static [(Rule, &'static [u64])];

/// Their errors and doubts, as they were worked out by hand.
const EXPECTED: [(&str, Lines); 2] = [
    ("appendix_a.csv", &[(Rule::Intensity, &[10]), (Rule::Runs, &[10]), (Rule::Spread, &[2, 3, 5, 6])]),
    (
        "appendix_b.csv",
        &[
            (Rule::Merged, &[2, 3, 4, 5, 7, 13, 17, 18]),
            (Rule::IterationCount, &[20]),
            (Rule::Runs, &[2, 3, 4, 5, 14]),
            (Rule::Cliff, &[8, 14, 19, 20, 23]),
        ],
    ),
];

#[test]
fn finds_exactly_the_mistakes_of_two_published_tables() {
    let Some(directory) = directory() else { return };
    let mut counts = [0, 0];
    for (file, expected) in EXPECTED {
        let text = load(&directory.join(file));
        let audited = audit(&read(file, &text, &[]).unwrap().entries, &Catalogue::default());
        let mut found: Vec<(Rule, u64)> =
            audited.objections.iter().map(|it| (it.rule, it.lines[0].line.unwrap())).collect();
        found.sort_unstable();
        let expected: Vec<(Rule, u64)> =
            expected.iter().flat_map(|(rule, lines)| lines.iter().map(|line| (*rule, *line))).collect();
        assert_eq!(found, expected, "{file}: {:#?}", audited.objections);
        counts[0] += audited.number(Severity::Error);
        counts[1] += audited.number(Severity::Doubt);
    }
    assert_eq!(counts, [10, 15]);
    println!("{} errors and {} doubts, as by hand", counts[0], counts[1]);
}

fn directory() -> Option<PathBuf> {
    std::env::var_os("AUDIT_LEDGERS").map(PathBuf::from)
}

fn load(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}
