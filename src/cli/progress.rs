//! Shows the progress of a run on standard error: bars on a terminal, plain lines elsewhere, only errors if quiet.
//! [`Narrator`] writes the lines; this file only displays them.
#![expect(clippy::disallowed_methods, reason = "`TERM` is read to find the abilities of the terminal")]

use std::io::{IsTerminal, Write};

use super::bars::Bars;
use super::output::{narrated, stderr_width};
use super::remarks::Remarks;
use crate::event::{Event, NarratedLine, Narrator, Observer, Weight};
use crate::plan::Estimator;

/// The style of the display.
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
    /// Bars if standard error is a terminal with cursor control, otherwise lines; only errors if `quiet`.
    pub(super) fn choose(quiet: bool) -> Style {
        let has_control = std::env::var_os("TERM").is_some_and(|kind| !kind.is_empty() && kind != "dumb");
        match (quiet, std::io::stderr().is_terminal() && has_control) {
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
    remarks: Option<Remarks>,
}

impl Display {
    /// A display with remaining times from `estimator`, which is updated by every finished job.
    pub(super) fn new(estimator: Estimator, style: Style) -> Display {
        let bars = (style == Style::Bars).then(|| Bars::on(std::io::stderr()));
        Display { narrator: Narrator::new(estimator), style, bars, remarks: None }
    }

    /// The same, with remarks on finished jobs that are left out of the statistics.
    pub(super) fn with_remarks(self, remarks: Remarks) -> Display {
        Display { remarks: Some(remarks), ..self }
    }

    fn say(&self, line: &NarratedLine) {
        let wanted = match self.style {
            Style::Bars => line.weight != Weight::Step,
            Style::Lines => true,
            Style::Quiet => line.weight == Weight::Error,
        };
        if !wanted {
            return;
        }
        let text = narrated(&line.text, stderr_width());
        match &self.bars {
            Some(bars) => bars.print(&text),
            // `eprintln!` would panic if standard error is closed. A single write keeps the lines of two runs apart.
            None => drop(std::io::stderr().write_all(format!("{text}\n").as_bytes())),
        }
    }
}

impl Observer for Display {
    fn event(&mut self, event: &Event<'_>) {
        if matches!(event, Event::Finished(_)) {
            self.bars = None;
        }
        if let Some(mut line) = self.narrator.narrate(event) {
            let advice = match (event, &mut self.remarks) {
                (Event::Ended { job, record, .. }, Some(remarks)) => remarks.add(&mut line, job, record),
                _ => None,
            };
            self.say(&line);
            advice.iter().for_each(|advice| self.say(advice));
        }
        if let Some(bars) = &self.bars {
            bars.update(&self.narrator, event);
        }
    }
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
            display.bars = (style == Style::Bars).then(|| Bars::on(std::io::sink()));
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
