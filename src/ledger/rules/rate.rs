//! Samples per second are samples ÷ seconds.

use super::words::{computed, percent, printed, small_counts};
use crate::ledger::entry::Entry;
use crate::ledger::field::Field;
use crate::ledger::number::Number;
use crate::ledger::objection::Objection;
use crate::ledger::rule::{REPRODUCED, Rule, SAME};
use crate::ledger::sheet::Sheet;

/// The lines whose rate is not their samples ÷ their seconds.
pub(super) fn objections(sheet: &Sheet<'_>) -> Vec<Objection> {
    sheet.entries.iter().filter_map(|entry| of_window(entry).or_else(|| of_iteration(entry))).collect()
}

/// A rate computed from samples and seconds.
struct Made {
    samples: f64,
    /// The number of samples as arithmetic.
    samples_text: String,
    seconds: Number,
}

impl Made {
    fn rate(&self) -> f64 {
        self.samples / self.seconds.value
    }

    fn text(&self) -> String {
        format!("{} ÷ {} s are {}", self.samples_text, printed(self.seconds, 1.0), computed(self.rate()))
    }
}

/// A line with a window: samples ÷ its seconds.
fn of_window(entry: &Entry) -> Option<Objection> {
    let seconds = entry.positive(Field::Elapsed)?;
    let by_iterations = || {
        let (iterations, each) = (entry.count(Field::Iterations)? as f64, entry.samples_per_iteration()?);
        Some((iterations * each, format!("{iterations} iterations × {each} samples")))
    };
    let counted = entry.count(Field::Samples).map(|samples| (samples as f64, format!("{samples} samples")));
    let (samples, samples_text) = counted.or_else(by_iterations)?;
    objection(entry, &Made { samples, samples_text, seconds }, 0.0)
}

/// A line with the seconds of an iteration: the samples of one ÷ its seconds.
fn of_iteration(entry: &Entry) -> Option<Objection> {
    let (seconds, each) = (entry.positive(Field::IterationSeconds)?, entry.samples_per_iteration()?);
    objection(
        entry,
        &Made { samples: each, samples_text: format!("{each} samples"), seconds },
        between_runs(entry),
    )
}

/// The most by which the mean of several runs' rates can differ from the rate of their mean seconds, as a share.
fn between_runs(entry: &Entry) -> f64 {
    let is_of_several = entry.count(Field::Runs).is_some_and(|runs| runs > 1);
    let variation = entry.number(Field::ThroughputSd).zip(entry.positive(Field::Throughput));
    variation.filter(|_| is_of_several).map_or(0.0, |(sd, mean)| (sd.value / mean.value).powi(2))
}

fn objection(entry: &Entry, made: &Made, allowed: f64) -> Option<Objection> {
    let throughput = entry.positive(Field::Throughput)?;
    let ratio = throughput.value / made.rate();
    let (least, most) = Number::exactly(made.samples).over(made.seconds);
    let tolerated = SAME + allowed;
    if throughput.low() <= most * (1.0 + tolerated) && throughput.high() >= least * (1.0 - tolerated) {
        return None;
    }
    let rounding = throughput.rounding() + made.seconds.rounding();
    let sentence =
        format!("{} samples/s, but {}: {} of that", printed(throughput, 1.0), made.text(), percent(ratio));
    let (rule, cause) = cause(ratio, rounding);
    Some(Objection::new(rule, [entry], sentence, cause))
}

fn cause(ratio: f64, rounding: f64) -> (Rule, String) {
    if let Some((p, q)) = small_counts(ratio, REPRODUCED + rounding) {
        let cause = format!(
            "iterations or samples were miscounted: {ratio:.4} is {p} ÷ {q}, as if {} had been counted as {}",
            10 * q,
            10 * p
        );
        return (Rule::IterationCount, cause);
    }
    if ratio > 1.0 {
        let cause = "the rates of the iterations were averaged, which is never less, or the seconds contain more than \
                     the window";
        return (Rule::MeanOfRates, cause.to_owned());
    }
    (Rule::Rate, "the rate and the seconds are of different windows, or of another batch".to_owned())
}
