//! The clocks that time single iterations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The clock that timed single iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IterationClock {
    /// The host's clock, on a device whose calls return when the work is done. Each iteration is synchronised.
    Host,
    /// Events that the device records when it reaches them. Each iteration is synchronised.
    DeviceEvents,
    /// The host's clock, on a device whose calls return when the work is submitted. Iterations are not synchronised,
    /// and only their sum is meaningful.
    Submission,
}

impl IterationClock {
    /// Its name in `iterations.csv` and `measurement.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            IterationClock::Host => "host",
            IterationClock::DeviceEvents => "device_events",
            IterationClock::Submission => "submission",
        }
    }

    /// The clock called `name`.
    pub fn named(name: &str) -> Option<IterationClock> {
        let all = [IterationClock::Host, IterationClock::DeviceEvents, IterationClock::Submission];
        all.into_iter().find(|clock| clock.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_has_one_spelling() {
        use IterationClock::{DeviceEvents, Host, Submission};
        for clock in [Host, DeviceEvents, Submission] {
            assert_eq!(serde_json::to_value(clock).unwrap(), clock.as_str());
            assert_eq!(IterationClock::named(clock.as_str()), Some(clock));
        }
    }
}
