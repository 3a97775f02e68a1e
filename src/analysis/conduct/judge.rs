//! All remarks about one attempt, in order of weight, and their tally.

use std::sync::Arc;

use super::{Attempted, Remark, Texts, Weight, absent, asked, ended, file, numbers, output, remark};
use crate::analysis::idle::Idle;
use crate::analysis::marks::{Effect, Mark, MarkName, Thresholds, marks};
use crate::analysis::{Cell, Span};
use crate::job::Job;
use crate::protocol::Iterations;
use crate::record::{Outcome, Record};
use crate::text::count_text;

/// The remarks about an attempt, the heaviest first.
pub fn remarks(attempted: &Attempted<'_>) -> Vec<Remark> {
    let mut found = ended::remarks(attempted);
    found.extend(file::remarks(attempted));
    found.extend(output::progress(attempted));
    if let Some(measurement) = &attempted.record.measurement {
        let iterations = attempted.iterations.map(|text| Iterations::parse(text, measurement));
        found.extend(asked::remarks(attempted, measurement));
        found.extend(numbers::remarks(attempted.record, measurement));
        found.extend(output::iterations(iterations.as_ref(), measurement));
        found.extend(marks_of_worker(attempted, iterations.and_then(Result::ok)));
        found.extend(absent::remarks(&attempted.record.key, measurement));
    }
    found.sort_by_key(|remark| remark.weight);
    found
}

/// The number of remarks of each weight, as a sentence: `1 thing is wrong, 2 things are left out`.
pub fn tally_text(remarks: &[Remark]) -> String {
    let number = |weight| remarks.iter().filter(|remark| remark.weight == weight).count();
    let of = |weight: Weight| {
        let number = number(weight);
        let are = if number == 1 { "is" } else { "are" };
        (number > 0).then(|| format!("{} {are} {}", count_text(number, "thing"), weight.as_str()))
    };
    let found: Vec<String> =
        [Weight::Wrong, Weight::Doubtful, Weight::LeftOut].into_iter().filter_map(of).collect();
    match (number(Weight::Wrong), found.is_empty()) {
        (0, true) => "nothing is wrong, and nothing is left out".to_owned(),
        (0, false) => format!("nothing is wrong; {}", found.join(", ")),
        _ => found.join(", "),
    }
}

/// The remarks about marks that the worker causes. Other marks are about the current state of the machine, or need a
/// longer window than that of a small run.
fn marks_of_worker(attempted: &Attempted<'_>, iterations: Option<Iterations>) -> Vec<Remark> {
    let record = attempted.record;
    let cell = Cell {
        job: Job::new(record.key.clone()),
        peaks: None,
        usd_per_hour: None,
        // Only successful runs have marks.
        record: Ok(Arc::new(Record { outcome: Outcome::Succeeded, ..record.clone() })),
        iterations,
    };
    let found =
        marks(&[&cell], &[Span::of(record)], &Idle::default(), &Thresholds::default()).into_iter().flatten();
    let of_worker = |mark: &Mark| {
        let by_worker = [MarkName::Unsynchronised, MarkName::Diverged, MarkName::Oversubscribed];
        by_worker.contains(&MarkName::from(mark))
    };
    found.filter(of_worker).map(|mark| of_mark(&mark)).collect()
}

fn of_mark(mark: &Mark) -> Remark {
    let declared = MarkName::from(mark).declaration();
    let sentence = |text: &str| lower(text.trim_end_matches('.'));
    let weight = match declared.effect {
        Effect::Kept(_) => Weight::Doubtful,
        Effect::LeftOut(_) | Effect::Voids(_) => Weight::Wrong,
    };
    let text = mark.to_string();
    let what = text.strip_prefix(mark.name()).map_or(text.as_str(), |rest| rest.trim_start_matches(": "));
    let loss = format!("the run is marked `{}`: {}", mark.name(), sentence(declared.meaning));
    remark(weight, Texts { about: mark.name(), what, change: &sentence(declared.remedy), loss: &loss })
}

/// `text` with its first letter in lower case.
fn lower(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
