//! Text tables and their columns: a [`Column`] declares a name, a meaning, a source, the condition of `NA`, and the
//! value. The type follows from the value, and the unit from the name.
//!
//! The header, the cells, the manual's reference and the schema beside the tables come from the same declaration, so
//! they are always consistent.

use std::borrow::Cow;
use std::io::{self, Write};

use super::cell_type::{CellType, Shown};
use super::role::Role;
use super::source::Source;
use super::units::unit_of;
use crate::clean::clean_text;

/// The cell of an unknown value.
pub const NOT_KNOWN: &str = "NA";

/// A table as CSV text, with the meaning of its columns. As separate cells, it would take several times the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvTable {
    /// The columns.
    pub columns: Vec<About>,
    /// The names of the columns, and the rows: see [`Rows::write_csv`].
    pub csv: String,
}

/// A table whose rows are generated one after the other. There can be a hundred thousand, each with a hundred cells.
pub struct Rows<'a> {
    columns: Vec<About>,
    rows: Box<dyn Iterator<Item = Vec<String>> + 'a>,
}

impl<'a> Rows<'a> {
    /// The columns.
    pub fn columns(&self) -> &[About] {
        &self.columns
    }

    /// Appends to each row the row of `others` at the same place.
    pub(super) fn beside(mut self, others: Rows<'a>) -> Rows<'a> {
        self.columns.extend(others.columns);
        let joined = |(row, other): (Vec<String>, Vec<String>)| [row, other].concat();
        Rows { columns: self.columns, rows: Box::new(self.rows.zip(others.rows).map(joined)) }
    }

    /// Writes the table as CSV to `out`, row by row. Cells that a spreadsheet would take for a formula begin with `'`.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn write_csv(self, out: impl Write) -> io::Result<()> {
        write_csv(std::iter::once(names(&self.columns)).chain(self.rows), out)
    }

    /// The table as CSV.
    pub fn written(self) -> CsvTable {
        let (columns, mut text) = (self.columns.clone(), Vec::new());
        self.write_csv(&mut text).expect("memory takes all bytes");
        let csv = String::from_utf8(text).expect("cells and separators are UTF-8");
        CsvTable { columns, csv }
    }
}

/// A table as words, for tests.
#[cfg(test)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The columns.
    pub columns: Vec<About>,
    /// Each as long as the columns.
    pub rows: Vec<Vec<String>>,
}

#[cfg(test)]
impl Table {
    /// The names of the columns.
    pub fn header(&self) -> Vec<String> {
        names(&self.columns)
    }

    /// The table as CSV text, as of [`Rows::written`].
    pub fn csv(&self) -> String {
        let rows = Box::new(self.rows.clone().into_iter());
        Rows { columns: self.columns.clone(), rows }.written().csv
    }
}

#[cfg(test)]
impl Rows<'_> {
    /// All rows.
    pub fn table(self) -> Table {
        Table { columns: self.columns, rows: self.rows.collect() }
    }
}

#[cfg(test)]
impl CsvTable {
    /// The table, parsed from its CSV text.
    pub fn read(&self) -> Table {
        let mut reader = csv::Reader::from_reader(self.csv.as_bytes());
        let words = |record: csv::StringRecord| record.iter().map(str::to_owned).collect();
        let rows = reader.records().map(|record| words(record.unwrap())).collect();
        Table { columns: self.columns.clone(), rows }
    }
}

fn names(columns: &[About]) -> Vec<String> {
    columns.iter().map(|column| column.name.clone().into_owned()).collect()
}

/// Writes `records`, all of the same length, as CSV.
fn write_csv<R: AsRef<[String]>>(records: impl Iterator<Item = R>, out: impl Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    for record in records {
        for word in record.as_ref() {
            writer.write_field(cell_text(word).as_bytes())?;
        }
        writer.write_record(None::<&[u8]>)?;
    }
    writer.flush()
}

