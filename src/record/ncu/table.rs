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

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

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

/// The kernels of all tables in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kernels {
    /// In the order of their first rows.
    pub(super) all: Vec<Kernel>,
    /// Whether ids are missing. Nsight Compute numbers kernels from 0, either per process or over all processes.
    pub(super) has_gaps: bool,
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

/// The beginnings of a table's header.
const HEADERS: [&str; 2] = ["\"ID\",\"Process ID\",", "ID,Process ID,"];

/// Reads the kernels of all tables in a file, line by line, with the metrics that are wanted.
pub(super) struct TableReader<W> {
    rows: Rows<W>,
    /// Whether the rows of the table are quoted; `None` above the first header.
    is_quoted: Option<bool>,
    /// The number of lines that were read.
    lines: usize,
    /// The beginning of a row that continues in the next line, because a quote is open.
    open: Option<Row>,
    /// The first error. The lines after it are not read.
    error: Option<TableError>,
}

/// A header or a row: the number of its first line, and its text. Quoted cells can contain line breaks.
struct Row {
    line: usize,
    raw: String,
    is_header: bool,
}

impl<W: Fn(&str) -> bool> TableReader<W> {
    pub(super) fn new(wanted: W) -> Self {
        TableReader { rows: Rows::new(wanted), is_quoted: None, lines: 0, open: None, error: None }
    }

    /// Reads a line with its line break. Lines that belong to no table are skipped.
    pub(super) fn read_line(&mut self, line: &str) {
        self.lines += 1;
        if self.error.is_some() {
            return;
        }
        let read = self.row_of(line).and_then(|row| match row {
            Some(row) => self.rows.read(row.line, row.raw.trim_end_matches(['\r', '\n']), row.is_header),
            None => Ok(()),
        });
        self.error = read.err();
    }

    /// The header or row that ends with `line`, if one does.
    fn row_of(&mut self, line: &str) -> Result<Option<Row>, TableError> {
        let text = line.trim_start_matches('\u{feff}');
        let row = match self.open.take() {
            Some(open) => Row { raw: open.raw + line, ..open },
            None => {
                let is_header = HEADERS.iter().any(|header| text.starts_with(header));
                if is_header {
                    self.is_quoted = Some(text.starts_with('"'));
                }
                if !is_header && !self.is_quoted.is_some_and(|is_quoted| is_row(text, is_quoted)) {
                    // A line without a line break may have lost digits.
                    let is_cut = self.is_quoted.is_some() && !line.ends_with('\n');
                    return if is_cut { Err(self.torn("the line is incomplete")) } else { Ok(None) };
                }
                Row { line: self.lines, raw: text.to_owned(), is_header }
            }
        };
        if !line.ends_with('\n') {
            return Err(self.torn("the line is incomplete"));
        }
        if quotes_in(&row.raw) % 2 == 1 {
            self.open = Some(row);
            return Ok(None);
        }
        Ok(Some(row))
    }

    fn torn(&self, why: &'static str) -> TableError {
        TableError::Torn { line: self.lines, why }
    }

    /// The kernels of all tables; `None` if there is no table. `is_whole`: whether the file could be read to its end.
    ///
    /// # Errors
    /// A table is cut off or inconsistent.
    pub(super) fn finish(mut self, is_whole: bool) -> Result<Option<Kernels>, TableError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if let Some(open) = self.open {
            return Err(TableError::Row { line: open.line, why: "its quotes do not match" });
        }
        if !is_whole {
            return Err(self.torn("the rest of the file cannot be read"));
        }
        if self.is_quoted.is_none() { Ok(None) } else { self.rows.finish().map(Some) }
    }
}

/// Whether a line below a header is a row. The rows below a quoted header are quoted. Otherwise a row begins with two
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
    /// One column per metric: the columns with their metrics, `None` if they are not wanted, and the row of units once
    /// it was read.
    Wide { columns: Vec<(usize, Option<Rc<str>>)>, units: Option<Vec<Rc<str>>> },
}

