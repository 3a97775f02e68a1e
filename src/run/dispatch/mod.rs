//! Runs what the plan says: first it adopts the attempts of an `orchestrate` that died, then it runs job after job.
//!
//! The plan and its decisions leave two choices, which nobody can make in advance. Once a batch has run out of memory,
//! larger batches of the same config are not tried. And where a matrix lets the results decide how often a config runs,
//! `plan` is asked again what is needed, with the new records.
//!
//! Locks are always taken in this order: host, device, job. Whoever waits for a job's lock to adopt its attempt holds
//! no lock of another job. Whatever makes load, or waits for a machine without load, comes after the locks, in this
//! order: the profiler's questions, the cool-down, the gate.

mod adopt;
mod alike;
mod budget;
mod jobs;
mod missed;
mod outlast;
mod pass_gate;
mod start;
mod state;
mod wanted;
mod wants;

pub use jobs::dispatch;
pub use state::RunOrder;
