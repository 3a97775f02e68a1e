//! The roofline of a device: roofs, knees, and configs as points. Few points have numbers and a key below the plot. Of
//! many, those that differ only in the batch are joined, and the lines have names.
//!
//! Points with counted bytes are filled, points with modelled bytes hollow. Points with estimated bytes are not drawn:
//! they are on the roof by construction.

use std::collections::{BTreeSet, HashMap};

use crate::analysis::Analysis;
use crate::analysis::group::Row;
use crate::analysis::peaks::Peaks;
use crate::analysis::roofline::{BytesSource, Point, Roofline};
use crate::analysis::table::{Keys, point_sections, roofline_table};
use crate::job::{ModelName, Precision};
use crate::report::figure::{Drawing, Figure, further};
use crate::report::frame::Sheet;
use crate::report::hover::{self, row_anchor, suffix};
use crate::report::inks::{ALARM, GREY, INK, colour};
use crate::report::lines::name;
use crate::report::roofs::{
    Entry, FlatRoof, NUMBER, Plot, RoofAtClock, Unit, axes_text, draw_key, flat_roofs,
};
use crate::report::svg::{Look, Stroke, Svg, shape};
use crate::stats;
use crate::text::significant;

pub(super) const ROOFLINE: Figure = Figure {
    name: "roofline",
    heading: "Rooflines",
    one_per: "env and device",
    needs: "\
It needs a throughput, the device's bandwidth, and its peak at the same precision. It also needs a network that
`orchestrate` describes, or FLOPs that the worker reports and bytes that `ncu` counted.
The findings say what is missing.",
    explanation: "\
Each point is a config. The horizontal axis is its arithmetic intensity, the FLOPs per byte moved. The vertical axis is
the FLOP/s that it attains. Up to 16 points have numbers and a key; of more, lines join those that differ in the batch
alone. The sloping roof is the memory bandwidth, and each flat roof is the peak at a precision.
They meet at the knee.
A dotted roof is the peak at the observed clock, if the nominal clock of the peak is known.

- A filled point has bytes that were counted on the device. Only its place shows which roof bounds its config, and
  it shows nothing if the host slows the config down, or if its memory spilled.
- A hollow point has modelled bytes: every layer reads its inputs and weights and writes its outputs once, forward and
  backward. The optimizer's step adds what it reads and writes. Caches and fusion save real bytes, and second passes
  add some, so its place shows no bound.
- A line through a point is the 95 % interval of its geometric mean throughput, or the range of its runs if there are
  fewer than three.
- A point above its roof means that the roof, the bytes or the FLOPs are wrong. It is reported, not clamped.

`roofline_points.csv` also has points whose bytes are estimated from the bandwidth roof, for comparison with older
reports. They lie on that roof by construction and are not drawn.",
    columns: point_sections,
    keys: Keys::WITHIN_ROWS,
    draw,
};

/// The most points that have numbers and a key. A longer key would be unreadable.
const NUMBERED: usize = 16;

/// A point, ready to be drawn.
struct Drawn<'r, 'a> {
    point: &'r Point,
    row: &'r Row<'a>,
    look: Look<'static>,
    at: (f64, f64),
    /// The heights of the range of its throughput; `None` if it is a single value.
    ends: Option<[f64; 2]>,
}

fn draw(analysis: &Analysis<'_>) -> Vec<Drawing> {
    analysis.rooflines.iter().filter_map(|roofline| of_device(roofline, analysis)).collect()
}

/// The points that are drawn.
pub(super) fn shown<'r>(roofline: &'r Roofline<'_>) -> Vec<&'r Point> {
    roofline.points.iter().filter(|point| point.source.is_drawn()).collect()
}

