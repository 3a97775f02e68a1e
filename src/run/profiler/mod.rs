//! Prepares profilers: finds them, asks what they can count here, and refuses those that cannot work, with a remedy.
//!
//! Each profiler is asked once per run, before its first job. So a host that cannot profile is found out in seconds,
//! not after each job's training. A refusal fails the job, with its reason and remedy. The timing jobs of the matrix
//! run first and have their results by then.

mod ncu;
mod perf;
mod profilers;
mod ready;

pub(super) use profilers::Profilers;
