//! How wide texts are in the font of the figures, and how they are broken and cut to fit.

/// The widths of the characters from space to `~`, in thousandths of the font size.
#[rustfmt::skip]
const PLAIN: [u16; 95] = [
    228, 274, 392, 653, 564, 831, 648, 240, 310, 310, 472, 564, 246, 282, 246, 359, 564, 564, 564, 564,
    564, 564, 564, 564, 564, 564, 246, 246, 564, 564, 564, 380, 940, 641, 630, 609, 702, 555, 520, 658,
    692, 248, 487, 599, 502, 865, 709, 774, 592, 774, 618, 517, 548, 680, 624, 921, 608, 569, 560, 310,
    359, 310, 564, 490, 376, 509, 583, 460, 583, 548, 376, 573, 569, 237, 237, 495, 255, 863, 569, 582,
    583, 583, 374, 428, 387, 569, 480, 775, 499, 474, 455, 319, 262, 319, 564,
];

/// Those of other characters that figures use.
const OTHERS: [(char, u16); 19] = [
    ('°', 318),
    ('±', 564),
    ('²', 359),
    ('³', 359),
    ('µ', 575),
    ('·', 246),
    ('×', 564),
    ('÷', 564),
    ('–', 496),
    ('—', 996),
    ('‘', 230),
    ('’', 230),
    ('“', 392),
    ('”', 392),
    ('…', 996),
    ('⁶', 359),
    ('−', 564),
    ('≤', 564),
    ('≥', 564),
];

/// That of any other character, which the font might not have.
const UNKNOWN: u16 = 1000;

fn letter_width(letter: char) -> u16 {
    let plain = || PLAIN.get((letter as usize).checked_sub(' ' as usize)?).copied();
    let other = || OTHERS.iter().find(|(known, _)| *known == letter).map(|(_, width)| *width);
    plain().or_else(other).unwrap_or(UNKNOWN)
}

/// The width of `text` at font size `size`.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().map(letter_width).map(f64::from).sum::<f64>() * size / 1000.0
}

/// `text`, or as much of it as fits into `width` at font size `size`, with `…` behind.
pub(super) fn cut(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let room = width - text_width("…", size);
    let mut taken = 0.0;
    let fits = |letter: &char| {
        taken += f64::from(letter_width(*letter)) * size / 1000.0;
        taken <= room
    };
    let kept: String = text.chars().take_while(fits).collect();
    format!("{}…", kept.trim_end())
}

/// `text`, or its beginning and its end with `…` between them, so that it fits. Configs differ at the end.
pub(super) fn cut_within(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let letters: Vec<char> = text.chars().collect();
    let of = |kept: usize| -> String {
        let (head, tail) = (kept.div_ceil(2), kept / 2);
        let ends = letters[..head].iter().chain(['…'].iter()).chain(&letters[letters.len() - tail..]);
        ends.collect()
    };
    let fits = |kept: &usize| text_width(&of(*kept), size) <= width;
    of((0..letters.len()).rev().find(fits).unwrap_or(0))
}

/// `text` as lines that fit into `width` at font size `size`. A word that is wider is cut.
pub(super) fn wrap(text: &str, size: f64, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let word = cut(word, size, width);
        let longer = lines.last().map(|line| format!("{line} {word}"));
        match longer.filter(|longer| text_width(longer, size) <= width) {
            Some(longer) => *lines.last_mut().expect("it was made longer") = longer,
            None => lines.push(word),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_and_broken_to_fit() {
        assert_eq!(cut("resnet18", 10.0, 100.0), "resnet18");
        let short = cut("resnet18 fp32 batch 16", 10.0, 60.0);
        assert!(short.starts_with("resnet18") && short.ends_with('…'), "{short}");
        assert!(text_width(&short, 10.0) <= 60.0);
        let label = cut_within("mobilenet_v2 fp32 batch 16", 10.0, 80.0);
        assert!(label.starts_with("mobile") && label.contains('…') && label.ends_with(" 16"), "{label}");
        assert!(text_width(&label, 10.0) <= 80.0);
        let lines = wrap("one two three four five six seven", 10.0, 60.0);
        assert!(lines.len() > 1 && lines.iter().all(|line| text_width(line, 10.0) <= 60.0), "{lines:?}");
        assert_eq!(lines.join(" "), "one two three four five six seven");
        assert_eq!(wrap("", 10.0, 60.0), [""; 0]);
    }
}
