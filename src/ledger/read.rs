//! Reads CSV into a ledger. All unreadable cells and unknown columns are listed beside the lines, as [`Unread`].

use std::fmt;

use csv::{ReaderBuilder, StringRecord};

use super::entry::{Entry, Moment};
use super::field::{Field, Mapping, Reading};
use super::number::Number;
use super::own_table::{OwnColumn, OwnTable};
use super::row::Row;
use crate::clean::clean_text;
use crate::text::{count_text, first_few};

/// The contents of a ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct Ledger {
    /// The file, as the user named it.
    pub file: String,
    /// The fields that it has, with the names of their columns; settings are not among them.
    pub known: Vec<(Field, String)>,
    /// Its lines, in its order.
    pub entries: Vec<Entry>,
    /// The unreadable parts, in the order of the file.
    pub unread: Vec<Unread>,
    /// The missing columns that mappings name.
    pub without: Vec<String>,
}

/// A part of a ledger that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// No field has these columns.
    Columns {
        /// The file.
        file: String,
        /// Their names.
        names: Vec<String>,
    },
    /// Several columns have the same meaning, and the first of them counts.
    SecondColumn {
        /// The file.
        file: String,
        /// The column that is not read.
        name: String,
        /// The one that is.
        first: String,
    },
    /// A cell does not have the type of its column.
    Cell {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// The column.
        column: String,
        /// Its text.
        cell: String,
        /// The expected type.
        expected: &'static str,
    },
    /// A line has more or fewer cells than the header.
    Width {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// The number of its cells.
        cells: usize,
        /// The number of cells in the header.
        columns: usize,
    },
    /// A column of the lines excludes them from the statistics.
    LeftOut {
        /// The file.
        file: String,
        /// The number of lines.
        lines: usize,
        /// The column.
        column: String,
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
            Unread::LeftOut { file, lines, column } => {
                write!(f, "{file}: not read: {} that `{column}` excludes", count_text(*lines, "line"))
            }
        }
    }
}

/// Why a file is not a ledger.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// It is empty.
    #[error("{file} is empty")]
    Empty {
        /// The file.
        file: String,
    },
    /// It has a header and no lines.
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
    /// It is a table of `orchestrate` without throughputs.
    #[error("{file} is {}, with one line per {line}: such a table has no throughputs to audit", named(name))]
    NoThroughputs {
        /// The file.
        file: String,
        /// The usual name of the table, or its use.
        name: &'static str,
        /// The subject of its lines.
        line: &'static str,
    },
    /// It has lines, but none that could be checked.
    #[error("no line of {file} can be audited: {why}")]
    NoRows {
        /// The file.
        file: String,
        /// What is missing, as a clause.
        why: String,
    },
    /// It is not CSV.
    #[error("{file} is not CSV")]
    NotCsv {
        /// The file.
        file: String,
        /// The reason.
        source: csv::Error,
    },
}

/// The name of a table in messages: ``the metrics.csv of `orchestrate` ``.
fn named(name: &str) -> String {
    if name.ends_with(".csv") { format!("the {name} of `orchestrate`") } else { name.to_owned() }
}

/// The meaning of a column of the file.
enum Column {
    /// A field, in this unit.
    Known(Field, f64),
    /// A setting of this name.
    Setting(String),
    /// Whether the line counts.
    Counts,
    /// Not read.
    Other,
}