/// Draws `roofline`; `None` if there is no point to draw or no bandwidth.
fn of_device(roofline: &Roofline<'_>, analysis: &Analysis<'_>) -> Option<Drawing> {
    let points = shown(roofline);
    let bandwidth = roofline.peaks.bandwidth?;
    if points.is_empty() {
        return None;
    }
    let env = &roofline.env;
    let unit = Unit::of(roofline.points.iter().map(|point| point.attainable).fold(0.0, f64::max));
    let title = format!("Roofline, {env}: {}", device_text(roofline, &analysis.rooflines));
    let mut sheet = Sheet::new(&title, &axes_text(unit));
    let flat = flat_roofs(roofline.peaks, &roofline.precisions, unit);
    let at_clock = roofs_at_clock(roofline, analysis);
    let (intensities, heights) = extent(&flat, &at_clock, &points, bandwidth.high, unit);
    let mut plot = Plot::new(&mut sheet, &intensities, &heights, unit);
    plot.roofs(&mut sheet.svg, &flat, bandwidth);
    plot.cache_roofs(&mut sheet.svg, &flat, &roofline.peaks.caches);
    plot.attainable(&mut sheet.svg, &flat, bandwidth);
    for roof in &at_clock {
        plot.roof_at_clock(&mut sheet.svg, roof, bandwidth);
    }
    let drawn = place(&points, analysis, &plot);
    for (at, [low, high]) in drawn.iter().filter_map(|point| Some((point.at, point.ends?))) {
        plot.labels.take_line((at.0, low), (at.0, high));
    }
    if points.len() <= NUMBERED {
        draw_points(&mut sheet.svg, &drawn);
        let numbers: Vec<((f64, f64), String)> =
            drawn.iter().map(|point| (point.at, point.point.number.to_string())).collect();
        plot.names(&mut sheet.svg, &numbers, 5.0);
        draw_key(&mut sheet, drawn.iter().map(|point| entry(point, unit)));
    } else {
        draw_lines(&mut sheet, &mut plot, &drawn, analysis);
    }
    notes(&mut sheet, roofline.peaks, &points);
    Some(Drawing {
        of: format!("{env}{}", further(roofline.part)),
        title,
        svg: sheet.finish(),
        numbers: roofline_table(analysis, std::slice::from_ref(roofline)),
    })
}

fn key_line(point: &Point, row: &Row<'_>, unit: Unit) -> String {
    let key = &row.config;
    let above = if point.is_above_roof() { ", above its roof!" } else { "" };
    let share =
        row.share_of_peak().map(|share| format!(" ({} %)", share.times(100.0).text(2))).unwrap_or_default();
    format!(
        "{} {} batch {}{}: {} {}{share}{above}",
        key.model,
        key.precision,
        key.batch,
        suffix(row),
        significant(point.attained / unit.flops, 3),
        unit.name
    )
}

/// The intensities and the heights that the axes must cover.
fn extent(
    flat: &[FlatRoof],
    at_clock: &[RoofAtClock],
    points: &[&Point],
    bandwidth: f64,
    unit: Unit,
) -> (Vec<f64>, Vec<f64>) {
    let at_clock = at_clock.iter().map(|roof| roof.flops_per_s.high / unit.flops);
    let roofs: Vec<f64> = flat.iter().map(|roof| roof.high).chain(at_clock).collect();
    let knees = roofs.iter().map(|roof| roof * unit.flops / bandwidth);
    let intensities = points.iter().map(|point| point.intensity).chain(knees).collect();
    let attained = points.iter().map(|point| point.attained / unit.flops);
    (intensities, attained.chain(roofs.iter().copied()).collect())
}

/// The roofs at the observed clocks, one per precision whose peak has a nominal clock.
fn roofs_at_clock(roofline: &Roofline<'_>, analysis: &Analysis<'_>) -> Vec<RoofAtClock> {
    let of_precision = |precision: &Precision| {
        let rows: BTreeSet<usize> = roofline.points.iter().map(|point| point.row).collect();
        let rows = rows.into_iter().map(|row| &analysis.rows[row]);
        let clocks: Vec<f64> =
            rows.filter(|row| row.config.precision == *precision).filter_map(Row::clock_mhz).collect();
        let mhz = stats::median(&clocks).ok()?;
        let flops_per_s = roofline.peaks.ceiling(*precision)?.at_clock(mhz)?;
        Some(RoofAtClock { precision: *precision, mhz, flops_per_s })
    };
    roofline.precisions.iter().filter_map(of_precision).collect()
}

