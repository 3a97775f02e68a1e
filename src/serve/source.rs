//! The content of the pages as plain data, and the trait that provides it.

use chrono::{DateTime, Utc};

use crate::files::JobDir;
use crate::report::File;

/// Reads the store for the pages. One thread calls it, and only while there are viewers or requests.
pub trait Source: Send {
    /// Whether the store may have changed since it was read. This is cheap: no record is read.
    fn has_changed(&mut self) -> bool;

    /// Reads the store.
    ///
    /// # Errors
    /// It cannot be read, for the reason in this sentence.
    fn read(&mut self) -> Result<(), String>;

    /// A number that changes whenever the report of `plan` can change.
    fn results(&self, plan: &str) -> u64;

    /// The plans of the store.
    fn index(&mut self) -> Index;

    /// The progress of `plan`; `None` if there is none with this name.
    fn progress(&mut self, plan: &str) -> Option<Progress>;

    /// The report of `plan`.
    ///
    /// # Errors
    /// It cannot be made, for the reason in this sentence.
    fn report(&mut self, plan: &str) -> Result<Report, String>;

    /// The CSV file `name` beside the report of `plan`; `None` if there is no such table.
    fn table(&mut self, plan: &str, name: &str) -> Option<Vec<u8>>;

    /// The job whose directory is called `name`; `None` if the store has no such directory.
    fn job(&mut self, name: &str) -> Option<JobView>;

    /// The last readings of the sensors for the running job in `dir`; empty if there are none.
    fn sensors(&mut self, dir: &JobDir) -> String;
}

/// The plans of a store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Index {
    /// The directory of the store.
    pub store: String,
    /// The plans that were saved last, the latest first.
    pub plans: Vec<Progress>,
    /// The names of the others.
    pub others: Vec<String>,
    /// Unusable directories of the store, each as a sentence.
    pub problems: Vec<String>,
}

/// The progress of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Its name.
    pub name: String,
    /// The description of its matrix.
    pub description: Option<String>,
    /// Jobs that are done.
    pub done: usize,
    /// The number of jobs, without those that a rule of repeats might still need.
    pub needed: usize,
    /// Its jobs by state: `12 jobs: 5 done, 7 waiting`.
    pub counts: String,
    /// The time left, as in `status`; empty if nothing is left.
    pub time_left: String,
    /// The jobs that are running.
    pub running: Vec<RunningJob>,
    /// The next command to type.
    pub next: String,
    /// Why it cannot be read. Then the other fields are empty.
    pub problem: Option<String>,
}

/// A job that is running.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningJob {
    /// Its label, with its values of the parameters that differ.
    pub label: String,
    /// The name of its directory.
    pub directory: String,
    /// When its attempt began, if known.
    pub started_at: Option<DateTime<Utc>>,
}

/// The report of a plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// Its files, of which the first is the page.
    Files(Vec<File>),
    /// It has no results yet, for the reason in this sentence.
    NoResults(String),
}

/// A summary of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobView {
    /// Its label.
    pub label: String,
    /// Its directory.
    pub dir: JobDir,
    /// Its state, as a sentence.
    pub state: String,
    /// Whether it is running.
    pub is_running: bool,
    /// Whether its last attempt failed.
    pub has_failed: bool,
    /// When its last attempt began, if it is running.
    pub started_at: Option<DateTime<Utc>>,
    /// In order.
    pub attempts: Vec<AttemptLine>,
    /// Further facts.
    pub sections: Vec<Section>,
    /// The names of the plans that contain it.
    pub plans: Vec<String>,
    /// The command that shows the rest.
    pub show: String,
}

/// An attempt of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptLine {
    /// From 1.
    pub number: u32,
    /// Its outcome.
    pub text: String,
}

/// Facts of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its heading.
    pub title: &'static str,
    /// Names and values.
    pub lines: Vec<(String, String)>,
}
