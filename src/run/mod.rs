//! The loop that runs jobs: processes, supervision, sensors, profilers, and the gate before a start. The verbs `run`
//! and `resume` call [`dispatch`] with a plan and its decisions; it reports to an [`crate::event::Observer`]. It never
//! chooses what runs, never prints, and does not use marks or reports.
//!
//! | module | what it is |
//! |---|---|
//! | [`site`] | the programs and directories that a run uses |
//! | `dispatch` | runs one job after another |
//! | [`process`] | the process chain, in its own process group |
//! | `orphans` | ends the processes that a worker leaves outside of its group |
//! | `supervise` | watches a chain until it ends |
//! | `survivors` | finds and ends the worker of an `orchestrate` that died |
//! | [`stop`] | ends a worker whose `orchestrate` died, for the verb `stop` |
//! | `telemetry` | the sensors' readings while a job runs |
//! | `profiler` | finds the profilers and queries what they can count here |
//! | `gate` | decides whether the machine is as quiet and as cool as a job's limits require |
//! | `notices` | announcements of a cloud provider while a job runs |
//! | `glance` | the facts about the host, cached for a second |
//! | `concern` | whether an error concerns one job or all of them |

mod concern;
mod dispatch;
mod error;
mod gate;
mod glance;
mod notices;
mod orphans;
pub mod process;
mod profiler;
pub mod site;
pub mod stop;
mod supervise;
mod survivors;
mod telemetry;

pub use dispatch::{RunOrder, dispatch};
pub use error::DispatchError;
pub use site::{Site, SiteError};
pub use supervise::load_progress;
