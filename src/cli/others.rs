//! Other `orchestrate` processes that run on a store, for the messages of `run` and for `stop`.

use super::Global;
use super::global::store_flag;
use super::output::say;
use crate::files::JobDir;
use crate::lock::{Owner, Owners};
use crate::plan::quote;
use crate::protocol::Progress;
use crate::run::load_progress;
use crate::store::{OpenAttempt, Store};

/// An `orchestrate` that runs on the store.
#[derive(Debug)]
pub(super) struct OtherRun {
    pub(super) owner: Owner,
    /// Its open attempt.
    pub(super) open: Option<OpenAttempt>,
}

impl OtherRun {
    /// All that run on `store`.
    pub(super) fn all(store: &Store) -> Vec<OtherRun> {
        let owners = Owners::of(store.running()).others();
        owners.into_iter().map(|owner| OtherRun { open: open_attempt(&owner, store), owner }).collect()
    }

    /// The name of its matrix; empty for older versions.
    pub(super) fn matrix(&self) -> &str {
        self.owner.identity.as_ref().map_or("", |identity| &identity.matrix)
    }

    /// Its current job and the progress of it: `cpu_m_fp32_bs4_run1 (attempt 1, measuring, 40 of 100)`. `None` between
    /// two jobs.
    pub(super) fn job(&self) -> Option<String> {
        let OpenAttempt { job, dir, .. } = self.open.as_ref()?;
        let progress =
            load_progress(dir).map_or(String::new(), |progress| format!(", {}", progress_text(progress)));
        Some(format!("{} (attempt {}{progress})", job.label(), dir.number()))
    }
}

/// The open attempt of `owner`.
fn open_attempt(owner: &Owner, store: &Store) -> Option<OpenAttempt> {
    let name = &owner.identity.as_ref()?.job;
    // The file may contain anything, because other users may be able to write to the store.
    let is_a_name = !name.is_empty() && !name.contains('/') && !name.starts_with('.');
    let open = store.open_attempt(&JobDir::at(store.root().join(is_a_name.then_some(name)?)))?;
    (open.attempt.owner() == Some(&owner.name)).then_some(open)
}

fn progress_text(progress: Progress) -> String {
    match progress {
        Progress::Preparing => "preparing".to_owned(),
        Progress::Warmup { done, of } => format!("warming up, {done} of {of}"),
        Progress::Measure { done, of } => format!("measuring, {done} of {of}"),
    }
}

/// Prints the other processes that run on `store`, their jobs, and the commands to follow and to end them.
pub(super) fn report_others(store: &Store, global: &Global) {
    let flag = store_flag(global);
    for run in OtherRun::all(store) {
        let does = run.job().map_or("is between two jobs".to_owned(), |job| format!("runs {job}"));
        say(&format!("another orchestrate runs on this store: {}; it {does}", run.owner.describe()));
        let name = if run.matrix().is_empty() { String::new() } else { format!(" {}", quote(run.matrix())) };
        let logs = run.open.as_ref().map(|open| {
            format!(", `orchestrate logs {}{flag}` prints the output of its worker", open.job.dir_name())
        });
        say(&format!(
            "`orchestrate status{name} --watch{flag}` follows it{}, `orchestrate stop{name}{flag}` ends it",
            logs.unwrap_or_default()
        ));
    }
}
