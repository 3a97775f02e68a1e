//! Prepares profilers, [`Profilers`]: finds them, queries what they can count here, and rejects unusable ones with a
//! remedy.
//!
//! Each profiler is queried once per run, before its first job. So it takes seconds to detect that a host cannot
//! profile, instead of each job's training. A rejection fails the job, with its reason and remedy. The timing jobs of
//! the matrix run first and have their results by then.

mod ncu;
mod perf;
mod profilers;
mod ready;

pub(super) use profilers::Profilers;
