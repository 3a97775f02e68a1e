//! What limits a row: the host, memory that spilled, a roof of its device, its kernels or their launch.
//!
//! | module | what is in it |
//! |---|---|
//! | [`kind`] | the limits, and the shares of a roof that decide between them |
//! | [`class`] | what limits a row, with the evidence |
//! | [`obstacle`] | whether something keeps a row from its roofs: waiting for data, a busy host, spilled memory |
//! | [`place`] | where a point with counted bytes lies below its roofs |
//!
//! `analysis::classes` decides between them and the evidence that needs no counter.

mod class;
mod kind;
mod obstacle;
mod place;
#[cfg(test)]
mod tests;

pub use class::{Class, Evidence};
pub use kind::{AT_ROOF, Bound, FAR_FROM_ROOF};
pub use obstacle::{ALL_PROCESSORS, Obstacle};
pub use place::Place;

pub(super) use obstacle::obstacles;
pub(super) use place::{of_shares, percent, sides};
