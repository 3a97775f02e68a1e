//! A summary of one sensor's readings.

use serde::{Deserialize, Serialize};

use crate::stats;

/// Summary of one sensor's readings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Readings {
    /// The first reading.
    pub first: f64,
    /// The minimum.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The maximum.
    pub max: f64,
    /// The last reading.
    pub last: f64,
    /// The quantiles at 0.1 and 0.9: between them are the middle four fifths of the readings. Unlike the range, they do
    /// not grow with the number of readings. Absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub middle: Option<(f64, f64)>,
}

impl Readings {
    /// Summarises `values`, given in the order they were read. Skips values that are not finite; `None` if no value
    /// remains.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Readings> {
        let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        let (first, last) = (*values.first()?, *values.last()?);
        let mut readings = Readings { first, min: first, mean: 0.0, max: first, last, middle: None };
        let mut count = 0.0;
        for &value in &values {
            count += 1.0;
            readings.min = readings.min.min(value);
            readings.max = readings.max.max(value);
            readings.mean += (value - readings.mean) / count;
        }
        readings.middle = stats::quantile(&values, 0.1).ok().zip(stats::quantile(&values, 0.9).ok());
        Some(readings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_summarised_in_order() {
        let readings = Readings::of([3.0, f64::NAN, 1.0, 5.0, 3.0]).unwrap();
        let (low, high) = readings.middle.unwrap();
        assert!((low - 1.6).abs() < 1e-9 && (high - 4.4).abs() < 1e-9, "{low} {high}");
        let rest = Readings { middle: None, ..readings };
        assert_eq!(rest, Readings { first: 3.0, min: 1.0, mean: 3.0, max: 5.0, last: 3.0, middle: None });
        assert_eq!(Readings::of([f64::NAN]), None);
        assert_eq!(Readings::of([]), None);
    }

    /// Records of older versions have no quantiles, and are written again unchanged.
    #[test]
    fn readings_without_a_middle_are_read() {
        let older = r#"{"first":3.0,"min":1.0,"mean":3.0,"max":5.0,"last":3.0}"#;
        let readings: Readings = serde_json::from_str(older).unwrap();
        assert_eq!(readings.middle, None);
        assert_eq!(serde_json::to_string(&readings).unwrap(), older);
        let newer = Readings { middle: Some((1.5, 4.5)), ..readings };
        let json = serde_json::to_string(&newer).unwrap();
        assert!(json.ends_with(r#""middle":[1.5,4.5]}"#), "{json}");
        assert_eq!(serde_json::from_str::<Readings>(&json).unwrap(), newer);
    }
}
