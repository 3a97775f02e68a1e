//! The FLOPs of a sample, by network, as the majority of a ledger's lines counts them.

use std::collections::BTreeMap;

use crate::architecture::Macs;
use crate::ledger::counting::Counting;
use crate::ledger::entry::Entry;
use crate::ledger::field::{Field, plain};
use crate::ledger::network::described;
use crate::ledger::number::Number;
use crate::ledger::rule::SAME;
use crate::ledger::sheet::Sheet;
use crate::stats::median;
use crate::text::count_text;

/// The fewest lines that determine the FLOPs of a network without a description.
const LINES_NEEDED: usize = 3;

/// A line with both samples and FLOPs per second.
#[derive(Clone)]
pub(super) struct Line<'a> {
    pub(super) entry: &'a Entry,
    pub(super) throughput: Number,
    pub(super) attained: Number,
    /// The network, by its described name if there is one.
    pub(super) model: String,
    macs: Option<Macs>,
}

impl<'a> Line<'a> {
    fn of(entry: &'a Entry) -> Option<Line<'a>> {
        let throughput = entry.positive(Field::Throughput)?;
        let attained = entry.positive(Field::Attained)?;
        let network = described(entry);
        let model =
            network.map_or_else(|| entry.text(Field::Model).map(plain), |(name, _)| Some(name.to_owned()))?;
        Some(Line { entry, throughput, attained, model, macs: network.map(|(_, macs)| macs) })
    }

    /// FLOPs per sample by this line.
    pub(super) fn flops(&self) -> f64 {
        self.attained.value / self.throughput.value
    }

    /// The relative rounding error of [`Line::flops`].
    pub(super) fn rounding(&self) -> f64 {
        self.attained.rounding() + self.throughput.rounding()
    }

    /// Whether it agrees with `flops` per sample.
    pub(super) fn agrees(&self, flops: f64) -> bool {
        let (least, most) = self.attained.over(self.throughput);
        least <= flops * (1.0 + SAME) && most >= flops * (1.0 - SAME)
    }
}

/// The FLOPs of a sample of one network, as one file counts them.
#[derive(Clone, Copy)]
pub(super) struct Cost {
    /// The reference for lines.
    pub(super) expected: f64,
    /// The median of the lines that agree: closer to the factor that the file used.
    pub(super) usual: f64,
    /// The convention, if the network is described.
    pub(super) counting: Option<(Counting, Macs)>,
}

/// The costs of all networks, by file.
pub(super) struct Costs<'a> {
    pub(super) lines: Vec<Line<'a>>,
    by_file: BTreeMap<(&'a str, String), Cost>,
}

impl<'a> Costs<'a> {
    /// Infers them from `sheet`, and adds the assumptions to `notes`.
    pub(super) fn of(sheet: &Sheet<'a>, notes: &mut Vec<String>) -> Costs<'a> {
        let lines: Vec<Line<'a>> = sheet.entries.iter().filter_map(Line::of).collect();
        let mut by_file = BTreeMap::new();
        for file in sheet.files() {
            let of_file: Vec<&Line<'a>> = lines.iter().filter(|line| line.entry.file == file).collect();
            if of_file.is_empty() {
                continue;
            }
            let counting = usual_counting(&of_file);
            notes.push(counting_note(file, counting, &of_file));
            let mut models: Vec<&str> = of_file.iter().map(|line| line.model.as_str()).collect();
            models.sort_unstable();
            models.dedup();
            for model in models {
                let of_model: Vec<&Line<'a>> =
                    of_file.iter().copied().filter(|line| line.model == model).collect();
                match cost(&of_model, counting) {
                    Some(cost) => drop(by_file.insert((file, model.to_owned()), cost)),
                    None => notes.push(format!(
                        "{file}: the FLOPs of {model} were not checked: its lines agree neither with a description \
                         nor with each other"
                    )),
                }
            }
        }
        Costs { lines, by_file }
    }

    /// The cost of the network of `line`.
    pub(super) fn cost(&self, line: &Line<'_>) -> Option<Cost> {
        self.by_file.get(&(line.entry.file.as_str(), line.model.clone())).copied()
    }

    /// The networks of a file, with their costs.
    pub(super) fn of_file(&self, file: &str) -> impl Iterator<Item = (&str, Cost)> {
        self.by_file
            .iter()
            .filter(move |((of, _), _)| *of == file)
            .map(|((_, model), cost)| (model.as_str(), *cost))
    }
}

/// The convention with which more than half of the lines with a described network agree.
fn usual_counting(lines: &[&Line<'_>]) -> Option<Counting> {
    let described: Vec<(&Line<'_>, Macs)> =
        lines.iter().filter_map(|line| line.macs.map(|macs| (*line, macs))).collect();
    let agreeing = |counting: Counting| {
        described.iter().filter(|(line, macs)| line.agrees(counting.flops(*macs))).count()
    };
    // Of several, the first wins, which leaves out the least.
    let best =
        Counting::all().map(|it| (agreeing(it), it)).reduce(|best, it| if it.0 > best.0 { it } else { best });
    best.filter(|(number, _)| 2 * number > described.len()).map(|(_, counting)| counting)
}

fn counting_note(file: &str, counting: Option<Counting>, lines: &[&Line<'_>]) -> String {
    let of = lines.iter().filter(|line| line.macs.is_some()).count();
    match counting {
        Some(counting) => {
            let agrees = |line: &&&Line<'_>| line.macs.is_some_and(|macs| line.agrees(counting.flops(macs)));
            let number = lines.iter().filter(agrees).count();
            format!(
                "{file}: the FLOPs of a sample are {}: {number} of {} agree to 0.5 %",
                counting.text(),
                count_text(of, "line")
            )
        }
        None if of == 0 => {
            format!("{file}: no network in it is described, so its lines are compared with each other")
        }
        None => format!(
            "{file}: no usual way to count FLOPs agrees with more than half of {}, so they are compared with each other",
            count_text(of, "line")
        ),
    }
}

/// The FLOPs of a sample of one network: by the convention of the file, otherwise by the majority of its lines.
fn cost(lines: &[&Line<'_>], counting: Option<Counting>) -> Option<Cost> {
    let usual = |expected: f64| {
        let agreeing: Vec<f64> =
            lines.iter().filter(|line| line.agrees(expected)).map(|line| line.flops()).collect();
        median(&agreeing).unwrap_or(expected)
    };
    if let Some((counting, macs)) = counting.zip(lines.iter().find_map(|line| line.macs)) {
        let expected = counting.flops(macs);
        return Some(Cost { expected, usual: usual(expected), counting: Some((counting, macs)) });
    }
    let agreeing = |flops: f64| lines.iter().filter(|line| line.agrees(flops)).count();
    let candidates = lines.iter().map(|line| line.flops());
    let (number, flops) =
        candidates.map(|it| (agreeing(it), it)).max_by(|left, right| left.0.cmp(&right.0))?;
    let is_shown = number >= LINES_NEEDED && 2 * number > lines.len();
    is_shown.then(|| Cost { expected: usual(flops), usual: usual(flops), counting: None })
}
