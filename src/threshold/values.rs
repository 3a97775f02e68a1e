//! The values of thresholds that are in force.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strum::EnumCount;

use super::Threshold;

/// A value for every threshold. Files only contain the changed ones, so better defaults apply to old runs too.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "BTreeMap<String, f64>", try_from = "BTreeMap<String, f64>")]
pub struct Thresholds {
    values: [f64; Threshold::COUNT],
}

impl Default for Thresholds {
    fn default() -> Self {
        let mut values = [0.0; Threshold::COUNT];
        for threshold in Threshold::all() {
            values[threshold as usize] = threshold.facts().value;
        }
        Thresholds { values }
    }
}

impl Thresholds {
    /// The value in force.
    pub fn of(&self, threshold: Threshold) -> f64 {
        self.values[threshold as usize]
    }

    /// The same thresholds, with `value` for `threshold`.
    #[must_use]
    pub fn with(mut self, threshold: Threshold, value: f64) -> Self {
        self.values[threshold as usize] = value;
        self
    }

    /// The value in force, with its unit: `5 %`.
    pub fn text(&self, threshold: Threshold) -> String {
        threshold.text(self.of(threshold))
    }

    /// The thresholds whose value is not the default.
    pub fn changed(&self) -> impl Iterator<Item = Threshold> + '_ {
        Threshold::all().filter(|threshold| self.of(*threshold) != threshold.facts().value)
    }

    /// The changed thresholds, each with its value and default; `None` if there are none.
    pub fn changed_text(&self) -> Option<String> {
        let text = |threshold: Threshold| {
            let declared = threshold.text(threshold.facts().value);
            format!("{} {} (default {declared})", threshold.name(), self.text(threshold))
        };
        let texts: Vec<String> = self.changed().map(text).collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }

    /// Whether none is changed, so files can leave them out.
    pub fn are_default(&self) -> bool {
        self.changed().next().is_none()
    }

    /// The number of processors that others may keep busy on a host with `usable` of them.
    pub fn foreign_limit(&self, usable: u32) -> f64 {
        self.of(Threshold::ForeignCores).max(self.of(Threshold::ForeignShare) * f64::from(usable))
    }

    /// The limit of involuntary context switches per second for a run on a host with `usable` processors, if the other
    /// runs of its row have `baseline`. The floor is needed because a multiple of almost nothing is still almost
    /// nothing.
    pub fn switches_limit(&self, baseline: f64, usable: u32) -> f64 {
        let floor = self.of(Threshold::SwitchesFloor) * f64::from(usable.max(1));
        (self.of(Threshold::Switches) * baseline).max(floor)
    }
}

impl From<Thresholds> for BTreeMap<String, f64> {
    fn from(thresholds: Thresholds) -> Self {
        let named = |threshold: Threshold| (threshold.name().to_owned(), thresholds.of(threshold));
        thresholds.changed().map(named).collect()
    }
}

/// A saved threshold that this version does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no threshold `{0}`")]
pub struct UnknownThreshold(String);

impl TryFrom<BTreeMap<String, f64>> for Thresholds {
    type Error = UnknownThreshold;

    fn try_from(changed: BTreeMap<String, f64>) -> Result<Self, Self::Error> {
        changed.into_iter().try_fold(Thresholds::default(), |thresholds, (name, value)| {
            let threshold = Threshold::named(&name).ok_or(UnknownThreshold(name))?;
            Ok(thresholds.with(threshold, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_with_their_unit() {
        let text = |threshold: Threshold| Thresholds::default().text(threshold);
        assert_eq!(text(Threshold::HighVariation), "5 %");
        assert_eq!(text(Threshold::SwappedMib), "16 MiB");
        assert_eq!(text(Threshold::SlowFirst), "2 ×");
        assert_eq!(text(Threshold::ForeignCores), "0.2 processors");
        assert_eq!(Threshold::HighVariation.text(0.075), "7.5 %");
        assert_eq!(Threshold::Trend.text(0.07), "7 %", "not 7.000000000000001 %");
    }

    #[test]
    fn limits_that_grow_with_the_host_have_a_floor() {
        let thresholds = Thresholds::default();
        assert_eq!((thresholds.foreign_limit(2), thresholds.foreign_limit(64)), (0.2, 3.2));
        assert_eq!((thresholds.switches_limit(10.0, 2), thresholds.switches_limit(1e3, 2)), (200.0, 3e3));
    }

    #[test]
    fn files_hold_what_was_changed_and_nothing_else() {
        let changed = Thresholds::default().with(Threshold::HighVariation, 0.1);
        let json = serde_json::to_string(&changed).unwrap();
        assert_eq!(json, r#"{"high_variation":0.1}"#);
        assert_eq!(serde_json::from_str::<Thresholds>(&json).unwrap(), changed);
        assert_eq!(serde_json::from_str::<Thresholds>("{}").unwrap(), Thresholds::default());
        assert!(Thresholds::default().are_default() && !changed.are_default());
        assert_eq!(Thresholds::default().changed_text(), None);
        assert_eq!(changed.changed_text().unwrap(), "high_variation 10 % (default 5 %)");
        let unknown = serde_json::from_str::<Thresholds>(r#"{"patience":1}"#).unwrap_err().to_string();
        assert!(unknown.contains("no threshold `patience`"), "{unknown}");
    }
}
