//! Reads CSV into a ledger. Nothing is lost without a word: a cell that cannot be read and a column that nobody knows
//! are told beside the lines.

use std::fmt;

use csv::{ReaderBuilder, StringRecord};

use super::entry::{Entry, Moment};
use super::field::{Field, Mapping, Reading};
use super::number::Number;
use crate::clean::clean_text;
use crate::text::first_few;

/// A ledger, read.
#[derive(Clone, Debug, PartialEq)]
pub struct Ledger {
    /// The file, as it was named.
    pub file: String,
    /// Its lines, in its order.
    pub entries: Vec<Entry>,
    /// What could not be read, in the order of the file.
    pub unread: Vec<Unread>,
    /// The columns that mappings name and that it does not have.
    pub without: Vec<String>,
}

/// What of a ledger could not be read. The rest of it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// No field has these columns.
    Columns {
        /// The file.
        file: String,
        /// Their names.
        names: Vec<String>,
    },
    /// Several columns mean the same, and the first of them counts.
    SecondColumn {
        /// The file.
        file: String,
        /// The column that is not read.
        name: String,
        /// The one that is.
        first: String,
    },
    /// A cell is not what its column should hold.
    Cell {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// The column.
        column: String,
        /// What stands there.
        cell: String,
        /// What should.
        expected: &'static str,
    },
    /// A line has more or fewer cells than the header.
    Width {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// Its cells.
        cells: usize,
        /// Those of the header.
        columns: usize,
    },
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unread::Columns { file, names } => {
                write!(
                    f,
                    "{file}: not read: {} {}",
                    if names.len() == 1 { "column" } else { "columns" },
                    first_few(names)
                )
            }
            Unread::SecondColumn { file, name, first } => {
                write!(f, "{file}: not read: column {name}, which means the same as {first}")
            }
            Unread::Cell { file, line, column, cell, expected } => {
                write!(f, "{file}:{line}: not read: `{cell}` in column {column}; expected {expected}")
            }
            Unread::Width { file, line, cells, columns } => {
                write!(f, "{file}:{line}: not read: the line has {cells} cells, but the header has {columns}")
            }
        }
    }
}

/// Why a file is no ledger.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// It is empty.
    #[error("{file} is empty")]
    Empty {
        /// The file.
        file: String,
    },
    /// It has a header and nothing below it.
    #[error("{file} has a header, but no line below it")]
    NoLines {
        /// The file.
        file: String,
    },
    /// No column is known.
    #[error("{file} has no column that the audit knows; its columns are {columns}")]
    NoColumns {
        /// The file.
        file: String,
        /// Its columns.
        columns: String,
    },
    /// It is no CSV.
    #[error("{file} is no CSV")]
    NotCsv {
        /// The file.
        file: String,
        /// The reason.
        source: csv::Error,
    },
}

/// What a column of the file holds.
enum Column {
    /// A field, in this unit.
    Known(Field, f64),
    /// Nothing that is read.
    Other,
}

/// Reads `text`, the content of `file`: CSV with a header, separated by commas, semicolons or tabs. Lines that begin
/// with `#` are comments.
///
/// # Errors
/// There is no line in it that could be audited: [`LedgerError`] says why.
pub fn read(file: &str, text: &str, mappings: &[Mapping]) -> Result<Ledger, LedgerError> {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return Err(LedgerError::Empty { file: file.to_owned() });
    }
    let not_csv = |source| LedgerError::NotCsv { file: file.to_owned(), source };
    let separator = separator(text);
    let mut reader = ReaderBuilder::new()
        .delimiter(separator)
        .flexible(true)
        .comment(Some(b'#'))
        .from_reader(text.as_bytes());
    let header: Vec<String> =
        reader.headers().map_err(not_csv)?.iter().map(|name| clean_text(name).into_owned()).collect();
    let mut unread = Vec::new();
    let columns = columns(file, &header, mappings, &mut unread)?;
    let mut entries = Vec::new();
    let mut lines = Lines { text, byte: 0, number: 1 };
    for line in reader.records() {
        let line = line.map_err(not_csv)?;
        let number = lines.number_of(&line);
        entries.extend(entry(file, &header, &columns, (number, &line), &mut unread));
    }
    if entries.is_empty() && unread.iter().all(|it| !matches!(it, Unread::Width { .. })) {
        return Err(LedgerError::NoLines { file: file.to_owned() });
    }
    let lacks = |mapping: &&Mapping| !header.contains(&mapping.column);
    let without = mappings.iter().filter(lacks).map(|mapping| mapping.column.clone()).collect();
    Ok(Ledger { file: file.to_owned(), entries, unread, without })
}