/// Reads `text`, the content of `file`: CSV with a header, separated by commas, semicolons or tabs. Lines that begin
/// with `#` are comments.
///
/// # Errors
/// No line of it can be audited; [`LedgerError`] contains the reason.
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
    let mut left_out = 0;
    let mut lines = Lines { text, byte: 0, number: 1 };
    for line in reader.records() {
        let line = line.map_err(not_csv)?;
        let number = lines.number_of(&line);
        if is_left_out(&columns, &line) {
            left_out += 1;
            continue;
        }
        entries.extend(entry(file, &header, &columns, (number, &line), &mut unread));
    }
    if left_out > 0 {
        let column = header.iter().zip(&columns).find(|(_, column)| matches!(column, Column::Counts));
        let column = column.map(|(name, _)| name.clone()).unwrap_or_default();
        unread.push(Unread::LeftOut { file: file.to_owned(), lines: left_out, column });
    }
    let is_unread = |it: &Unread| matches!(it, Unread::Width { .. } | Unread::LeftOut { .. });
    if entries.is_empty() && !unread.iter().any(is_unread) {
        return Err(LedgerError::NoLines { file: file.to_owned() });
    }
    let lacks = |mapping: &&Mapping| !header.contains(&mapping.column);
    let without = mappings.iter().filter(lacks).map(|mapping| mapping.column.clone()).collect();
    let known = header.iter().zip(&columns).filter_map(|(name, column)| match column {
        Column::Known(field, _) => Some((*field, name.clone())),
        Column::Setting(_) | Column::Counts | Column::Other => None,
    });
    Ok(Ledger { file: file.to_owned(), known: known.collect(), entries, unread, without })
}

impl Ledger {
    /// The same ledger, if at least one of its lines can be checked: it makes a row, is an iteration, or has attained
    /// FLOP/s.
    ///
    /// # Errors
    /// [`LedgerError::NoRows`]: no line can be checked.
    pub fn with_rows(self) -> Result<Ledger, LedgerError> {
        let is_checked = |entry: &Entry| {
            let is_iteration = entry.number(Field::Iteration).is_some();
            entry.positive(Field::Attained).is_some()
                || (is_iteration && entry.positive(Field::IterationSeconds).is_some())
        };
        if self.entries.iter().any(is_checked) || !Row::of(&self.entries).is_empty() {
            return Ok(self);
        }
        let column = |field| self.known.iter().find(|(known, _)| *known == field).map(|(_, name)| name);
        let why = match (column(Field::Throughput), column(Field::Iteration)) {
            (_, Some(iteration)) => format!(
                "its lines are single iterations, by the column `{iteration}`, and no column has their seconds, such as \
                 `{}`",
                Field::IterationSeconds.name()
            ),
            (Some(throughput), None) => format!("the column `{throughput}` has no number above 0"),
            (None, None) => {
                format!("no column has samples per second, such as `{}`", Field::Throughput.name())
            }
        };
        Err(LedgerError::NoRows { file: self.file, why })
    }
}

/// Whether a column of `line` excludes it from the statistics.
fn is_left_out(columns: &[Column], line: &StringRecord) -> bool {
    columns.iter().zip(line).any(|(column, cell)| matches!(column, Column::Counts) && cell == "false")
}

/// The text of a file: UTF-8, or the UTF-16 of Windows. Invalid letters are replaced.
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

/// The separator of the cells: the most frequent of the usual ones in the header.
fn separator(text: &str) -> u8 {
    let header = text.lines().find(|line| !line.starts_with('#')).unwrap_or_default();
    let number = |separator: &u8| header.bytes().filter(|byte| byte == separator).count();
    // Of equally frequent ones, the last counts: the comma.
    [b'\t', b';', b','].into_iter().max_by_key(number).unwrap_or(b',')
}

