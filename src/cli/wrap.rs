//! Wraps text for a terminal at words.

use unicode_width::UnicodeWidthStr;

/// The indentation of the continuation of a wrapped line, in addition to that of its first line.
const INDENT: usize = 2;

/// `text` with each line that is wider than `width` wrapped at blanks, but not within backticks, so that a command can
/// be copied, and not before a `%`. A wider word gets a separate line, without the indentation if it fits that way. A
/// value that is aligned after its name stays aligned. Any other line with several blanks in a row is not changed.
///
/// ```text
/// - a finding about a row that       - a finding about a row that
///   is longer than the terminal  ◂─  is longer than the terminal
/// ```
pub(super) fn wrapped(text: &str, width: usize) -> String {
    let lines: Vec<String> = text.split('\n').map(|line| wrapped_line(line, width)).collect();
    lines.join("\n")
}

/// The same for a single line that wraps even if it is aligned with others. Blanks within a line are kept.
pub(super) fn wrapped_whole(line: &str, width: usize) -> String {
    if line.width() <= width { line.to_owned() } else { broken(line, width) }
}

fn wrapped_line(line: &str, width: usize) -> String {
    if line.width() <= width {
        return line.to_owned();
    }
    let text = line.trim_start();
    let Some((name, value)) = text.split_once("  ") else { return broken(line, width) };
    let value = value.trim_start();
    let (before, room) = (line.width() - value.width(), width / 2);
    // Several blanks in a row align the line with others: in a table, or above a `^`.
    if value.contains("  ") || name.contains('|') || before > room {
        return line.to_owned();
    }
    let begin = &line[..line.len() - value.len()];
    let value = broken_to(value, width - before, 0);
    format!("{begin}{}", value.replace('\n', &format!("\n{}", " ".repeat(before))))
}

/// `line` in lines of `width` columns at most, if its words allow it.
fn broken(line: &str, width: usize) -> String {
    let text = line.trim_start();
    let indent = &line[..line.len() - text.len()];
    let text = broken_to(text, width.saturating_sub(indent.width()), INDENT);
    format!("{indent}{}", text.replace('\n', &format!("\n{indent}")))
}

/// `text` in lines of `width` columns at most, if its words allow it. All but the first begin with `hang` blanks.
fn broken_to(text: &str, width: usize, hang: usize) -> String {
    let mut lines = vec![String::new()];
    for (blanks, word) in words(text) {
        let last = lines.last_mut().expect("there is a first line");
        if last.is_empty() {
            word.clone_into(last);
        } else if last.width() + blanks.width() + word.width() <= width {
            last.push_str(blanks);
            last.push_str(word);
        } else {
            // Without the indentation, a word that just fits is not wrapped by the terminal.
            let begins = width.checked_sub(word.width()).map_or(hang, |room| room.min(hang));
            lines.push(format!("{}{word}", " ".repeat(begins)));
        }
    }
    lines.join("\n")
}

/// The words of `text`, each with the blanks before it. Text between two backticks is one word, as are a number and
/// its `%`.
fn words(text: &str) -> Vec<(&str, &str)> {
    let mut words = Vec::new();
    let mut rest = text.trim_end();
    while !rest.is_empty() {
        let (blanks, begun) = rest.split_at(rest.len() - rest.trim_start().len());
        let is_end = |(place, letter): &(usize, char)| {
            letter.is_whitespace()
                && begun[..*place].matches('`').count().is_multiple_of(2)
                && !begun[*place..].trim_start().starts_with('%')
        };
        let end = begun.char_indices().find(is_end).map_or(begun.len(), |(place, _)| place);
        words.push((blanks, &begun[..end]));
        rest = &begun[end..];
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wrap_at_words() {
        let text =
            "- the throughput of resnet18 varies by 12 %\n  report: report/quickstart/report.md\nshort";
        let expected = "- the throughput of\n  resnet18 varies by\n  12 %\n  report:\n    \
                        report/quickstart/report.md\nshort";
        assert_eq!(wrapped(text, 21), expected);
        assert_eq!(wrapped(text, 80), text);
        assert_eq!(wrapped("a margin of 2 %, at most", 15), "a margin of\n  2 %, at most");
    }

    #[test]
    fn a_command_stays_whole() {
        let text = "hint: run it first: `orchestrate run matrices/mac.yaml`, then `report`";
        let expected = "hint: run it first:\n  `orchestrate run matrices/mac.yaml`, then\n  `report`";
        assert_eq!(wrapped(text, 44), expected);
        assert_eq!(wrapped("an open ` is a letter", 10), "an open\n  ` is a letter");
        assert_eq!(wrapped("type it: `orchestrate logs x`", 20), "type it:\n`orchestrate logs x`");
    }

    #[test]
    fn a_value_stays_beside_its_name() {
        let text = "  state     done, but left out of the statistics\n  versions  orchestrate 0.1.0";
        let expected = "  state     done, but left\n            out of the\n            statistics\n\
                        \x20 versions  orchestrate\n            0.1.0";
        assert_eq!(wrapped(text, 26), expected);
        let table = "  a        1.0 of 2     another column of a table";
        assert_eq!(wrapped(table, 30), table);
    }

    #[test]
    fn aligned_lines_are_not_wrapped() {
        let source = "  3 | models: [resnet18]   # a comment\n    |          ^^^^^^^^";
        assert_eq!(wrapped(source, 20), source);
    }

    #[test]
    fn narrated_lines_wrap_although_they_are_aligned() {
        let line = "[ 1/36] done   cpu_vgg16_fp32_bs4_run1  381.0 images/s in 1.2s";
        let expected = "[ 1/36] done   cpu_vgg16_fp32_bs4_run1  381.0\n  images/s in 1.2s";
        assert_eq!(wrapped_whole(line, 46), expected);
        assert_eq!(wrapped_whole(line, 80), line);
    }

    #[test]
    fn wide_letters_count_as_two() {
        assert_eq!(wrapped("漢字 漢字", 8), "漢字\n  漢字");
    }
}
