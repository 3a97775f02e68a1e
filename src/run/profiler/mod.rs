//! Profilers made ready: found, asked what they can count here, and refused with a remedy where they cannot work.
//!
//! A profiler is asked once a run, before its first job, so that a host that cannot profile says so in seconds and not
//! after each job's training. What is refused is a failure of the job, with its reason and its remedy; the timing jobs
//! of the matrix come first and have their results by then.

mod ncu;
mod perf;
mod profilers;
mod ready;

pub(super) use profilers::Profilers;
