//! Pages are read by people in a hurry: short lines, short sentences.

use super::pages::{Page, pages};

/// The most characters of a line that is not a table row.
const LONGEST_LINE: usize = 120;

/// The most characters of a table row, which cannot be broken.
const LONGEST_ROW: usize = 240;

/// The most words in a sentence.
const LONGEST_SENTENCE: usize = 30;

/// Whether it is a line of a table, either of the page or printed by a program.
fn is_row(line: &str) -> bool {
    line.trim_start().starts_with(['|', '─'])
}

/// The paragraphs and list items of a page, each as one line, without tables and headings.
fn paragraphs(page: &Page) -> Vec<String> {
    let mut found = vec![String::new()];
    for line in page.prose() {
        let text = line.trim();
        let item = text.strip_prefix("- ").or_else(|| Some(text.split_once(". ")?).and_then(numbered));
        if text.is_empty() || is_row(line) || text.starts_with('#') {
            found.push(String::new());
        } else if let Some(item) = item {
            found.push(item.to_owned());
        } else {
            let paragraph = found.last_mut().expect("there is one from the beginning");
            *paragraph += &format!(" {text}");
        }
    }
    found.retain(|paragraph| !paragraph.trim().is_empty());
    found
}

/// The item after `1. `.
fn numbered<'a>((number, item): (&str, &'a str)) -> Option<&'a str> {
    (!number.is_empty() && number.chars().all(|letter| letter.is_ascii_digit())).then_some(item)
}

/// The sentences of a paragraph. A full stop, question mark or exclamation mark ends one. Code counts as one word.
fn sentences(paragraph: &str) -> Vec<String> {
    let words_alone: String = paragraph
        .split('`')
        .enumerate()
        .map(|(index, part)| if index % 2 == 1 { "code" } else { part })
        .collect();
    let mut found = vec![String::new()];
    for word in words_alone.split_whitespace() {
        let sentence = found.last_mut().expect("there is one from the beginning");
        *sentence += &format!("{word} ");
        let bare = word.trim_end_matches(['"', ')', '*', ']']);
        if bare.ends_with(['.', '?', '!']) {
            found.push(String::new());
        }
    }
    found.retain(|sentence| !sentence.is_empty());
    found
}

/// The number of words in a sentence. Symbols alone do not count.
fn words(sentence: &str) -> usize {
    sentence.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

#[test]
fn no_line_is_long() {
    let mut wrong = Vec::new();
    for page in pages() {
        for (index, line) in page.text.lines().enumerate() {
            let most = if is_row(line) { LONGEST_ROW } else { LONGEST_LINE };
            let length = line.chars().count();
            if length > most {
                wrong.push(format!("{}:{}: {length} characters", page.path, index + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_sentence_is_long() {
    let mut wrong = Vec::new();
    for page in pages() {
        for sentence in paragraphs(&page).iter().flat_map(|paragraph| sentences(paragraph)) {
            if words(&sentence) > LONGEST_SENTENCE {
                wrong.push(format!("{}: {} words: {sentence}", page.path, words(&sentence)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sentences_are_separated() {
    let text = "# A heading. Of two.\n\nOne `a. b` two\nthree. Four (five.) Six?\n\n| a row. |\n\
                - seven\n  eight\n2. nine\n";
    let page = Page { path: "p.md".to_owned(), text: text.to_owned() };
    let found: Vec<String> = paragraphs(&page).iter().flat_map(|text| sentences(text)).collect();
    let found: Vec<&str> = found.iter().map(|sentence| sentence.trim()).collect();
    assert_eq!(found, ["One code two three.", "Four (five.)", "Six?", "seven eight", "nine"]);
    assert_eq!(words("seven – eight, 9 ÷ 10"), 4);
}

/// README.md is a front page.
#[test]
fn the_readme_is_short() {
    let lines = super::pages::page("README.md").text.lines().count();
    assert!(lines < 250, "README.md has {lines} lines: move some to docs/");
}

/// The comments of a source file, each as one line, with the number of its first line. Code blocks, tables and headings
/// are left out.
fn comments(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut open, mut in_code) = (None, false);
    for (index, line) in text.lines().enumerate() {
        let Some((marker, words)) = comment(line) else {
            (open, in_code) = (None, false);
            continue;
        };
        let is_fence = words.starts_with("```");
        in_code ^= is_fence;
        if is_fence || in_code || words.is_empty() || words.starts_with(['|', '#']) {
            open = None;
            continue;
        }
        let is_item = words.starts_with("- ") || words.split_once(". ").and_then(numbered).is_some();
        if open != Some(marker) || is_item {
            found.push((index + 1, String::new()));
        }
        open = Some(marker);
        let (_, comment) = found.last_mut().expect("the first line of a comment adds one");
        *comment += &format!(" {words}");
    }
    found
}

/// The marker and the words of a line that is a comment.
fn comment(line: &str) -> Option<(&'static str, &str)> {
    let found = |marker: &'static str| Some((marker, line.trim_start().strip_prefix(marker)?));
    let (marker, words) = ["///", "//!", "//"].into_iter().find_map(found)?;
    (words.is_empty() || words.starts_with(' ')).then(|| (marker, words.trim()))
}

/// The Rust files below `directory`, with their text.
fn sources(directory: &std::path::Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("the sources are there") {
        let path = entry.expect("the sources can be listed").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source file is text");
            found.push((path.display().to_string(), text));
        }
    }
    found
}

#[test]
fn no_comment_is_long() {
    let mut wrong = Vec::new();
    for (path, text) in sources(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        for (index, line) in text.lines().enumerate() {
            let length = line.chars().count();
            if comment(line).is_some() && length > LONGEST_LINE {
                wrong.push(format!("{path}:{}: {length} characters", index + 1));
            }
            if ["// !", "// /"].iter().any(|broken| line.trim_start().starts_with(broken)) {
                wrong.push(format!("{path}:{}: a space in the marker of a doc comment", index + 1));
            }
        }
        for (line, comment) in comments(&text) {
            for sentence in sentences(&comment) {
                if words(&sentence) > LONGEST_SENTENCE {
                    wrong.push(format!("{path}:{line}: {} words: {sentence}", words(&sentence)));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn comments_are_distinguished_from_code() {
    let text = "//! One\n//! two. `a b`\n//!\n//! ```text\n//! code\n//! ```\n//! - three\n//! - four\n\
                fn f() {} // five\n    // six\n    //six\n/// | seven |\n/// eight\nlet url = 9;\n/// # Errors\n/// ten\n";
    let found: Vec<(usize, String)> = comments(text);
    let found: Vec<(usize, &str)> = found.iter().map(|(line, comment)| (*line, comment.trim())).collect();
    let expected =
        [(1, "One two. `a b`"), (7, "- three"), (8, "- four"), (10, "six"), (13, "eight"), (16, "ten")];
    assert_eq!(found, expected);
}
