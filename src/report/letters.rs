//! The width of texts in the font of the figures, and line breaking and truncation.

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

/// Words of up to this number of letters are only cut if all longer ones are.
const SHORT: usize = 4;

/// The width of `text` at font size `size`.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().map(letter_width).map(f64::from).sum::<f64>() * size / 1000.0
}

/// `text`, truncated with `…` if it does not fit into `width` at font size `size`.
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

/// `text`, with `…` within its longest words, so that it fits. Names of networks and parameters are long; the parts
/// that distinguish configs, such as their batch, are short.
pub(super) fn cut_within(text: &str, size: f64, width: f64) -> String {
    let words: Vec<Vec<char>> = text.split(' ').map(|word| word.chars().collect()).collect();
    let mut kept: Vec<usize> = words.iter().map(Vec::len).collect();
    loop {
        let shown: Vec<String> =
            words.iter().zip(&kept).map(|(word, kept)| cut_middle(word, *kept)).collect();
        let shown = shown.join(" ");
        if text_width(&shown, size) <= width {
            return shown;
        }
        match kept.iter_mut().max_by_key(|kept| **kept).filter(|kept| **kept > SHORT) {
            Some(longest) => *longest -= 1,
            None => break,
        }
    }
    let letters: Vec<char> = text.chars().collect();
    let fits = |kept: &usize| text_width(&cut_middle(&letters, *kept), size) <= width;
    cut_middle(&letters, (0..letters.len()).rev().find(fits).unwrap_or(0))
}

/// As many of `letters` as are `kept`, from both ends.
fn cut_middle(letters: &[char], kept: usize) -> String {
    if kept >= letters.len() {
        return letters.iter().collect();
    }
    let (head, tail) = (kept.div_ceil(2), kept / 2);
    letters[..head].iter().chain(&['…']).chain(&letters[letters.len() - tail..]).collect()
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
    use std::collections::HashSet;

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
        assert!(text_width(&cut_within("a b c d e f g h i j k l m n o p", 10.0, 30.0), 10.0) <= 30.0);
        let lines = wrap("one two three four five six seven", 10.0, 60.0);
        assert!(lines.len() > 1 && lines.iter().all(|line| text_width(line, 10.0) <= 60.0), "{lines:?}");
        assert_eq!(lines.join(" "), "one two three four five six seven");
        assert_eq!(wrap("", 10.0, 60.0), [""; 0]);
    }

    /// Names that differ only in a short word are still different.
    #[test]
    fn names_that_are_cut_still_differ() {
        let name = |batch: u32| format!("mobilenet_v3_large fp32 bs{batch} channels_last=false compile=true");
        let cut: HashSet<String> = [8, 16, 32, 64].map(|batch| cut_within(&name(batch), 11.0, 165.0)).into();
        assert!(cut.len() == 4 && cut.iter().all(|name| name.contains(" bs")), "{cut:?}");
    }
}
