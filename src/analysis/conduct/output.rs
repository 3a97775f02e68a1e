//! The lines of progress on standard output, and `iterations.csv`.

use serde_json::Value;

use super::{Attempted, Remark, Weight, remark};
use crate::clean::clean_text;
use crate::protocol::{
    BadIterations, ITERATIONS_HEADER, ITERATIONS_VARIABLE, Iterations, Measurement, Progress,
};
use crate::text::{nearest, with_causes};

/// How far the sum of the iterations may be from the window, as a share of it.
const OFF: f64 = 0.1;

/// The most characters of a line that a remark shows.
const SHOWN: usize = 100;

/// The remarks about lines of progress: those that only look like some, or that there are none.
pub(super) fn progress(attempted: &Attempted<'_>) -> Option<Remark> {
    let lines = || attempted.stdout.lines();
    if let Some(line) = lines().find(|line| is_broken(line)) {
        let shown: String = clean_text(line.trim()).chars().take(SHOWN).collect();
        return Some(remark(
            Weight::Wrong,
            [
                "stdout",
                &format!("the line `{shown}` looks like progress, but is none"),
                "print one of `{\"event\": \"preparing\"}`, `{\"event\": \"warmup\", \"done\": 3, \"of\": 5}` and \
                 `{\"event\": \"measure\", \"done\": 17, \"of\": 50}`, each in a line of its own",
                "the progress bar does not move",
            ],
        ));
    }
    let counts = lines().any(|line| matches!(Progress::parse(line), Some(Progress::Measure { .. })));
    (!counts).then(|| {
        remark(
            Weight::LeftOut,
            [
                "stdout",
                "no line of progress counts the measured iterations",
                "print `{\"event\": \"measure\", \"done\": 17, \"of\": 50}` now and then, and flush the output",
                "the progress bar does not move",
            ],
        )
    })
}

/// Whether `line` is an object whose `event` is one of ours or nearly so, and yet no progress. Other programs log
/// objects with an `event` too.
fn is_broken(line: &str) -> bool {
    if !line.trim_start().starts_with('{') || Progress::parse(line).is_some() {
        return false;
    }
    let event = serde_json::from_str::<Value>(line)
        .ok()
        .and_then(|object| object["event"].as_str().map(str::to_owned));
    event.is_some_and(|event| !nearest(&event, ["preparing", "warmup", "measure"]).is_empty())
}

/// The remark about the iterations `read` from their file, if there is one.
pub(super) fn iterations(
    read: Option<&Result<Iterations, BadIterations>>,
    measurement: &Measurement,
) -> Option<Remark> {
    let window = measurement.elapsed_s;
    let of_file =
        |weight, what: &str, change: &str, loss: &str| remark(weight, ["iterations.csv", what, change, loss]);
    let loss = "no trend, no period and no slow first iteration is seen";
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
            let is_off = (total - window).abs() > OFF * window;
            is_off.then(|| {
                of_file(
                    Weight::Wrong,
                    &format!("the seconds of all iterations in iterations.csv are {total:.3}, but the window is {window}"),
                    "take each iteration from the end of the one before it, in seconds, with nothing of the window in \
                     between",
                    "what is seen in single iterations is not true of the window",
                )
            })
        }
    }
}
