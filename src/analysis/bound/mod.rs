//! The limit of a row: the host, memory that spilled, a roof of its device, its kernels or their launch.
//!
//! | module | contents |
//! |---|---|
//! | [`kind`] | the limits, and the shares of a roof that decide between them |
//! | [`class`] | the limit of a row, with the evidence |
//! | [`obstacle`] | obstacles that keep a row from its roofs: waiting for data, a busy host, spilled memory |
//! | [`place`] | the place of a point with counted bytes below its roofs |
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
