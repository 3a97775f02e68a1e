//! Tables on a terminal: as wide as it is or, if it is too narrow for them, as lists. No word is cut, and nothing is
//! left out.

use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, Width};
use unicode_width::UnicodeWidthStr;

/// What a column needs for more than a word, unless all of it is narrower: narrower columns are hard to read.
const READABLE: usize = 20;

/// A blank on either side of a cell, and the line after it.
const AROUND: usize = 3;

/// How wide the text of a column is.
#[derive(Clone, Copy, Debug, Default)]
struct Needs {
    /// At least.
    least: usize,
    /// With each text on one line.
    whole: usize,
}

/// `table` for a terminal of `width`, without trailing spaces.
pub(super) fn fitted(table: &Table, width: u16) -> String {
    let needs = needs(table);
    let least = 1 + needs.iter().map(|column| column.least + AROUND).sum::<usize>();
    let Some(spare) = usize::from(width).checked_sub(least) else { return list(table, width.into()) };
    let mut table = table.clone();
    table.set_width(width).set_content_arrangement(ContentArrangement::Dynamic);
    for (column, width) in table.column_iter_mut().zip(widths(&needs, spare)) {
        // With the blanks of its cells.
        let width = u16::try_from(width + AROUND - 1).unwrap_or(u16::MAX);
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
    }
    table.trim_fmt()
}

/// What each column needs.
fn needs(table: &Table) -> Vec<Needs> {
    let mut needs: Vec<Needs> = Vec::new();
    for row in table.header().into_iter().chain(table.row_iter()) {
        needs.resize(needs.len().max(row.cell_count()), Needs::default());
        for (column, cell) in needs.iter_mut().zip(row.cell_iter()) {
            let content = cell.content();
            let whole = content.lines().map(UnicodeWidthStr::width).max().unwrap_or(0);
            let word = content.split_whitespace().map(UnicodeWidthStr::width).max().unwrap_or(0);
            column.least = column.least.max(word).max(whole.min(READABLE));
            column.whole = column.whole.max(whole);
        }
    }
    needs
}

/// The width of each column: what it needs at least and, those that lack the least first, its share of what is `spare`.
fn widths(needs: &[Needs], mut spare: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = needs.iter().map(|column| column.least).collect();
    let lacks = |place: &usize| needs[*place].whole - needs[*place].least;
    let mut places: Vec<usize> = (0..needs.len()).collect();
    places.sort_by_key(lacks);
    for (done, place) in places.iter().enumerate() {
        let more = lacks(place).min(spare / (needs.len() - done));
        widths[*place] += more;
        spare -= more;
    }
    widths
}

/// A block for each row, with a line for each cell that is not empty: `name: value`.
fn list(table: &Table, width: usize) -> String {
    let texts = |row: &Row| row.cell_iter().map(comfy_table::Cell::content).collect::<Vec<_>>();
    let names = table.header().map(texts).unwrap_or_default();
    let block = |row: &Row| {
        let told = texts(row).into_iter().zip(&names).filter(|(value, _)| !value.trim().is_empty());
        told.map(|(value, name)| wrapped(&format!("{name}: {value}"), width)).collect::<Vec<_>>().join("\n")
    };
    table.row_iter().map(block).collect::<Vec<_>>().join("\n\n")
}

/// `text` in lines of at most `width`, of which all but the first are indented. A word that is wider has its own line.
fn wrapped(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            None => lines.push(word.to_owned()),
            Some(line) if line.width() + 1 + word.width() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => lines.push(format!("  {word}")),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use crate::cli::output::{Layout, table, table_text};

    use super::*;

    const HEADER: [&str; 8] =
        ["env", "model", "precision", "batch", "done", "images/s (median)", "95 % interval", "note"];

    const ROWS: [[&str; 8]; 2] = [
        ["cpu", "resnet18", "fp32", "16", "3/3", "23.41", "23.1 to 23.9", ""],
        [
            "second_gpu",
            "microsoft/resnet-50",
            "bf16",
            "128",
            "2/5",
            "1234.6",
            "needs 3 runs, has 2",
            "contended, 1 of 3 left out, 2 failed: exited with code 1, 漢字 at the end",
        ],
    ];

    fn drawn(width: Option<u16>) -> String {
        let mut drawn = table(HEADER.map(str::to_owned).into(), Layout::Lines(width));
        ROWS.iter().for_each(|row| {
            drawn.add_row(*row);
        });
        table_text(&drawn)
    }

    fn words(text: &str) -> Vec<&str> {
        text.split(|letter: char| letter.is_whitespace() || "│┆".contains(letter)).collect()
    }

    #[test]
    fn every_cell_is_found_whole_at_any_width() {
        for width in [40, 60, 79, 80, 120, 200] {
            let text = drawn(Some(width));
            assert!(text.lines().all(|line| line.width() <= width.into()), "{width}\n{text}");
            let found = words(&text);
            for word in ROWS.concat().iter().flat_map(|cell| cell.split_whitespace()) {
                assert!(
                    found.iter().any(|found| found.trim_end_matches(':') == word.trim_end_matches(':')),
                    "{width}: {word}\n{text}"
                );
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_a_list() {
        let list = "env: cpu\nmodel: resnet18\nprecision: fp32\nbatch: 16\ndone: 3/3\nimages/s (median): 23.41\n\
                    95 % interval: 23.1 to 23.9\n\nenv: second_gpu\nmodel: microsoft/resnet-50\nprecision: bf16\n\
                    batch: 128\ndone: 2/5\nimages/s (median): 1234.6\n95 % interval: needs 3 runs, has 2\n\
                    note: contended, 1 of 3 left out, 2\n  failed: exited with code 1, 漢字 at\n  the end\n";
        assert_eq!(drawn(Some(40)), list);
        assert!(!drawn(Some(80)).contains('│'), "cut columns are no table");
        for width in [Some(200), None] {
            let table = drawn(width);
            assert!(table.starts_with('┌') && !table.contains("env:"), "{table}");
        }
        assert!(drawn(None).lines().any(|line| line.contains("3 left out, 2 failed: exited with code 1")));
    }

    #[test]
    fn a_word_that_is_wider_than_the_terminal_stays_whole() {
        let mut drawn = table(vec!["job".to_owned()], Layout::Lines(Some(10)));
        drawn.add_row(["cpu_resnet18_fp32_bs16_run1 and more"]);
        assert_eq!(table_text(&drawn), "job:\n  cpu_resnet18_fp32_bs16_run1\n  and more\n");
    }
}
