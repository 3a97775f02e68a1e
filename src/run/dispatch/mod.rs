//! Runs what is to be run: first the attempts that an `orchestrate` left which is gone, then job after job.
//!
//! The plan and its decisions leave no choice but one, which nobody can make beforehand: when a batch has run out of
//! memory, larger ones of the same config are not tried.
//!
//! Locks are always taken in this order: host, device, job. Who waits for a job's lock alone (to adopt its attempt)
//! holds nothing else. What makes load or waits for a machine without it comes after the locks, in this order: the
//! profiler's questions, the cool-down, the gate.

mod adopt;
mod jobs;
mod pass_gate;
mod start;
mod state;

pub use jobs::dispatch;
pub use state::RunOrder;
