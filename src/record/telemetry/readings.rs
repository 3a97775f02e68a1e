//! A summary of one sensor's readings.

use serde::{Deserialize, Serialize};

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
}

impl Readings {
    /// Summarises `values`, given in the order they were read. Skips values that are not finite; `None` if none is
    /// left.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Readings> {
        let mut values = values.into_iter().filter(|value| value.is_finite());
        let first = values.next()?;
        let mut readings = Readings { first, min: first, mean: first, max: first, last: first };
        let mut count = 1.0;
        for value in values {
            count += 1.0;
            readings.min = readings.min.min(value);
            readings.max = readings.max.max(value);
            readings.mean += (value - readings.mean) / count;
            readings.last = value;
        }
        Some(readings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_summarised_in_order() {
        let readings = Readings::of([3.0, f64::NAN, 1.0, 5.0, 3.0]).unwrap();
        assert_eq!(readings, Readings { first: 3.0, min: 1.0, mean: 3.0, max: 5.0, last: 3.0 });
        assert_eq!(Readings::of([f64::NAN]), None);
        assert_eq!(Readings::of([]), None);
    }
}
