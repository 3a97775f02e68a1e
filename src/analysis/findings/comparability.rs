//! Findings about missing results, and about runs that are not pooled or are left out.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::finding::{Finding, finding, list, list_clauses, list_differences};
use super::kind::FindingKind;
use crate::analysis::claim::{Claim, Compared, Limit, Relation, Sentence};
use crate::analysis::counted::stray;
use crate::analysis::facts::differences_within;
use crate::analysis::group::Row;
use crate::analysis::marks::Mark;
use crate::analysis::tally::Tally;
use crate::analysis::unconfirmed::{count_unconfirmed, unconfirmed_text};
use crate::analysis::{Cell, Run};
use crate::job::{ConfigOf, PARAMETERS};
use crate::protocol::SampleUnit;
use crate::text::count_text;

pub(super) fn completeness(runs: &[Run<'_>]) -> Option<Finding> {
    let tally = Tally::of(runs);
    let undone = tally.undone();
    (!undone.is_empty()).then(|| {
        let verb = if runs.len() == 1 { "has" } else { "have" };
        let jobs = count_text(runs.len(), "job");
        let text = format!("{} of {jobs} {verb} a result; {}.", tally.done, undone.join(", "));
        let all = Limit::printed(runs.len() as f64, 0);
        let done = Compared::new(tally.done as f64, Relation::Below, all, 0);
        finding(FindingKind::MissingResults, Sentence::new(text, [done]))
    })
}

pub(super) fn comparability(runs: &[Run<'_>], rows: &[Row<'_>]) -> Vec<Finding> {
    let mut found = splits(rows);
    found.extend(pooled_differences(rows));
    found.extend(settings_differ(rows));
    found.extend(mixed_settings(rows));
    found.extend(mixed_units(rows));
    found.extend(not_confirmed(rows));
    found.extend(batch_not_confirmed(rows));
    found.extend(stray_profiles(runs, rows));
    found.extend(disturbed_profiles(runs));
    found.extend(left_out(rows));
    found.extend(included(rows));
    found
}

/// Rows whose throughputs have different units, and so are not comparable.
fn mixed_units(rows: &[Row<'_>]) -> Option<Finding> {
    let mut by_unit: BTreeMap<SampleUnit, Vec<String>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.circumstances.is_some()) {
        by_unit.entry(row.unit()).or_default().push(row.label());
    }
    let units: Vec<String> =
        by_unit.iter().map(|(unit, labels)| format!("{unit} ({})", list(labels))).collect();
    (units.len() > 1).then(|| {
        let text = format!(
            "Samples are of {} kinds: {}. Throughputs of different units are not comparable.",
            units.len(),
            units.join("; ")
        );
        finding(FindingKind::MixedUnits, Sentence::new(text, [Claim::several(units.len())]))
    })
}

/// The second and further rows of each config, with their differences from the first.
fn splits(rows: &[Row<'_>]) -> Vec<Finding> {
    let mut firsts: HashMap<ConfigOf<'_>, &Row<'_>> = HashMap::new();
    let mut found = Vec::new();
    for row in rows.iter().filter(|row| row.part.1 > 1) {
        let first = *firsts.entry(ConfigOf::new(&row.config)).or_insert(row);
        if row.part.0 > 1 {
            found.extend(split(row, first));
        }
    }
    found
}

fn split(row: &Row<'_>, first: &Row<'_>) -> Option<Finding> {
    let (part, of) = row.part;
    let differences = first.circumstances.as_ref()?.differences(row.circumstances.as_ref()?);
    let label = format!("{}{}", row.config.label().trim_end_matches("_run1"), row.distinction);
    let sentence = list_differences(&differences).reworded(|differences| {
        format!("Runs of {label} are not pooled: row {part} of {of} differs from row 1 in {differences}.")
    });
    Some(finding(FindingKind::NotPooled, sentence.claiming([Claim::several(part)])).about(label))
}

/// Differences between runs that are pooled despite them.
fn pooled_differences(rows: &[Row<'_>]) -> Vec<Finding> {
    let mut by_differences: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    for row in rows {
        let differences = differences_within(row.runs.iter().filter_map(|run| run.cell.success()));
        if !differences.is_empty() {
            *by_differences.entry(differences).or_default() += 1;
        }
    }
    let sentence = |(differences, n): (Vec<String>, usize)| {
        let text = format!("Pooled runs differ in {} ({}).", differences.join(", "), count_text(n, "row"));
        let claims = differences.into_iter().map(Claim::Differ).chain([Claim::some(n)]);
        finding(FindingKind::PooledDifferences, Sentence::new(text, claims))
    };
    by_differences.into_iter().map(sentence).collect()
}

/// Profiled jobs whose circumstances match no row of their config.
fn stray_profiles(runs: &[Run<'_>], rows: &[Row<'_>]) -> Vec<Finding> {
    let sentence = |(cell, differences): (&Cell, Vec<String>)| {
        let label = cell.job.label();
        let sentence = list_differences(&differences).reworded(|differences| {
            format!(
                "The profile of {label} is not compared with the timing runs of its config: they differ in \
                 {differences}."
            )
        });
        finding(FindingKind::StrayProfile, sentence).about(label)
    };
    stray(runs, rows).into_iter().map(sentence).collect()
}

/// Disturbed profiled jobs: their counters include the other users of the device or the host.
fn disturbed_profiles(runs: &[Run<'_>]) -> Vec<Finding> {
    let sentence = |run: &Run<'_>| {
        let marks = Sentence::joined(run.left_out_by().map(Mark::sentence), "; ");
        let label = run.cell.job.label();
        let sentence = marks.reworded(|marks| format!("The profile of {label} is left out: {marks}."));
        finding(FindingKind::DisturbedProfile, sentence).about(label)
    };
    runs.iter()
        .filter(|run| !run.cell.is_timing() && run.left_out_by().next().is_some())
        .map(sentence)
        .collect()
}

/// Undeclared differences between rows of several envs.
fn settings_differ(rows: &[Row<'_>]) -> Vec<Finding> {
    let mut by_envs: BTreeMap<(&str, &str, &[String]), usize> = BTreeMap::new();
    for (row, env, differences) in differences(rows) {
        // The other row has the same mark in reverse.
        if row.config.env.as_str() < env {
            *by_envs.entry((&row.config.env, env, differences)).or_default() += 1;
        }
    }
    let sentence = |((env, other, differences), n): ((&str, &str, &[String]), usize)| {
        let text = format!(
            "{env} and {other} have undeclared differences (settings-differ, {}): {}.",
            count_text(n, "row"),
            differences.join(", ")
        );
        let claims = differences.iter().cloned().map(Claim::Differ).chain([Claim::some(n)]);
        finding(FindingKind::SettingsDiffer, Sentence::new(text, claims))
    };
    by_envs.into_iter().map(sentence).collect()
}

/// The marks about undeclared differences: the marked row, the other env and the differences.
fn differences<'a>(rows: &'a [Row<'_>]) -> impl Iterator<Item = (&'a Row<'a>, &'a str, &'a [String])> {
    let doubts = rows.iter().flat_map(|row| row.doubts.iter().map(move |doubt| (row, doubt)));
    doubts.filter_map(|(row, doubt)| {
        let Mark::SettingsDiffer { env, differences } = doubt else { return None };
        Some((row, env.as_str(), differences.as_slice()))
    })
}

/// Whether a mark of a row already reports that `name` differs.
fn is_marked(rows: &[Row<'_>], name: &str) -> bool {
    let mut marked = differences(rows).flat_map(|(_, _, differences)| differences);
    marked.any(|difference| difference.split(' ').next() == Some(name))
}

/// Undeclared settings that differ between rows, where no mark reports them. Only parameters of the shipped worker
/// count: other settings that a worker reports might follow from the config.
fn mixed_settings(rows: &[Row<'_>]) -> Vec<Finding> {
    let mut by_name: BTreeMap<&'static str, BTreeMap<String, BTreeSet<&str>>> = BTreeMap::new();
    for row in rows {
        let Some(circumstances) = &row.circumstances else { continue };
        for parameter in PARAMETERS {
            let name = parameter.name();
            let Some(value) = circumstances.effective.settings.get(name) else { continue };
            if row.config.params.contains_key(name) {
                continue;
            }
            by_name.entry(name).or_default().entry(value.to_string()).or_default().insert(&row.config.env);
        }
    }
    by_name
        .into_iter()
        .filter(|(name, values)| values.len() > 1 && !is_marked(rows, name))
        .map(|(name, values)| {
            let values: Vec<String> = values
                .into_iter()
                .map(|(value, envs)| format!("{value} ({})", envs.into_iter().collect::<Vec<_>>().join(", ")))
                .collect();
            let text = format!(
                "The setting `{name}` is not declared and has {} values: {}.",
                values.len(),
                values.join(", ")
            );
            finding(FindingKind::MixedSettings, Sentence::new(text, [Claim::several(values.len())]))
        })
        .collect()
}

/// Declared parameters that the records of some rows do not confirm.
fn not_confirmed(rows: &[Row<'_>]) -> Vec<Finding> {
    let mut by_names: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    for row in rows {
        let records = row.runs.iter().filter_map(|run| Some((run.cell.job.key(), run.cell.record()?)));
        for names in count_unconfirmed(records).into_keys() {
            *by_names.entry(names).or_default() += 1;
        }
    }
    let sentence = |(names, n): (Vec<String>, usize)| {
        let text = format!("Not confirmed: {} ({}).", unconfirmed_text(&names), count_text(n, "row"));
        finding(FindingKind::NotConfirmed, Sentence::new(text, [Claim::some(n)]))
    };
    by_names.into_iter().map(sentence).collect()
}

/// Rows whose workers repeat the batch from their flags instead of observing the inputs of the network.
fn batch_not_confirmed(rows: &[Row<'_>]) -> Option<Finding> {
    let n = rows
        .iter()
        .filter(|row| row.measurements().any(|measured| measured.details.repeats("batch")))
        .count();
    let text = format!(
        "Not confirmed: the worker repeats `batch` without checking the inputs of the network, so the throughput \
         would be too high if a part of each batch were left out ({}).",
        count_text(n, "row")
    );
    (n > 0).then(|| finding(FindingKind::NotConfirmed, Sentence::new(text, [Claim::some(n)])))
}

fn left_out(rows: &[Row<'_>]) -> Vec<Finding> {
    let sentence = |row: &Row<'_>| {
        let reasons = distinct(row.runs.iter().flat_map(Run::left_out_by));
        let (part, whole) = (row.left_out(), row.runs.len());
        let (runs, label) = (count_text(whole, "run"), row.label());
        let sentence =
            reasons.reworded(|why| format!("{part} of {runs} of {label} left out of the statistics: {why}."));
        finding(FindingKind::LeftOut, sentence.claiming([Claim::of(part, whole)])).about(label)
    };
    rows.iter().filter(|row| row.left_out() > 0).map(sentence).collect()
}

/// Runs that are included despite marks that leave runs out.
fn included(rows: &[Row<'_>]) -> Vec<Finding> {
    let sentence = |row: &Row<'_>| {
        let runs = row.runs.iter().filter(|run| run.is_included());
        let reasons = distinct(runs.flat_map(|run| run.marks.iter().filter(|mark| mark.disqualifies())));
        let (part, whole) = (row.included(), row.runs.len());
        let (runs, label) = (count_text(whole, "run"), row.label());
        let sentence = reasons.reworded(|why| {
            format!("{part} of {runs} of {label} included despite their marks (--include-marked): {why}.")
        });
        finding(FindingKind::Included, sentence.claiming([Claim::of(part, whole)])).about(label)
    };
    rows.iter().filter(|row| row.included() > 0).map(sentence).collect()
}

/// The sentences of `marks` without repetitions, in alphabetical order.
fn distinct<'m>(marks: impl Iterator<Item = &'m Mark>) -> Sentence {
    let sentences: BTreeMap<String, Sentence> =
        marks.map(Mark::sentence).map(|sentence| (sentence.text.clone(), sentence)).collect();
    list_clauses(sentences.into_values().collect())
}