fn place<'r, 'a>(points: &[&'r Point], analysis: &'r Analysis<'a>, plot: &Plot) -> Vec<Drawn<'r, 'a>> {
    let mut models: Vec<&ModelName> = Vec::new();
    let mut drawn = Vec::new();
    for &point in points {
        let row = &analysis.rows[point.row];
        let known = models.iter().position(|model| **model == row.config.model);
        let model = known.unwrap_or(models.len());
        if known.is_none() {
            models.push(&row.config.model);
        }
        let at = plot.place(point.intensity, point.attained);
        let height = |flops: f64| plot.y.place((flops / plot.unit.flops).clamp(plot.y.low, plot.y.high));
        let ends = Some(point.place.attained).filter(|range| range.is_wide());
        let ends = ends.map(|range| range.ends().map(height));
        let is_filled = point.source == BytesSource::Measured;
        let look = Look { shape: shape(model), radius: 4.6, colour: colour(model), is_filled };
        drawn.push(Drawn { point, row, look, at, ends });
    }
    drawn
}

/// The device of `roofline`, with the name of its peaks if `all` have several of that device in that env: those of two
/// hosts with the same processor, for example.
pub(super) fn device_text(roofline: &Roofline<'_>, all: &[Roofline<'_>]) -> String {
    let Peaks { device, name, .. } = roofline.peaks;
    let is_alike = |other: &&Roofline<'_>| other.env == roofline.env && other.peaks.device == *device;
    if all.iter().filter(is_alike).count() > 1 { format!("{device} ({name})") } else { device.clone() }
}

/// The hover text of a point.
pub(super) fn hover_text(point: &Point, row: &Row<'_>) -> String {
    let above = if point.is_above_roof() { "\nabove its roof!" } else { "" };
    format!(
        "{}\n{} GFLOP/s at {} FLOP per byte, bytes {}{above}",
        hover::of_row(row),
        significant(point.attained / 1e9, 4),
        significant(point.intensity, 4),
        point.source
    )
}

fn draw_points(svg: &mut Svg, drawn: &[Drawn<'_, '_>]) {
    for (point, [low, high]) in drawn.iter().filter_map(|point| Some((point, point.ends?))) {
        svg.line((point.at.0, low), (point.at.0, high), Stroke::solid(point.look.colour, 1.4));
    }
    for Drawn { point, row, look, at, .. } in drawn {
        svg.linked_marker(*at, *look, &hover_text(point, row), &row_anchor(row));
    }
}

/// The points of each line with counted bytes, and those with modelled ones, by batch.
fn joined<'d, 'r, 'a>(
    drawn: &'d [Drawn<'r, 'a>],
    analysis: &Analysis<'_>,
) -> Vec<(String, Vec<&'d Drawn<'r, 'a>>)> {
    let mut of_row = vec![0; analysis.rows.len()];
    for (number, line) in analysis.lines.iter().enumerate() {
        line.rows.iter().for_each(|row| of_row[*row] = number);
    }
    let mut places: HashMap<(usize, bool), usize> = HashMap::new();
    let mut found: Vec<(String, Vec<&Drawn<'r, 'a>>)> = Vec::new();
    for point in drawn {
        let line = of_row[point.point.row];
        let place = *places.entry((line, point.look.is_filled)).or_insert_with(|| {
            found.push((name(&analysis.lines[line], analysis), Vec::new()));
            found.len() - 1
        });
        found[place].1.push(point);
    }
    for (_, members) in &mut found {
        members.sort_by_key(|point| point.row.config.batch);
    }
    found
}

