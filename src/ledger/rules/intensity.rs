//! Intensities that are attained FLOP/s divided by a bandwidth.

use super::words::{computed, percent, printed};
use crate::ledger::entry::{Entry, Machine};
use crate::ledger::field::Field;
use crate::ledger::number::Number;
use crate::ledger::objection::Objection;
use crate::ledger::rule::{REPRODUCED, Rule};
use crate::ledger::sheet::Sheet;
use crate::text::{count_text, significant};

/// The fewest lines that determine a common bandwidth.
const LINES_NEEDED: usize = 3;
/// The largest relative rounding error of an intensity that can determine a bandwidth.
const COARSE: f64 = 0.01;
/// The unit of printed bandwidths and FLOP/s.
const GIGA: f64 = 1e9;

/// A line with an intensity, and the bandwidths with which it agrees.
struct Point<'a> {
    entry: &'a Entry,
    attained: Number,
    intensity: Number,
    low: f64,
    high: f64,
}

impl<'a> Point<'a> {
    fn of(entry: &'a Entry) -> Option<Point<'a>> {
        let (attained, intensity) = (entry.positive(Field::Attained)?, entry.positive(Field::Intensity)?);
        let least = intensity.value - intensity.half_digit;
        let high = (attained.value + attained.half_digit) / least.max(f64::MIN_POSITIVE) * (1.0 + REPRODUCED);
        let low = (attained.value - attained.half_digit)
            / (intensity.value + intensity.half_digit)
            / (1.0 + REPRODUCED);
        Some(Point { entry, attained, intensity, low, high })
    }

    fn agrees(&self, bandwidth: f64) -> bool {
        (self.low..=self.high).contains(&bandwidth)
    }
}

/// A bandwidth inferred from rounded numbers, in bytes per second.
struct Common {
    least: f64,
    most: f64,
    /// The middle of the range, rounded to its significant digits.
    bandwidth: f64,
}

impl Common {
    /// Whether `point` agrees with some bandwidth of the range.
    fn suits(&self, point: &Point<'_>) -> bool {
        point.low <= self.most && self.least <= point.high
    }
}

/// The lines whose intensity is not attained FLOP/s ÷ the common bandwidth of the others, if there is one.
pub(super) fn objections(sheet: &Sheet<'_>, notes: &mut Vec<String>) -> Vec<Objection> {
    let points: Vec<Point<'_>> = sheet.entries.iter().filter_map(Point::of).collect();
    let mut places: Vec<(&str, Machine)> =
        points.iter().map(|point| (point.entry.file.as_str(), point.entry.machine())).collect();
    places.sort();
    places.dedup();
    let mut found = Vec::new();
    for (file, machine) in places {
        let here = |point: &&Point<'_>| point.entry.file == file && point.entry.machine() == machine;
        let points: Vec<&Point<'_>> = points.iter().filter(here).collect();
        let Some(bandwidth) = common_bandwidth(&points) else { continue };
        let (agreeing, others): (Vec<&Point<'_>>, Vec<&Point<'_>>) =
            points.into_iter().partition(|point| bandwidth.suits(point));
        notes.push(format!(
            "{file}: {} of {} on {machine} have an intensity of attained FLOP/s ÷ {} GB/s: it was computed from a \
             bandwidth, so they are on that memory roof by construction and do not show their bound",
            agreeing.len(),
            count_text(agreeing.len() + others.len(), "line"),
            computed(bandwidth.bandwidth / GIGA),
        ));
        found.extend(others.into_iter().map(|point| objection(point, bandwidth.bandwidth, agreeing.len())));
    }
    found
}

/// The bandwidth on which at least three, and more than half, of the precisely printed intensities agree.
fn common_bandwidth(points: &[&Point<'_>]) -> Option<Common> {
    let fine: Vec<&&Point<'_>> = points.iter().filter(|point| point.intensity.rounding() <= COARSE).collect();
    let agreeing = |bandwidth: f64| fine.iter().filter(|point| point.agrees(bandwidth)).count();
    // In the largest set of overlapping intervals, the lower end of one is in all of them.
    let best = fine.iter().map(|point| point.low).max_by_key(|low| agreeing(*low))?;
    let number = agreeing(best);
    if number < LINES_NEEDED || 2 * number <= fine.len() {
        return None;
    }
    let most =
        fine.iter().filter(|point| point.agrees(best)).map(|point| point.high).fold(f64::INFINITY, f64::min);
    let bandwidth = significant(f64::midpoint(best, most) / GIGA, 4).parse::<f64>().ok()? * GIGA;
    Some(Common { least: best, most, bandwidth })
}

fn objection(point: &Point<'_>, bandwidth: f64, agreeing: usize) -> Objection {
    let expected = point.attained.value / bandwidth;
    let sentence = format!(
        "intensity is {} FLOP/byte, but {} GFLOP/s ÷ {} GB/s, as in {} of its machine, are {}: {} off",
        printed(point.intensity, 1.0),
        printed(point.attained, GIGA),
        computed(bandwidth / GIGA),
        count_text(agreeing, "other line"),
        computed(expected),
        percent((point.intensity.value / expected - 1.0).abs()),
    );
    let cause = format!(
        "the intensity was not computed again when the runs of the line changed: it is that of {} GFLOP/s",
        computed(point.intensity.value * bandwidth / GIGA)
    );
    Objection::new(Rule::Intensity, [point.entry], sentence, cause)
}
