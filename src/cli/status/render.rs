//! An [`Overview`] as text. Pure.

use std::collections::BTreeMap;

use super::fold::{MOST_CONFIGS, folded_text};
use super::overview::{ConfigView, FailureView, Overview, ThroughputView, UnconfirmedView};
use crate::analysis::printed::{beside, interval_text};
use crate::analysis::unconfirmed::unconfirmed_text;
use crate::cli::drift::{FileDrift, renamed_lines};
use crate::cli::misread::misread_lines;
use crate::cli::output::{Layout, table, table_text};
use crate::cli::queue::QueueView;
use crate::cli::study::MARKED_ARE_INCLUDED;
use crate::cli::words::param_text;
use crate::job::{Key, Kind, State, distinction};
use crate::text::jobs_text;

/// How much of an overview is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Fits a screen: many configs are folded by env and network, and only the first of many failures are named.
    Short,
    /// Every config and every failure.
    All,
}

impl Extent {
    pub(super) fn other(self) -> Extent {
        match self {
            Extent::Short => Extent::All,
            Extent::All => Extent::Short,
        }
    }
}

/// The table, then the problems.
pub(super) fn text(overview: &Overview, extent: Extent, layout: Layout) -> String {
    let is_folded = extent == Extent::Short && overview.configs.len() > MOST_CONFIGS;
    let mut text = if is_folded { folded_text(overview, layout) } else { configs_text(overview, layout) };
    if is_folded {
        text += &running_text(overview);
    }
    text += &format!("{}: {}: {}", overview.matrix, jobs_text(overview.counts.jobs()), overview.counts);
    if overview.time_left.jobs > 0 {
        text += &format!("; time left: {}", overview.time_left);
    }
    text.push('\n');
    if overview.include_marked {
        text += &format!("{MARKED_ARE_INCLUDED}\n");
    }
    for QueueView { queue, phrase, jobs } in &overview.queue {
        text += &format!("\n{queue}: {phrase}: {}\n", jobs_text(*jobs));
    }
    let most = if extent == Extent::All { usize::MAX } else { MOST_FAILURES };
    text += &failures_text(&overview.failures, &overview.varying, most);
    text += &reasons_text("left out", &overview.left_out, extent);
    text += &reasons_text("stale", &overview.stale, extent);
    for UnconfirmedView { parameters, jobs } in &overview.unconfirmed {
        text += &format!("\nnot confirmed: {}: {}\n", unconfirmed_text(parameters), jobs_text(*jobs));
    }
    for problem in &overview.problems {
        text += &format!("\n{}", problem.text());
    }
    let drift = overview.drift.as_ref().map(FileDrift::sentence);
    for line in
        drift.into_iter().chain(renamed_lines(&overview.renamed)).chain(misread_lines(&overview.misread))
    {
        text += &format!("\n{line}\n");
    }
    text
}

/// One paragraph per reason, with its number of jobs. Of many, only the most common ones, unless `extent` is `All`.
fn reasons_text(what: &str, reasons: &BTreeMap<String, usize>, extent: Extent) -> String {
    let most = if extent == Extent::All { usize::MAX } else { MOST_REASONS };
    let mut sorted: Vec<(&String, usize)> =
        reasons.iter().map(|(reason, number)| (reason, *number)).collect();
    sorted.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    let (shown, others) = sorted.split_at(sorted.len().min(most));
    let paragraph =
        |(reason, number): &(&String, usize)| format!("\n{what}: {reason}: {}\n", jobs_text(*number));
    let mut text: String = shown.iter().map(paragraph).collect();
    if !others.is_empty() {
        let jobs: usize = others.iter().map(|(_, number)| number).sum();
        text +=
            &format!("  … and {} for {} more reasons; `--all` prints them\n", jobs_text(jobs), others.len());
    }
    text
}

/// The most reasons why jobs are left out or stale that are printed without `--all`.
const MOST_REASONS: usize = 3;

/// The most jobs with the same failure that are named without `--all`.
const MOST_FAILURES: usize = 5;

/// An optional column.
struct Column {
    name: &'static str,
    cell: fn(&ConfigView) -> String,
}