/// Joins points that differ only in the batch, and writes the name of each line beside its largest batch.
fn draw_lines(sheet: &mut Sheet, plot: &mut Plot, drawn: &[Drawn<'_, '_>], analysis: &Analysis<'_>) {
    let lines = joined(drawn, analysis);
    for (_, members) in &lines {
        let places: Vec<(f64, f64)> = members.iter().map(|point| point.at).collect();
        sheet.svg.polyline(&places, Stroke::solid(members[0].look.colour, 1.0));
    }
    draw_points(&mut sheet.svg, drawn);
    for point in drawn {
        plot.labels.take(point.at, 5.0);
    }
    let mut nameless = Vec::new();
    for (name, members) in &lines {
        let ends = [members.len() - 1, 0].map(|index| members[index].at);
        let written =
            ends.into_iter().any(|at| plot.labels.write(&mut sheet.svg, at, 5.0, (name, NUMBER, INK)));
        if !written {
            nameless.push(name.as_str());
        }
    }
    let models: Vec<(Look<'_>, String)> = legend(drawn);
    sheet.legend(&models.iter().map(|(look, name)| (*look, name.as_str())).collect::<Vec<_>>());
    sheet.paragraph(GREY, "Lines join batches; a name is beside the largest one or the least one.");
    if let Some(sentence) = without_room(&nameless) {
        sheet.paragraph(GREY, &sentence);
    }
}

/// The most names in a sentence. A longer list would be longer than the figure.
const MOST_NAMES: usize = 6;

/// A sentence with the names that found no room.
fn without_room(names: &[&str]) -> Option<String> {
    let (listed, others) = names.split_at(names.len().min(MOST_NAMES));
    let listed = (!listed.is_empty()).then(|| listed.join(", "))?;
    Some(match others.len() {
        0 => format!("No room was left for the names of {listed}."),
        more => format!("No room was left for the names of {listed} and {more} more; the CSV file has them."),
    })
}

/// The marker of each network, filled.
fn legend(drawn: &[Drawn<'_, '_>]) -> Vec<(Look<'static>, String)> {
    let mut found: Vec<(Look<'static>, String)> = Vec::new();
    for point in drawn {
        let name = point.row.config.model.to_string();
        if !found.iter().any(|(_, known)| *known == name) {
            found.push((point.look, name));
        }
    }
    found
}

fn entry(drawn: &Drawn<'_, '_>, unit: Unit) -> Entry<'static> {
    let point = drawn.point;
    Entry {
        number: point.number,
        look: drawn.look,
        text: key_line(point, drawn.row, unit),
        ink: if point.is_above_roof() { ALARM } else { INK },
    }
}

/// Explains the fillings of the markers that occur in the figure.
pub(super) fn fillings(points: &[&Point]) -> Vec<&'static str> {
    let has = |source| points.iter().any(|point| point.source == source);
    let filled = "Filled: the bytes were counted on the device.";
    let hollow = "Hollow: the bytes are modelled, so its place shows no bound.";
    let notes = [(BytesSource::Measured, filled), (BytesSource::Modelled, hollow)];
    notes.into_iter().filter(|(source, _)| has(*source)).map(|(_, text)| text).collect()
}

fn notes(sheet: &mut Sheet, peaks: &Peaks, points: &[&Point]) {
    let Peaks { name, origin, date, confidence, .. } = peaks;
    let roofs = format!("Roofs (confidence {confidence}): {name}, {origin} ({date}).");
    sheet.paragraph(GREY, &fillings(points).join(" "));
    sheet.paragraph(GREY, &roofs);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::bound::{Bound, Place};
    use crate::analysis::peaks::Range;

    #[test]
    fn every_filling_in_the_figure_is_explained() {
        let point = |source| Point {
            row: 0,
            number: 1,
            source,
            intensity: 1.0,
            attained: 1.0,
            attainable: 2.0,
            place: Place {
                attained: Range::exactly(1.0),
                peak: Range::exactly(2.0),
                allowed: Range::exactly(2.0),
            },
            bound: Bound::Unknown,
        };
        let (counted, modelled) = (point(BytesSource::Measured), point(BytesSource::Modelled));
        let explained = |points: &[&Point]| {
            let notes = fillings(points);
            notes.iter().map(|text| text.split(':').next().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(explained(&[&modelled, &modelled]), "Hollow");
        assert_eq!(explained(&[&counted]), "Filled");
        assert_eq!(explained(&[&modelled, &counted]), "Filled Hollow");
    }

    #[test]
    fn a_few_names_without_room_are_listed() {
        let names: Vec<String> = (1..=8).map(|number| format!("n{number}")).collect();
        let sentence =
            |count: usize| without_room(&names.iter().take(count).map(String::as_str).collect::<Vec<_>>());
        assert_eq!(sentence(0), None);
        assert_eq!(sentence(2).unwrap(), "No room was left for the names of n1, n2.");
        let all =
            "No room was left for the names of n1, n2, n3, n4, n5, n6 and 2 more; the CSV file has them.";
        assert_eq!(sentence(8).unwrap(), all);
    }
}
