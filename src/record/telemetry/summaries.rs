//! The summaries of sensors in a record: a field for each sensor that was read, named as its declaration says.

use std::collections::BTreeMap;

use serde::de::Error;
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
pub struct Summaries(BTreeMap<Sensor, SummaryValue>);

impl Summaries {
    /// The summary of `sensor`, if it was read.
    pub fn get(&self, sensor: Sensor) -> Option<SummaryValue> {
        self.0.get(&sensor).copied()
    }

    pub(super) fn set(&mut self, sensor: Sensor, value: SummaryValue) {
        self.0.insert(sensor, value);
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
        let mut fields = BTreeMap::<String, serde_json::Value>::deserialize(deserializer)?;
        let mut summaries = Summaries::default();
        for sensor in Sensor::ALL {
            let field = sensor.declaration().field;
            let Some(value) = fields.remove(field).filter(|value| !value.is_null()) else { continue };
            let value =
                read(*sensor, value).map_err(|error| D::Error::custom(format!("{field}: {error}")))?;
            summaries.set(*sensor, value);
        }
        Ok(summaries)
    }
}

fn read(sensor: Sensor, value: serde_json::Value) -> Result<SummaryValue, serde_json::Error> {
    Ok(match sensor.declaration().summary {
        Summary::Gauge(_) | Summary::Rate(_) => SummaryValue::Readings(serde_json::from_value(value)?),
        Summary::Growth(_) => SummaryValue::Growth(serde_json::from_value(value)?),
        Summary::WindowGrowth(_) => SummaryValue::WindowGrowth(serde_json::from_value(value)?),
    })
}