/// Columns that are only shown if one of their cells is not empty.
const OPTIONAL: [Column; 8] = [
    Column { name: "kind", cell: |config| kind_text(config.key.kind) },
    Column { name: "failed (why)", cell: |config| failed_text(&config.failed) },
    Column { name: State::Running.text(), cell: |config| number_text(config, State::Running) },
    Column { name: State::Waiting.text(), cell: |config| number_text(config, State::Waiting) },
    Column { name: State::IfNeeded.text(), cell: |config| number_text(config, State::IfNeeded) },
    Column { name: State::NotHere.text(), cell: |config| number_text(config, State::NotHere) },
    Column { name: State::Pruned.text(), cell: |config| number_text(config, State::Pruned) },
    Column { name: State::Blocked.text(), cell: |config| number_text(config, State::Blocked) },
];

fn configs_text(overview: &Overview, layout: Layout) -> String {
    let is_shown = |column: &&Column| overview.configs.iter().any(|config| !(column.cell)(config).is_empty());
    let optional: Vec<&Column> = OPTIONAL.iter().filter(is_shown).collect();
    let noted = overview.configs.iter().flat_map(|config| &config.throughput).any(|it| !note(it).is_empty());
    let mut header: Vec<String> = ["env", "model", "precision", "batch"].map(str::to_owned).into();
    header.extend(overview.varying.iter().cloned());
    header.push("done".to_owned());
    header.extend(optional.iter().map(|column| column.name.to_owned()));
    header.extend([format!("{}/s", overview.unit()), "95 % interval".to_owned(), "n".to_owned()]);
    header.extend(noted.then(|| "note".to_owned()));
    let mut rows = table(header, layout);
    for config in &overview.configs {
        let mut own = own_cells(config, &overview.varying);
        own.extend(optional.iter().map(|column| (column.cell)(config)));
        let groups: Vec<Option<&ThroughputView>> = match config.throughput.len() {
            0 => vec![None],
            _ => config.throughput.iter().map(Some).collect(),
        };
        for group in groups {
            let mut row = own.clone();
            row.extend(throughput_cells(group));
            row.extend(noted.then(|| group.map(note).unwrap_or_default()));
            rows.add_row(row);
        }
    }
    table_text(&rows)
}

fn own_cells(config: &ConfigView, varying: &[String]) -> Vec<String> {
    let key = &config.key;
    let mut cells =
        vec![key.env.to_string(), key.model.to_string(), key.precision.to_string(), key.batch.to_string()];
    cells.extend(varying.iter().map(|name| param_text(key, name)));
    let needed = config.counts.clone().without(State::NotNeeded).without(State::IfNeeded).jobs();
    cells.push(format!("{}/{needed}", config.counts.of(State::Done)));
    cells
}

/// Samples per second, its interval, and n.
fn throughput_cells(group: Option<&ThroughputView>) -> [String; 3] {
    let nothing = |n: usize| ["-".to_owned(), "-".to_owned(), n.to_string()];
    let Some(group) = group else { return nothing(0) };
    let Some(rate) = group.geometric_mean else { return nothing(group.n) };
    [beside(rate, group.interval), interval_text(group.interval), group.n.to_string()]
}

/// The marks with their numbers of runs, and the differences between groups of a config.
fn note(group: &ThroughputView) -> String {
    let left_out = group.left_out.iter().map(|(marks, number)| format!("{number} {marks} left out"));
    let included = group.included.iter().map(|(marks, number)| format!("{number} {marks} included"));
    let kept = group.kept.iter().map(|(mark, number)| format!("{number} {mark}"));
    let row = group.row_marks.iter().map(|mark| (*mark).to_owned());
    let differences =
        (!group.differences.is_empty()).then(|| format!("apart: {}", group.differences.join(", ")));
    left_out.chain(included).chain(kept).chain(row).chain(differences).collect::<Vec<_>>().join("; ")
}

fn kind_text(kind: Kind) -> String {
    if kind == Kind::Timing { String::new() } else { kind.to_string() }
}

