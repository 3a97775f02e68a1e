//! `orchestrate status`: the progress of a plan and its results so far.
//!
//! [`overview`] computes the content, [`render`] the text; both are pure. [`look`] reads the store, and
//! [`screen`] is `--watch` on a terminal.

mod args;
mod fold;
mod look;
mod overview;
mod render;
mod screen;

use std::path::Path;
use std::time::Duration;

use super::drift::{file_drift, renamed_hints};
use super::exit::leave;
use super::find::{find_plan, is_file, while_reading};
use super::global::store_flag;
use super::misread::misread_hints;
use super::output::{Layout, hint, is_reader_gone, print, print_json};
use super::stale::{Here, stale_hint};
use super::words::failure_hint;
use super::{Exit, Failure, Global};
use crate::files::JobDir;
use crate::job::State;
use crate::plan::quote;
use crate::store::Store;

pub(super) use args::StatusArgs;
pub(super) use look::Seen;
use look::{Look, Sighting};
use overview::Overview;
pub(super) use overview::{state_of, time_left};
pub(super) use screen::sensors;

/// The interval of `--watch`.
const WATCH_PERIOD: Duration = Duration::from_secs(2);

/// Prints the progress of the plan. Runs no job and changes no result.
pub(super) fn run(args: StatusArgs, global: &Global) -> Result<Exit, Failure> {
    let store = Store::at(&global.store).map_err(Failure::store)?;
    let find = || find_plan(&store, args.plan.as_deref());
    let (plan, here, read) = match args.watch {
        false => {
            let ((plan, here), inventory) = while_reading(&store, || (find(), Here::probe()));
            (plan?, here, Some(inventory))
        }
        // Every reading needs a glimpse that was taken before it.
        true => (find()?, Here::probe(), None),
    };
    let selection = args.select.apply(&plan)?;
    let (is_saved, drift) = match is_file(args.plan.as_deref()) {
        false => (true, file_drift(&plan, Path::new(&plan.matrix.path))),
        true => {
            let saved = store.load_plan(&plan.matrix.name).ok();
            let drift = saved.as_ref().and_then(|saved| file_drift(saved, Path::new(&plan.matrix.path)));
            (saved.as_ref() == Some(&plan), drift)
        }
    };
    let mut look =
        Look { args: &args, global, store, plan, is_saved, drift, selection, here, read, asked: None };
    if args.watch {
        return look.watch();
    }
    let exit = look.once();
    leave(look);
    exit
}

impl Look<'_> {
    fn once(&mut self) -> Result<Exit, Failure> {
        let Sighting { overview, inventory, .. } = self.look()?;
        leave(inventory);
        if self.args.json {
            print_json(&overview)?;
            return Ok(Exit::Done);
        }
        print(&self.text(&overview))?;
        for text in self.next_commands(&overview) {
            hint(self.global.quiet, &text);
        }
        Ok(Exit::Done)
    }

    fn watch(&mut self) -> Result<Exit, Failure> {
        let is_screen = Layout::of_stdout() != Layout::Plain && !self.args.json;
        let shown = if is_screen { screen::watch(self) } else { None };
        shown.unwrap_or_else(|| self.print_changes())
    }

    /// Prints the whole overview again after each change.
    fn print_changes(&mut self) -> Result<Exit, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut shown = String::new();
            let mut seen = None;
            loop {
                if seen.as_ref().is_none_or(|seen: &Seen| seen.is_over(&self.store)) {
                    let (now, Sighting { overview, .. }) = self.see()?;
                    self.print_if_changed(&overview, &mut shown)?;
                    if overview.is_settled() {
                        return Ok(Exit::Done);
                    }
                    seen = Some(now);
                }
                if is_reader_gone() {
                    return Ok(Exit::Done);
                }
                tokio::select! {
                    // Ctrl-C is the normal way to leave.
                    _ = tokio::signal::ctrl_c() => return Ok(Exit::Done),
                    () = tokio::time::sleep(WATCH_PERIOD) => {}
                }
            }
        })
    }

    fn print_if_changed(&self, overview: &Overview, shown: &mut String) -> Result<(), Failure> {
        let text = if self.args.json {
            format!("{}\n", serde_json::to_string(overview)?)
        } else {
            self.text(overview)
        };
        if text != *shown {
            print(&text)?;
            *shown = text;
        }
        Ok(())
    }

    /// The next commands to type.
    fn next_commands(&self, overview: &Overview) -> Vec<String> {
        let store = store_flag(self.global);
        let counts = &overview.counts;
        let mut found = Vec::new();
        if let Some(failure) = overview.failures.first() {
            let dir = JobDir::at(self.store.root().join(&failure.directory));
            found.push(failure_hint(&failure.outcome, &failure.key, &dir, failure.attempt, &store));
        }
        // A name means the saved plan. If that differs from this plan, the command needs the file.
        let (verb, name) = match self.is_saved {
            true => ("resume", quote(&self.plan.matrix.name)),
            false => ("run", quote(&overview.file)),
        };
        let again = format!("{verb} {name}{}", self.args.select.flags());
        if !overview.stale.is_empty() {
            found.push(stale_hint(&again, self.global));
        }
        if counts.of(State::Failed) + counts.of(State::Waiting) > 0 && counts.of(State::Running) == 0 {
            found.push(format!("`orchestrate {again}{store}` runs the missing jobs"));
        } else if counts.of(State::Running) > 0 {
            found.push(format!("`orchestrate status {name} --watch{store}` follows the run"));
        } else if counts.of(State::Done) > 0 {
            found.push(format!("`orchestrate report {name}{store}` makes tables and figures"));
        }
        found.extend(overview.drift.as_ref().map(|drift| drift.hint(self.global)));
        found.extend(renamed_hints(&overview.renamed, &overview.file));
        found.extend(misread_hints(&overview.misread, &self.plan, self.global));
        found
    }
}
