//! Mistakes in a matrix file, with their positions and the expected values: [`Note`].

use std::fmt;

use serde::Serialize;

use super::mask::Mask;

/// The most characters of a message.
const LONGEST_MESSAGE: usize = 1_000;

/// The most mistakes kept.
const KEPT: usize = 1_000;

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
        write!(f, "{}:{}: {}", self.span.line, self.span.column, self.sentence())
    }
}

impl Note {
    /// Everything but its position, for a generated matrix that the user does not see.
    pub fn sentence(&self) -> String {
        let Note { word, message, hint, .. } = self;
        let colon = if self.continues_the_word() { "" } else { ":" };
        let hint = hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("{word}{colon} {message}{hint}")
    }

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
    mask: Mask,
}

impl Notes {
    /// The mistakes `found` so far. Texts hidden by `mask` are removed from all mistakes.
    pub(super) fn behind(mask: Mask, found: Vec<Note>) -> Notes {
        let mut notes = Notes { mask, ..Notes::default() };
        found.into_iter().for_each(|note| notes.add_note(note));
        notes
    }

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
        let shown = self.mask.word(word);
        // Messages and hints can quote the same word.
        let masked = |text: String| if shown == word { text } else { text.replace(word, &shown) };
        self.add_note(Note {
            span,
            word: format!("`{}`", printable(&shown, 60)),
            message: masked(message.into()),
            hint: hint.map(masked),
        });
    }

    /// Adds a finished note.
    pub(super) fn add_note(&mut self, note: Note) {
        self.found += 1;
        // Messages and hints can quote names from the file.
        let note = Note {
            word: match note.word.strip_prefix('`').and_then(|word| word.strip_suffix('`')) {
                Some(word) => format!("`{}`", self.mask.word(word)),
                None => note.word,
            },
            message: printable(&self.mask.text(&note.message), LONGEST_MESSAGE),
            hint: note.hint.map(|hint| printable(&self.mask.text(&hint), LONGEST_MESSAGE)),
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
            ("results in the same command", "1:2: `x` results in the same command", false),
            ("expected a word", "1:2: `x`: expected a word", false),
            ("`device` is missing", "1:2: `x`: `device` is missing", true),
            ("this key occurs twice", "1:2: `x`: this key occurs twice", false),
        ] {
            let note = note(message);
            assert_eq!((note.to_string().as_str(), note.is_about_a_key()), (text, about_a_key));
        }
    }

    #[test]
    fn words_are_printable() {
        assert_eq!(printable("a\u{1b}[31m", 60), "a\\u{1b}[31m");
        assert_eq!(printable("abcdef", 3), "abc…");
    }
}
