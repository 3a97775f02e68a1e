//! Executes a plan: adopts the attempts of an `orchestrate` that died, then runs one job after another.
//!
//! The plan and its decisions leave two choices that depend on results. Once a batch has run out of memory, larger
//! batches of the same config are not tried. And where results determine the number of repeats of a config, `plan`
//! computes the needed jobs again with the new records.
//!
//! Locks are always taken in this order: host, device, job. A run that waits for a job's lock to adopt its attempt does
//! not hold the lock of another job. Steps that make load, or wait for a machine without load, follow the locks in this
//! order: querying the profiler, the cool-down, the gate.

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
