//! Mistakes in a matrix file: their positions, what was expected, and how they are shown.

use std::fmt::{self, Write as _};

use serde::Serialize;

/// The most mistakes shown at once. A file with more is probably not a matrix.
const SHOWN: usize = 50;

/// The most characters of a message.
const LONGEST_MESSAGE: usize = 1_000;

/// The most mistakes kept.
const KEPT: usize = 1_000;

/// The most characters of a source line shown around a mistake.
const LINE_WIDTH: usize = 110;

/// A position in the file, in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Span {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// The number of characters; 0 if unknown.
    pub length: usize,
}

/// A value and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// The position.
    pub span: Span,
}

/// One mistake in a matrix file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The position.
    #[serde(flatten)]
    pub span: Span,
    /// The offending word.
    pub word: String,
    /// The problem, or what was expected instead.
    pub message: String,
    /// What was probably meant, or what to do.
    pub hint: Option<String>,
}

impl fmt::Display for Note {
    /// Everything but the file's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Note { span, word, message, hint } = self;
        let colon = if self.continues_the_word() { "" } else { ":" };
        write!(f, "{}:{}: {word}{colon} {message}", span.line, span.column)?;
        hint.iter().try_for_each(|hint| write!(f, " ({hint})"))
    }
}

impl Note {
    /// Whether the message begins with a verb, so that the word is its subject: "`x` is not a key". In the third person
    /// a verb ends in `s`.
    fn continues_the_word(&self) -> bool {
        let first = self.message.split(' ').next().unwrap_or_default();
        first.ends_with('s') && first != "this" && first.bytes().all(|byte| byte.is_ascii_lowercase())
    }

    /// Whether it is about a key that is unknown or missing, so that a list of all keys helps.
    pub fn is_about_a_key(&self) -> bool {
        self.message.contains("is not a key of") || self.message.contains("is missing")
    }
}

/// The mistakes found so far. Equal mistakes are kept once, even if several envs inherit them.
#[derive(Debug, Default)]
pub(super) struct Notes {
    notes: Vec<Note>,
    found: usize,
}

impl Notes {
    /// Adds a mistake about `word`, which is shown in backticks.
    pub(super) fn add(&mut self, span: Span, word: &str, message: impl Into<String>) {
        self.add_with_hint(span, word, message, None);
    }

    /// Adds a mistake with a hint such as "did you mean `x`?".
    pub(super) fn add_with_hint(
        &mut self,
        span: Span,
        word: &str,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        self.add_note(Note {
            span,
            word: format!("`{}`", printable(word, 60)),
            message: message.into(),
            hint,
        });
    }

    /// Adds a finished note.
    pub(super) fn add_note(&mut self, note: Note) {
        self.found += 1;
        // Messages and hints can quote names from the file.
        let note = Note {
            message: printable(&note.message, LONGEST_MESSAGE),
            hint: note.hint.map(|hint| printable(&hint, LONGEST_MESSAGE)),
            ..note
        };
        if self.notes.len() < KEPT && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The number of mistakes. Comparing two counts shows whether anything in between failed.
    pub(super) fn count(&self) -> usize {
        self.found
    }

    /// All mistakes in the order of the file.
    pub(super) fn into_sorted(mut self) -> Vec<Note> {
        self.notes.sort_by_key(|note| note.span);
        self.notes
    }
}

/// Renders `notes` about the file `path` with the text `source`: one paragraph per mistake, with the source line and a
/// caret under the word.
pub fn render_notes(path: &str, source: &str, notes: &[Note]) -> String {
    // YAML has three line endings.
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let lines: Vec<&str> = source.split('\n').collect();
    let mut text = String::new();
    for note in notes.iter().take(SHOWN) {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{path}:{note}");
        if let Some(line) = note.span.line.checked_sub(1).and_then(|index| lines.get(index)) {
            text.push_str(&excerpt(line, note.span));
        }
        text.push('\n');
    }
    if notes.len() > SHOWN {
        let _ = writeln!(text, "… and {} more", notes.len() - SHOWN);
    }
    text.truncate(text.trim_end().len());
    text
}

/// The source line with its number, and a caret under the word. A long line is cut around the word.
fn excerpt(line: &str, span: Span) -> String {
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

/// `text` for a message: control characters escaped, cut after `most` characters.
pub(super) fn printable(text: &str, most: usize) -> String {
    let mut shown: String = text
        .chars()
        .take(most)
        .flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
        .collect();
    if text.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_with_a_verb_has_the_word_as_its_subject() {
        let note = |message: &str| Note {
            span: Span { line: 1, column: 2, length: 1 },
            word: "`x`".into(),
            message: message.into(),
            hint: None,
        };
        for (message, text, about_a_key) in [
            ("is not a key of a matrix", "1:2: `x` is not a key of a matrix", true),
            ("has no configs left", "1:2: `x` has no configs left", false),
            ("leads to the same command", "1:2: `x` leads to the same command", false),
            ("expected a word", "1:2: `x`: expected a word", false),
            ("`device` is missing", "1:2: `x`: `device` is missing", true),
            ("this key occurs twice", "1:2: `x`: this key occurs twice", false),
        ] {
            let note = note(message);
            assert_eq!((note.to_string().as_str(), note.is_about_a_key()), (text, about_a_key));
        }
    }

    #[test]
    fn a_caret_stands_under_its_word() {
        let span = Span { line: 12, column: 4, length: 3 };
        assert_eq!(excerpt("ab\tcde", span), "   |\n12 | ab cde\n   |    ^^^\n");
    }

    #[test]
    fn a_long_line_is_shown_around_the_word() {
        let line = format!("{}word{}", "x".repeat(500), "y".repeat(500));
        let text = excerpt(&line, Span { line: 1, column: 501, length: 4 });
        let lines: Vec<&str> = text.lines().collect();
        let caret = lines[2].find('^').unwrap();
        assert!(lines.iter().all(|line| line.chars().count() < 120));
        assert_eq!(lines[1].chars().skip(caret).take(4).collect::<String>(), "word");
        assert!(lines[1].contains('…'));
        assert!(excerpt("", Span { line: 3, column: 90, length: 7 }).contains('^'));
    }

    #[test]
    fn words_are_printable() {
        assert_eq!(printable("a\u{1b}[31m", 60), "a\\u{1b}[31m");
        assert_eq!(printable("abcdef", 3), "abc…");
    }
}
