//! The colours of figures, on white paper and in dark mode.
//!
//! They are distinguishable with any colour vision: those of Okabe and Ito, with the yellow darkened so that it is
//! visible on white. Attributes have the colour on paper. A style sheet within the drawing replaces each in dark mode,
//! so that both the file and the page that contains the drawing follow the reader's setting.

use crate::analysis::bound::Bound;

/// The background.
pub(super) const PAPER: &str = "#ffffff";

/// The colour of axes and text.
pub(super) const INK: &str = "#222222";

/// The colour of secondary lines and text.
pub(super) const GREY: &str = "#666666";

/// The colour of grid lines.
pub(super) const GRID: &str = "#e4e4e4";

/// The colour of every second block.
pub(super) const SHADE: &str = "#f1f1f1";

/// The colour of impossible values.
pub(super) const ALARM: &str = "#b00020";

/// The colours of categories, strongest contrasts first.
const PALETTE: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#a87700", "#444444"];

/// Each colour with the one that replaces it on a dark background.
const DARK: [(&str, &str); 12] = [
    (PAPER, "#16191d"),
    (INK, "#e6e6e6"),
    (GREY, "#a6a6a6"),
    (GRID, "#343a40"),
    (SHADE, "#22262b"),
    (ALARM, "#ff7b8a"),
    (PALETTE[0], "#5ab4f0"),
    (PALETTE[1], "#ff8f4d"),
    (PALETTE[2], "#2ec99c"),
    (PALETTE[3], "#eba6cb"),
    (PALETTE[4], "#e6b33d"),
    (PALETTE[5], "#c8c8c8"),
];

/// The colour of the `index`-th category.
pub(super) fn colour(index: usize) -> &'static str {
    PALETTE[index % PALETTE.len()]
}

/// The colour of work that is limited by `bound`.
pub(super) fn bound_ink(bound: Bound) -> &'static str {
    match bound {
        Bound::Memory => colour(0),
        Bound::Compute => colour(1),
        Bound::Kernel => colour(2),
        Bound::Latency => colour(4),
        Bound::Host | Bound::Spilled | Bound::Mixed | Bound::Unknown => GREY,
    }
}

/// The style sheet of dark mode. Paper stays white when it is printed.
pub(super) fn dark_mode() -> String {
    let rule = |(light, dark): (&str, &str)| {
        [format!(".orchestrate [fill=\"{light}\"]{{fill:{dark}}}"), stroke_rule(light, dark)].concat()
    };
    let rules: String = DARK.into_iter().map(rule).collect();
    format!("<style>@media screen and (prefers-color-scheme: dark){{{rules}}}</style>")
}

fn stroke_rule(light: &str, dark: &str) -> String {
    format!(".orchestrate [stroke=\"{light}\"]{{stroke:{dark}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contrast of two colours, as the Web Content Accessibility Guidelines define it.
    fn contrast(one: &str, other: &str) -> f64 {
        let luminance = |colour: &str| -> f64 {
            let part = |place: usize| {
                let value = f64::from(u8::from_str_radix(&colour[place..place + 2], 16).unwrap()) / 255.0;
                if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
        };
        let [one, other] = [one, other].map(luminance);
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    fn dark(light: &str) -> &'static str {
        DARK.iter().find(|(known, _)| *known == light).unwrap().1
    }

    #[test]
    fn texts_and_marks_stand_out_on_paper_and_in_dark_mode() {
        for ink in [INK, GREY, ALARM] {
            assert!(contrast(ink, PAPER) >= 4.5 && contrast(dark(ink), dark(PAPER)) >= 4.5, "{ink}");
            assert!(contrast(ink, SHADE) >= 4.5 && contrast(dark(ink), dark(SHADE)) >= 4.5, "{ink}");
        }
        for hue in PALETTE {
            assert!(contrast(hue, PAPER) >= 3.0, "{hue}: {}", contrast(hue, PAPER));
            assert!(contrast(dark(hue), dark(PAPER)) >= 4.5, "{hue}");
        }
    }

    #[test]
    fn every_colour_has_another_in_dark_mode() {
        let style = dark_mode();
        for (light, dark) in DARK {
            assert!(light != dark && style.contains(&format!("[fill=\"{light}\"]{{fill:{dark}}}")));
            assert!(style.contains(&format!("[stroke=\"{light}\"]{{stroke:{dark}}}")));
        }
        let known = |colour: &str| DARK.iter().filter(|(light, _)| *light == colour).count();
        assert!(PALETTE.iter().all(|hue| known(hue) == 1));
    }
}
