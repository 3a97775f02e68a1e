//! `perf stat`: the events to count, and its counts.
//!
//! [`parse_perf`] turns the CSV of `perf stat -x,` into [`PerfCounters`], or into a [`PerfFailure`] with its remedy. An
//! event that the processor or the virtual machine does not support is recorded as not measured. That is not a failure
//! as long as another event was counted.

mod counters;
mod failure;
mod rows;
#[cfg(test)]
mod tests;

use self::counters::canonical;
use self::rows::{Row, parse_event, parse_rows};
use super::said::last_line;

pub use counters::{Count, PERF_EVENTS, PerfCounters, PerfEvent};
pub use failure::PerfFailure;

/// The first line of the table that `perf` prints for people, without `-x,`.
const TABLE_FOR_PEOPLE: &str = "Performance counter stats for";

/// Parses the counts of `perf stat`.
///
/// `report` is the file of `-o`; `stderr` is the output of `perf` and the program there. `requested` are the requested
/// events.
///
/// # Errors
/// [`PerfFailure`]: why no counts can be used. `perf` writes one line per requested event, counted or not, so a report
/// that lacks one was cut.
pub fn parse_perf(
    report: &str,
    stderr: &str,
    requested: &[impl AsRef<str>],
) -> Result<PerfCounters, PerfFailure> {
    // `perf` explains its failures on stderr, sometimes in the report.
    let failure = || PerfFailure::of_messages(stderr).or_else(|| PerfFailure::of_messages(report));
    let rows =
        if report.contains(TABLE_FOR_PEOPLE) { Err(PerfFailure::TableForPeople) } else { parse_rows(report) };
    let rows = match rows {
        Ok(rows) if rows.is_empty() => {
            return Err(failure().unwrap_or_else(|| PerfFailure::Empty(last_line(stderr))));
        }
        Ok(rows) => rows,
        Err(error) => return Err(failure().unwrap_or(error)),
    };
    let counters = PerfCounters { events: merge_threads(rows) };
    if let Some(missing) = missing(&counters, requested) {
        return Err(PerfFailure::Missing(missing));
    }
    if counters.events.iter().all(|event| event.count.value().is_none()) {
        return Err(failure().unwrap_or(PerfFailure::NothingCounted));
    }
    Ok(counters)
}

/// Merges the lines of all threads into one event.
fn merge_threads(rows: Vec<Row>) -> Vec<PerfEvent> {
    let mut events: Vec<PerfEvent> = Vec::new();
    for Row { mut event, thread, running_ns: _ } in rows {
        event.threads = thread.is_some().then_some(1);
        let is_same = |other: &&mut PerfEvent| {
            event.threads.is_some()
                && other.threads.is_some()
                && (&other.name, &other.pmu, &other.modifiers) == (&event.name, &event.pmu, &event.modifiers)
        };
        match events.iter_mut().find(is_same) {
            Some(sum) => add_thread(sum, &event),
            None => events.push(event),
        }
    }
    events
}

/// Adds the count of another thread. A thread without a count did not run on this type of core.
fn add_thread(sum: &mut PerfEvent, thread: &PerfEvent) {
    sum.threads = sum.threads.map(|threads| threads + 1);
    sum.count = match (sum.count, thread.count) {
        (Count::Counted { value, share }, Count::Counted { value: more, share: other }) => {
            Count::Counted { value: value + more, share: share.min(other) }
        }
        (counted @ Count::Counted { .. }, _) => counted,
        (_, of_thread) => of_thread,
    };
}

/// A requested event that has no line, or lacks one for a type of core that other events have.
fn missing(counters: &PerfCounters, requested: &[impl AsRef<str>]) -> Option<String> {
    let requested: Vec<&str> = requested.iter().map(AsRef::as_ref).collect();
    // For each line of the event: whether it is for one type of core.
    let lines = |name: &str| -> Vec<bool> {
        let name = parse_event(name).map_or(name.to_owned(), |event| canonical(&event.name).to_owned());
        let of_name = counters.events.iter().filter(|event| canonical(&event.name) == name);
        of_name.map(|event| event.pmu.is_some()).collect()
    };
    let of_core_types = |name: &str| lines(name).into_iter().filter(|is_one| *is_one).count();
    let core_types = requested.iter().map(|name| of_core_types(name)).max().unwrap_or(0);
    let is_missing = |name: &&&str| lines(name).is_empty() || (1..core_types).contains(&of_core_types(name));
    requested.iter().find(is_missing).map(|name| (*name).to_owned())
}
