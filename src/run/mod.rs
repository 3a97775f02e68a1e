//! Everything that touches the world on behalf of a run: the store, locks, processes, the loop that runs jobs.
//!
//! | module | what it is |
//! |---|---|
//! | [`store`] | the `runs/` directory: where everything stands, and how it is written so that no crash can tear it |
//! | [`inventory`] | reads the store into a [`crate::plan::Inventory`] |
//! | [`host`] | what the machine is and how busy it is; the time tool, git |
//! | [`lock`] | the right to run a job, and the right to measure on a device |
//! | [`attempt`] | `attempt.json`, and how an attempt's files become its record, whoever saw it end |
//! | [`accepted`] | what the user accepted of a stale job |
//! | [`process`] | the process chain, in a group of its own |
//! | `profiler` | profilers made ready: found, asked what they can count here |
//! | [`stop`] | the signals that say stop |
//! | [`peaks`] | reads the files below `peaks/`, has the worker measure a device's ceilings |
//! | [`dataset`] | makes and fetches data sets |
//! | [`download`] | fetches a file, goes on where it was cut, checks its sum |
//! | [`programs`] | what workers are, by their bytes and those of their libraries |
//! | [`present`] | what jobs would run with now, for telling which are stale |
//! | [`site`] | what a run needs of the place it happens at |
//! | [`survey`] | what `doctor` and `env` look at: who is busy, which programs there are, what may be counted and written |
//! | [`dispatch`] | runs what is to be run, one job after the other |
//! | [`telemetry`] | what sensors show while a job runs |
//! | [`gate`] | whether the machine is as quiet and as cool as a job's limits ask |
//! | [`progress`] | shows a run while it goes on |
//! | [`event`] | what a run tells whoever watches it |
//! | `find` | where the profilers' programs are |
//! | `ask` | asks a program something, for a bounded time |
//! | [`regular`] | reads files that a worker may have put in our way: a FIFO is refused, not waited for |
//!
//! The truth about a job is its `record.json`, written last and renamed into place. Locks only keep two from working at
//! the same time; no lock file's existence or contents ever decides anything.

pub mod accepted;
mod ask;
mod atomic;
pub mod attempt;
mod clock;
mod concern;
pub mod dataset;
pub mod dispatch;
pub mod download;
pub mod event;
mod find;
mod gate;
pub mod host;
pub mod inventory;
mod libraries;
pub mod lock;
pub mod peaks;
pub mod present;
pub mod process;
mod profiler;
pub mod programs;
pub mod progress;
pub mod regular;
mod save;
pub mod site;
pub mod stop;
pub mod store;
mod supervise;
pub mod survey;
mod telemetry;

pub use atomic::{WriteError, write_atomic};
pub use dispatch::{DispatchError, RunOrder, dispatch};
pub use event::{Event, Observer, Summary, Waiting, WorkerFate};
pub use programs::Programs;
pub use site::{Site, SiteError};
pub use store::{AttemptDir, JobDir, Store, StoreError};
