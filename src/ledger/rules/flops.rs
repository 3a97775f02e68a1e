//! Attained FLOP/s are samples per second × the FLOPs of a sample.

use super::costs::{Cost, Costs, Line};
use super::merged::{Part, mean_of_parts, mean_text};
use super::words::{computed, percent, printed, small_counts};
use crate::ledger::entry::Entry;
use crate::ledger::objection::Objection;
use crate::ledger::rule::{REPRODUCED, Rule};

/// The unit of printed FLOP/s.
const GIGA: f64 = 1e9;

/// The lines whose FLOP/s do not follow from their samples per second.
pub(super) fn objections(costs: &Costs<'_>) -> Vec<Objection> {
    let lines = costs.lines.iter().filter_map(|line| Some((line, costs.cost(line)?)));
    lines
        .filter(|(line, cost)| !line.agrees(cost.expected))
        .map(|(line, cost)| objection(costs, line, cost))
        .collect()
}

fn objection(costs: &Costs<'_>, line: &Line<'_>, cost: Cost) -> Objection {
    let ratio = line.flops() / cost.usual;
    let sentence = format!(
        "attained are {} GFLOP/s, but {} samples/s × {} GFLOP of {}{} are {}: {} of that",
        printed(line.attained, GIGA),
        printed(line.throughput, 1.0),
        computed(cost.usual / GIGA),
        line.model,
        macs_text(cost),
        computed(line.throughput.value * cost.usual / GIGA),
        percent(ratio),
    );
    if let Some((others, cause)) = merged(costs, line, cost) {
        let lines = std::iter::once(line.entry).chain(others);
        return Objection::new(Rule::Merged, lines, sentence, cause);
    }
    if let Some((p, q)) = small_counts(ratio, REPRODUCED + line.rounding()) {
        let cause = format!(
            "iterations were miscounted: {ratio:.4} is {p} ÷ {q}, as if {} iterations had been counted as {}",
            10 * q,
            10 * p
        );
        return Objection::new(Rule::IterationCount, [line.entry], sentence, cause);
    }
    let (others, cause) = other_cause(costs, line);
    Objection::new(Rule::Flops, std::iter::once(line.entry).chain(others), sentence, cause)
}

fn macs_text(cost: Cost) -> String {
    cost.counting.map_or_else(String::new, |(_, macs)| {
        format!(" ({} GMAC forward)", computed(macs.forward as f64 / GIGA))
    })
}

/// The other lines whose mean the attained FLOP/s of `line` are, with the arithmetic.
fn merged<'a>(costs: &Costs<'a>, line: &Line<'a>, cost: Cost) -> Option<(Vec<&'a Entry>, String)> {
    let is_twin = |other: &&Line<'a>| {
        other.entry.work() == line.entry.work()
            && other.entry.config().batch == line.entry.config().batch
            && (std::ptr::eq(other.entry, line.entry) || other.entry.machine() != line.entry.machine())
    };
    let twins: Vec<&Line<'a>> = costs.lines.iter().filter(is_twin).collect();
    let states_the_same = |other: &&&Line<'a>| {
        (other.attained.value - line.attained.value).abs()
            <= other.attained.half_digit + line.attained.half_digit
    };
    let same: Vec<&Line<'a>> = twins.iter().filter(states_the_same).copied().collect();
    let others: Vec<&Line<'a>> = twins.iter().filter(|it| !std::ptr::eq(**it, line)).copied().collect();
    [same, twins, others].into_iter().find_map(|lines| {
        let parts: Vec<Part<'a>> = lines.iter().filter_map(|it| Part::of(it.entry)).collect();
        let mean = mean_of_parts(&parts)?;
        let reproduced = mean.value * cost.usual;
        let off = (reproduced / line.attained.value - 1.0).abs();
        (off <= REPRODUCED + line.attained.rounding()).then(|| {
            let cause = format!(
                "lines of {} machines were merged: {} × {} GFLOP are {} GFLOP/s, {} from it",
                parts.len(),
                mean_text(&parts),
                computed(cost.usual / GIGA),
                computed(reproduced / GIGA),
                percent(off),
            );
            (parts.iter().map(|part| part.entry).filter(|it| !std::ptr::eq(*it, line.entry)).collect(), cause)
        })
    })
}

/// Another likely cause, with the lines that show it.
fn other_cause<'a>(costs: &Costs<'a>, line: &Line<'a>) -> (Vec<&'a Entry>, String) {
    let copied = costs.lines.iter().find(|other| {
        !std::ptr::eq(*other, line)
            && other.attained == line.attained
            && costs.cost(other).is_some_and(|cost| other.agrees(cost.expected))
    });
    if let Some(other) = copied {
        return (vec![other.entry], "the value is that of the other line, where it fits".to_owned());
    }
    let networks = costs.of_file(&line.entry.file);
    let other = networks.into_iter().find(|(model, cost)| *model != line.model && line.agrees(cost.expected));
    let cause = other.map_or_else(
        || "one of the two numbers is from other runs".to_owned(),
        |(model, _)| format!("the FLOPs are those of {model}, another network of this ledger"),
    );
    (Vec::new(), cause)
}
