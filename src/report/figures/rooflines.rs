//! The roofs of all devices in one plot, with the configs of all envs below them.

use crate::analysis::Analysis;
use crate::analysis::peaks::{Peaks, Range};
use crate::analysis::roofline::{BytesSource, Point, Roofline};
use crate::analysis::table::{Keys, point_sections, roofline_table};
use crate::report::figure::{Drawing, Figure};
use crate::report::figures::roofline::{device_text, fillings, hover_text, shown};
use crate::report::frame::Sheet;
use crate::report::hover::row_anchor;
use crate::report::inks::{GREY, colour};
use crate::report::roofs::{NUMBER, Plot, Unit, axes_text};
use crate::report::svg::{Anchor, Look, Stroke, Svg, shape};

pub(super) const ROOFLINES: Figure = Figure {
    name: "rooflines",
    heading: "All devices on one roofline",
    one_per: "report",
    needs: "It needs two devices with peaks, each with a point below its roofs.",
    explanation: "\
The roofs of every device, each in its own colour and dashes, with the configs of all envs. The flat roof is the highest
peak among the precisions that ran there. Only the roofs of its own colour apply to the point of a config. The figure
of each env says which config is which.",
    columns: point_sections,
    keys: Keys::WITHIN_ROWS,
    draw,
};

/// An env with its roofs and points.
struct Member<'r> {
    /// The env, with the number of the roofline if the env has several.
    name: String,
    /// The device.
    device: String,
    peaks: &'r Peaks,
    bandwidth: Range,
    /// The highest flat roof, in FLOP/s.
    flat: f64,
    points: Vec<&'r Point>,
}

fn member<'r>(roofline: &'r Roofline<'_>, all: &[Roofline<'_>]) -> Option<Member<'r>> {
    let points = shown(roofline);
    let flat = roofline.precisions.iter().filter_map(|precision| roofline.peaks.ceiling(*precision));
    let flat = flat.map(|ceiling| ceiling.flops_per_s.high).fold(0.0, f64::max);
    let env = &roofline.env;
    let is_alone = all.iter().filter(|other| other.env == *env).count() == 1;
    let name = if is_alone { env.to_string() } else { format!("{env} ({})", roofline.part) };
    (!points.is_empty() && flat > 0.0).then_some(Member {
        name,
        device: device_text(roofline, all),
        peaks: roofline.peaks,
        bandwidth: roofline.peaks.bandwidth?,
        flat,
        points,
    })
}

fn draw(analysis: &Analysis<'_>) -> Vec<Drawing> {
    let members: Vec<Member<'_>> =
        analysis.rooflines.iter().filter_map(|it| member(it, &analysis.rooflines)).collect();
    if members.iter().all(|member| member.peaks.name == members[0].peaks.name) {
        return Vec::new();
    }
    let title = "Rooflines of all devices".to_owned();
    let svg = of_members(&title, &members, analysis);
    let numbers = roofline_table(analysis, &analysis.rooflines);
    vec![Drawing { of: "all".to_owned(), title, svg, numbers }]
}

fn of_members(title: &str, members: &[Member<'_>], analysis: &Analysis<'_>) -> String {
    let unit = Unit::of(members.iter().map(|member| member.flat).fold(0.0, f64::max));
    let mut sheet = Sheet::new(title, &axes_text(unit));
    let points = || members.iter().flat_map(|member| &member.points);
    let knees = members.iter().map(|member| member.flat / member.bandwidth.high);
    let intensities: Vec<f64> = points().map(|point| point.intensity).chain(knees).collect();
    let flat = members.iter().map(|member| member.flat / unit.flops);
    let heights: Vec<f64> = points().map(|point| point.attained / unit.flops).chain(flat).collect();
    let mut plot = Plot::new(&mut sheet, &intensities, &heights, unit);
    for (index, member) in members.iter().enumerate() {
        draw_roof(&mut sheet.svg, &mut plot, member, index);
    }
    for (index, member) in members.iter().enumerate() {
        for point in &member.points {
            let at = plot.place(point.intensity, point.attained);
            let is_filled = point.source == BytesSource::Measured;
            let (look, row) = (look(index, is_filled), &analysis.rows[point.row]);
            sheet.svg.linked_marker(at, look, &hover_text(point, row), &row_anchor(row));
        }
    }
    let names: Vec<String> =
        members.iter().map(|member| format!("{}: {}", member.name, member.device)).collect();
    let entries = names.iter().enumerate().map(|(index, name)| (look(index, false), name.as_str()));
    sheet.legend(&entries.collect::<Vec<_>>());
    sheet.paragraph(GREY, &fillings(&points().copied().collect::<Vec<_>>()).join(" "));
    sheet.finish()
}

fn look(member: usize, is_filled: bool) -> Look<'static> {
    Look { shape: shape(member), radius: 4.2, colour: colour(member), is_filled }
}

/// Draws the sloping and the flat roof of `member`, with its name at the right end.
fn draw_roof(svg: &mut Svg, plot: &mut Plot, member: &Member<'_>, index: usize) {
    let dashes = ["", "7 3", "2 3", "9 3 2 3"][index % 4];
    let stroke = Stroke { colour: colour(index), width: 1.8, dashes };
    let slope = member.bandwidth.high;
    let enters = plot.x.low.max(plot.y.low * plot.unit.flops / slope);
    let knee = plot.place(member.flat / slope, member.flat);
    let from = plot.place(enters, enters * slope);
    let end = (plot.area.right, knee.1);
    svg.polyline(&[from, knee, end], stroke);
    plot.labels.take_line(from, knee);
    plot.labels.take_line(knee, end);
    let right = plot.area.right - 6.0;
    for at in [knee.1 - 7.0, knee.1 + 15.0] {
        if plot.labels.take_text((right, at), NUMBER, Anchor::End, &member.name) {
            return svg.text((right, at), NUMBER, Anchor::End, GREY, &member.name);
        }
    }
}
