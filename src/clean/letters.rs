//! Unsafe letters, and their removal from texts.

use std::borrow::Cow;

/// The most characters of one text. A text can be a path, and Linux's longest path has 4095 bytes.
const LONGEST: usize = 4096;

/// Whether a terminal could interpret `letter` instead of showing it, or whether it affects the letters around it.
///
/// These are the controls (C0, DEL, C1), the line separators, and Unicode's bidirectional embeddings, overrides and
/// isolates.
pub fn is_unsafe(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text` on one line, without escape sequences and unsafe letters, cut with `…` if it is too long.
///
/// Tabs and line breaks become blanks. Cleaning twice is the same as cleaning once.
pub fn clean_text(text: &str) -> Cow<'_, str> {
    let text =
        if text.contains(is_unsafe) { Cow::Owned(without_unsafe(text, |_| false)) } else { text.into() };
    // A character has at least one byte, so most texts need not be counted.
    let end = if text.len() <= LONGEST { None } else { text.char_indices().nth(LONGEST) };
    match end {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => text,
    }
}

/// `text` of any length for a terminal, without unsafe letters except line breaks and tabs.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_layout = |letter| matches!(letter, '\n' | '\t');
    // Fast path: nearly all texts are safe, and comparing bytes is faster than comparing letters.
    let is_harmless = |byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    if text.bytes().fold(true, |all, byte| all & is_harmless(byte)) {
        return text.into();
    }
    if text.contains(|letter| is_unsafe(letter) && !is_layout(letter)) {
        Cow::Owned(without_unsafe(text, is_layout))
    } else {
        text.into()
    }
}

/// [`clean_text`] escaped for Markdown: it cannot end a cell of a table or become an HTML element, a link or an image.
/// Other Markdown, such as emphasis, is harmless and is not escaped.
pub fn markdown_text(text: &str) -> String {
    clean_text(text).replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;").replace("](", "]\\(")
}

/// `text` without escape sequences and unsafe letters, except those for which `stays` is true. Other unsafe letters
/// that separate words become blanks.
fn without_unsafe(text: &str, stays: impl Fn(char) -> bool) -> String {
    let shown = |letter: char| match letter {
        letter if !is_unsafe(letter) || stays(letter) => Some(letter),
        letter if letter.is_whitespace() => Some(' '),
        _ => None,
    };
    anstream::adapter::strip_str(text).to_string().chars().filter_map(shown).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn removes_escape_sequences_and_control_characters() {
        for (text, clean) in [
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("10 %\r20 %", "10 % 20 %"),
            ("two\nlines\tand\u{2028}more", "two lines and more"),
            ("gpj.\u{202e}exe\u{202c} \u{2066}x\u{2069}", "gpj.exe x"),
            ("a\0b\u{7f}c\u{9f}d", "abcd"),
            ("\u{1b}", ""),
            ("RTX™ é 漢字 👩‍🚀  שלום\u{200f}", "RTX™ é 漢字 👩‍🚀  שלום\u{200f}"),
        ] {
            assert_eq!(clean_text(text), clean, "{text:?}");
        }
    }

    #[test]
    fn a_long_text_is_cut_and_the_cut_is_shown() {
        let whole = "é".repeat(LONGEST);
        assert_eq!(clean_text(&whole), whole);
        let cut = clean_text(&format!("{whole}xx")).into_owned();
        assert_eq!(cut, format!("{whole}…"));
        assert_eq!(clean_text(&cut), cut);
    }

    #[test]
    fn printable_keeps_lines() {
        assert_eq!(printable("a\tb\n\u{1b}[2Jc\rd\n"), "a\tb\nc d\n");
        assert!(matches!(printable("a\tb\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn markdown_text_is_escaped() {
        for (text, expected) in [
            ("a | b \\| c", "a \\| b \\\\\\| c"),
            ("<script>x</script>", "&lt;script>x&lt;/script>"),
            ("![i](http://x) [l](y)", "![i]\\(http://x) [l]\\(y)"),
            ("cpu_vgg16 [79.0, 81.0]", "cpu_vgg16 [79.0, 81.0]"),
        ] {
            assert_eq!(markdown_text(text), expected);
        }
    }

    proptest! {
        #[test]
        fn cleaning_is_idempotent(text in any::<String>()) {
            let clean = clean_text(&text).into_owned();
            prop_assert!(!clean.contains(is_unsafe));
            prop_assert!(matches!(clean_text(&clean), Cow::Borrowed(same) if same == clean) || clean.len() > LONGEST);
            let shown = printable(&text).into_owned();
            prop_assert_eq!(printable(&shown), shown.as_str());
        }
    }
}
