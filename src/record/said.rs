//! Sanitises the output of programs for terminals and tables.

use crate::clean::is_unsafe;

/// The maximum length of a message, in characters; the rest is cut off.
const LONGEST: usize = 500;

/// The end of a message that was cut off.
pub(super) const CUT: &str = " …";

/// `message` on one line of limited length, without control characters and escape sequences.
pub(super) fn plain(message: &str) -> String {
    let text = one_line(message);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}{CUT}", &text[..end]),
        None => text,
    }
}

/// `message` on one line, without control characters and escape sequences.
pub(super) fn one_line(message: &str) -> String {
    let printed = anstream::adapter::strip_str(message).to_string();
    let words = printed.split(|letter: char| is_unsafe(letter) || letter.is_whitespace());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The last line of `log` with text, sanitised. Programs often end with a line that only resets a colour.
pub fn last_line(log: &str) -> Option<String> {
    log.lines().rev().map(plain).find(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_made_safe_for_terminals_and_tables() {
        for (message, expected) in [
            ("\u{1b}[31mred\u{1b}[2J, tab\tand\u{7} bell", "red, tab and bell"),
            ("two\nlines", "two lines"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("\u{1b}]0;Über\u{1b}\\text", "text"),
            ("see \u{1b}]8;;url\u{1b}\\link\u{1b}]8;;\u{1b}\\", "see link"),
            ("\u{1b}Pq#0\u{1b}\\text", "text"),
            ("\u{1b}(Btext\u{1b}c", "text"),
            ("10 %\r\u{1b}[K20 %", "10 % 20 %"),
            ("gpj.\u{202e}exe", "gpj. exe"),
            ("日本\u{1b}[1m語\u{9b}\u{7f}", "日本語"),
            ("text\u{1b}", "text"),
            ("\u{1b}", ""),
        ] {
            assert_eq!(plain(message), expected, "{message:?}");
        }
        let long = plain(&"ä".repeat(2000));
        assert_eq!((long.chars().count(), long.ends_with(" …")), (LONGEST + 2, true));
    }

    #[test]
    fn the_last_line_is_the_last_with_text() {
        for (log, last) in [
            ("", None),
            ("\n \n", None),
            ("one\ntwo \n\n", Some("two")),
            ("\u{1b}[31mError: no data\n\u{1b}[0m\n", Some("Error: no data")),
            ("the end\n\u{1b}]0;torn", Some("the end")),
        ] {
            assert_eq!(last_line(log).as_deref(), last, "{log:?}");
        }
    }
}
