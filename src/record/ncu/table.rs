//! The table that `ncu --csv` prints.
//!
//! Format: a header that starts with `"ID","Process ID"`, then one line per row.
//!
//! - *Long*: the header has `Metric Name`, `Metric Unit` and `Metric Value`, and there is one row per kernel and
//!   metric. If the table has columns for rules, rows of rules have empty metric cells, and rows of metrics end early.
//! - *Wide*: one column per metric, one row of units, then one row per kernel.
//!
//! The other columns vary (`Kernel Time`, `Block Size`, `CC`, NVTX ranges). There can be other text around tables. A
//! second table continues the first.
//!
//! A kernel is identified by process id and id, because every process counts its kernels from 0.

use std::collections::BTreeMap;

use super::output::Metrics;
use super::unit::{Dimension, parse_unit, to_base};
use crate::metric::{Capability, Meaning};
use crate::record::notation::Notation;

/// A kernel of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kernel {
    /// Its name with template and function arguments, as printed.
    pub(super) name: String,
    /// The compute capability of its device, if the table has it.
    pub(super) capability: Option<Capability>,
    /// Its values of the wanted metrics, in bytes, nanoseconds or events.
    pub(super) metrics: Metrics,
}

/// Why a table cannot be read. Lines are those of the file, from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// It is incomplete.
    #[error("the table is cut off in line {line}: {why}")]
    Torn {
        /// The line.
        line: usize,
        /// What is missing.
        why: &'static str,
    },
    /// A row does not fit the header.
    #[error("line {line} of the table is invalid: {why}")]
    Row {
        /// The line.
        line: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// A metric has an invalid value.
    #[error("line {line} of the table has an invalid value for `{metric}`: `{value}` in unit `{unit}`")]
    Value {
        /// The line.
        line: usize,
        /// The metric.
        metric: String,
        /// The value, as printed.
        value: String,
        /// The unit, as printed.
        unit: String,
    },
    /// Some numbers have decimal commas, some decimal points.
    #[error("the table mixes decimal points and decimal commas: `{0}` contradicts an earlier number")]
    Notation(String),
}

/// Parses the kernels of all tables in `text`, in the order of their first rows, with the metrics that are `wanted`.
/// `None` if there is no table.
///
/// # Errors
/// A table is cut off or inconsistent.
pub(super) fn parse_table(
    text: &str,
    wanted: impl Fn(&str) -> bool,
) -> Result<Option<Vec<Kernel>>, TableError> {
    let rows = split_rows(text)?;
    if rows.is_empty() {
        return Ok(None);
    }
    let mut reader = Reader { wanted, layout: None, notation: Notation::default(), found: Found::default() };
    for row in rows {
        reader.read(&row)?;
    }
    reader.finish().map(Some)
}

/// How the header of a table begins.
const HEADERS: [&str; 2] = ["\"ID\",\"Process ID\",", "ID,Process ID,"];

/// A header or a row: its first line and its text, without the final line break. Quoted cells can contain line breaks.
struct Row<'a> {
    line: usize,
    raw: &'a str,
    is_header: bool,
}

/// The headers and rows in `text`, without the lines between them. A line with an open quote continues in the next.
fn split_rows(text: &str) -> Result<Vec<Row<'_>>, TableError> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut is_quoted = None;
    let (mut start, mut number) = (0, 0);
    while start < text.len() {
        number += 1;
        let line = number;
        let mut end = line_end(text, start);
        let raw = text[start..end].trim_start_matches('\u{feff}');
        let is_header = HEADERS.iter().any(|header| raw.starts_with(header));
        if is_header {
            is_quoted = Some(raw.starts_with('"'));
        }
        if is_header || is_quoted.is_some_and(|is_quoted| is_row(raw, is_quoted)) {
            let mut quotes = quotes_in(raw);
            while quotes % 2 == 1 && end < text.len() {
                number += 1;
                let next = line_end(text, end);
                quotes += quotes_in(&text[end..next]);
                end = next;
            }
            let raw = text[start..end].trim_start_matches('\u{feff}').trim_end_matches(['\r', '\n']);
            rows.push(Row { line, raw, is_header });
        }
        start = end;
    }
    // A line without a line break may have lost digits.
    if !rows.is_empty() && !text.ends_with('\n') {
        return Err(TableError::Torn { line: number, why: "the line is incomplete" });
    }
    Ok(rows)
}

/// The end of the line that begins at `start`, including its line break.
fn line_end(text: &str, start: usize) -> usize {
    text[start..].find('\n').map_or(text.len(), |length| start + length + 1)
}