/// `word` as a cell: on one line, and with `'` in front if a spreadsheet would take it for a formula.
fn cell_text(word: &str) -> Cow<'_, str> {
    let word = clean_text(word);
    let is_formula = word.trim_start().starts_with(['=', '+', '-', '@']) && word.parse::<f64>().is_err();
    if is_formula { Cow::Owned(format!("'{word}")) } else { word }
}

/// The description of a column in the manual and the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its name. It ends with the unit, if there is one.
    pub name: Cow<'static, str>,
    /// The type of its cells.
    pub cell_type: CellType,
    /// The source of its values.
    pub source: Source,
    /// The meaning of its cells, in Markdown.
    pub meaning: Cow<'static, str>,
    /// The end of the sentence "A cell is `NA` if …"; `None` if no cell ever is.
    pub absent: Option<&'static str>,
    /// Its role in an audit of the table; `None` if an audit does not use it.
    pub role: Option<Role>,
}

impl About {
    /// The unit of its numbers; `None` if it has none.
    pub fn unit(&self) -> Option<&'static str> {
        unit_of(&self.name)
    }
}

/// The columns of a file that belong together, for the manual.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its heading; empty if the file has only this section.
    pub title: &'static str,
    /// A note about all of the columns, in Markdown; may be empty.
    pub note: &'static str,
    /// The columns, in the order of the file.
    pub columns: Vec<About>,
}

/// Formats the cell of a line; `None` is `NA`.
type Value<T> = Box<dyn Fn(&T) -> Option<String>>;

/// One column of a table with one line per `T`, still without a source: see [`of`].
pub(super) struct Column<T> {
    name: Cow<'static, str>,
    meaning: Cow<'static, str>,
    absent: Option<&'static str>,
    cell_type: CellType,
    role: Option<Role>,
    value: Value<T>,
}

impl<T> Column<T> {
    /// A column whose value is always known.
    pub(super) fn known<V: Shown>(
        name: impl Into<Cow<'static, str>>,
        meaning: impl Into<Cow<'static, str>>,
        value: impl Fn(&T) -> V + 'static,
    ) -> Self {
        let value: Value<T> = Box::new(move |line| Some(value(line).shown()));
        let (name, meaning) = (name.into(), meaning.into());
        Column { name, meaning, absent: None, cell_type: V::TYPE, role: None, value }
    }

    /// A column whose cell is `NA` if `absent`.
    pub(super) fn maybe<V: Shown>(
        name: impl Into<Cow<'static, str>>,
        meaning: impl Into<Cow<'static, str>>,
        absent: &'static str,
        value: impl Fn(&T) -> Option<V> + 'static,
    ) -> Self {
        let value: Value<T> = Box::new(move |line| value(line).map(|value| value.shown()));
        let (name, meaning) = (name.into(), meaning.into());
        Column { name, meaning, absent: Some(absent), cell_type: V::TYPE, role: None, value }
    }

    /// The same column, with this role in an audit.
    pub(super) fn with_role(self, role: Role) -> Self {
        Column { role: Some(role), ..self }
    }

    /// The same column, with its values from `source`.
    pub(super) fn from(self, source: Source) -> Sourced<T> {
        let Column { name, meaning, absent, cell_type, role, value } = self;
        Sourced { about: About { name, cell_type, source, meaning, absent, role }, value }
    }
}

/// A [`Column`] with a source.
pub(super) struct Sourced<T> {
    about: About,
    value: Value<T>,
}

impl<T> Sourced<T> {
    fn cell(&self, line: &T) -> String {
        (self.value)(line).filter(|word| !word.is_empty()).unwrap_or_else(|| NOT_KNOWN.to_owned())
    }
}

/// `columns`, all with their values from `source`.
pub(super) fn of<T>(source: Source, columns: impl IntoIterator<Item = Column<T>>) -> Vec<Sourced<T>> {
    columns.into_iter().map(|column| column.from(source)).collect()
}

