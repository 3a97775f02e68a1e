//! Metrics that a worker defines. orchestrate only tabulates them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A number that the worker measured in the window and that orchestrate does not interpret: tokens, accuracy, …
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OwnMetric {
    /// The number: over the whole window if it is counted per second. `null` if it is not known.
    pub value: Option<f64>,
    /// The unit of the number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = LONGEST_WORD))]
    pub unit: Option<String>,
    /// Whether the number is a count, whose rate is the count ÷ the seconds of the window.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub per_second: bool,
}

/// The most metrics that a worker can report: each has separate columns.
pub(super) const MOST_METRICS: usize = 64;

/// The most characters of a name or unit.
pub(super) const LONGEST_WORD: usize = 40;

/// The first mistake in `metrics`, if there is one. Names are lower-case words, because they name columns.
pub(super) fn wrong_metrics(metrics: &BTreeMap<String, OwnMetric>) -> Option<String> {
    if metrics.len() > MOST_METRICS {
        return Some(format!("metrics has {} entries: expected at most {MOST_METRICS}", metrics.len()));
    }
    let is_name = |name: &str| {
        let mut chars = name.chars();
        let begins = chars.next().is_some_and(|char| char.is_ascii_lowercase());
        let goes_on = chars.all(|char| matches!(char, 'a'..='z' | '0'..='9' | '_'));
        begins && goes_on && name.len() <= LONGEST_WORD
    };
    metrics.iter().find_map(|(name, metric)| {
        if !is_name(name) {
            return Some(format!(
                "metrics: `{name}` is not a name: expected at most {LONGEST_WORD} lower-case ASCII letters, digits and \
                 `_`, beginning with a letter"
            ));
        }
        let unit = metric.unit.as_ref().filter(|unit| unit.chars().count() > LONGEST_WORD)?;
        Some(format!("metrics.{name}.unit is `{unit}`: expected at most {LONGEST_WORD} characters"))
    })
}

impl OwnMetric {
    /// The number to compare: the rate over a window of `elapsed_s` seconds if it is counted per second. `None` if the
    /// worker does not know it.
    pub fn compared(&self, elapsed_s: f64) -> Option<f64> {
        self.value.map(|value| if self.per_second { value / elapsed_s } else { value })
    }

    /// The unit of [`OwnMetric::compared`] for the metric called `name`: `tokens/s`. `None` if it is not declared.
    pub fn compared_unit<'a>(&'a self, name: &'a str) -> Option<Cow<'a, str>> {
        let unit = self.unit.as_deref();
        if self.per_second {
            Some(Cow::Owned(format!("{}/s", unit.unwrap_or(name))))
        } else {
            unit.map(Cow::Borrowed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(text: &str) -> OwnMetric {
        serde_json::from_str(text).expect("a metric")
    }

    #[test]
    fn a_count_becomes_a_rate_and_any_other_number_stays() {
        let tokens = metric(r#"{ "value": 1000, "per_second": true }"#);
        assert_eq!(
            (tokens.compared(4.0), tokens.compared_unit("tokens").as_deref()),
            (Some(250.0), Some("tokens/s"))
        );
        let read = metric(r#"{ "value": 8, "unit": "GB", "per_second": true }"#);
        assert_eq!((read.compared(4.0), read.compared_unit("read").as_deref()), (Some(2.0), Some("GB/s")));
        let accuracy = metric(r#"{ "value": 0.5 }"#);
        assert_eq!((accuracy.compared(4.0), accuracy.compared_unit("accuracy")), (Some(0.5), None));
        assert_eq!(metric(r#"{ "value": null, "per_second": true }"#).compared(4.0), None);
    }

    #[test]
    fn invalid_names_units_and_counts_are_refused() {
        let metrics = |name: &str, unit: Option<String>| {
            [(name.to_owned(), OwnMetric { value: Some(1.0), unit, per_second: false })].into()
        };
        assert_eq!(wrong_metrics(&metrics("tokens_2", Some("é".repeat(LONGEST_WORD)))), None);
        for name in ["", "Tokens", "a b", "a-b", "2a", "_a", &"a".repeat(LONGEST_WORD + 1)] {
            let error = wrong_metrics(&metrics(name, None)).expect(name);
            assert!(error.starts_with(&format!("metrics: `{name}` is not a name")), "{error}");
        }
        let error = wrong_metrics(&metrics("a", Some("é".repeat(LONGEST_WORD + 1)))).expect("too long");
        assert!(error.starts_with("metrics.a.unit is"), "{error}");
        let many = (0..=MOST_METRICS).map(|number| (format!("m{number}"), metric(r#"{ "value": 1 }"#)));
        let error = wrong_metrics(&many.collect()).expect("too many");
        assert_eq!(error, "metrics has 65 entries: expected at most 64");
    }
}