/// The number of jobs of `config` in `state`; blank if 0.
fn number_text(config: &ConfigView, state: State) -> String {
    match config.counts.of(state) {
        0 => String::new(),
        number => number.to_string(),
    }
}

/// `2 (exited, signalled)`
fn failed_text(failed: &BTreeMap<&'static str, usize>) -> String {
    let number: usize = failed.values().sum();
    let kinds: Vec<&str> = failed.keys().copied().collect();
    if number == 0 { String::new() } else { format!("{number} ({})", kinds.join(", ")) }
}

/// The configs with a running job.
fn running_text(overview: &Overview) -> String {
    let running = overview.configs.iter().filter(|config| config.counts.of(State::Running) > 0);
    let label = |config: &ConfigView| {
        let Key { env, model, precision, batch, .. } = &config.key;
        format!(
            "running: {env}_{model}_{precision}_bs{batch}{}\n",
            distinction(&config.key, &overview.varying)
        )
    };
    running.map(label).collect()
}

/// Every failure once, followed by the first `most` jobs with this failure and the parameters that distinguish them.
fn failures_text(failures: &[FailureView], varying: &[String], most: usize) -> String {
    let mut by_sentence: Vec<(&str, Vec<&FailureView>)> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for failure in failures {
        let place = *places.entry(&failure.sentence).or_insert(by_sentence.len());
        if place == by_sentence.len() {
            by_sentence.push((&failure.sentence, Vec::new()));
        }
        by_sentence[place].1.push(failure);
    }
    let mut text = String::new();
    for (sentence, group) in by_sentence {
        text += &format!("\nfailed: {sentence}\n");
        for failure in group.iter().take(most) {
            let attempts =
                if failure.attempt > 1 { format!(" (attempt {})", failure.attempt) } else { String::new() };
            let apart = distinction(&failure.key, varying);
            text += &format!("  {}{apart}{attempts}\n", failure.label);
        }
        if group.len() > most {
            text += &format!("  … and {} more\n", group.len() - most);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::SampleUnit;
    use crate::stats::Interval;

    #[test]
    fn of_many_reasons_the_common_ones_are_printed() {
        let reasons: BTreeMap<String, usize> =
            [("a", 1), ("b", 2), ("c", 1), ("d", 7), ("e", 1)].map(|(why, n)| (why.to_owned(), n)).into();
        let short = reasons_text("stale", &reasons, Extent::Short);
        let expected = "\nstale: d: 7 jobs\n\nstale: b: 2 jobs\n\nstale: a: 1 job\n  … and 2 jobs for 2 more reasons; \
                        `--all` prints them\n";
        assert_eq!(short, expected);
        let all = reasons_text("stale", &reasons, Extent::All);
        assert_eq!(all.matches("\nstale: ").count(), 5, "{all}");
        assert_eq!(reasons_text("stale", &BTreeMap::new(), Extent::Short), "");
    }

    #[test]
    fn fewer_than_three_runs_have_no_interval_text() {
        let group = |n, geometric_mean, ends: Option<[f64; 2]>| ThroughputView {
            n,
            unit: SampleUnit::IMAGES,
            geometric_mean,
            median: geometric_mean,
            mad: Some(0.5),
            interval: ends.map(|[low, high]| Interval { low, high, coverage: 0.95 }),
            left_out: BTreeMap::new(),
            included: BTreeMap::new(),
            kept: BTreeMap::new(),
            row_marks: Vec::new(),
            host: String::new(),
            differences: Vec::new(),
        };
        let cells = |n, rate, ends| throughput_cells(Some(&group(n, rate, ends)));
        assert_eq!(cells(2, Some(128.0), None), ["128.0", "n too small", "2"]);
        assert_eq!(cells(3, Some(128.0), Some([126.76, 129.24])), ["128.0", "126.8 to 129.2", "3"]);
        assert_eq!(cells(3, Some(128.0), Some([128.0; 2])), ["128.0", "no scatter", "3"]);
        assert_eq!(cells(0, None, None), ["-", "-", "0"]);
        assert_eq!(throughput_cells(None), ["-", "-", "0"]);
    }
}
