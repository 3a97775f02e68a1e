//! Fits tables to narrow terminals, in steps. First, constant columns move into a line above. Then the columns move
//! closer together. If that is not enough, long notes move below and long texts wrap. In a table of one row, some
//! columns move above. A table that is still too wide becomes a list. Words are never cut, and cells never dropped.

use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, Width};
use unicode_width::UnicodeWidthStr;

use super::wrap::wrapped;

/// The least width of a column with texts of several words, unless all of them are narrower. Its name may wrap at any
/// blank.
const READABLE: usize = 20;

/// The width to which columns wider than [`READABLE`] are reduced before the table becomes a list.
const HARD_TO_READ: usize = 12;

/// A text up to this width stays in its row.
const SHORT: usize = 12;

/// The blanks between two columns.
pub(super) const GAP: u16 = 2;

/// The widths of a column.
#[derive(Clone, Copy, Debug, Default)]
struct Needs {
    /// The least width.
    least: usize,
    /// The width with each text on one line.
    whole: usize,
}

/// `table` for a terminal of `width`, without trailing spaces.
pub(super) fn fitted(table: &Table, width: u16) -> String {
    let mut page = Page::of(table);
    let width = usize::from(width);
    let steps =
        [Page::move_constants_above, Page::narrow_gaps, Page::move_notes_below, Page::narrow_long_texts];
    for step in steps {
        if !page.fits(width) {
            step(&mut page);
        }
    }
    page.move_single_row_above(width);
    page.widen_gaps(width);
    if page.fits(width) { page.drawn(width) } else { list(table, width) }
}

/// A table, and the texts that were moved out of it.
struct Page {
    table: Table,
    /// The constant columns: `env: cpu · precision: fp32`.
    above: String,
    /// The long texts of its last column, each with its number.
    below: Vec<String>,
    /// The blanks between two columns.
    gap: u16,
    /// The least width of a long text.
    readable: usize,
}

impl Page {
    fn of(table: &Table) -> Page {
        Page { table: table.clone(), above: String::new(), below: Vec::new(), gap: GAP, readable: READABLE }
    }

    /// Whether each column can have its least width.
    fn fits(&self, width: usize) -> bool {
        self.least(&self.needs()) <= width
    }

    /// The least width of its table, whose columns have these `needs`.
    fn least(&self, needs: &[Needs]) -> usize {
        let gaps = usize::from(self.gap) * needs.len().saturating_sub(1);
        needs.iter().map(|column| column.least).sum::<usize>() + gaps
    }

    fn narrow_long_texts(&mut self) {
        self.readable = HARD_TO_READ;
    }

    fn narrow_gaps(&mut self) {
        self.gap = 1;
    }

    /// Restores wide gaps if another step made room for them.
    fn widen_gaps(&mut self, width: usize) {
        let narrow = std::mem::replace(&mut self.gap, GAP);
        if !self.fits(width) {
            self.gap = narrow;
        }
    }

    /// Moves constant columns of a table with several rows above. Empty columns are dropped.
    fn move_constants_above(&mut self) {
        let rows: Vec<Vec<String>> = self.table.row_iter().map(texts).collect();
        let Some((first, others)) = rows.split_first().filter(|(_, others)| !others.is_empty()) else {
            return;
        };
        let names = self.table.header().map(texts).unwrap_or_default();
        let is_constant = |place: &usize| others.iter().all(|row| row.get(*place) == first.get(*place));
        let constant: Vec<usize> = (0..first.len()).filter(is_constant).collect();
        // A table of equal rows is not changed.
        if constant.len() == first.len() {
            return;
        }
        let filled = constant.iter().filter(|place| !first[**place].trim().is_empty());
        let parts: Vec<String> = filled
            .map(|place| format!("{}: {}", names.get(*place).map_or("", String::as_str), first[*place]))
            .collect();
        self.above = parts.join(" · ");
        for place in constant {
            if let Some(column) = self.table.column_mut(place) {
                column.set_constraint(ColumnConstraint::Hidden);
            }
        }
    }

