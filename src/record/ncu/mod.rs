//! Nsight Compute: the metrics to request, and its counts.
//!
//! [`select_metrics`] chooses the metrics for a device. [`parse_ncu`] turns the output of `ncu --csv` into
//! [`NcuCounters`], or into an [`NcuFailure`] with its remedy. This module does not start processes or read files.

mod counters;
mod failure;
mod log;
mod output;
mod parse;
mod select;
mod table;
#[cfg(test)]
mod tests;
mod unit;

pub use counters::{KernelGroup, NcuCounters, NcuTotals};
pub use failure::NcuFailure;
pub use log::parse_ncu_version;
pub use output::NcuOutput;
pub use parse::parse_ncu;
pub use select::{Selection, parse_query_metrics, select_metrics, select_named};
pub use table::TableError;