/// The text of a file: UTF-8, or UTF-16 as Windows writes it. Letters that are neither are replaced.
pub fn decode(bytes: &[u8]) -> String {
    let wide = |of: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes[2..].chunks_exact(2).map(|pair| of([pair[0], pair[1]])).collect();
        String::from_utf16_lossy(&units)
    };
    match bytes {
        [0xff, 0xfe, ..] => wide(u16::from_le_bytes),
        [0xfe, 0xff, ..] => wide(u16::from_be_bytes),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// What separates the cells of the header: whichever of the usual ones is there most often.
fn separator(text: &str) -> u8 {
    let header = text.lines().find(|line| !line.starts_with('#')).unwrap_or_default();
    let number = |separator: &u8| header.bytes().filter(|byte| byte == separator).count();
    // Of several that are there equally often, the last counts: the comma.
    [b'\t', b';', b','].into_iter().max_by_key(number).unwrap_or(b',')
}

/// What each column holds.
fn columns(
    file: &str,
    header: &[String],
    mappings: &[Mapping],
    unread: &mut Vec<Unread>,
) -> Result<Vec<Column>, LedgerError> {
    let mapped = |name: &str| mappings.iter().rev().find(|mapping| mapping.column == name);
    let is_mapped_to = |field: Field| {
        let is_it = |mapping: &&Mapping| mapping.field.is_some_and(|(mapped, _)| mapped == field);
        mappings.iter().filter(|mapping| header.contains(&mapping.column)).find(is_it)
    };
    let mut seen: Vec<(Field, &str)> = Vec::new();
    let mut other = Vec::new();
    let mut columns = Vec::new();
    for name in header {
        let field = mapped(name).map_or_else(|| Field::of_column(name), |mapping| mapping.field);
        let first = field.and_then(|(field, _)| {
            // What the user maps comes before what is recognised.
            let users = is_mapped_to(field).map(|mapping| mapping.column.as_str()).filter(|it| it != name);
            users.or_else(|| seen.iter().find(|(seen, _)| *seen == field).map(|(_, name)| *name))
        });
        columns.push(match (field, first) {
            (Some((field, factor)), None) => {
                seen.push((field, name));
                Column::Known(field, factor)
            }
            (Some((Field::Setting, factor)), _) => Column::Known(Field::Setting, factor),
            (Some(_), Some(first)) => {
                let (file, name, first) = (file.to_owned(), name.clone(), first.to_owned());
                unread.push(Unread::SecondColumn { file, name, first });
                Column::Other
            }
            (None, _) => {
                other.push(name.clone());
                Column::Other
            }
        });
    }
    if seen.is_empty() {
        let columns = first_few(header);
        return Err(LedgerError::NoColumns { file: file.to_owned(), columns });
    }
    other.retain(|name| mapped(name).is_none());
    if !other.is_empty() {
        unread.push(Unread::Columns { file: file.to_owned(), names: other });
    }
    Ok(columns)
}

/// Counts the lines of a text. The reader's own count is wrong below comments and where lines end as on Windows.
struct Lines<'a> {
    text: &'a str,
    /// Up to here, the lines are counted.
    byte: usize,
    /// The number of the line there.
    number: u64,
}

impl Lines<'_> {
    /// The number of the line on which `record` begins. Records are asked for in their order.
    fn number_of(&mut self, record: &StringRecord) -> u64 {
        let start = record.position().map_or(self.byte, |position| position.byte() as usize);
        let mut rest = self.text.get(start..).unwrap_or_default();
        loop {
            let line = rest.trim_start_matches(['\r', '\n']);
            rest = match line.strip_prefix('#') {
                Some(comment) => comment.find('\n').map_or("", |end| &comment[end..]),
                None => line,
            };
            if !rest.starts_with(['\r', '\n', '#']) {
                break;
            }
        }
        let start = self.text.len() - rest.len();
        let passed = self.text.get(self.byte..start).unwrap_or_default();
        self.number += passed.bytes().filter(|byte| *byte == b'\n').count() as u64;
        self.byte = start.max(self.byte);
        self.number
    }
}

/// The words for a cell without a value.
const MISSING: [&str; 7] = ["", "na", "n/a", "nan", "null", "none", "-"];

fn entry(
    file: &str,
    header: &[String],
    columns: &[Column],
    (number, line): (u64, &StringRecord),
    unread: &mut Vec<Unread>,
) -> Option<Entry> {
    if line.len() != header.len() {
        let (cells, columns) = (line.len(), header.len());
        unread.push(Unread::Width { file: file.to_owned(), line: number, cells, columns });
        return None;
    }
    let mut entry = Entry::new(file, Some(number));
    for ((name, column), cell) in header.iter().zip(columns).zip(line) {
        let cell = clean_text(cell.trim()).into_owned();
        if MISSING.contains(&cell.to_lowercase().as_str()) {
            continue;
        }
        let Column::Known(field, factor) = column else {
            entry.beside.insert(name.clone(), cell);
            continue;
        };
        if let Err(expected) = put(&mut entry, name, *field, *factor, &cell) {
            entry.beside.insert(name.clone(), cell.clone());
            let (file, column) = (file.to_owned(), name.clone());
            unread.push(Unread::Cell { file, line: number, column, cell, expected });
        }
    }
    Some(entry)
}

/// Puts `cell` into `entry`.
///
/// # Errors
/// It is not what the field needs: what would be.
fn put(entry: &mut Entry, column: &str, field: Field, factor: f64, cell: &str) -> Result<(), &'static str> {
    match field.facts().reading {
        Reading::Text if field == Field::Setting => {
            entry.settings.insert(column.to_owned(), cell.to_owned());
        }
        Reading::Text => {
            entry.texts.insert(field, cell.to_owned());
        }
        Reading::Number => {
            let (mean, sd) = cell.split_once('±').map_or((cell, None), |(mean, sd)| (mean, Some(sd)));
            let number = Number::parse(mean).ok_or("a number")?;
            entry.numbers.insert(field, number.times(factor));
            if let (Field::Throughput, Some(sd)) = (field, sd) {
                let sd = Number::parse(sd).ok_or("a number after the ±")?;
                entry.numbers.entry(Field::ThroughputSd).or_insert(sd.times(factor));
            }
        }
        Reading::Time => {
            let moment =
                Moment::parse(cell).ok_or("a time such as 2025-11-05T12:00:00Z, or seconds since 1970")?;
            entry.times.insert(field, moment);
        }
    }
    Ok(())
}
