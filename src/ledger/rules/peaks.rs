//! Peaks that are not those of the device.

use super::words::{percent, printed};
use crate::analysis::peaks::{Origin, Peaks};
use crate::job::Precision;
use crate::ledger::entry::Entry;
use crate::ledger::field::Field;
use crate::ledger::number::Number;
use crate::ledger::objection::Objection;
use crate::ledger::rule::{ABOVE_ROOF, OF_PEAKS, REPRODUCED, Rule};
use crate::ledger::sheet::Sheet;
use crate::text::{first_few, significant};

/// The unit of printed peaks.
const GIGA: f64 = 1e9;

/// The published peaks for exactly the device of `entry`.
pub(super) fn published<'a>(sheet: &Sheet<'a>, entry: &Entry) -> Option<&'a Peaks> {
    let device = entry.text(Field::Device)?;
    let fits = |peaks: &&Peaks| {
        !matches!(peaks.origin, Origin::Measured { .. }) && peaks.names.iter().any(|name| name == device)
    };
    sheet.catalogue.all().iter().find(fits)
}

/// The first line of each machine and precision whose peaks are not those of its device.
pub(super) fn objections(sheet: &Sheet<'_>) -> Vec<Objection> {
    let mut found = Vec::new();
    let mut seen = Vec::new();
    for entry in sheet.entries {
        let Some(peaks) = published(sheet, entry) else { continue };
        let (flops, bandwidth) = (entry.positive(Field::PeakFlops), entry.positive(Field::PeakBandwidth));
        let key = (entry.file.as_str(), entry.machine(), entry.text(Field::Precision), [flops, bandwidth]);
        if seen.contains(&key) {
            continue;
        }
        seen.push(key);
        let precision = entry.text(Field::Precision).and_then(|word| word.parse::<Precision>().ok());
        let ceiling =
            precision.and_then(|precision| peaks.ceiling(precision)).map(|it| it.flops_per_s.ends());
        let of_flops = |peaks: &Peaks| peaks.flops.iter().flat_map(|it| it.flops_per_s.ends()).collect();
        let of_bandwidth =
            |peaks: &Peaks| peaks.bandwidth.map_or_else(Vec::new, |range| range.ends().to_vec());
        found.extend(compare(sheet, entry, peaks, flops, ceiling, ("GFLOP/s", &of_flops)));
        let published = peaks.bandwidth.map(|range| range.ends());
        found.extend(compare(sheet, entry, peaks, bandwidth, published, ("GB/s", &of_bandwidth)));
    }
    found
}

/// A unit, and the values in it of some peaks.
type Figures<'f> = (&'static str, &'f dyn Fn(&Peaks) -> Vec<f64>);

fn compare(
    sheet: &Sheet<'_>,
    entry: &Entry,
    peaks: &Peaks,
    stated: Option<Number>,
    published: Option<[f64; 2]>,
    (unit, figures): Figures<'_>,
) -> Option<Objection> {
    let (stated, [low, high]) = (stated?, published?);
    let fits = stated.value <= high * (1.0 + ABOVE_ROOF) && stated.value >= low * OF_PEAKS;
    if fits {
        return None;
    }
    let is_that = |figure: &f64| (stated.value / figure - 1.0).abs() <= REPRODUCED + stated.rounding();
    let others: Vec<String> = sheet
        .catalogue
        .all()
        .iter()
        .filter(|other| figures(other).iter().any(is_that))
        .map(|other| other.device.clone())
        .collect();
    let cause = if others.contains(&peaks.device) {
        "it is the peak of another precision".to_owned()
    } else if figures(peaks).iter().any(|figure| is_that(&(2.0 * figure))) {
        "it is a peak for sparse operands, twice that for dense ones".to_owned()
    } else if others.is_empty() {
        "it is the peak of another device or precision, or was measured badly".to_owned()
    } else {
        format!("it is the peak of {}", first_few(&others))
    };
    let [low_text, high_text] = [low, high].map(|end| significant(end / GIGA, 5));
    let range = if low < high { format!("{low_text} to {high_text}") } else { high_text };
    let sentence = format!(
        "a peak of {} {unit} for {}, which has {range} by `{}`: {} of that",
        printed(stated, GIGA),
        entry.text(Field::Device).unwrap_or_default(),
        peaks.name,
        percent(stated.value / high),
    );
    Some(Objection::new(Rule::OtherPeaks, [entry], sentence, cause))
}
