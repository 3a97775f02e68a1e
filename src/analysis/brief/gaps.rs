//! Gaps: runs that marks leave out, jobs without a result, rows with an unknown limit.

use std::collections::BTreeMap;

use super::known::{Known, some_of};
use crate::analysis::audit::{Audited, audit, bias};
use crate::analysis::bound::{Bound, Class};
use crate::analysis::classes::OPEN_OPERATORS;
use crate::analysis::findings::FindingKind;
use crate::analysis::group::Row;
use crate::text::count_text;

/// The runs that marks leave out, and the bias from that.
pub(super) fn left_out(known: Known<'_, '_>) -> Vec<String> {
    let rows = known.rows;
    let runs: usize = rows.iter().map(|row| row.runs.len()).sum();
    let out: usize = rows.iter().map(Row::left_out).sum();
    let included: usize = rows.iter().map(Row::included).sum();
    let audited = audit(rows);
    let replaced: usize = audited.iter().map(|line| line.replaced).sum();
    let mut sentences = vec![match out {
        0 => "No run with a result is left out.".to_owned(),
        _ => format!("{out} of {} with a result, by their marks.", count_text(runs, "run")),
    }];
    if included > 0 {
        sentences.push(format!("{} in spite of marks (--include-marked).", counts(included)));
    }
    if replaced > 0 {
        sentences.push(format!("{} replaced because of marks.", earlier(replaced)));
    }
    if out + included + replaced > 0 {
        sentences.push(format!("Marks: {}.", marks(&audited)));
        sentences.extend(bias(&audited).map(|bias| bias.words()));
    }
    sentences
}

fn counts(runs: usize) -> String {
    if runs == 1 { "1 run counts".to_owned() } else { format!("{runs} runs count") }
}

fn earlier(results: usize) -> String {
    if results == 1 { "1 earlier result was".to_owned() } else { format!("{results} earlier results were") }
}

/// `2 × contended, 1 × throttled`
fn marks(audited: &[Audited<'_>]) -> String {
    let mut by_mark: BTreeMap<&str, usize> = BTreeMap::new();
    for (mark, number) in audited.iter().flat_map(|line| &line.by_mark) {
        *by_mark.entry(mark).or_default() += number;
    }
    let texts = by_mark.iter().map(|(mark, number)| format!("{number} × {mark}"));
    texts.collect::<Vec<_>>().join(", ")
}

/// Jobs without a result, and rows whose limit is unknown.
pub(super) fn missing(known: Known<'_, '_>) -> Vec<String> {
    let undone = known.findings.iter().find(|finding| finding.kind == FindingKind::MissingResults);
    let jobs = undone
        .map_or_else(|| format!("{} a result.", all_have(known.runs.len())), |finding| finding.text.clone());
    let mut sentences = vec![jobs];
    sentences.extend(unknown_limits(known));
    sentences
}

fn all_have(jobs: usize) -> String {
    if jobs == 1 { "The only job has".to_owned() } else { format!("All {jobs} jobs have") }
}

/// `What limits all 7 rows is unknown: their bytes were not counted. To decide it, profile it by operator: …`; `None`
/// if all limits are known.
fn unknown_limits(known: Known<'_, '_>) -> Option<String> {
    let all = known.results().count();
    let unknown = || known.results().map(|(_, class)| class).filter(|class| class.bound == Bound::Unknown);
    let mut by_reason: Vec<(String, usize)> = counted(unknown().map(reason)).into_iter().collect();
    by_reason.sort_by_key(|(_, rows)| std::cmp::Reverse(*rows));
    let their = |reason: &String, rows: usize| {
        if rows == 1 { reason.clone() } else { reason.replacen("its ", "their ", 1) }
    };
    let clauses: Vec<String> = match &by_reason[..] {
        [] => return None,
        [(reason, rows)] => vec![their(reason, *rows)],
        reasons => {
            let clause = |why, rows| format!("{} ({})", their(why, rows), count_text(rows, "row"));
            reasons.iter().map(|(why, rows)| clause(why, *rows)).collect()
        }
    };
    let rows = some_of(unknown().count(), all, "row");
    let experiments = counted(unknown().filter_map(|class| class.experiment.clone()));
    let experiments: Vec<&str> = experiments.keys().map(String::as_str).collect();
    let decide = match &*experiments {
        [] => String::new(),
        all => format!(" To decide it, {}.", all.join("; for others, ")),
    };
    Some(format!("What limits {rows} is unknown: {}.{decide}", clauses.join("; ")))
}

/// How often each of `words` occurs.
fn counted(words: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for word in words {
        *found.entry(word).or_default() += 1;
    }
    found
}

/// Why the limit of a row is unknown. Numbers that differ from row to row are left out; findings have them.
fn reason(class: &Class) -> String {
    let why = &class.why;
    if !why.claims.is_empty() {
        "its place below the roofs is inconclusive".to_owned()
    } else if why.text.ends_with(OPEN_OPERATORS) {
        format!("too much {OPEN_OPERATORS}")
    } else {
        why.text.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::claim::Sentence;

    #[test]
    fn reasons_that_differ_in_a_number_are_one() {
        let of = |why: &str| reason(&Class::unknown(Sentence::plain(why.to_owned())));
        let open = |percent: u32| of(&format!("{percent} % {OPEN_OPERATORS}"));
        assert_eq!(open(47), open(58));
        assert_eq!(open(47), "too much of its time is in operators whose limit is unknown");
        assert_eq!(of("its bytes were not counted"), "its bytes were not counted");
    }
}
