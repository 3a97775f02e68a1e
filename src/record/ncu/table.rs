//! The table that `ncu --csv` prints.
//!
//! Format: a header line that starts with `"ID","Process ID"`, then a line a row. *Long*: the header has `Metric Name`,
//! `Metric Unit` and `Metric Value`, and a kernel has a row for each metric; rows of rules have empty metric cells, and
//! where there are rules, the rows of metrics end early. *Wide*: a column a metric and a row a kernel, below a row that
//! has only units. Other columns come and go (`Kernel Time`, `Block Size`, `CC`, ranges of NVTX). Text may stand above,
//! between and below tables, and a further table adds to the first.
//!
//! A kernel is a process id and an id, for each process counts its own.

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
    /// Of the device it ran on, where the table says.
    pub(super) capability: Option<Capability>,
    /// The values of those metrics that were wanted and had one: bytes, nanoseconds or events.
    pub(super) metrics: Metrics,
}

/// Why a table cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// It breaks off.
    #[error("the table breaks off in line {line}: {why}")]
    Torn {
        /// Its line in the file, from 1.
        line: usize,
        /// What is missing.
        why: &'static str,
    },
    /// A row is not as the header says.
    #[error("line {line} of the table is no row of it: {why}")]
    Row {
        /// Its line in the file, from 1.
        line: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// A metric has a value that is none.
    #[error("`{metric}` has `{value}` in `{unit}` in line {line}")]
    Value {
        /// Its line in the file, from 1.
        line: usize,
        /// The metric.
        metric: String,
        /// The value as it stood.
        value: String,
        /// The unit as it stood.
        unit: String,
    },
    /// Some numbers have a decimal comma, some a decimal point.
    #[error("its numbers are of different notations: `{0}` does not go with those before it")]
    Notation(String),
}

/// The kernels of all tables in `text`, in the order of their first rows; `None` if there is no table. Of the metrics,
/// those that `wanted` says yes to.
///
/// # Errors
/// A table that breaks off or does not hold together.
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

/// How a header of a table begins.
const HEADERS: [&str; 2] = ["\"ID\",\"Process ID\",", "ID,Process ID,"];

/// A header or a row: where it begins and what stands there, with line breaks within quotes but not at its end.
struct Row<'a> {
    line: usize,
    raw: &'a str,
    is_header: bool,
}

/// The headers and rows in `text`; whatever else stands there is left out. A line with an open quote goes on in the
/// next.
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
    // A line without its end may have lost digits.
    if !rows.is_empty() && !text.ends_with('\n') {
        return Err(TableError::Torn { line: number, why: "the line has no end" });
    }
    Ok(rows)
}

/// Where the line that begins at `start` ends, its line break included.
fn line_end(text: &str, start: usize) -> usize {
    text[start..].find('\n').map_or(text.len(), |length| start + length + 1)
}

/// Whether a line below a header is a row: where the header is in quotes, so are they. Else a row begins with two
/// whole numbers, or with two empty fields.
fn is_row(line: &str, is_quoted: bool) -> bool {
    if is_quoted {
        return line.starts_with('"');
    }
    let mut fields = line.split(',').map(|field| field.bytes().all(|byte| byte.is_ascii_digit()));
    line.matches(',').count() > 1 && fields.next() == Some(true) && fields.next() == Some(true)
}

fn quotes_in(text: &str) -> usize {
    text.matches('"').count()
}

/// Where a table has what.
struct Layout {
    width: usize,
    process: usize,
    kernel: usize,
    capability: Option<usize>,
    values: Values,
}

enum Values {
    /// A row a metric: the columns of its name, unit and value.
    Long { name: usize, unit: usize, value: usize },
    /// A column a metric: the columns and their metrics, and the units once their row was there.
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
            _ => return Err(wrong("its header lacks the metrics' name, unit or value")),
        };
        Ok(Layout {
            width: header.len(),
            process: 1,
            kernel: column("Kernel Name").ok_or_else(|| wrong("its header lacks the kernels' names"))?,
            capability: column("CC"),
            values,
        })
    }
}

/// The columns of a wide table that are metrics. Attributes of the device are texts and numbers of any notation.
fn metric_columns(header: &[String]) -> Vec<(usize, String)> {
    let is_metric = |name: &str| name.contains("__") && !name.starts_with("device__attribute");
    header.iter().cloned().enumerate().filter(|(_, name)| is_metric(name)).collect()
}

/// What was read so far.
#[derive(Default)]
struct Found {
    kernels: Vec<Kernel>,
    /// Rows of metrics, by kernel; only in long tables.
    metric_rows: Vec<usize>,
    by_id: BTreeMap<(String, String), usize>,
    cells: Vec<Cell>,
    /// The kernel and the line of the last row.
    last: Option<(usize, usize)>,
}

/// A value as it stands. It can only be read once all have shown their notation.
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
        // The first row is a header, or it would not have been found.
        let Some(layout) = &mut self.layout else { return wrong("there is no header above it") };
        let least = match layout.values {
            Values::Long { value, .. } => value + 1,
            Values::Wide { .. } => layout.width,
        };
        let is_short = fields.len() < layout.width
            && fields[least.min(fields.len())..].iter().all(|rest| rest.is_empty());
        if fields.len() < least || (fields.len() != layout.width && !is_short) {
            return wrong("it has not as many fields as the header");
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

    /// The kernels with their values.
    fn finish(self) -> Result<Vec<Kernel>, TableError> {
        let Found { mut kernels, metric_rows, cells, last, .. } = self.found;
        if let Some((kernel, line)) = last {
            let others = metric_rows.iter().enumerate().filter(|(index, _)| *index != kernel);
            // Every kernel has the same metrics, so the last one has lost rows if all others have more.
            if others.map(|(_, rows)| *rows).min().is_some_and(|least| metric_rows[kernel] < least) {
                return Err(TableError::Torn {
                    line,
                    why: "the last kernel lacks metrics that all others have",
                });
            }
        }
        for cell in cells {
            let value = cell.read(self.notation)?;
            let Cell { line, kernel, metric, .. } = cell;
            let before = kernels[kernel].metrics.insert(metric, value);
            if before.is_some_and(|before| before != value) {
                return Err(TableError::Row {
                    line,
                    why: "its kernel has another value for the metric already",
                });
            }
        }
        Ok(kernels)
    }
}

impl Found {
    /// The kernel that a row is about.
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
            return Err(TableError::Row { line, why: "its id belongs to a kernel of another name" });
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

/// The name of a metric, for which the page of details has a label instead.
fn canonical(metric: &str) -> &str {
    if metric == "Duration" { "gpu__time_duration.sum" } else { metric }
}

/// Whether a value says that there is none.
fn is_absent(value: &str) -> bool {
    let value = value.trim_start_matches("(!)").trim();
    value.is_empty() || ["n/a", "nan", "-nan"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// The fields of a row.
fn split_fields(row: &Row<'_>) -> Result<Vec<String>, TableError> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .buffer_capacity(row.raw.len() + 1)
        .from_reader(row.raw.as_bytes());
    let mut records = reader.records();
    match (records.next(), records.next()) {
        (Some(Ok(record)), None) => Ok(record.iter().map(str::to_owned).collect()),
        _ => Err(TableError::Row { line: row.line, why: "its quotes do not match" }),
    }
}