    /// Moves columns of a table with one row above, from the right, until the others fit. The first and the last stay.
    fn move_single_row_above(&mut self, width: usize) {
        let rows: Vec<Vec<String>> = self.table.row_iter().map(texts).collect();
        let [row] = &rows[..] else { return };
        let names = self.table.header().map(texts).unwrap_or_default();
        let mut moved = Vec::new();
        for place in (1..row.len().saturating_sub(1)).rev() {
            if self.fits(width) {
                break;
            }
            if let Some(column) = self.table.column_mut(place) {
                column.set_constraint(ColumnConstraint::Hidden);
            }
            if !row[place].trim().is_empty() {
                moved.push(format!("{}: {}", names.get(place).map_or("", String::as_str), row[place]));
            }
        }
        moved.reverse();
        self.above = moved.join(" · ");
    }

    /// Replaces the texts of the last column by numbers, if they are long, and moves them below. Equal ones have the
    /// same number.
    fn move_notes_below(&mut self) {
        let Some(last) = self.table.column_count().checked_sub(1).filter(|last| *last > 0) else { return };
        let is_hidden = self.table.column(last).is_none_or(comfy_table::Column::is_hidden);
        if is_hidden || self.needs().last().is_none_or(|column| column.whole <= SHORT) {
            return;
        }
        for row in self.table.row_iter_mut() {
            let mut cells = texts(row);
            let Some(note) = cells.get_mut(last).filter(|note| !note.trim().is_empty()) else { continue };
            let known = self.below.iter().position(|known| known == note);
            let place = known.unwrap_or_else(|| {
                self.below.push(note.clone());
                self.below.len() - 1
            });
            *note = format!("[{}]", place + 1);
            *row = Row::from(cells);
        }
    }

    /// The widths of the columns that are not hidden.
    fn needs(&self) -> Vec<Needs> {
        let of_header = self.table.header().into_iter().map(|row| (row, 0));
        let rows = of_header.chain(self.table.row_iter().map(|row| (row, READABLE)));
        let mut needs: Vec<Needs> = Vec::new();
        for (row, short) in rows {
            needs.resize(needs.len().max(row.cell_count()), Needs::default());
            for (column, content) in needs.iter_mut().zip(texts(row)) {
                let whole = content.lines().map(UnicodeWidthStr::width).max().unwrap_or(0);
                let word = content.split_whitespace().map(UnicodeWidthStr::width).max().unwrap_or(0);
                let readable = if whole <= short { whole } else { self.readable.min(short) };
                column.least = column.least.max(word).max(readable);
                column.whole = column.whole.max(whole);
            }
        }
        let is_hidden = |place| self.table.column(place).is_some_and(|column| column.is_hidden());
        let shown = needs.into_iter().enumerate().filter(|(place, _)| !is_hidden(*place));
        shown.map(|(_, needs)| needs).collect()
    }

    fn drawn(mut self, width: usize) -> String {
        let needs = self.needs();
        let widths = widths(&needs, width.saturating_sub(self.least(&needs)));
        self.table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
        self.table.set_content_arrangement(ContentArrangement::Dynamic);
        let last = widths.len().saturating_sub(1);
        let columns = self.table.column_iter_mut().filter(|column| !column.is_hidden());
        for (place, (column, width)) in columns.zip(widths).enumerate() {
            let gap = if place == last { 0 } else { self.gap };
            let width = u16::try_from(width).unwrap_or(u16::MAX).saturating_add(gap);
            column.set_padding((0, gap)).set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
        }
        let mut parts = Vec::new();
        if !self.above.is_empty() {
            parts.push(wrapped(&self.above, width));
        }
        parts.push(self.table.trim_fmt());
        let notes = self.below.iter().zip(1..);
        parts.extend(notes.map(|(note, number)| wrapped(&format!("[{number}] {note}"), width)));
        parts.join("\n")
    }
}

fn texts(row: &Row) -> Vec<String> {
    row.cell_iter().map(comfy_table::Cell::content).collect()
}

/// The width of each column: its least width and a share of the `spare` width, which goes first to the columns that
/// lack the least.
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

