//! Checks random texts: no panic, and every mistake has a place in the text.

use orchestrate::matrix::{check, render_notes};
use proptest::prelude::*;

use super::files;

/// Checks `text`. Every mistake must be displayable.
fn survives(text: &str) -> Result<(), TestCaseError> {
    let Err(notes) = check(text) else { return Ok(()) };
    prop_assert!(!notes.is_empty());
    let lines = text.split(['\n', '\r']).count();
    for note in &notes {
        prop_assert!(note.span.line >= 1 && note.span.line <= lines + 1, "{:?}", note);
        prop_assert!(note.span.column >= 1, "{:?}", note);
        prop_assert!(!note.message.is_empty() && !note.message.contains('\n'), "{:?}", note);
    }
    let shown = render_notes("m.yaml", text, &notes);
    prop_assert!(shown.starts_with("m.yaml:"));
    prop_assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{:?}", shown);
    Ok(())
}

/// A valid matrix with some characters replaced by ones that are special in YAML or in a matrix.
fn damaged() -> impl Strategy<Value = String> {
    let texts: Vec<String> =
        files("matrices").into_iter().chain(files("tests/matrices/valid")).map(|(_, text)| text).collect();
    let bits = [
        "",
        "\n",
        " ",
        ":",
        "[",
        "]",
        "{",
        "}",
        "-",
        "'",
        "\"",
        "#",
        "&a",
        "*a",
        "!",
        "|",
        ">",
        "%",
        "@",
        "0",
        "-1",
        "1e999",
        "null",
        "~",
        "true",
        "é",
        "\u{1}",
        "\t",
        "<<",
        "? ",
        "---\n",
        "\r",
        "{model}",
        ".nan",
        "\u{feff}",
        "99999999999999999999",
    ];
    let edit = (any::<proptest::sample::Index>(), 0_usize..12, proptest::sample::select(bits.to_vec()));
    (proptest::sample::select(texts), proptest::collection::vec(edit, 1..4)).prop_map(|(text, edits)| {
        let mut characters: Vec<char> = text.chars().collect();
        for (place, length, bit) in edits {
            let from = place.index(characters.len() + 1);
            let to = (from + length).min(characters.len());
            characters.splice(from..to, bit.chars());
        }
        characters.into_iter().collect()
    })
}

/// Texts that once caused a failure.
#[test]
fn found_before() {
    for text in ["params: { m\t x: }", "¡\r¡\r\0"] {
        survives(text).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text(text in "(?s).{0,200}") {
        survives(&text)?;
    }

    #[test]
    fn text_that_looks_like_yaml(text in "([a-z]{1,3}: ?|[\\[\\]{},&*#!|>'\"-]|\\n {0,4}|<<: |[0-9.]{1,4}|~ ){0,60}") {
        survives(&text)?;
    }

    #[test]
    fn a_damaged_matrix(text in damaged()) {
        survives(&text)?;
    }
}
