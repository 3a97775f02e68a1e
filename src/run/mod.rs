//! The loop that runs jobs: processes, their supervision, sensors, profilers, the gate before a start.
//! The verbs `run` and `resume` call [`dispatch`] with a plan that is already decided; it tells an [`crate::event::Observer`].
//! It never chooses what runs, never prints, and knows neither marks nor reports.
//!
//! | module | what it is |
//! |---|---|
//! | [`site`] | what a run needs of the place it happens at |
//! | `dispatch` | runs what is to be run, one job after the other |
//! | [`process`] | the process chain, in a group of its own |
//! | `supervise` | stays with a chain until it has ended |
//! | `telemetry` | what sensors show while a job runs |
//! | `profiler` | profilers made ready: found, asked what they can count here |
//! | `gate` | whether the machine is as quiet and as cool as a job's limits ask |
//! | `concern` | whether an error is of one job or of all |
//! | `clock` | the clock that nobody sets |

mod clock;
mod concern;
mod dispatch;
mod error;
mod gate;
pub mod process;
mod profiler;
pub mod site;
mod supervise;
mod telemetry;

pub use dispatch::{RunOrder, dispatch};
pub use error::DispatchError;
pub use site::{Site, SiteError};
