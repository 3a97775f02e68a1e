//! Points above a roof, or exactly on the memory roof.

use std::collections::BTreeMap;

use super::peaks::published;
use super::words::{computed, percent, printed};
use crate::job::Precision;
use crate::ledger::counting::Counting;
use crate::ledger::entry::{Entry, Machine};
use crate::ledger::field::Field;
use crate::ledger::network::described;
use crate::ledger::number::Number;
use crate::ledger::objection::Objection;
use crate::ledger::rule::{ABOVE_ROOF, REPRODUCED, Rule};
use crate::ledger::sheet::Sheet;
use crate::text::count_text;

/// The unit of printed FLOP/s and bytes per second.
const GIGA: f64 = 1e9;

/// The roofs of a line, and their source.
struct Roofs {
    flops: Option<Number>,
    bandwidth: Option<Number>,
    source: String,
}

/// The lines above a roof, and for each machine those exactly on the memory roof.
pub(super) fn objections(sheet: &Sheet<'_>, notes: &mut Vec<String>) -> Vec<Objection> {
    let mut found = Vec::new();
    let mut on_roof: BTreeMap<(&str, Machine), Vec<(&Entry, Number)>> = BTreeMap::new();
    let mut without = 0;
    for entry in sheet.entries {
        let Some(roofs) = roofs(sheet, entry) else {
            without += usize::from(entry.positive(Field::Attained).is_some());
            continue;
        };
        found.extend(above_compute(entry, &roofs).or_else(|| above_memory(entry, &roofs)));
        if let Some(bandwidth) = roofs.bandwidth.filter(|bandwidth| is_on(entry, *bandwidth)) {
            on_roof.entry((&entry.file, entry.machine())).or_default().push((entry, bandwidth));
        }
    }
    found.extend(on_roof.into_values().map(|lines| on_memory_roof(&lines)));
    if without > 0 {
        let (lines, have) = (count_text(without, "line"), if without == 1 { "has" } else { "have" });
        notes.push(format!(
            "{lines} {have} no roof: neither a column with peaks, nor a device whose peaks are known by that name"
        ));
    }
    found
}

/// The roofs that the line states, otherwise the published ones of its device.
fn roofs(sheet: &Sheet<'_>, entry: &Entry) -> Option<Roofs> {
    let stated = (entry.positive(Field::PeakFlops), entry.positive(Field::PeakBandwidth));
    if stated.0.is_some() || stated.1.is_some() {
        return Some(Roofs { flops: stated.0, bandwidth: stated.1, source: "its own peaks".to_owned() });
    }
    let peaks = published(sheet, entry)?;
    let precision = entry.text(Field::Precision).and_then(|word| word.parse::<Precision>().ok());
    let ceiling = |precision| peaks.ceiling(precision).map(|ceiling| ceiling.flops_per_s.high);
    let flops = precision.and_then(|precision| match precision {
        // Many scripts that state fp32 multiply in tf32.
        Precision::Fp32 => {
            [Precision::Fp32, Precision::Tf32].into_iter().filter_map(ceiling).reduce(f64::max)
        }
        other => ceiling(other),
    });
    Some(Roofs {
        flops: flops.map(Number::exactly),
        bandwidth: peaks.bandwidth.map(|range| Number::exactly(range.high)),
        source: format!("the peaks `{}`", peaks.name),
    })
}

/// The FLOP/s that a line states, otherwise those that its network needs for its rate.
fn attained(entry: &Entry) -> Option<(Number, String)> {
    if let Some(attained) = entry.positive(Field::Attained) {
        return Some((attained, format!("attained are {} GFLOP/s", printed(attained, GIGA))));
    }
    let (throughput, (name, macs)) = (entry.positive(Field::Throughput)?, described(entry)?);
    let flops = Counting::LayerByLayer.flops(macs);
    let text = format!(
        "{} samples/s × {} GFLOP of {name} are {} GFLOP/s",
        printed(throughput, 1.0),
        computed(flops / GIGA),
        computed(throughput.value * flops / GIGA)
    );
    Some((throughput.times(flops), text))
}

/// `text`, and the ratio of `attained` to a roof.
fn against(text: &str, attained: Number, roof: f64, roof_text: &str) -> String {
    format!("{text}, {} of {roof_text}", percent(attained.value / roof))
}

fn above_compute(entry: &Entry, roofs: &Roofs) -> Option<Objection> {
    let ((attained, text), roof) = (attained(entry)?, roofs.flops?);
    let is_above =
        attained.value * (1.0 - attained.rounding()) > roof.value * (1.0 + ABOVE_ROOF + roof.rounding());
    is_above.then(|| {
        let roof_text = format!("the {} GFLOP/s of {}", printed(roof, GIGA), roofs.source);
        let sentence = against(&text, attained, roof.value, &roof_text);
        let cause =
            "the peak is of another device or precision, or the rate counts more samples than were trained";
        Objection::new(Rule::AboveRoof, [entry], sentence, cause)
    })
}

fn above_memory(entry: &Entry, roofs: &Roofs) -> Option<Objection> {
    let (attained, intensity) = (entry.positive(Field::Attained)?, entry.positive(Field::Intensity)?);
    let bandwidth = roofs.bandwidth?;
    let roof = intensity.value * bandwidth.value;
    let rounding = attained.rounding() + intensity.rounding() + bandwidth.rounding();
    (attained.value > roof * (1.0 + ABOVE_ROOF + rounding)).then(|| {
        let roof_text = format!(
            "{} FLOP/byte × {} GB/s of {}",
            printed(intensity, 1.0),
            printed(bandwidth, GIGA),
            roofs.source
        );
        let text = format!("attained are {} GFLOP/s", printed(attained, GIGA));
        let sentence = against(&text, attained, roof, &roof_text);
        let cause = "the bandwidth is of another device, or the bytes are not those of the whole work";
        Objection::new(Rule::AboveRoof, [entry], sentence, cause)
    })
}

/// Whether a line is exactly on the memory roof.
fn is_on(entry: &Entry, bandwidth: Number) -> bool {
    let point = entry.positive(Field::Attained).zip(entry.positive(Field::Intensity));
    point.is_some_and(|(attained, intensity)| {
        let rounding = attained.rounding() + intensity.rounding() + bandwidth.rounding();
        // A coarsely printed intensity agrees with many roofs.
        rounding <= ON_ROOF_ROUNDING
            && (attained.value / (intensity.value * bandwidth.value) - 1.0).abs() <= REPRODUCED + rounding
    })
}

/// The largest rounding error with which a point can be recognised as exactly on a roof.
const ON_ROOF_ROUNDING: f64 = 0.01;

fn on_memory_roof(lines: &[(&Entry, Number)]) -> Objection {
    let (first, bandwidth) = lines[0];
    let number = |field| first.positive(field).unwrap_or(Number::exactly(f64::NAN));
    let (attained, intensity) = (number(Field::Attained), number(Field::Intensity));
    let sentence = format!(
        "{} exactly on the memory roof: {} FLOP/byte × {} GB/s are {}, and {} GFLOP/s are attained",
        if lines.len() == 1 { "1 line is".to_owned() } else { format!("{} lines are", lines.len()) },
        printed(intensity, 1.0),
        printed(bandwidth, GIGA),
        computed(intensity.value * bandwidth.value / GIGA),
        printed(attained, GIGA),
    );
    let cause = "the intensity was computed from the bandwidth, so it does not show the bound of the work";
    Objection::new(Rule::OnRoof, lines.iter().map(|(line, _)| *line), sentence, cause)
}
