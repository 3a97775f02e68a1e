//! The time of an iteration, operator by operator, and the roof of each operator.
//!
//! A profile ([`OperatorProfile`]) contains seconds and shapes. It is joined with the work of each operator
//! ([`crate::operator`]) and the peaks of the device into a [`Breakdown`]. It has a share of the time, FLOP/s, bytes
//! per second and a [`Limit`] for each operator, and for all operators of a class together. No counters are needed.
//!
//! Shares are those of the profiled iterations. Rates are compared with ceilings by inequalities that do not need
//! measured traffic: see [`memory`].

mod breakdown;
mod difference;
mod headroom;
mod memory;
mod part;
mod sentence;
mod table;

pub use breakdown::{Breakdown, Group, Limit, PlacedOperator, Rates, TimeByLimit};
pub use headroom::Headroom;
pub use memory::MemoryShare;
pub use part::Part;

pub(super) use difference::difference;
pub(super) use memory::cache_capacity;
pub(super) use table::{operator_columns, operator_lines};

#[cfg(test)]
mod tests;
