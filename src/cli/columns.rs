//! Plain columns for pipes and files, equal to the output of [`super::output::table`], written row by row.
//!
//! A plan can have a million jobs, so rows are not stored. Each is formatted twice, first to find the widths of the
//! columns.

use std::fmt::{Display, Write as _};
use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

/// The cells of one row. The memory is reused for all rows.
#[derive(Debug, Default)]
pub(super) struct Cells {
    text: String,
    /// The end of each cell in the text, and its width.
    ends: Vec<(usize, usize)>,
}

impl Cells {
    /// Adds a cell. A row is one line, so its line breaks become blanks.
    pub(super) fn add(&mut self, cell: impl Display) {
        let begin = self.text.len();
        // Writing to a `String` does not fail; the text of a value whose `Display` fails is incomplete.
        let _ = write!(self.text, "{cell}");
        if self.text[begin..].contains(['\n', '\r']) {
            let line = self.text.split_off(begin).replace(['\n', '\r'], " ");
            self.text.push_str(&line);
        }
        self.ends.push((self.text.len(), width(&self.text[begin..])));
    }

    /// The texts of the cells.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        let begins = std::iter::once(0).chain(self.ends.iter().map(|(end, _)| *end));
        begins.zip(&self.ends).map(|(begin, (end, _))| &self.text[begin..*end])
    }

    /// The widths of the cells.
    fn widths(&self) -> impl Iterator<Item = usize> {
        self.ends.iter().map(|(_, width)| *width)
    }

    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }
}

/// Writes a line for `header` and one per item. `fill` adds the cells of an item, as many as the header has.
///
/// # Errors
/// Those of `out`.
pub(super) fn write_columns<T>(
    out: &mut impl Write,
    header: &[String],
    items: &[T],
    fill: impl Fn(&T, &mut Cells),
) -> io::Result<()> {
    let mut cells = Cells::default();
    header.iter().for_each(|name| cells.add(name));
    let mut widths: Vec<usize> = cells.widths().collect();
    for item in items {
        cells.clear();
        fill(item, &mut cells);
        widths.iter_mut().zip(cells.widths()).for_each(|(widest, width)| *widest = width.max(*widest));
    }
    cells.clear();
    header.iter().for_each(|name| cells.add(name));
    let mut line = String::new();
    write_line(out, &widths, &cells, &mut line)?;
    for item in items {
        cells.clear();
        fill(item, &mut cells);
        write_line(out, &widths, &cells, &mut line)?;
    }
    Ok(())
}

/// Writes the `cells` of a row, without trailing spaces. `line` is a reused buffer.
fn write_line(out: &mut impl Write, widths: &[usize], cells: &Cells, line: &mut String) -> io::Result<()> {
    line.clear();
    for (widest, (cell, width)) in widths.iter().zip(cells.texts().zip(cells.widths())) {
        line.push(' ');
        line.push_str(cell);
        line.extend(std::iter::repeat_n(' ', widest.saturating_sub(width) + 1));
    }
    line.truncate(line.trim_end().len());
    line.push('\n');
    out.write_all(line.as_bytes())
}

/// The width of `text` in columns of a terminal.
fn width(text: &str) -> usize {
    // Without a branch, the compiler can vectorise this.
    let is_plain = |byte: u8| (b' '..=b'~').contains(&byte);
    if text.bytes().fold(true, |all, byte| all & is_plain(byte)) { text.len() } else { text.width() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cli::output::{Layout, table, table_text};

    fn written(header: &[String], rows: &[Vec<String>]) -> String {
        let mut out = Vec::new();
        write_columns(&mut out, header, rows, |row, cells| row.iter().for_each(|cell| cells.add(cell)))
            .unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_row_is_one_line() {
        let text =
            written(&["a".to_owned(), "b".to_owned()], &[vec!["1\n2\r\n".to_owned(), "é漢".to_owned()]]);
        assert_eq!(text, " a      b\n 1 2    é漢\n");
        assert_eq!(written(&["none".to_owned()], &[]), " none\n");
    }

    proptest! {
        #[test]
        fn output_equals_that_of_a_plain_table(
            header in prop::collection::vec("[a-z][a-zé ]{0,8}", 4),
            rows in prop::collection::vec(prop::collection::vec("[ -~]{0,12}|[a→é漢👩\u{301}\u{200d}\t ]{0,6}", 4), 0..6),
        ) {
            let mut drawn = table(header.clone(), Layout::Plain);
            drawn.add_rows(rows.iter().cloned());
            prop_assert_eq!(written(&header, &rows), table_text(&drawn));
        }
    }
}
