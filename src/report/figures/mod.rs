//! The figures of a report, one file each.

mod axes;
mod fastest;
mod iterations;
mod kernels;
mod limits;
mod operators;
mod order;
mod roofline;
mod rooflines;
mod scaling;
mod scatter;
mod throughput;
mod time;
mod tradeoff;

use super::figure::Figure;

pub(super) use axes::AXES;
pub(super) use fastest::FASTEST;
pub(super) use limits::LIMITS;
pub(super) use time::TIME;

/// Every figure, in the order of the pages. This table determines the drawings, the sections of both pages,
/// which files of an earlier report are removed, and the reference in the manual.
pub const FIGURES: &[Figure] = &[
    FASTEST,
    LIMITS,
    TIME,
    AXES,
    throughput::THROUGHPUT,
    rooflines::ROOFLINES,
    roofline::ROOFLINE,
    scaling::SCALING,
    tradeoff::TRADEOFF,
    scatter::SCATTER,
    order::ORDER,
    iterations::ITERATIONS,
    operators::OPERATORS,
    kernels::KERNELS,
];
