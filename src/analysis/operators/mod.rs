//! Where the time of an iteration goes, operator by operator, and which roof each operator is at.
//!
//! A profile ([`OperatorProfile`]) holds seconds and shapes. Joined with the work of each operator
//! ([`crate::operator`]) and the peaks of the device, it gives a [`Breakdown`]. That holds a share of the time, FLOP/s,
//! bytes per second and a [`Limit`] for each operator, and for all operators of a class together. No counter is needed.
//!
//! Shares are those of the profiled iterations. Rates are compared with ceilings by inequalities that need no traffic
//! measured: see [`memory`].

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