/// Whether a line below a header is a row. If the header is quoted, so are its rows. Otherwise a row begins with two
/// whole numbers or two empty fields.
fn is_row(line: &str, is_quoted: bool) -> bool {
    if is_quoted {
        return line.starts_with('"');
    }
    let mut fields = line.split(',').map(|field| field.bytes().all(|byte| byte.is_ascii_digit()));
    fields.next() == Some(true) && fields.next() == Some(true)
}

fn quotes_in(text: &str) -> usize {
    text.matches('"').count()
}

/// The columns of a table.
struct Layout {
    width: usize,
    process: usize,
    kernel: usize,
    capability: Option<usize>,
    values: Values,
}

enum Values {
    /// One row per metric: the columns of its name, unit and value.
    Long { name: usize, unit: usize, value: usize },
    /// One column per metric: the columns, their metrics, and the row of units once it was read.
    Wide { columns: Vec<(usize, String)>, units: Option<Vec<String>> },
}

impl Layout {
    fn of(line: usize, header: &[String]) -> Result<Layout, TableError> {
        let column = |name: &str| header.iter().position(|column| column == name);
        let wrong = |why| TableError::Row { line, why };
        let values = match (column("Metric Name"), column("Metric Unit"), column("Metric Value")) {
            (Some(name), Some(unit), Some(value)) if name.max(unit) < value => {
                Values::Long { name, unit, value }
            }
            (None, None, None) => Values::Wide { columns: metric_columns(header), units: None },
            _ => return Err(wrong("the header lacks the columns for a metric's name, unit or value")),
        };
        Ok(Layout {
            width: header.len(),
            process: 1,
            kernel: column("Kernel Name").ok_or_else(|| wrong("the header lacks `Kernel Name`"))?,
            capability: column("CC"),
            values,
        })
    }
}

/// The metrics among the columns of a wide table. Device attributes are skipped: some are text, some are numbers in
/// another notation.
fn metric_columns(header: &[String]) -> Vec<(usize, String)> {
    let is_metric = |name: &str| name.contains("__") && !name.starts_with("device__attribute");
    header.iter().cloned().enumerate().filter(|(_, name)| is_metric(name)).collect()
}

/// What has been read so far.
#[derive(Default)]
struct Found {
    kernels: Vec<Kernel>,
    /// The number of metric rows per kernel; only in long tables.
    metric_rows: Vec<usize>,
    by_id: BTreeMap<(String, String), usize>,
    cells: Vec<Cell>,
    /// The kernel and the line of the last row.
    last: Option<(usize, usize)>,
}

/// A value, as printed. It can be parsed only when the notation has been learned from all values.
struct Cell {
    line: usize,
    kernel: usize,
    metric: String,
    unit: String,
    value: String,
}

struct Reader<W> {
    wanted: W,
    layout: Option<Layout>,
    notation: Notation,
    found: Found,
}

impl<W: Fn(&str) -> bool> Reader<W> {
    fn read(&mut self, row: &Row<'_>) -> Result<(), TableError> {
        let fields = split_fields(row)?;
        let wrong = |why| Err(TableError::Row { line: row.line, why });
        if row.is_header {
            self.layout = Some(Layout::of(row.line, &fields)?);
            return Ok(());
        }
        // Only what follows a header is taken for a row.
        let Some(layout) = &mut self.layout else { return wrong("there is no header above it") };
        let least = match layout.values {
            Values::Long { value, .. } => value + 1,
            Values::Wide { .. } => layout.width,
        };
        let is_short = (least..layout.width).contains(&fields.len())
            && fields[least..].iter().all(|rest| rest.is_empty());
        if fields.len() != layout.width && !is_short {
            return wrong("its number of fields differs from the header's");
        }
        if let Values::Wide { units: units @ None, .. } = &mut layout.values {
            if !fields[0].is_empty() || !fields[layout.process].is_empty() {
                return wrong("the row of units is missing");
            }
            *units = Some(fields);
            return Ok(());
        }
        self.read_kernel(row.line, &fields)
    }