/// The meaning of each column.
fn columns(
    file: &str,
    header: &[String],
    mappings: &[Mapping],
    unread: &mut Vec<Unread>,
) -> Result<Vec<Column>, LedgerError> {
    let is_mapped_to = |field: Field| {
        let is_it = |mapping: &&Mapping| mapping.field.is_some_and(|(mapped, _)| mapped == field);
        mappings.iter().filter(|mapping| header.contains(&mapping.column)).find(is_it)
    };
    let own = own_table(file, header, mappings)?;
    let mut seen: Vec<(Field, &str)> = Vec::new();
    let mut other = Vec::new();
    let mut columns = Vec::new();
    for name in header {
        let meaning = meaning(name, mappings, own.as_ref());
        let OwnColumn::Known(field, factor) = meaning else {
            // Other columns of tables of `orchestrate` are known, so they are not reported as unread.
            other.extend(own.is_none().then(|| name.clone()));
            columns.push(if meaning == OwnColumn::Counts { Column::Counts } else { Column::Other });
            continue;
        };
        if field == Field::Setting {
            seen.push((field, name));
            let setting = own.as_ref().map_or(name.as_str(), |own| own.setting(name));
            columns.push(Column::Setting(setting.to_owned()));
            continue;
        }
        // Mappings of the user take precedence.
        let users = is_mapped_to(field).map(|mapping| mapping.column.as_str()).filter(|it| it != name);
        let first = users.or_else(|| seen.iter().find(|(seen, _)| *seen == field).map(|(_, name)| *name));
        columns.push(if let Some(first) = first {
            let (file, name, first) = (file.to_owned(), name.clone(), first.to_owned());
            unread.push(Unread::SecondColumn { file, name, first });
            Column::Other
        } else {
            seen.push((field, name));
            Column::Known(field, factor)
        });
    }
    if seen.is_empty() {
        let columns = first_few(header);
        return Err(LedgerError::NoColumns { file: file.to_owned(), columns });
    }
    other.retain(|name| !mappings.iter().any(|mapping| mapping.column == *name));
    if !other.is_empty() {
        unread.push(Unread::Columns { file: file.to_owned(), names: other });
    }
    Ok(columns)
}

/// The table of `orchestrate` with this `header`; `None` if it did not write it.
///
/// # Errors
/// It has no throughputs, and the user maps no column of it.
fn own_table(file: &str, header: &[String], mappings: &[Mapping]) -> Result<Option<OwnTable>, LedgerError> {
    match OwnTable::of(header) {
        Some(own) if mappings.is_empty() && !own.is_ledger() => {
            let OwnTable { name, line, .. } = own;
            Err(LedgerError::NoThroughputs { file: file.to_owned(), name, line })
        }
        own => Ok(own),
    }
}

/// The meaning of the column `name`: by the user's mappings, by the declaration of the table `own`, or by its name.
fn meaning(name: &str, mappings: &[Mapping], own: Option<&OwnTable>) -> OwnColumn {
    let known = |field: Option<(Field, f64)>| {
        field.map_or(OwnColumn::Other, |(field, factor)| OwnColumn::Known(field, factor))
    };
    match (mappings.iter().rev().find(|mapping| mapping.column == name), own) {
        (Some(mapping), _) => known(mapping.field),
        (None, Some(own)) => own.column(name),
        (None, None) => known(Field::of_column(name)),
    }
}

/// Counts the lines of a text. The count of the CSV reader is wrong below comments and with the line ends of Windows.
struct Lines<'a> {
    text: &'a str,
    /// The position up to which lines are counted.
    byte: usize,
    /// The number of the line at that position.
    number: u64,
}

impl Lines<'_> {
    /// The number of the line on which `record` begins. Must be called in the order of records.
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
        let (field, factor) = match column {
            Column::Known(field, factor) => (field, factor),
            Column::Setting(setting) => {
                entry.settings.insert(setting.clone(), cell);
                continue;
            }
            Column::Counts | Column::Other => {
                entry.beside.insert(name.clone(), cell);
                continue;
            }
        };
        if let Err(expected) = put(&mut entry, *field, *factor, &cell) {
            entry.beside.insert(name.clone(), cell.clone());
            let (file, column) = (file.to_owned(), name.clone());
            unread.push(Unread::Cell { file, line: number, column, cell, expected });
        }
    }
    Some(entry)
}

/// Adds `cell` to `entry`.
///
/// # Errors
/// It does not have the type of the field; returns the expected type.
fn put(entry: &mut Entry, field: Field, factor: f64, cell: &str) -> Result<(), &'static str> {
    match field.facts().reading {
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
