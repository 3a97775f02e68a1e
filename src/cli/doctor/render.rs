//! A survey and its findings as text. Pure.

use super::facts::Section;
use super::finding::{Finding, Severity};

/// The host, then the findings, which are thus the last lines on a terminal.
pub(super) fn text(sections: &[Section], findings: &[Finding]) -> String {
    let mut text = String::new();
    for section in sections {
        text += &format!("{}\n{}\n", section.title, lines_text(&section.lines));
    }
    text += &format!("{}\n", summary(findings));
    for finding in findings {
        text += &finding_text(finding);
    }
    text
}

/// Names aligned within their section.
fn lines_text(lines: &[(String, String)]) -> String {
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    lines.iter().map(|(name, value)| format!("  {name:width$}  {value}\n")).collect()
}

/// `3 findings: 1 prevents runs, 2 are notes`.
fn summary(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "no problems were found on this host".to_owned();
    }
    let meaning = |severity: Severity, one: bool| match (severity, one) {
        (Severity::Prevents, true) => "prevents runs",
        (Severity::Prevents, false) => "prevent runs",
        (Severity::Spoils, true) => "spoils measurements",
        (Severity::Spoils, false) => "spoil measurements",
        (Severity::Limits, true) => "limits what can be measured",
        (Severity::Limits, false) => "limit what can be measured",
        (Severity::Note, true) => "is a note",
        (Severity::Note, false) => "are notes",
    };
    let counts = Severity::ALL
        .map(|severity| (severity, findings.iter().filter(|finding| finding.severity == severity).count()));
    let words = counts.into_iter().filter(|(_, number)| *number > 0);
    let words = words.map(|(severity, number)| format!("{number} {}", meaning(severity, number == 1)));
    let plural = if findings.len() == 1 { "" } else { "s" };
    format!("{} finding{plural}: {}", findings.len(), words.collect::<Vec<_>>().join(", "))
}

fn finding_text(finding: &Finding) -> String {
    let Finding { severity, what, why, remedy, code: _ } = finding;
    format!("\n{:8}  {what}\n{:8}  why: {why}\n{:8}  do:  {remedy}\n", severity.as_str(), "", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(severity: Severity) -> Finding {
        Finding { code: "x", severity, what: "it rains".into(), why: "one gets wet", remedy: "wait".into() }
    }

    #[test]
    fn findings_follow_the_facts_with_reason_and_remedy() {
        let lines = vec![("host".into(), "bench-1".into()), ("architecture".into(), "x86_64".into())];
        let text = text(&[Section { title: "system", lines }], &[finding(Severity::Limits)]);
        let expected = "system\n  host          bench-1\n  architecture  x86_64\n\n\
                        1 finding: 1 limits what can be measured\n\n\
                        limits    it rains\n          why: one gets wet\n          do:  wait\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_summary_counts_by_severity() {
        let findings = [Severity::Prevents, Severity::Note, Severity::Note].map(finding);
        assert_eq!(summary(&findings), "3 findings: 1 prevents runs, 2 are notes");
        assert_eq!(summary(&[]), "no problems were found on this host");
    }
}