/// Columns that belong together.
pub(super) struct Group<T> {
    title: &'static str,
    note: &'static str,
    columns: Vec<Sourced<T>>,
}

impl<T> Group<T> {
    /// With a heading.
    pub(super) fn titled(title: &'static str, columns: Vec<Sourced<T>>) -> Self {
        Group { title, note: "", columns }
    }

    /// With a sentence about all of its columns.
    pub(super) fn noted(self, note: &'static str) -> Self {
        Group { note, ..self }
    }
}

/// All columns of a file that has one line per `T`.
pub(super) struct Columns<T>(pub(super) Vec<Group<T>>);

impl<T> Columns<T> {
    /// The columns of a file that needs no headings.
    pub(super) fn plain(columns: Vec<Sourced<T>>) -> Self {
        Columns(vec![Group::titled("", columns)])
    }

    /// The rows of `lines`. There is a header even if there are none.
    pub(super) fn rows<'a>(self, lines: impl IntoIterator<Item = T> + 'a) -> Rows<'a>
    where
        T: 'a,
    {
        let columns: Vec<Sourced<T>> = self.0.into_iter().flat_map(|group| group.columns).collect();
        let about = columns.iter().map(|column| column.about.clone()).collect();
        let row = move |line: T| columns.iter().map(|column| column.cell(&line)).collect();
        Rows { columns: about, rows: Box::new(lines.into_iter().map(row)) }
    }

    /// The sections of the manual, with the columns of `others` after the last.
    pub(super) fn sections_beside<L>(&self, others: &Columns<L>) -> Vec<Section> {
        let mut sections = self.sections();
        let others = others.sections().into_iter().flat_map(|section| section.columns);
        if let Some(last) = sections.last_mut() {
            last.columns.extend(others);
        }
        sections
    }

    /// The sections of the manual.
    pub(super) fn sections(&self) -> Vec<Section> {
        let section = |group: &Group<T>| Section {
            title: group.title,
            note: group.note,
            columns: group.columns.iter().map(|column| column.about.clone()).collect(),
        };
        self.0.iter().map(section).collect()
    }
}

/// The words as one cell: `a; b`, or `none`.
pub(super) fn list(words: impl IntoIterator<Item = impl Into<String>>) -> String {
    let words: Vec<String> = words.into_iter().map(Into::into).collect();
    if words.is_empty() { "none".to_owned() } else { words.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_not_formulas() {
        for (word, cell) in [
            ("=1+1", "'=1+1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1+1", "' =1+1"),
            ("-x", "'-x"),
            ("+1 e", "'+1 e"),
            ("-1.5e-3", "-1.5e-3"),
            ("+7", "+7"),
            ("a=b", "a=b"),
            ("two\nlines", "two lines"),
        ] {
            assert_eq!(cell_text(word), cell, "{word:?}");
        }
        let about = About {
            name: "a".into(),
            cell_type: CellType::Text,
            source: Source::Worker,
            meaning: "Words.".into(),
            absent: None,
            role: None,
        };
        let table = Table { columns: vec![about], rows: vec![vec!["=A1, B1".into()]] };
        assert_eq!(table.csv(), "a\n\"'=A1, B1\"\n");
    }

    #[test]
    fn a_cell_without_a_value_is_na() {
        let columns = || {
            type Line = (&'static str, Option<u32>);
            let columns = [
                Column::known("name", "Its name.", |line: &Line| line.0),
                Column::maybe("count", "Its count.", "it was not counted", |line: &Line| line.1),
            ];
            Columns::plain(of(Source::Worker, columns))
        };
        let table = columns().rows([("a", Some(0)), ("", None)]);
        assert_eq!(table.table().csv(), "name,count\na,0\nNA,NA\n");
        assert_eq!(columns().rows([]).table().csv(), "name,count\n");
    }
}
