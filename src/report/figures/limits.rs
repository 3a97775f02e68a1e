//! The time and the limits of the fastest configs: a stacked bar for each network and env.

use super::time::{BAR, Member, STEP, bar, hollow_note, legend};
use crate::analysis::Analysis;
use crate::analysis::fastest::fastest_of;
use crate::analysis::table::{Keys, time_sections, time_table};
use crate::report::figure::{Drawing, Figure};
use crate::report::frame::{Area, LINE, MARGIN, SMALL, Sheet};
use crate::report::hover::short_label;
use crate::report::inks::{GREY, INK};
use crate::report::letters::{cut_within, text_width};
use crate::report::svg::Anchor;

pub(in crate::report) const LIMITS: Figure = Figure {
    name: "limits",
    heading: "Time of the fastest configs",
    one_per: "report",
    needs: "It needs an `ops` job, which profiles a few iterations by operator.",
    explanation: "\
A bar is the iteration of the fastest config of a network and env that was profiled: the shares of the time in each kind
of operator. Above it are the limit of the config, and its share of the device's peak at the same precision.",
    columns: time_sections,
    keys: Keys::OF_ROWS,
    draw,
};

/// The most rows in the drawing.
const ROWS: usize = 12;

/// The fastest configs that have a profile, in one drawing.
fn draw(analysis: &Analysis<'_>) -> Vec<Drawing> {
    let fastest = fastest_of(&analysis.rows, |index| analysis.breakdowns[index].is_some());
    let row = |index: usize| Some((index, &analysis.rows[index], analysis.breakdowns[index].as_ref()?));
    let members: Vec<Member<'_>> = fastest.into_iter().filter_map(row).take(ROWS).collect();
    if members.is_empty() {
        return Vec::new();
    }
    let title = "Time of the fastest configs".to_owned();
    let mut sheet = Sheet::narrow(&title, "share of a profiled iteration, in percent");
    legend(&mut sheet, &members);
    let step = STEP + LINE;
    let height = members.len() as f64 * step;
    let area = Area { left: MARGIN, top: sheet.at, right: sheet.width - MARGIN, bottom: sheet.at + height };
    sheet.at = area.bottom + 4.0;
    let several = members.iter().any(|(_, row, _)| row.config.env != members[0].1.config.env);
    for ((index, row, breakdown), line) in members.iter().zip(0_u32..) {
        let top = area.top + f64::from(line) * step;
        let env = if several { format!("{} ", row.config.env) } else { String::new() };
        let share =
            row.share_of_peak().map(|share| format!(", {} % of the peak", share.times(100.0).text(2)));
        let limit = format!("{}{}", analysis.classes[*index].bound, share.unwrap_or_default());
        let room = sheet.width - 2.0 * MARGIN - text_width(&limit, SMALL) - 12.0;
        let name = cut_within(&format!("{env}{}", short_label(row)), SMALL, room);
        sheet.svg.text((area.left, top + LINE - 4.0), SMALL, Anchor::Start, INK, &name);
        sheet.svg.text((area.right, top + LINE - 4.0), SMALL, Anchor::End, GREY, &limit);
        bar(&mut sheet.svg, &area, top + LINE + BAR / 2.0, row, breakdown);
    }
    hollow_note(&mut sheet, &members);
    let indices: Vec<usize> = members.iter().map(|(index, ..)| *index).collect();
    vec![Drawing {
        of: "all".to_owned(),
        svg: sheet.finish(),
        title,
        numbers: time_table(&indices, analysis),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::study_with_operators;

    #[test]
    fn the_fastest_config_with_a_profile_has_a_bar_with_its_limit() {
        let study = study_with_operators();
        let analysis = analyse(&study);
        let [drawing] = &draw(&analysis)[..] else { panic!("one drawing") };
        for text in ["70.0 % matrix products and convolutions", "compute-bound, ", " % of the peak"] {
            assert!(drawing.svg.contains(text), "{text}: {}", drawing.svg);
        }
        assert_eq!(drawing.numbers.read().rows.len(), 1);
    }
}
