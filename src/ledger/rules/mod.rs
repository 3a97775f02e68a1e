//! The rules, each with the arithmetic that finds violations.

mod cliff;
mod costs;
mod flops;
mod intensity;
mod iterations;
mod merged;
mod overlap;
mod peaks;
mod profiled;
mod rate;
mod roof;
mod runs;
mod spread;
mod window;
mod words;

use super::objection::Objection;
use super::sheet::Sheet;
use costs::Costs;

/// The objections of all rules to `sheet`. Their assumptions are added to `notes`.
pub(super) fn objections(sheet: &Sheet<'_>, notes: &mut Vec<String>) -> Vec<Objection> {
    let mut found = Vec::new();
    let costs = Costs::of(sheet, notes);
    found.extend(flops::objections(&costs));
    found.extend(merged::objections(sheet));
    found.extend(intensity::objections(sheet, notes));
    let windows = window::objections(sheet);
    // A mean of rates that follows from the iterations is stronger evidence than the seconds of a summary.
    let is_shown = |rate: &Objection| {
        windows.iter().any(|shown| shown.rule == rate.rule && shown.lines[0] == rate.lines[0])
    };
    found.extend(rate::objections(sheet).into_iter().filter(|rate| !is_shown(rate)));
    found.extend(iterations::objections(sheet));
    found.extend(windows);
    found.extend(spread::objections(sheet));
    found.extend(runs::objections(sheet));
    found.extend(cliff::objections(sheet));
    found.extend(profiled::objections(sheet));
    found.extend(overlap::objections(sheet));
    found.extend(roof::objections(sheet, notes));
    found.extend(peaks::objections(sheet));
    found
}
