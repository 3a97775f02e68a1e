//! What each fact of a record's provenance does to the row of its run.
//!
//! Every fact is a line of one table: it splits rows, it is said, or it does nothing. The facts of two runs are
//! compared by this table and by nothing else.

mod fact;
mod gpu;
mod host;
mod rest;
mod table;
#[cfg(test)]
mod tests;

pub use table::circumstances_table;
pub(super) use table::{ComparedFacts, differences_within};
