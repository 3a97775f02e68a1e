//! One line of a ledger, with its cells by field.

use std::collections::BTreeMap;
use std::fmt;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::field::Field;
use super::number::Number;

/// The place of a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The file, as the user named it.
    pub file: String,
    /// The line, counted from 1. Lines of a store have none.
    pub line: Option<u64>,
    /// The identity of the line: env, host, network, precision, batch and label, as far as they are stated.
    pub about: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.about.is_empty() {
            write!(f, " ({})", self.about)?;
        }
        Ok(())
    }
}

/// One line of a ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its file.
    pub file: String,
    /// Its line in the file.
    pub line: Option<u64>,
    pub(super) texts: BTreeMap<Field, String>,
    pub(super) numbers: BTreeMap<Field, Number>,
    pub(super) times: BTreeMap<Field, Moment>,
    /// Settings by column.
    pub(super) settings: BTreeMap<String, String>,
    /// The cells without a field, by column.
    pub(super) beside: BTreeMap<String, String>,
}

/// A time with its rounding error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moment {
    /// Seconds since 1970.
    pub(super) seconds: f64,
    /// Half the last digit.
    pub(super) half_digit: f64,
}

impl Moment {
    /// A time in RFC 3339, or in seconds since 1970.
    pub(super) fn parse(text: &str) -> Option<Moment> {
        if let Some(Number { value, half_digit }) = Number::parse(text) {
            return Some(Moment { seconds: value, half_digit });
        }
        let time = DateTime::parse_from_rfc3339(text.trim()).ok()?;
        let half_digit = if text.contains('.') { 0.0005 } else { 0.5 };
        Some(Moment { seconds: seconds_of(&time.to_utc()), half_digit })
    }
}

/// Seconds since 1970.
fn seconds_of(time: &DateTime<Utc>) -> f64 {
    time.timestamp() as f64 + f64::from(time.timestamp_subsec_nanos()) * 1e-9
}

/// One config on one machine: only lines of the same one are comparable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Config {
    pub(super) place: Machine,
    pub(super) work: Work,
    pub(super) batch: Option<u64>,
}

/// A machine, as far as a ledger identifies it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Machine {
    pub(super) env: Option<String>,
    pub(super) host: Option<String>,
    pub(super) device: Option<String>,
    pub(super) backend: Option<String>,
}

/// The computation of a line, without its batch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Work {
    pub(super) model: Option<String>,
    pub(super) precision: Option<String>,
    pub(super) settings: BTreeMap<String, String>,
}

impl Entry {
    /// A line without cells.
    pub fn new(file: &str, line: Option<u64>) -> Entry {
        Entry {
            file: file.to_owned(),
            line,
            texts: BTreeMap::new(),
            numbers: BTreeMap::new(),
            times: BTreeMap::new(),
            settings: BTreeMap::new(),
            beside: BTreeMap::new(),
        }
    }

    /// The same with this text for `field`.
    #[must_use]
    pub fn with_text(mut self, field: Field, text: impl Into<String>) -> Entry {
        self.texts.insert(field, text.into());
        self
    }

    /// The same with this number for `field`.
    #[must_use]
    pub fn with_number(mut self, field: Field, number: Number) -> Entry {
        self.numbers.insert(field, number);
        self
    }

    /// The same with this time for `field`.
    #[must_use]
    pub fn with_time(mut self, field: Field, time: &DateTime<Utc>) -> Entry {
        self.times.insert(field, Moment { seconds: seconds_of(time), half_digit: 0.0 });
        self
    }

    /// The same with a setting.
    #[must_use]
    pub fn with_setting(mut self, name: &str, value: impl Into<String>) -> Entry {
        self.settings.insert(name.to_owned(), value.into());
        self
    }

    /// The text of `field`.
    pub fn text(&self, field: Field) -> Option<&str> {
        self.texts.get(&field).map(String::as_str)
    }

    /// The number of `field`.
    pub fn number(&self, field: Field) -> Option<Number> {
        self.numbers.get(&field).copied()
    }