impl Layout {
    fn of(
        line: usize,
        header: &[Cow<'_, str>],
        names: &mut Names<impl Fn(&str) -> bool>,
    ) -> Result<Layout, TableError> {
        let column = |name: &str| header.iter().position(|column| column == name);
        let wrong = |why| TableError::Row { line, why };
        let values = match (column("Metric Name"), column("Metric Unit"), column("Metric Value")) {
            (Some(name), Some(unit), Some(value)) if name.max(unit) < value => {
                Values::Long { name, unit, value }
            }
            (None, None, None) => Values::Wide { columns: metric_columns(header, names), units: None },
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
fn metric_columns(
    header: &[Cow<'_, str>],
    names: &mut Names<impl Fn(&str) -> bool>,
) -> Vec<(usize, Option<Rc<str>>)> {
    let is_metric = |name: &str| name.contains("__") && !name.starts_with("device__attribute");
    let metrics = header.iter().enumerate().filter(|(_, name)| is_metric(name));
    metrics.map(|(index, name)| (index, names.wanted(name))).collect()
}

/// The names of metrics and units, each once: a table repeats them in every row.
struct Names<W> {
    is_wanted: W,
    /// `None` for metrics that are not wanted.
    metrics: BTreeMap<String, Option<Rc<str>>>,
    units: BTreeMap<String, Rc<str>>,
}

impl<W: Fn(&str) -> bool> Names<W> {
    /// The usual name of `metric`, if it is wanted.
    fn wanted(&mut self, metric: &str) -> Option<Rc<str>> {
        if let Some(known) = self.metrics.get(metric) {
            return known.clone();
        }
        let name = canonical(metric);
        let wanted = (self.is_wanted)(name).then(|| Rc::from(name));
        self.metrics.insert(metric.to_owned(), wanted.clone());
        wanted
    }

    fn unit(&mut self, unit: &str) -> Rc<str> {
        if let Some(known) = self.units.get(unit) {
            return known.clone();
        }
        let name: Rc<str> = unit.into();
        self.units.insert(unit.to_owned(), name.clone());
        name
    }
}

/// The kernels and values read so far.
#[derive(Default)]
struct Found {
    kernels: Vec<Kernel>,
    /// The number of metric rows per kernel; only in long tables.
    metric_rows: Vec<usize>,
    by_id: BTreeMap<(String, String), usize>,
    /// Values that are ambiguous without the others.
    cells: Vec<Cell>,
    /// The kernel and the line of the last row.
    last: Option<(usize, usize)>,
}

/// A value, as printed. If it is ambiguous, it can be read only when the notation has been learned from all values.
struct Cell {
    line: usize,
    kernel: usize,
    metric: Rc<str>,
    unit: Rc<str>,
    value: Box<str>,
}

/// The reader of a table's rows.
struct Rows<W> {
    names: Names<W>,
    layout: Option<Layout>,
    notation: Notation,
    found: Found,
}

impl<W: Fn(&str) -> bool> Rows<W> {
    fn new(is_wanted: W) -> Self {
        let names = Names { is_wanted, metrics: BTreeMap::new(), units: BTreeMap::new() };
        Rows { names, layout: None, notation: Notation::default(), found: Found::default() }
    }

    /// Reads a header or a row without its line break.
    fn read(&mut self, line: usize, raw: &str, is_header: bool) -> Result<(), TableError> {
        let wrong = |why| TableError::Row { line, why };
        let fields = split_fields(raw).ok_or_else(|| wrong("its quotes do not match"))?;
        if is_header {
            self.layout = Some(Layout::of(line, &fields, &mut self.names)?);
            return Ok(());
        }
        // Only lines after a header are rows.
        let Some(layout) = &mut self.layout else { return Err(wrong("there is no header above it")) };
        let least = match layout.values {
            Values::Long { value, .. } => value + 1,
            Values::Wide { .. } => layout.width,
        };
        let is_short = (least..layout.width).contains(&fields.len())
            && fields[least..].iter().all(|rest| rest.is_empty());
        if fields.len() != layout.width && !is_short {
            return Err(wrong("its number of fields differs from the header's"));
        }
        if let Values::Wide { units: units @ None, .. } = &mut layout.values {
            if !fields[0].is_empty() || !fields[layout.process].is_empty() {
                return Err(wrong("the row of units is missing"));
            }
            *units = Some(fields.iter().map(|unit| self.names.unit(unit)).collect());
            return Ok(());
        }
        self.read_kernel(line, &fields)
    }

    fn read_kernel(&mut self, line: usize, fields: &[Cow<'_, str>]) -> Result<(), TableError> {
        let Rows { names, layout: Some(layout), notation, found } = self else { return Ok(()) };
        let kernel = found.kernel(line, layout, fields)?;
        found.last = Some((kernel, line));
        let mut take = |metric: Option<Rc<str>>, unit: Rc<str>, value: &str| {
            if notation.learn(value).is_err() {
                return Err(TableError::Notation(value.to_owned()));
            }
            match metric.filter(|_| !is_absent(value)) {
                Some(metric) => {
                    found.take(Cell { line, kernel, metric, unit, value: value.into() }, *notation)
                }
                None => Ok(()),
            }
        };
        match &layout.values {
            // A row of a rule.
            Values::Long { name, .. } if fields[*name].is_empty() => Ok(()),
            Values::Long { name, unit, value } => {
                let (metric, unit) = (names.wanted(&fields[*name]), names.unit(&fields[*unit]));
                take(metric, unit, &fields[*value])?;
                found.metric_rows[kernel] += 1;
                Ok(())
            }
            Values::Wide { columns, units } => {
                let units = units.as_deref().unwrap_or_default();
                columns
                    .iter()
                    .try_for_each(|(index, name)| take(name.clone(), units[*index].clone(), &fields[*index]))
            }
        }
    }

    /// Reads the ambiguous values once all rows have been read.
    fn finish(self) -> Result<Kernels, TableError> {
        let mut found = self.found;
        if let Some((kernel, line)) = found.last {
            let rows = &found.metric_rows;
            let others = rows.iter().enumerate().filter(|(index, _)| *index != kernel);
            // All kernels have the same metrics, so if the last one has fewer rows, some are missing.
            if others.map(|(_, rows)| *rows).min().is_some_and(|least| rows[kernel] < least) {
                let why = "the last kernel lacks metrics that all others have";
                return Err(TableError::Torn { line, why });
            }
        }
        let cells = std::mem::take(&mut found.cells);
        if let Some(contradictory) = self.notation.undecided(cells.iter().map(|cell| &*cell.value)) {
            return Err(TableError::Notation(contradictory.to_owned()));
        }
        cells.into_iter().try_for_each(|cell| found.insert(cell, self.notation))?;
        Ok(Kernels { has_gaps: found.has_gaps(), all: found.kernels })
    }
}

impl Found {
    /// Keeps a value: as a number, if its meaning does not depend on the others.
    fn take(&mut self, cell: Cell, notation: Notation) -> Result<(), TableError> {
        if Notation::is_ambiguous(&cell.value) {
            self.cells.push(cell);
            return Ok(());
        }
        self.insert(cell, notation)
    }

    fn insert(&mut self, cell: Cell, notation: Notation) -> Result<(), TableError> {
        let value = cell.read(notation)?;
        let Cell { line, kernel, metric, .. } = cell;
        let before = self.kernels[kernel].metrics.insert(metric, value);
        if before.is_some_and(|before| before != value) {
            let why = "an earlier row has another value for this kernel's metric";
            return Err(TableError::Row { line, why });
        }
        Ok(())
    }

    /// Whether there are fewer kernels than the greatest id implies, both for numbering per process and over all
    /// processes.
    fn has_gaps(&self) -> bool {
        let mut processes: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
        for (process, id) in self.by_id.keys() {
            processes.entry(process).or_default().insert(id.parse().unwrap_or(u64::MAX));
        }
        let is_complete = |ids: &BTreeSet<u64>| ids.last().is_none_or(|last| ids.len() as u64 - 1 == *last);
        let together: BTreeSet<u64> = processes.values().flatten().copied().collect();
        let are_numbered_together = together.len() == self.by_id.len() && is_complete(&together);
        !are_numbered_together && !processes.values().all(is_complete)
    }

    /// The index of the kernel of a row.
    fn kernel(&mut self, line: usize, layout: &Layout, fields: &[Cow<'_, str>]) -> Result<usize, TableError> {
        let (id, process) = (&fields[0], &fields[layout.process]);
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(id) || !is_number(process) {
            return Err(TableError::Row { line, why: "it has no id" });
        }
        let name = &fields[layout.kernel];
        let next = self.kernels.len();
        let index = *self.by_id.entry((process.to_string(), id.to_string())).or_insert(next);
        if index == next {
            let capability = layout.capability.and_then(|column| fields[column].parse().ok());
            self.kernels.push(Kernel { name: name.to_string(), capability, metrics: Metrics::new() });
            self.metric_rows.push(0);
        } else if self.kernels[index].name != **name {
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
            metric: self.metric.to_string(),
            value: self.value.to_string(),
            unit: self.unit.to_string(),
        })
    }
}

/// The name of a metric. The details page prints a label instead of the name of the duration.
fn canonical(metric: &str) -> &str {
    if metric == "Duration" { "gpu__time_duration.sum" } else { metric }
}

/// Whether a value represents a missing one.
fn is_absent(value: &str) -> bool {
    let value = value.trim_start_matches("(!)").trim();
    value.is_empty()
        || ["n/a", "nan", "-nan", "inf", "-inf"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// Splits a row into its fields; `None` if its quotes do not match. A quote within a quoted field is doubled.
///
/// A table of all metrics has some thousand columns, most of which were not requested, so fields are not copied.
fn split_fields(raw: &str) -> Option<Vec<Cow<'_, str>>> {
    let mut fields = Vec::new();
    let mut rest = raw;
    loop {
        let (field, behind) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (Cow::Borrowed(&rest[..end]), &rest[end..])
            }
        };
        fields.push(field);
        match behind.strip_prefix(',') {
            Some(next) => rest = next,
            None => return behind.is_empty().then_some(fields),
        }
    }
}

/// The field whose opening quote precedes `text`, and the text after its closing quote.
fn quoted_field(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find('"')?;
        if text[at + 1..].starts_with('"') {
            from = at + 2;
            continue;
        }
        let field = &text[..at];
        let field = if from == 0 { Cow::Borrowed(field) } else { Cow::Owned(field.replace("\"\"", "\"")) };
        return Some((field, &text[at + 1..]));
    }
}
