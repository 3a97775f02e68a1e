//! Work below the roofs of a device, as discs whose area is a share of the time: kernels and operators.

use super::frame::Sheet;
use super::hover::row_anchor;
use super::inks::INK;
use super::roofs::{Entry, Plot, Unit, draw_key, flat_roofs};
use super::svg::{Look, Shape, Svg};
use crate::analysis::group::Row;
use crate::analysis::peaks::Peaks;
use crate::text::significant;

/// The most characters of a name in the key.
const NAME: usize = 44;

/// The radius of a disc with a share of 100 %.
const WHOLE: f64 = 44.0;

/// A kernel or an operator.
pub(super) struct Disc {
    /// Its rank by time, from 1.
    pub(super) rank: usize,
    /// Its name.
    pub(super) name: String,
    /// Its share of the time.
    pub(super) share: f64,
    /// FLOPs per byte and FLOP/s; `None` if either is 0 or infinite.
    pub(super) coordinates: Option<(f64, f64)>,
    /// The colour of its limit.
    pub(super) ink: &'static str,
    /// Its limit.
    pub(super) words: String,
}

impl Disc {
    /// Its share of the time, and its limit.
    fn text(&self) -> String {
        format!("{} % {}", significant(100.0 * self.share, 2), self.words)
    }

    /// `12 % memory-bound: ampere_sgemm_128x64_nn…`
    fn key_line(&self) -> String {
        let cut: String = self.name.chars().take(NAME).collect();
        let more = if cut.len() < self.name.len() { "…" } else { "" };
        format!("{}: {cut}{more}", self.text())
    }

    fn entry(&self) -> Entry<'static> {
        Entry {
            number: self.rank,
            look: Look {
                shape: Shape::Circle,
                radius: 4.6,
                colour: self.ink,
                is_filled: self.coordinates.is_none(),
            },
            text: self.key_line(),
            ink: INK,
        }
    }
}

/// Draws the axes, the roofs, the discs and their key. `None` if no disc has a place on the axes.
pub(super) fn draw_discs(
    sheet: &mut Sheet,
    row: &Row<'_>,
    (peaks, unit): (&Peaks, Unit),
    discs: &[Disc],
) -> Option<()> {
    let bandwidth = peaks.bandwidth?;
    let flat = flat_roofs(peaks, &[row.config.precision], unit);
    let (mut intensities, mut heights): (Vec<f64>, Vec<f64>) = discs
        .iter()
        .filter_map(|disc| disc.coordinates)
        .map(|(intensity, flops)| (intensity, flops / unit.flops))
        .unzip();
    if intensities.is_empty() {
        return None;
    }
    intensities.extend(flat.iter().map(|roof| roof.high * unit.flops / bandwidth.high));
    heights.extend(flat.iter().map(|roof| roof.high));
    let mut plot = Plot::new(sheet, &intensities, &heights, unit);
    plot.roofs(&mut sheet.svg, &flat, bandwidth);
    draw_each(&mut sheet.svg, row, discs, &mut plot);
    draw_key(sheet, discs.iter().map(Disc::entry));
    Some(())
}

fn draw_each(svg: &mut Svg, row: &Row<'_>, discs: &[Disc], plot: &mut Plot) {
    let placed: Vec<(&Disc, (f64, f64))> = discs
        .iter()
        .filter_map(|disc| {
            let (intensity, flops) = disc.coordinates?;
            Some((disc, plot.place(intensity, flops)))
        })
        .collect();
    for (disc, at) in &placed {
        let text = format!("{}\n{}", disc.name, disc.text());
        svg.disc(*at, (WHOLE * disc.share.sqrt()).max(2.5), disc.ink, &text);
        let look = Look { shape: Shape::Circle, radius: 2.2, colour: disc.ink, is_filled: true };
        svg.linked_marker(*at, look, &text, &row_anchor(row));
    }
    let numbers: Vec<((f64, f64), String)> =
        placed.iter().map(|(disc, at)| (*at, disc.rank.to_string())).collect();
    plot.names(svg, &numbers, 3.0);
}

/// `2_cuda_resnet18_amp_bs16`: the row's number, and its config in characters that a file's name can have.
pub(super) fn file_part(index: usize, row: &Row<'_>) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    let label = row.config.label();
    let plain: String = label
        .trim_end_matches("_run1")
        .chars()
        .map(|letter| if is_plain(letter) { letter } else { '-' })
        .collect();
    format!("{}_{plain}", index + 1)
}