    /// The number of `field`, if it is above 0.
    pub(super) fn positive(&self, field: Field) -> Option<Number> {
        self.number(field).filter(|number| number.value > 0.0)
    }

    /// The whole number of `field`.
    pub(super) fn count(&self, field: Field) -> Option<u64> {
        self.number(field).and_then(Number::count)
    }

    /// Its place.
    pub fn place(&self) -> Place {
        Place { file: self.file.clone(), line: self.line, about: self.about() }
    }

    fn about(&self) -> String {
        let fields = [Field::Env, Field::Host, Field::Model, Field::Precision];
        let mut words: Vec<String> = Vec::new();
        for word in fields.iter().filter_map(|field| self.text(*field)) {
            if !words.iter().any(|said| said == word) {
                words.push(word.to_owned());
            }
        }
        words.extend(self.count(Field::Batch).map(|batch| format!("bs{batch}")));
        words.extend(
            self.text(Field::Label)
                .filter(|label| !words.iter().any(|word| word == label))
                .map(str::to_owned),
        );
        words.join(" ")
    }

    /// A record: its fields by their names, its settings, and its other cells under `beside`.
    pub(super) fn record(&self) -> Map<String, Value> {
        let mut record = Map::new();
        record.extend(self.line.map(|line| ("line".to_owned(), json!(line))));
        record.extend(self.texts.iter().map(|(field, text)| (field.name().to_owned(), json!(text))));
        record.extend(
            self.numbers.iter().map(|(field, number)| (field.unit_name().to_owned(), json!(number.value))),
        );
        for (field, moment) in &self.times {
            let time = DateTime::from_timestamp_micros((moment.seconds * 1e6).round() as i64);
            record.extend(time.map(|time| (field.name().to_owned(), json!(time.to_rfc3339()))));
        }
        for (name, words) in [("settings", &self.settings), ("beside", &self.beside)] {
            if !words.is_empty() {
                record.insert(name.to_owned(), json!(words));
            }
        }
        record
    }

    /// Its machine.
    pub(super) fn machine(&self) -> Machine {
        let text = |field| self.text(field).map(str::to_owned);
        Machine {
            env: text(Field::Env),
            host: text(Field::Host),
            device: text(Field::Device),
            backend: text(Field::Backend),
        }
    }

    /// Its computation.
    pub(super) fn work(&self) -> Work {
        let text = |field| self.text(field).map(str::to_owned);
        Work { model: text(Field::Model), precision: text(Field::Precision), settings: self.settings.clone() }
    }

    /// Its config.
    pub(super) fn config(&self) -> Config {
        Config { place: self.machine(), work: self.work(), batch: self.count(Field::Batch) }
    }

    /// Samples of one iteration: the batch times the accumulation.
    pub(super) fn samples_per_iteration(&self) -> Option<f64> {
        let batch = self.positive(Field::Batch)?.value;
        Some(batch * self.positive(Field::Accumulation).map_or(1.0, |number| number.value))
    }

    /// The beginning and the end of its window, and the rounding error of both, in seconds.
    pub(super) fn window(&self) -> Option<(f64, f64, f64)> {
        let at = |field| self.times.get(&field).copied();
        let elapsed = self.positive(Field::Elapsed);
        let (start, end, doubt) = match (at(Field::StartedAt), at(Field::EndedAt), elapsed) {
            (Some(start), Some(end), _) => (start.seconds, end.seconds, start.half_digit + end.half_digit),
            (None, Some(end), Some(elapsed)) => {
                (end.seconds - elapsed.value, end.seconds, end.half_digit + elapsed.half_digit)
            }
            (Some(start), None, Some(elapsed)) => {
                (start.seconds, start.seconds + elapsed.value, start.half_digit + elapsed.half_digit)
            }
            _ => return None,
        };
        (end > start).then_some((start, end, doubt))
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [&self.env, &self.host, &self.device, &self.backend];
        let words: Vec<&str> = parts.into_iter().filter_map(|part| part.as_deref()).collect();
        if words.is_empty() { f.write_str("one machine") } else { f.write_str(&words.join(" ")) }
    }
}
