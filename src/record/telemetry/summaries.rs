//! The summaries of sensors in a record: a field for each sensor that was read, named as its declaration says.

use std::fmt;

use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Readings, Sensor, Summary};

/// The summary of one sensor's samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum SummaryValue {
    /// Of [`Summary::Gauge`] and [`Summary::Rate`].
    Readings(Readings),
    /// Of [`Summary::Growth`].
    Growth(u64),
    /// Of [`Summary::WindowGrowth`].
    WindowGrowth(f64),
}

impl From<Readings> for SummaryValue {
    fn from(readings: Readings) -> Self {
        SummaryValue::Readings(readings)
    }
}

impl From<u64> for SummaryValue {
    fn from(growth: u64) -> Self {
        SummaryValue::Growth(growth)
    }
}

impl From<f64> for SummaryValue {
    fn from(growth: f64) -> Self {
        SummaryValue::WindowGrowth(growth)
    }
}

/// The summaries of the sensors that were read. A sensor that was not read is absent, never zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summaries(
    /// Sorted by sensor, each once. A tree would need several times the memory, and a store has many records.
    Vec<(Sensor, SummaryValue)>,
);

impl Summaries {
    /// The summary of `sensor`, if it was read.
    pub fn get(&self, sensor: Sensor) -> Option<SummaryValue> {
        self.place(sensor).ok().map(|place| self.0[place].1)
    }

    pub(super) fn set(&mut self, sensor: Sensor, value: SummaryValue) {
        match self.place(sensor) {
            Ok(place) => self.0[place].1 = value,
            Err(place) => self.0.insert(place, (sensor, value)),
        }
    }

    /// The index of `sensor`, or the index at which to insert it.
    fn place(&self, sensor: Sensor) -> Result<usize, usize> {
        self.0.binary_search_by_key(&sensor, |(sensor, _)| *sensor)
    }
}

impl Serialize for Summaries {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(sensor, value)| (sensor.declaration().field, value)))
    }
}

/// Skips fields that belong to no sensor: they are those of the surrounding struct, or of another version.
impl<'de> Deserialize<'de> for Summaries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(SummariesVisitor)
    }
}

struct SummariesVisitor;

impl<'de> Visitor<'de> for SummariesVisitor {
    type Value = Summaries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the summaries of sensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Summaries, A::Error> {
        let mut summaries = Summaries::default();
        while let Some(field) = map.next_key::<String>()? {
            let Some(sensor) = Sensor::ALL.iter().find(|sensor| sensor.declaration().field == field) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let value = match sensor.declaration().summary {
                Summary::Gauge(_) | Summary::Rate(_) => {
                    map.next_value::<Option<Readings>>().map(|value| value.map(SummaryValue::Readings))
                }
                Summary::Growth(_) => {
                    map.next_value::<Option<u64>>().map(|value| value.map(SummaryValue::Growth))
                }
                Summary::WindowGrowth(_) => {
                    map.next_value::<Option<f64>>().map(|value| value.map(SummaryValue::WindowGrowth))
                }
            };
            let value = value.map_err(|error| A::Error::custom(format!("{field}: {error}")))?;
            if let Some(value) = value {
                summaries.set(*sensor, value);
            }
        }
        Ok(summaries)
    }
}
