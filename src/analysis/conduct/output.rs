//! Remarks about progress lines on standard output, and about `iterations.csv`.

use serde_json::Value;

use super::{Attempted, Remark, Texts, Weight, remark};
use crate::clean::clean_text;
use crate::protocol::{
    BadIterations, ITERATIONS_HEADER, ITERATIONS_VARIABLE, Iterations, Measurement, Progress,
};
use crate::text::{nearest, with_causes};

/// The largest difference between the sum of the iterations and the window, as a share of the window.
const LARGEST_DIFFERENCE: f64 = 0.1;

/// The most characters of a line that a remark shows.
const SHOWN: usize = 100;

/// The remark about progress lines: one is malformed, or no line counts measured iterations.
pub(super) fn progress(attempted: &Attempted<'_>) -> Option<Remark> {
    let lines = || attempted.stdout.lines();
    if let Some(line) = lines().find(|line| is_broken(line)) {
        let shown: String = clean_text(line.trim()).chars().take(SHOWN).collect();
        return Some(remark(
            Weight::Wrong,
            Texts {
                about: "stdout",
                what: &format!("the line `{shown}` looks like a progress line, but is not valid"),
                change: "print one of `{\"event\": \"preparing\"}`, `{\"event\": \"warmup\", \"done\": 3, \"of\": 5}` and \
                 `{\"event\": \"measure\", \"done\": 17, \"of\": 50}`, each on a separate line",
                loss: "the progress bar does not move",
            },
        ));
    }
    let counts = lines().any(|line| matches!(Progress::parse(line), Some(Progress::Measure { .. })));
    (!counts).then(|| {
        remark(Weight::LeftOut, Texts { about: "stdout", what: "no progress line counts the measured iterations", change: "print `{\"event\": \"measure\", \"done\": 17, \"of\": 50}` now and then, and flush the output", loss: "the progress bar does not move" })
    })
}

/// Whether `line` is a JSON object whose `event` resembles that of a progress line, but is not a valid progress line.
/// Other events are ignored, because other programs log objects with an `event` too.
fn is_broken(line: &str) -> bool {
    if !line.trim_start().starts_with('{') || Progress::parse(line).is_some() {
        return false;
    }
    let event = serde_json::from_str::<Value>(line)
        .ok()
        .and_then(|object| object["event"].as_str().map(str::to_owned));
    event.is_some_and(|event| !nearest(&event, ["preparing", "warmup", "measure"]).is_empty())
}

/// The remark about `iterations.csv`: `read` is its content, `None` without the file.
pub(super) fn iterations(
    read: Option<&Result<Iterations, BadIterations>>,
    measurement: &Measurement,
) -> Option<Remark> {
    let window = measurement.elapsed_s;
    let of_file = |weight, what: &str, change: &str, loss: &str| {
        remark(weight, Texts { about: "iterations.csv", what, change, loss })
    };
    let loss = "trends, periods and a slow first iteration are not detected";
    match read {
        None => Some(of_file(
            Weight::LeftOut,
            &format!("the worker wrote no iterations.csv to the path in ${ITERATIONS_VARIABLE}"),
            &format!(
                "write a line for each measured iteration below the header {}",
                ITERATIONS_HEADER.join(",")
            ),
            loss,
        )),
        Some(Err(error)) => Some(of_file(
            Weight::Wrong,
            &with_causes(error),
            "write every measured iteration, all with the same clock, and end with a newline",
            &format!("the file is not used: {loss}"),
        )),
        Some(Ok(iterations)) => {
            let total = iterations.total_s();
            let is_off = (total - window).abs() > LARGEST_DIFFERENCE * window;
            is_off.then(|| {
                of_file(
                    Weight::Wrong,
                    &format!("the seconds of all iterations in iterations.csv are {total:.3}, but the window is {window}"),
                    "measure each iteration in seconds from the end of the previous one, without gaps",
                    "statistics of single iterations do not apply to the window",
                )
            })
        }
    }
}
