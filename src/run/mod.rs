//! The loop that runs jobs: processes, supervision, sensors, profilers, and the gate before a start. The verbs `run`
//! and `resume` call [`dispatch`] with a plan and its decisions; it reports to an [`crate::event::Observer`]. It never
//! chooses what runs, never prints, and knows neither marks nor reports.
//!
//! | module | what it is |
//! |---|---|
//! | [`site`] | the programs and directories that a run uses |
//! | `dispatch` | runs one job after another |
//! | [`process`] | the process chain, in its own process group |
//! | `orphans` | the processes that a worker leaves behind outside of its group |
//! | `supervise` | watches a chain until it ends |
//! | `survivors` | the worker of an `orchestrate` that died, and how it is ended |
//! | [`stop`] | ends a worker whose `orchestrate` died, for the verb `stop` |
//! | `telemetry` | the sensors' readings while a job runs |
//! | `profiler` | finds the profilers and asks what they can count here |
//! | `gate` | decides whether the machine is as quiet and as cool as a job's limits ask |
//! | `notices` | what the provider of a machine in the cloud announces while a job runs |
//! | `glance` | what the host is, looked at once a second at most |
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
