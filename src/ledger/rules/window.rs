//! Lines of single iterations: their rate as a window, and the time that the window left out.

use std::collections::BTreeMap;

use super::words::{computed, percent, printed};
use crate::ledger::entry::{Config, Entry};
use crate::ledger::field::{Field, plain};
use crate::ledger::objection::Objection;
use crate::ledger::rule::{LEFT_OUT, REPRODUCED, Rule, SAME};
use crate::ledger::sheet::Sheet;
use crate::stats::mean;

/// The iterations of one run.
struct Window<'a> {
    /// The first of them.
    first: &'a Entry,
    number: usize,
    /// Samples of one iteration.
    each: f64,
    /// The sum of their seconds.
    seconds: f64,
    /// The mean of their rates.
    mean_of_rates: f64,
    /// Seconds from the first time stamp to the last, and the sum of the iterations in between.
    span: Option<(f64, f64)>,
}

impl Window<'_> {
    /// Samples ÷ seconds.
    fn rate(&self) -> f64 {
        self.number as f64 * self.each / self.seconds
    }

    fn rate_text(&self) -> String {
        format!(
            "{} × {} samples ÷ {} s are {}",
            self.number,
            self.each,
            computed(self.seconds),
            computed(self.rate())
        )
    }

    /// Whether the mean of the rates differs from the rate.
    fn is_uneven(&self) -> bool {
        self.mean_of_rates / self.rate() - 1.0 > SAME
    }
}

/// The fewest iterations that make a window.
const ITERATIONS_NEEDED: usize = 2;

/// Objections to rates, the stated ones and those of the iterations of each run.
pub(super) fn objections(sheet: &Sheet<'_>) -> Vec<Objection> {
    let windows = windows(sheet);
    let mut found = Vec::new();
    for window in &windows {
        found.extend(window.is_uneven().then(|| uneven(window)));
        found.extend(left_out(window));
    }
    let summaries = sheet.entries.iter().filter(|entry| entry.number(Field::Iteration).is_none());
    found.extend(summaries.filter_map(|entry| windows.iter().find_map(|window| averaged(entry, window))));
    found
}

fn windows<'a>(sheet: &Sheet<'a>) -> Vec<Window<'a>> {
    let mut runs: BTreeMap<(&str, Config, Option<&str>), Vec<&'a Entry>> = BTreeMap::new();
    for entry in sheet.entries.iter().filter(|entry| entry.number(Field::Iteration).is_some()) {
        let run = (entry.file.as_str(), entry.config(), entry.text(Field::Label));
        runs.entry(run).or_default().push(entry);
    }
    runs.into_values().filter_map(|lines| window(&lines)).collect()
}

fn window<'a>(lines: &[&'a Entry]) -> Option<Window<'a>> {
    let timed: Vec<(&Entry, f64)> = lines
        .iter()
        .filter_map(|line| Some((*line, line.positive(Field::IterationSeconds)?.value)))
        .collect();
    let (first, _) = timed.first().copied().filter(|_| timed.len() >= ITERATIONS_NEEDED)?;
    let each = first.samples_per_iteration()?;
    let rates: Vec<f64> = timed.iter().map(|(_, seconds)| each / seconds).collect();
    let stamps: Vec<f64> =
        timed.iter().filter_map(|(line, _)| line.times.get(&Field::EndedAt)).map(|it| it.seconds).collect();
    let is_stamped = stamps.len() == timed.len() && stamps.is_sorted();
    let between: f64 = timed.iter().skip(1).map(|(_, seconds)| seconds).sum();
    Some(Window {
        first: lines.iter().find(|line| std::ptr::eq(**line, first)).copied()?,
        number: timed.len(),
        each,
        seconds: timed.iter().map(|(_, seconds)| seconds).sum(),
        mean_of_rates: mean(&rates).ok()?,
        span: is_stamped.then(|| (stamps[stamps.len() - 1] - stamps[0], between)),
    })
}

fn uneven(window: &Window<'_>) -> Objection {
    let sentence = format!(
        "the mean of {} rates is {} samples/s, but {}: {} less",
        window.number,
        computed(window.mean_of_rates),
        window.rate_text(),
        percent(1.0 - window.rate() / window.mean_of_rates),
    );
    let cause = "iterations take different times, as they do if the device is not synchronised; publish samples ÷ seconds";
    Objection::new(Rule::UnevenRates, [window.first], sentence, cause)
}

fn left_out(window: &Window<'_>) -> Option<Objection> {
    let (span, between) = window.span?;
    (span > (1.0 + LEFT_OUT) * between).then(|| {
        let sentence = format!(
            "{} iterations end {} s after the first one, but take {} s together: {} of the time is left out",
            window.number - 1,
            computed(span),
            computed(between),
            percent(1.0 - between / span),
        );
        let cause = "the clock was stopped between iterations, for example while data was loaded";
        Objection::new(Rule::LeftOut, [window.first], sentence, cause)
    })
}

/// Whether a line states the mean of the rates of `window` as its rate.
fn averaged(entry: &Entry, window: &Window<'_>) -> Option<Objection> {
    let throughput = entry.positive(Field::Throughput)?;
    let model = |entry: &Entry| entry.text(Field::Model).map(plain);
    let is_same = entry.count(Field::Batch) == window.first.count(Field::Batch)
        && model(entry) == model(window.first)
        && model(entry).is_some();
    let reproduces = |rate: f64| (throughput.value / rate - 1.0).abs() <= REPRODUCED + throughput.rounding();
    (is_same && window.is_uneven() && reproduces(window.mean_of_rates) && !reproduces(window.rate())).then(
        || {
            let sentence = format!(
                "{} samples/s are the mean of the rates of {} iterations, {}, but {}",
                printed(throughput, 1.0),
                window.number,
                computed(window.mean_of_rates),
                window.rate_text(),
            );
            let cause = "the rates of the iterations were averaged, which favours the fast ones";
            Objection::new(Rule::MeanOfRates, [entry, window.first], sentence, cause)
        },
    )
}