/// One block per row, with one line per cell that is not empty: `name: value`. Constant columns are above the blocks.
fn list(table: &Table, width: usize) -> String {
    let mut page = Page::of(table);
    page.move_constants_above();
    let names = table.header().map(texts).unwrap_or_default();
    let is_hidden = |place| page.table.column(place).is_some_and(|column| column.is_hidden());
    let block = |row: &Row| {
        let cells = texts(row).into_iter().zip(&names).enumerate();
        let filled = cells.filter(|(place, (value, _))| !is_hidden(*place) && !value.trim().is_empty());
        let lines = filled.map(|(_, (value, name))| wrapped(&format!("{name}: {value}"), width));
        lines.collect::<Vec<_>>().join("\n")
    };
    let above = (!page.above.is_empty()).then(|| wrapped(&page.above, width));
    above.into_iter().chain(table.row_iter().map(block)).collect::<Vec<_>>().join("\n\n")
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
        text.split_whitespace().collect()
    }

    #[test]
    fn tables_fit_in_steps() {
        insta::assert_snapshot!("notes_move_below", drawn(Some(100)));
        insta::assert_snapshot!("gaps_are_narrow", drawn(Some(88)));
        let mut equal = table(HEADER.map(str::to_owned).into(), Layout::Lines(Some(84)));
        for batch in ["4", "8", "16"] {
            let mut row = ROWS[1];
            row[3] = batch;
            equal.add_row(row);
        }
        insta::assert_snapshot!("constants_move_above", table_text(&equal));
    }

    #[test]
    fn no_width_cuts_a_cell() {
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
    fn narrow_columns_go_before_notes_below() {
        let header = ["model", "configs", "images/s"].map(str::to_owned);
        let mut narrow = table(header.into(), Layout::Lines(Some(34)));
        narrow.add_row(["mobilenet_v2", "16", "3608 to 15511"]);
        narrow.add_row(["resnet18", "4", "1 to 2"]);
        let text = table_text(&narrow);
        assert!(text.contains("3608 to 15511") && !text.contains("[1]"), "{text}");
    }

    #[test]
    fn columns_of_a_single_row_move_above_it() {
        let header = ["config", "images/s", "p", "compared by", "verdict", "note"].map(str::to_owned);
        let mut single = table(header.into(), Layout::Lines(Some(34)));
        single.add_row([
            "resnet18 bs8",
            "21.69",
            "0.26",
            "3 blocks",
            "cannot tell",
            "about 12 repeats would decide",
        ]);
        let text = table_text(&single);
        assert!(text.starts_with("compared by: 3 blocks · verdict:\n  cannot tell\nconfig"), "{text}");
        assert!(text.contains("[1] about 12 repeats would decide"), "{text}");
    }

    #[test]
    fn tables_that_do_not_fit_become_lists() {
        let list = "env: cpu\nmodel: resnet18\nprecision: fp32\nbatch: 16\ndone: 3/3\nimages/s (median): 23.41\n\
                    95 % interval: 23.1 to 23.9\n\nenv: second_gpu\nmodel: microsoft/resnet-50\nprecision: bf16\n\
                    batch: 128\ndone: 2/5\nimages/s (median): 1234.6\n95 % interval: needs 3 runs, has 2\n\
                    note: contended, 1 of 3 left out, 2\n  failed: exited with code 1, 漢字 at\n  the end\n";
        assert_eq!(drawn(Some(40)), list);
        for width in [Some(200), Some(88), None] {
            let table = drawn(width);
            assert!(table.contains("────") && !table.contains("env:"), "{table}");
        }
        assert!(drawn(None).lines().any(|line| line.contains("3 left out, 2 failed: exited with code 1")));
    }

    #[test]
    fn a_list_has_constant_columns_once() {
        let header = ["env", "first", "second", "third"].map(str::to_owned).into();
        let mut drawn = table(header, Layout::Lines(Some(20)));
        drawn
            .add_row(["cpu", "1234567", "2345678", "3456789"])
            .add_row(["cpu", "4567890", "5678901", "6789012"]);
        let list = "env: cpu\n\nfirst: 1234567\nsecond: 2345678\nthird: 3456789\n\n\
                    first: 4567890\nsecond: 5678901\nthird: 6789012\n";
        assert_eq!(table_text(&drawn), list);
        drawn.set_width(27);
        assert!(table_text(&drawn).contains("───"), "without the env it fits");
    }

    #[test]
    fn a_word_that_is_wider_than_the_terminal_stays_whole() {
        let mut drawn = table(vec!["job".to_owned()], Layout::Lines(Some(10)));
        drawn.add_row(["cpu_resnet18_fp32_bs16_run1 and more"]);
        assert_eq!(table_text(&drawn), "job:\n  cpu_resnet18_fp32_bs16_run1\n  and more\n");
    }
}
