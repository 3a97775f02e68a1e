//! The effect of each fact of a record's provenance on the row of its run.
//!
//! Every fact is a line of one table: it splits rows, is reported by a finding, or pools. The facts of two runs are
//! compared only by this table. For example, `host.kernel` splits, `git.revision` is reported, `worker.path` pools.

mod fact;
mod gpu;
mod host;
mod rest;
mod table;
#[cfg(test)]
mod tests;

pub use table::circumstances_table;
pub(super) use table::{ComparedFacts, differences_within};
