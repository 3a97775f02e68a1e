//! Garbled texts for the parsers' tests: cut off, with text inserted or dropped, and with lines repeated or swapped.

use proptest::prelude::*;
use proptest::sample::Index;

/// A change to a text.
#[derive(Clone, Debug)]
pub(super) enum Edit {
    /// Keeps only what precedes this place.
    Cut(Index),
    /// Drops the text between two places.
    Drop(Index, Index),
    /// Inserts a text.
    Insert(Index, String),
    /// Swaps two lines.
    SwapLines(Index, Index),
    /// Repeats a line.
    RepeatLine(Index),
}

/// Up to six edits.
pub(super) fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let place = any::<Index>;
    let words = prop::sample::select(vec![
        "\"",
        ",",
        "\n",
        "\r\n",
        "\r",
        "==ERROR== ",
        "==PROF== Disconnected from process ",
        "\u{feff}",
        "n/a",
        "(!) nan",
        "99999999999999999999",
        "1.234",
        "1.234.567,8",
        "\"ID\",\"Process ID\",",
        "ID,Process ID,",
        "Metric Value",
        "<not counted>",
        "<not supported>",
        "/",
        ":",
        "%",
        "\t",
        "real ",
        "Gbyte",
        "\u{202f}",
        "=",
    ]);
    let inserted = prop_oneof![words.prop_map(str::to_owned), "\\PC{0,6}", "[0-9.,:\" \n]{1,4}"];
    let edit = prop_oneof![
        place().prop_map(Edit::Cut),
        (place(), place()).prop_map(|(from, to)| Edit::Drop(from, to)),
        (place(), inserted).prop_map(|(at, text)| Edit::Insert(at, text)),
        (place(), place()).prop_map(|(one, other)| Edit::SwapLines(one, other)),
        place().prop_map(Edit::RepeatLine),
    ];
    prop::collection::vec(edit, 0..6)
}

/// Applies `edits` to `text`.
pub(super) fn garble(text: &str, edits: &[Edit]) -> String {
    edits.iter().fold(text.to_owned(), apply)
}

fn apply(mut text: String, edit: &Edit) -> String {
    let place = |index: &Index, text: &str| text.floor_char_boundary(index.index(text.len() + 1));
    match edit {
        Edit::Cut(at) => text.truncate(place(at, &text)),
        Edit::Drop(from, to) => {
            let (from, to) = (place(from, &text), place(to, &text));
            text.replace_range(from.min(to)..from.max(to), "");
        }
        Edit::Insert(at, inserted) => text.insert_str(place(at, &text), inserted),
        Edit::SwapLines(one, other) => {
            let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
            if !lines.is_empty() {
                let (one, other) = (one.index(lines.len()), other.index(lines.len()));
                lines.swap(one, other);
            }
            text = lines.concat();
        }
        Edit::RepeatLine(index) => {
            let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
            if !lines.is_empty() {
                let index = index.index(lines.len());
                lines.insert(index, lines[index]);
            }
            text = lines.concat();
        }
    }
    text
}
