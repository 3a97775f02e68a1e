//! Supervises a running process chain until it ends: by finishing, at its deadline, or because the run is stopped.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use chrono::Utc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use super::process::{Chain, Group, code_and_signal};
use super::telemetry::Recorder;
use crate::event::{Event, Observer, WorkerFate};
use crate::files::{AttemptDir, keep_within, tail};
use crate::host::probe_counters;
use crate::job::Job;
use crate::matrix::Limits;
use crate::protocol::Progress;
use crate::record::Ending;
use crate::stop::{Stop, StopSignals};
use crate::store::End;

/// Represents "never": tokio needs an instant, so this is far in the future.
pub(super) const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// The end of an attempt of this run that has just ended.
#[expect(clippy::disallowed_methods, reason = "an attempt records its end")]
pub(super) fn ended_now(ending: Ending, left_processes: bool) -> End {
    let (at, counters) = (Utc::now(), Some(probe_counters()));
    End { ending, at, clock_was_set: false, counters, adopted: false, left_processes }
}

/// Waits until `chain`, which runs `job`, has ended, and stops it if necessary.
pub(super) async fn supervise(
    job: &Job,
    chain: &mut Chain,
    limits: &Limits,
    attempt: &AttemptDir,
    recorder: &mut Recorder<'_>,
    signals: &mut StopSignals,
    observer: &mut dyn Observer,
) -> End {
    let mut progress = ProgressTail { path: attempt.stdout(), last: None };
    let start = Instant::now();
    let group = chain.group();
    let mut stopping = Stopping { ending: None, kill_at: start + NEVER, killed: false };
    let mut deadline = start + limits.timeout.min(NEVER);
    let mut tick = interval_at(start + Duration::from_secs(1), Duration::from_secs(1));
    // After the whole machine was suspended, one check is enough.
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let exit = loop {
        tokio::select! {
            biased;
            exit = chain.wait() => break exit,
            () = sleep_until(deadline), if stopping.ending.is_none() => {
                // This process might have been suspended while the chain ended in time. Its end is reported next.
                if chain.has_ended() {
                    deadline = start + NEVER;
                    continue;
                }
                let after_s = limits.timeout.as_secs_f64();
                stopping.gently(group, Ending::TimedOut { after_s }, limits.grace);
            }
            () = sleep_until(stopping.kill_at), if stopping.ending.is_some() && !stopping.killed => {
                stopping.now(group);
            }
            stop = signals.next() => {
                observer.event(&stopping_event(stop));
                match stop {
                    Stop::Gently(by) => stopping.gently(group, interrupted(by), limits.grace),
                    Stop::Now(_) => stopping.now(group),
                }
            }
            _ = tick.tick() => {
                bound_output(attempt, limits);
                stopping.check_stop_request(job, attempt, group, limits.grace, observer);
                warn_unrecorded(recorder.look(Some(group)), observer);
                if let Some(progress) = progress.look() {
                    observer.event(&Event::Progress { job, progress });
                }
            }
        }
    };
    // The window might have ended just now: its energy needs counters from both sides of its end.
    warn_unrecorded(recorder.look(Some(group)), observer);
    let left_processes = chain.sweep(&attempt.measurement()).await;
    ended_now(stopping.ending.unwrap_or_else(|| ended(exit)), left_processes)
}

/// Cuts the worker's output to the limit. Errors are ignored; then only the disk limits it.
pub(super) fn bound_output(attempt: &AttemptDir, limits: &Limits) {
    for path in [attempt.stdout(), attempt.stderr()] {
        let _ = keep_within(&path, limits.output);
    }
}

/// The end of a chain that was not stopped.
fn ended(exit: io::Result<ExitStatus>) -> Ending {
    match exit.map(code_and_signal) {
        Ok((code, signal)) => Ending::Ended { code, signal },
        // Its files contain more information than a failed wait.
        Err(_) => Ending::UNOBSERVED,
    }
}

