//! The types of cells: each column has one type, which follows from the type of its values.

use std::fmt;

use chrono::{DateTime, Utc};

use crate::job::{Device, Kind, ModelName, Name, Optimizer, ParamValue, Precision};
use crate::protocol::SampleUnit;

/// The type of the cells of a column that are not `NA`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellType {
    /// Words.
    Text,
    /// A number without a fraction.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A date and a time, RFC 3339, UTC.
    Time,
    /// A number in one study, a word in another.
    Any,
}

impl CellType {
    /// Its name in a Table Schema.
    pub fn as_str(self) -> &'static str {
        match self {
            CellType::Text => "string",
            CellType::Integer => "integer",
            CellType::Number => "number",
            CellType::Boolean => "boolean",
            CellType::Time => "datetime",
            CellType::Any => "any",
        }
    }

    /// Whether its cells are numbers, so that they have a unit.
    pub fn is_number(self) -> bool {
        matches!(self, CellType::Integer | CellType::Number)
    }
}

/// A value that can be in a cell.
pub(super) trait Shown {
    /// The type of its cell.
    const TYPE: CellType;

    /// Its cell.
    fn shown(&self) -> String;
}

impl<T: Shown + ?Sized> Shown for &T {
    const TYPE: CellType = T::TYPE;

    fn shown(&self) -> String {
        (**self).shown()
    }
}

/// A value in words that is a number for one worker and a word for another.
pub(super) struct Value(pub(super) String);

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Types whose cell is their `Display` text.
macro_rules! shown_as_printed {
    ($($cell:ident: $($type:ty),+;)+) => {
        $($(impl Shown for $type {
            const TYPE: CellType = CellType::$cell;

            fn shown(&self) -> String {
                self.to_string()
            }
        })+)+
    };
}

shown_as_printed! {
    Text: str, String, Device, Kind, ModelName, Name, Optimizer, Precision, SampleUnit;
    Integer: u32, u64, i64, usize;
    Boolean: bool;
    Any: ParamValue, Value;
}

impl Shown for f64 {
    const TYPE: CellType = CellType::Number;

    /// With the words of a Table Schema for infinities.
    fn shown(&self) -> String {
        match *self {
            f64::INFINITY => "INF".to_owned(),
            f64::NEG_INFINITY => "-INF".to_owned(),
            number => number.to_string(),
        }
    }
}

impl Shown for DateTime<Utc> {
    const TYPE: CellType = CellType::Time;

    fn shown(&self) -> String {
        self.to_rfc3339()
    }
}