    fn read_kernel(&mut self, line: usize, fields: &[String]) -> Result<(), TableError> {
        let Some(layout) = &self.layout else { return Ok(()) };
        let kernel = self.found.kernel(line, layout, fields)?;
        self.found.last = Some((kernel, line));
        let mut take = |metric: &str, unit: &str, value: &str| {
            if self.notation.learn(value).is_err() {
                return Err(TableError::Notation(value.to_owned()));
            }
            let metric = canonical(metric);
            if (self.wanted)(metric) && !is_absent(value) {
                let (metric, unit, value) = (metric.to_owned(), unit.to_owned(), value.to_owned());
                self.found.cells.push(Cell { line, kernel, metric, unit, value });
            }
            Ok(())
        };
        match &layout.values {
            // A row of a rule.
            Values::Long { name, .. } if fields[*name].is_empty() => Ok(()),
            Values::Long { name, unit, value } => {
                self.found.metric_rows[kernel] += 1;
                take(&fields[*name], &fields[*unit], &fields[*value])
            }
            Values::Wide { columns, units } => {
                let units = units.as_deref().unwrap_or_default();
                columns.iter().try_for_each(|(index, name)| take(name, &units[*index], &fields[*index]))
            }
        }
    }

    /// Parses the values once all rows have been read.
    fn finish(self) -> Result<Vec<Kernel>, TableError> {
        let Found { mut kernels, metric_rows, cells, last, .. } = self.found;
        if let Some((kernel, line)) = last {
            let others = metric_rows.iter().enumerate().filter(|(index, _)| *index != kernel);
            // All kernels have the same metrics, so if the last one has fewer rows, some are missing.
            if others.map(|(_, rows)| *rows).min().is_some_and(|least| metric_rows[kernel] < least) {
                let why = "the last kernel lacks metrics that all others have";
                return Err(TableError::Torn { line, why });
            }
        }
        if let Some(contradictory) = self.notation.undecided(cells.iter().map(|cell| cell.value.as_str())) {
            return Err(TableError::Notation(contradictory.to_owned()));
        }
        for cell in cells {
            let value = cell.read(self.notation)?;
            let Cell { line, kernel, metric, .. } = cell;
            let before = kernels[kernel].metrics.insert(metric, value);
            if before.is_some_and(|before| before != value) {
                let why = "an earlier row has another value for this kernel's metric";
                return Err(TableError::Row { line, why });
            }
        }
        Ok(kernels)
    }
}

impl Found {
    /// The index of the kernel of a row.
    fn kernel(&mut self, line: usize, layout: &Layout, fields: &[String]) -> Result<usize, TableError> {
        let (id, process) = (&fields[0], &fields[layout.process]);
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(id) || !is_number(process) {
            return Err(TableError::Row { line, why: "it has no id" });
        }
        let name = &fields[layout.kernel];
        let next = self.kernels.len();
        let index = *self.by_id.entry((process.clone(), id.clone())).or_insert(next);
        if index == next {
            let capability = layout.capability.and_then(|column| fields[column].parse().ok());
            self.kernels.push(Kernel { name: name.clone(), capability, metrics: Metrics::new() });
            self.metric_rows.push(0);
        } else if self.kernels[index].name != *name {
            return Err(TableError::Row { line, why: "its id belongs to a kernel with another name" });
        }
        Ok(index)
    }
}

impl Cell {
    /// The value in bytes, nanoseconds or events.
    fn read(&self, notation: Notation) -> Result<u64, TableError> {
        let value = || {
            let unit = parse_unit(&self.unit)?;
            let expected = match Meaning::of(&self.metric) {
                None => unit.dimension,
                Some(Meaning::Duration) => Dimension::Time,
                Some(Meaning::Core(..) | Meaning::Tensor(_)) => Dimension::Count,
                Some(_) => Dimension::Bytes,
            };
            let plain = notation.plain(&self.value, unit.factor == 1)?;
            if unit.dimension == expected { to_base(&plain, unit.factor) } else { None }
        };
        value().ok_or_else(|| TableError::Value {
            line: self.line,
            metric: self.metric.clone(),
            value: self.value.clone(),
            unit: self.unit.clone(),
        })
    }
}

/// The name of a metric. The details page prints a label instead of the name of the duration.
fn canonical(metric: &str) -> &str {
    if metric == "Duration" { "gpu__time_duration.sum" } else { metric }
}

/// Whether a value stands for a missing one.
fn is_absent(value: &str) -> bool {
    let value = value.trim_start_matches("(!)").trim();
    value.is_empty()
        || ["n/a", "nan", "-nan", "inf", "-inf"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// Splits a row into its fields.
fn split_fields(row: &Row<'_>) -> Result<Vec<String>, TableError> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .buffer_capacity(row.raw.len())
        .from_reader(row.raw.as_bytes());
    let mut records = reader.records();
    match (records.next(), records.next()) {
        (Some(Ok(record)), None) => Ok(record.iter().map(str::to_owned).collect()),
        _ => Err(TableError::Row { line: row.line, why: "its quotes do not match" }),
    }
}