/// Warns if the sensors' samples cannot be written. The job itself is not affected.
pub(super) fn warn_unrecorded(written: std::io::Result<()>, observer: &mut dyn Observer) {
    if let Err(error) = written {
        let text =
            format!("cannot write telemetry.csv: {error}; sensors are not recorded for the rest of this job");
        observer.event(&Event::Warning(&text));
    }
}

/// The event that reports `stop` while a worker of this run is running.
pub(super) fn stopping_event(stop: Stop) -> Event<'static> {
    match stop {
        Stop::Gently(by) => Event::Stopping { by, fate: WorkerFate::Asked },
        Stop::Now(by) => Event::Stopping { by, fate: WorkerFate::Killed },
    }
}

fn interrupted(by: &str) -> Ending {
    Ending::Interrupted { message: format!("orchestrate was stopped by {by}") }
}

/// The ending of a single worker that was stopped with `orchestrate stop`.
pub(super) fn stopped_on_request() -> Ending {
    Ending::Interrupted { message: "it was stopped with `orchestrate stop`".to_owned() }
}

/// The progress of stopping a chain: SIGINT to the group, grace, SIGKILL to the group.
struct Stopping {
    /// The reason for stopping it; `None` while it runs undisturbed.
    ending: Option<Ending>,
    kill_at: Instant,
    killed: bool,
}

impl Stopping {
    /// Starts to stop it. If there are several reasons, the first one counts.
    fn gently(&mut self, group: Group, why: Ending, grace: Duration) {
        if self.ending.is_none() {
            group.interrupt();
            self.ending = Some(why);
            self.kill_at = Instant::now() + grace.min(NEVER);
        }
    }

    /// Starts to stop it if `orchestrate stop` has requested the end of this worker.
    fn check_stop_request(
        &mut self,
        job: &Job,
        attempt: &AttemptDir,
        group: Group,
        grace: Duration,
        observer: &mut dyn Observer,
    ) {
        if self.ending.is_none() && attempt.stop().exists() {
            let text = format!("`orchestrate stop` asked the worker of {} to end", job.label());
            observer.event(&Event::Note(&text));
            self.gently(group, stopped_on_request(), grace);
        }
    }

    fn now(&mut self, group: Group) {
        group.kill();
        self.killed = true;
    }
}

/// Reads the last line of progress from a growing `stdout.log`.
struct ProgressTail {
    path: PathBuf,
    last: Option<Progress>,
}

impl ProgressTail {
    /// The progress that the worker has reported since the last check, if any.
    fn look(&mut self) -> Option<Progress> {
        let progress = last_progress(&tail(&self.path, PROGRESS_LIMIT)?);
        if progress.is_none() || progress == self.last {
            return None;
        }
        self.last = progress;
        progress
    }
}

/// The last progress that the worker of `attempt` has reported.
pub fn load_progress(attempt: &AttemptDir) -> Option<Progress> {
    last_progress(&tail(&attempt.stdout(), PROGRESS_LIMIT)?)
}

/// How much of the output is searched for the last progress.
const PROGRESS_LIMIT: u64 = 16_384;

/// The last complete line of `text` that reports progress.
fn last_progress(text: &str) -> Option<Progress> {
    let (whole, _) = text.rsplit_once('\n')?;
    whole.lines().rev().find_map(Progress::parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_complete_line_of_progress_counts() {
        let text = "{\"event\":\"preparing\"}\n{\"event\":\"measure\",\"done\":1,\"of\":9}\nloss 6.9\n";
        let torn = format!("{text}{}", "{\"event\":\"measure\",\"done\":2,\"of\":9}");
        for text in [text.to_owned(), torn.clone()] {
            assert_eq!(last_progress(&text), Some(Progress::Measure { done: 1, of: 9 }));
        }
        assert_eq!(last_progress(&format!("{torn}\n")), Some(Progress::Measure { done: 2, of: 9 }));
        assert_eq!(last_progress("no end of line"), None);
    }
}
