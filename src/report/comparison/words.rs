//! A comparison in words, for the terminal and the page.

use crate::analysis::compare::WouldDecide;
use crate::analysis::disagreement::disagreement;
use crate::analysis::versus::{ConfigComparison, Line, Versus, ratio_texts};
use crate::stats::CONFIDENCE;
use crate::text::{count_text, decimals, significant, without_numbers};

/// The headings of the table of [`table_rows`].
pub fn table_header(versus: &Versus) -> Vec<String> {
    let [from, to] = &versus.names;
    let unit = &versus.unit;
    let interval = format!("{} % interval", decimals(CONFIDENCE * 100.0, 1));
    let mut header = vec!["config".to_owned(), format!("{from} {unit}/s"), format!("{to} {unit}/s")];
    header.extend(["ratio".to_owned(), interval]);
    header.extend(["p", "compared by", "verdict", "note"].map(str::to_owned));
    header
}

/// The rows below [`table_header`]: the configs that are compared.
pub fn table_rows(versus: &Versus) -> impl Iterator<Item = Vec<String>> {
    versus.lines.iter().filter_map(|line| Some(cells(line, line.result.as_ref().ok()?)))
}

fn cells(line: &Line, comparison: &ConfigComparison) -> Vec<String> {
    let side = |place: usize| line.sides.map_or("-".to_owned(), |sides| significant(sides[place].per_s, 4));
    let [ratio, low, high] = comparison.texts();
    let mut cells = vec![line.config.clone(), side(0), side(1), ratio, format!("{low} – {high}")];
    let verdict = comparison.verdict.as_str().to_owned();
    cells.extend([p_text(comparison.p()), comparison.pairing_text(), verdict, note(comparison)]);
    cells
}

/// The configs that are not compared, a line for each reason, the most common one first. Reasons that differ only in
/// numbers are combined. A line names at most `most` configs.
///
/// ```text
/// 24 configs are not compared: only the second side has it: resnet50 bs16, resnet50 bs32 and 22 more
/// ```
pub fn apart_text(versus: &Versus, most: usize) -> Vec<String> {
    let mut groups: Vec<(String, &str, Vec<&str>)> = Vec::new();
    for line in &versus.lines {
        let Err(reason) = &line.result else { continue };
        let words = without_numbers(reason);
        match groups.iter_mut().find(|(known, ..)| *known == words) {
            Some((.., configs)) => configs.push(&line.config),
            None => groups.push((words, reason, vec![&line.config])),
        }
    }
    groups.sort_by_key(|(.., configs)| std::cmp::Reverse(configs.len()));
    let text = |(_, reason, configs): &(String, &str, Vec<&str>)| {
        let are = if configs.len() == 1 { "is" } else { "are" };
        format!(
            "{} {are} not compared: {reason}: {}",
            count_text(configs.len(), "config"),
            few(configs, most)
        )
    };
    groups.iter().map(text).collect()
}

/// `a, b, c and 21 more`.
fn few(names: &[&str], most: usize) -> String {
    let more = match names.len().saturating_sub(most) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", names[..names.len().min(most)].join(", "))
}

fn note(comparison: &ConfigComparison) -> String {
    let corrected = comparison.is_open_by_correction().then(|| "open only by Holm's correction".to_owned());
    let repeats = comparison.would_decide.map(|WouldDecide { repeats, verdict }| {
        format!("about {repeats} repeats would decide: {}", verdict.as_str())
    });
    corrected.into_iter().chain(repeats).collect::<Vec<_>>().join("; ")
}

/// A p-value with two digits, or `< 0.001`: smaller ones depend on the extreme tails of the distribution.
fn p_text(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { significant(p, 2) }
}

/// The differences between the sides, a line for each.
pub fn differences_text(versus: &Versus) -> Vec<String> {
    let compared = versus.comparison.configs.len();
    let line = |difference: &crate::analysis::versus::Difference| match difference.configs {
        all if all == compared => difference.text.clone(),
        some => format!("{} (in {some} of {})", difference.text, count_text(compared, "config")),
    };
    versus.differences.iter().map(line).collect()
}

/// The geometric mean of several ratios, in a sentence. If they disagree, the setting that they depend on.
pub fn geometric_mean_text(versus: &Versus) -> Option<String> {
    if let Some(disagreement) = disagreement("", versus) {
        return Some(format!("There is no common ratio: it {}.", disagreement.text()));
    }
    let estimate = versus.comparison.geometric_mean.ok()?;
    let configs = versus.comparison.configs.iter().filter(|config| config.is_ok()).count();
    if configs < 2 {
        return None;
    }
    let [mean, low, high] = ratio_texts(estimate.value.exp(), estimate.interval(CONFIDENCE).exp());
    Some(format!("The geometric mean of {} is {mean} ({low} – {high}).", count_text(configs, "ratio")))
}

/// The number of configs per verdict: `3 faster, 1 cannot tell, 1 not compared`.
pub fn outcome_text(versus: &Versus) -> String {
    use crate::analysis::compare::Verdict;
    let comparisons = || versus.lines.iter().filter_map(|line| line.result.as_ref().ok());
    let count = |verdict: Verdict| comparisons().filter(|comparison| comparison.verdict == verdict).count();
    let apart = versus.lines.iter().filter(|line| line.result.is_err()).count();
    let counts = Verdict::ALL.map(|verdict| (count(verdict), verdict.as_str()));
    let words: Vec<String> = counts
        .into_iter()
        .chain([(apart, "not compared")])
        .filter(|(number, _)| *number > 0)
        .map(|(number, word)| format!("{number} {word}"))
        .collect();
    words.join(", ")
}

/// How to read the table.
pub fn legend(versus: &Versus) -> String {
    let settings = versus.comparison.settings;
    let [from, to] = &versus.names;
    let percent = |share: f64| decimals(share * 100.0, 2);
    let margin = settings.margin;
    format!(
        "A ratio is the throughput of {to} ÷ that of {from}. In at most {error} % of such tables is any `faster` or \
         `slower` false, and in at most {error} % any `same`: p is corrected for the length of the table (Holm). `same` \
         means within the margin of {margin} %, from {least} to {most}, by two one-sided tests. Intervals are each \
         config's own, at {level} %.",
        error = percent(settings.error),
        margin = percent(margin),
        least = decimals(1.0 - margin, 4),
        most = decimals(1.0 / (1.0 - margin), 4),
        level = percent(settings.confidence),
    )
}
