//! Shows the progress of a run on standard error: bars on a terminal, plain lines elsewhere, only errors if quiet.
//! [`Narrator`] decides what is said; this file only displays it.
#![expect(clippy::disallowed_methods, reason = "a display needs the clock")]

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::clean::printable;
use crate::event::{Event, Narrator, Observer, Saying, Weight};
use crate::plan::{Estimator, TimeLeft};

/// How a run is displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Bars that are redrawn, and a line per finished job above them.
    Bars,
    /// Lines only, each written once.
    Lines,
    /// Only errors.
    Quiet,
}

impl Style {
    /// Bars if standard error is a terminal, lines if not, only errors if `quiet`.
    pub(super) fn choose(quiet: bool) -> Style {
        match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Style::Quiet,
            (false, true) => Style::Bars,
            (false, false) => Style::Lines,
        }
    }
}

/// Shows a run on standard error. It ignores all errors, such as a closed terminal.
#[derive(Debug)]
pub(super) struct Display {
    narrator: Narrator,
    style: Style,
    bars: Option<Bars>,
}

impl Display {
    /// A display whose remaining times come from `estimator`, which learns from every finished job.
    pub(super) fn new(estimator: Estimator, style: Style) -> Display {
        let bars = (style == Style::Bars).then(Bars::new);
        Display { narrator: Narrator::new(estimator), style, bars }
    }

    fn say(&self, saying: &Saying) {
        let wanted = match self.style {
            Style::Bars => saying.weight != Weight::Step,
            Style::Lines => true,
            Style::Quiet => saying.weight == Weight::Error,
        };
        if !wanted {
            return;
        }
        let text = printable(&saying.text);
        match &self.bars {
            Some(bars) => bars.print(&text),
            // `eprintln!` would panic if nobody reads any more.
            None => drop(writeln!(std::io::stderr(), "{text}")),
        }
    }
}

impl Observer for Display {
    fn event(&mut self, event: &Event<'_>) {
        if let (Event::Finished(_), Some(bars)) = (event, &self.bars) {
            bars.clear();
        }
        if let Some(saying) = self.narrator.tell(event) {
            self.say(&saying);
        }
        if let Some(bars) = self.bars.as_mut().filter(|_| !matches!(event, Event::Finished(_))) {
            bars.update(&self.narrator, event);
        }
    }
}

/// The estimated end of the run, and the number of jobs without an estimate.
type SharedDeadline = Arc<Mutex<Option<(Instant, TimeLeft)>>>;

/// Two bars: one for all jobs, one for the running job.
#[derive(Debug)]
struct Bars {
    both: MultiProgress,
    overall: ProgressBar,
    current: ProgressBar,
    deadline: SharedDeadline,
}

impl Bars {
    fn new() -> Bars {
        // Four updates per second are enough for people and few enough not to disturb a measurement.
        let both = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(4));
        let deadline = SharedDeadline::default();
        let overall = both.add(ProgressBar::no_length().with_style(overall_style(deadline.clone())));
        let current = both.add(ProgressBar::no_length());
        Bars { both, overall, current, deadline }
    }

    fn print(&self, text: &str) {
        // If a write fails, nobody watches any more.
        let _ = self.both.println(text);
    }

    fn clear(&self) {
        self.current.finish_and_clear();
        self.overall.finish_and_clear();
    }

    fn update(&mut self, narrator: &Narrator, event: &Event<'_>) {
        let (past, all) = narrator.position();
        self.overall.set_length(all as u64);
        self.overall.set_position(past as u64);
        self.overall.set_message(narrator.tally());
        if matches!(
            event,
            Event::Began { .. } | Event::Started { .. } | Event::Ended { .. } | Event::Left { .. }
        ) {
            let left = narrator.time_left();
            let at = Instant::now() + Duration::try_from_secs_f64(left.seconds).unwrap_or_default();
            *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = Some((at, left));
        }
        self.show_current(narrator, event);
    }

    fn show_current(&self, narrator: &Narrator, event: &Event<'_>) {
        if matches!(
            event,
            Event::Started { .. }
                | Event::Waiting(_)
                | Event::CoolingDown(_)
                | Event::Gated { first: true, .. }
        ) {
            self.current.reset();
            self.current.enable_steady_tick(Duration::from_secs(1));
        }
        let Some(current) = narrator.current() else {
            self.current.disable_steady_tick();
            self.current.set_style(style("{msg}"));
            self.current.set_message("");
            return;
        };
        self.current.set_message(printable(&current.title).into_owned());
        self.current.set_prefix(current.phase.clone());
        match current.iterations {
            Some((done, of)) => {
                self.current.set_length(u64::from(of));
                self.current.set_position(u64::from(done));
                self.current.set_style(style("  {msg} · {prefix} {pos}/{len} {bar:20.cyan/dim} {elapsed}"));
            }
            None if current.phase.is_empty() => self.current.set_style(style("  {msg} · {elapsed}")),
            None => self.current.set_style(style("  {msg} · {prefix} · {elapsed}")),
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .expect("the templates of this module are well-formed")
        .progress_chars("━╸─")
}

fn overall_style(deadline: SharedDeadline) -> ProgressStyle {
    let left = move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
        let deadline = *deadline.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((at, left)) = deadline else { return };
        let seconds = at.saturating_duration_since(Instant::now()).as_secs_f64();
        // Writing to a string cannot fail, and the line is redrawn anyway.
        let _ = write!(out, "{}", TimeLeft { seconds, ..left });
    };
    style("{bar:30.green/dim} {pos}/{len} jobs{msg} · left: {left}").with_key("left", left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture;
    use crate::event::Summary;
    use crate::job::Job;
    use crate::plan::{Decided, Decision, NotDone};
    use crate::protocol::Progress;

    /// The bars are not visible here. The test only checks that no event panics.
    #[test]
    fn bars_take_every_event() {
        for style in [Style::Bars, Style::Quiet] {
            let mut display = Display::new(Estimator::default(), style);
            if let Some(bars) = &display.bars {
                bars.both.set_draw_target(ProgressDrawTarget::hidden());
            }
            let one = Job::new(fixture::key("cpu", "resnet18", 16, 1));
            let to_run = Decided { job: one.clone(), decision: Decision::Run(NotDone::NeverRan) };
            let good = fixture::record(one.key().clone(), 80.0, 0);
            for event in [
                Event::Began { jobs: std::slice::from_ref(&to_run) },
                Event::Started { job: &one, attempt: 1 },
                Event::Progress { job: &one, progress: Progress::Preparing },
                Event::Progress { job: &one, progress: Progress::Warmup { done: 1, of: 2 } },
                Event::Ended { job: &one, record: &good, retry: false },
                Event::Warning("the disk is nearly full"),
                Event::Finished(&Summary { done_before: 1, ..Summary::default() }),
            ] {
                display.event(&event);
            }
            assert_eq!(display.narrator.position(), (1, 1));
        }
    }
}
