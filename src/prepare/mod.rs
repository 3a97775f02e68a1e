//! Preparations before a matrix runs: data sets, generated or downloaded, and the measured ceilings of a device. The
//! verbs `dataset` and `peaks` call it, and those that read the files below `peaks/`. It never runs a job and never
//! reads the store. It does not parse peaks files: `analysis` does.

pub mod dataset;
pub mod download;
pub mod peaks;
mod step;

pub use step::{Report, Step};
