//! Remarks about impossible numbers in a measurement, such as a wait for data that is longer than the window.

use super::{Remark, Texts, Weight, remark};
use crate::protocol::Measurement;
use crate::record::{Outcome, Record};

/// The largest difference between two clocks about the life of a process, in seconds.
const TOLERANCE_S: f64 = 1.0;

/// The most seconds of a window that `time` can miss, because it counts hundredths of a second.
const ROUNDED_S: f64 = 0.05;

/// The remarks about impossible numbers.
pub(super) fn remarks(record: &Record, measurement: &Measurement) -> Vec<Remark> {
    let long = too_long(record, measurement).into_iter().collect();
    [
        long,
        durations(record, measurement),
        window(record, measurement).into_iter().collect(),
        ranks(measurement),
    ]
    .concat()
}

/// Durations that exceed the window or the life of the process.
fn durations(record: &Record, measurement: &Measurement) -> Vec<Remark> {
    let details = &measurement.details;
    let (window, life) = (measurement.elapsed_s, record.wall_s());
    let of_window = format!("the window of {window} s");
    let of_life = format!("the {life:.2} s that the process lived");
    let wholes = [
        ("details.data_wait_s", details.data_wait_s, window * 1.01, &of_window),
        ("details.copy_s", details.copy_s, window * 1.01, &of_window),
        ("details.first_step_s", details.first_step_s, life + TOLERANCE_S, &of_life),
    ];
    let is_wrong = |seconds: f64, limit: f64| !(0.0..=limit).contains(&seconds);
    let wrong = wholes.into_iter().filter_map(|(name, seconds, limit, whole)| {
        let seconds = seconds.filter(|seconds| is_wrong(*seconds, limit))?;
        let what = format!("`{name}` is {seconds}: expected seconds within {whole}");
        Some(impossible(name, &what, "report seconds, by a monotonic clock"))
    });
    wrong.collect()
}

/// A window that is longer than the life of the process by up to a second. With a larger excess the job fails.
fn too_long(record: &Record, measurement: &Measurement) -> Option<Remark> {
    let (window, life) = (measurement.elapsed_s, record.wall_s());
    let is_doubtful = !matches!(record.outcome, Outcome::BadOutput { .. }) && window > life + ROUNDED_S;
    is_doubtful.then(|| {
        let what = format!("`elapsed_s` is {window}, but the process lived for only {life:.3} s");
        let change = "report the window in seconds by a monotonic clock, not in milliseconds";
        remark(
            Weight::Doubtful,
            Texts {
                about: "elapsed_s",
                what: &what,
                change,
                loss: "the throughput is wrong; with an excess above 1 s, the job fails",
            },
        )
    })
}

/// A window outside the life of the process.
fn window(record: &Record, measurement: &Measurement) -> Option<Remark> {
    let (from, to) = measurement.window()?;
    let seconds = |time: chrono::DateTime<chrono::Utc>| time.timestamp_millis() as f64 / 1e3;
    let (started, ended) = (seconds(record.started_at), seconds(record.ended_at));
    if from >= started - TOLERANCE_S && to <= ended + TOLERANCE_S {
        return None;
    }
    let what = format!(
        "`details.window_started_at` is {from}: the window is not within the life of the process, from {started:.1} \
         to {ended:.1}"
    );
    let change =
        "report the seconds since 1970 at the window's start: in Python `time.time()`, not a monotonic clock";
    Some(remark(
        Weight::Wrong,
        Texts {
            about: "details.window_started_at",
            what: &what,
            change,
            loss: "sensors and energy are missing, or belong to another time",
        },
    ))
}

/// Ranks whose samples do not add up to the total, and a slowest rank that is not listed.
fn ranks(measurement: &Measurement) -> Vec<Remark> {
    let details = &measurement.details;
    let mut found = Vec::new();
    let samples: Option<u64> = details.ranks.iter().map(|rank| rank.samples).sum();
    if let Some(sum) = samples.filter(|sum| !details.ranks.is_empty() && *sum != measurement.samples) {
        let what = format!("the samples of all ranks are {sum}, but `samples` is {}", measurement.samples);
        found.push(impossible("details.ranks", &what, "report the sum of the samples as `samples`"));
    }
    let is_listed = |number: &u32| details.ranks.iter().any(|rank| rank.rank == *number);
    if let Some(number) = details.slowest_rank.filter(|number| !is_listed(number)) {
        let what = format!("`details.slowest_rank` is {number}, which is not in `details.ranks`");
        found.push(impossible("details.slowest_rank", &what, "name the `rank` of one of them"));
    }
    found
}

fn impossible(about: &str, what: &str, change: &str) -> Remark {
    remark(
        Weight::Wrong,
        Texts { about, what, change, loss: "a table of the report contains a wrong number" },
    )
}
