//! What is made before a matrix runs: data sets, generated or fetched, and the measured ceilings of a device.
//! The verbs `dataset` and `peaks` call it, and whoever reads the files below `peaks/`.
//! It never runs a job, never reads the store, and does not understand what a peaks file says: that is `analysis`.

pub mod dataset;
pub mod download;
pub mod peaks;
mod step;

pub use step::{Report, Step};
