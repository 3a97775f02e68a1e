//! Renders mistakes in a matrix file with excerpts of the lines: [`render_notes`].

use std::fmt::Write as _;

use super::mask::HIDDEN;
use super::note::{Note, Span};
use super::veil::Veil;

/// The maximum number of mistakes shown. A file with more is probably not a matrix.
const SHOWN: usize = 50;

/// The maximum number of characters of a source line shown around a mistake.
const LINE_WIDTH: usize = 110;

/// Renders `notes` about the file `path` with the text `source`: one paragraph per mistake, with the source line and a
/// caret under the word. Values of secret variables are left out.
pub fn render_notes(path: &str, source: &str, notes: &[Note]) -> String {
    // YAML has three line endings.
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let lines: Vec<&str> = source.split('\n').collect();
    let veil = Veil::over(&source);
    let mut text = String::new();
    for note in notes.iter().take(SHOWN) {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{path}:{note}");
        if let Some(line) = note.span.line.checked_sub(1).and_then(|index| lines.get(index)) {
            text.push_str(&excerpt(line, note.span, veil.visible(note.span.line, line)));
        }
        text.push('\n');
    }
    if notes.len() > SHOWN {
        let _ = writeln!(text, "… and {} more", notes.len() - SHOWN);
    }
    text.truncate(text.trim_end().len());
    text
}

/// The source line with its number, and a caret under the word. A long line is cut around the word. A line with a
/// secret in it is cut after its first `visible` characters.
fn excerpt(line: &str, span: Span, visible: Option<usize>) -> String {
    let Some(visible) = visible else { return pointed(line, span) };
    let shown: String = line.chars().take(visible).collect();
    if shown.trim().is_empty() {
        return String::new();
    }
    let line = shown + HIDDEN;
    if span.column <= visible {
        return pointed(&line, Span { length: span.length.min(visible + 1 - span.column), ..span });
    }
    // The caret is under the hidden part.
    pointed(&line, Span { column: visible + 1, length: 1, ..span })
}

fn pointed(line: &str, span: Span) -> String {
    let number = span.line.to_string();
    let margin = " ".repeat(number.len());
    let column = span.column.saturating_sub(1);
    let from = if column > LINE_WIDTH / 2 && line.chars().count() > LINE_WIDTH {
        column - LINE_WIDTH / 2
    } else {
        0
    };
    // Tabs and control characters would misplace the caret.
    let plain = |(index, c): (usize, char)| match c {
        _ if index > 0 && index == from => '…',
        c if c.is_control() => ' ',
        c => c,
    };
    let shown: String = line.chars().enumerate().skip(from).take(LINE_WIDTH).map(plain).collect();
    let width = shown.chars().count();
    let indent = (column - from).min(width);
    let carets = span.length.clamp(1, (width - indent).max(1));
    format!(
        "{margin} |\n{number} | {shown}\n{margin} | {}{}\n",
        " ".repeat(indent),
        "^".repeat(carets),
        shown = shown.trim_end()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caret_is_under_its_word() {
        let span = Span { line: 12, column: 4, length: 3 };
        assert_eq!(excerpt("ab\tcde", span, None), "   |\n12 | ab cde\n   |    ^^^\n");
    }

    #[test]
    fn a_long_line_is_shown_around_the_word() {
        let line = format!("{}word{}", "x".repeat(500), "y".repeat(500));
        let text = excerpt(&line, Span { line: 1, column: 501, length: 4 }, None);
        let lines: Vec<&str> = text.lines().collect();
        let caret = lines[2].find('^').unwrap();
        assert!(lines.iter().all(|line| line.chars().count() < 120));
        assert_eq!(lines[1].chars().skip(caret).take(4).collect::<String>(), "word");
        assert!(lines[1].contains('…'));
        assert!(excerpt("", Span { line: 3, column: 90, length: 7 }, None).contains('^'));
    }

    #[test]
    fn the_caret_does_not_reveal_the_length_of_a_hidden_value() {
        let span = |column| Span { line: 1, column, length: 9 };
        assert_eq!(
            excerpt("a: HF_TOKEN: hush", span(14), Some(13)),
            "  |\n1 | a: HF_TOKEN: …\n  |              ^\n"
        );
        assert_eq!(
            excerpt("a: HF_TOKEN: hush", span(4), Some(13)),
            "  |\n1 | a: HF_TOKEN: …\n  |    ^^^^^^^^^\n"
        );
        assert_eq!(
            excerpt("a: HF_TOKEN: hush", span(10), Some(13)),
            "  |\n1 | a: HF_TOKEN: …\n  |          ^^^^\n"
        );
        assert_eq!(excerpt("  hush", span(3), Some(0)), "");
    }
}
