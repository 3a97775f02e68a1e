//! The columns of `roofline_points.csv` and of the table behind each roofline.

use super::class::BOUND;
use super::shared::{
    CONFIDENCE, CONVENTION, NO_CLOCK, OfRow, PEAK_AT_CLOCK, config_columns, host_column, part_column,
    unit_column,
};
use crate::analysis::column::{Column, Columns, Sourced, of};
use crate::analysis::group::Row;
use crate::analysis::own::Own;
use crate::analysis::peaks::{Ceiling, Peaks};
use crate::analysis::roofline::{BytesSource, Point};
use crate::analysis::source::Source;

const NO_THROUGHPUT: &str = "no run of the row counts";
const NO_PEAK: &str = "the peaks file has no peak at this precision";
const NO_BANDWIDTH: &str = "the peaks file has no bandwidth";

/// A line of `roofline_points.csv`.
pub(in crate::analysis) struct PointLine<'a> {
    /// The row that the point places.
    pub(in crate::analysis) row: &'a Row<'a>,
    /// The roofs.
    pub(in crate::analysis) peaks: &'a Peaks,
    /// The point.
    pub(in crate::analysis) point: &'a Point,
}

type Of<'a> = Column<PointLine<'a>>;

impl OfRow for PointLine<'_> {
    fn row(&self) -> &Row<'_> {
        self.row
    }
}

impl PointLine<'_> {
    fn ceiling(&self) -> Option<&Ceiling> {
        self.peaks.ceiling(self.row.config.precision)
    }
}

/// Every column of `roofline_points.csv`.
pub(in crate::analysis) fn point_columns<'a>(own: &Own) -> Columns<PointLine<'a>> {
    let mut columns = of(
        Source::Computed,
        [Of::known("number", "The number in the figure. Points of one row share it.", |line| {
            line.point.number
        })],
    );
    columns.extend(config_columns(own));
    columns.extend([host_column(), part_column(), unit_column()]);
    columns.extend(of(Source::Computed, throughput()));
    columns.extend(roofs());
    Columns::plain(columns)
}

fn throughput<'a>() -> Vec<Of<'a>> {
    vec![
        Of::maybe("n", "Runs that count.", NO_THROUGHPUT, |line| Some(line.row.statistics.as_ref().ok()?.n)),
        Of::maybe("geometric_mean_samples_per_s", "The throughput of the row.", NO_THROUGHPUT, |line| {
            line.row.samples_per_s()
        }),
        Of::known("bytes_source", "`measured`, `modelled` or `estimated`.", |line| {
            line.point.source.to_string()
        }),
        Of::maybe(
            "optimizer_in_bytes",
            "The optimizer whose step is among the modelled bytes: `sgd` or `adamw`.",
            "the bytes are not modelled, or the optimizer is unknown",
            |line| {
                let is_modelled = line.point.source == BytesSource::Modelled;
                line.row.cost.as_ref().ok().filter(|_| is_modelled)?.described()?.optimizer
            },
        ),
        Of::known("intensity_flop_per_byte", "The arithmetic intensity.", |line| line.point.intensity),
        Of::known("attained_gflop_per_s", "The network's FLOPs × this throughput.", |line| {
            line.point.attained / 1e9
        }),
        Of::known(
            "attained_least_gflop_per_s",
            "The same at the lower end of the 95 % interval of the geometric mean throughput, or for the slowest run \
             if fewer than three count.",
            |line| line.point.place.attained.low / 1e9,
        ),
        Of::known(
            "attained_most_gflop_per_s",
            "The same at the upper end, or for the fastest run.",
            |line| line.point.place.attained.high / 1e9,
        ),
        Of::maybe("flops_convention", CONVENTION, "the FLOPs of the network are unknown", |line| {
            Some(line.row.cost.as_ref().ok()?.convention())
        }),
        Of::known(
            "attainable_gflop_per_s",
            "What the roofs allow at this intensity, by their upper ends.",
            |line| line.point.attainable / 1e9,
        ),
        Of::known("bound", BOUND, |line| line.point.bound.to_string()),
        Of::known("above_roof", "`true` if the point is above its roof.", |line| line.point.is_above_roof()),
    ]
}

fn roofs<'a>() -> Vec<Sourced<PointLine<'a>>> {
    vec![
        Of::maybe(
            "clock_mhz",
            "The median over the runs that count of the device's mean clock within the window.",
            "it was not read within the window",
            |line| line.row.clock_mhz(),
        )
        .from(Source::Computed),
        Of::maybe(
            "peak_gflop_per_s",
            "The device's peak at this precision; the upper end if it is a range.",
            NO_PEAK,
            |line| Some(line.ceiling()?.flops_per_s.high / 1e9),
        )
        .from(Source::Peaks),
        Of::maybe(
            "peak_least_gflop_per_s",
            "The lower end of `peak_gflop_per_s`; the same if it is not a range.",
            NO_PEAK,
            |line| Some(line.ceiling()?.flops_per_s.low / 1e9),
        )
        .from(Source::Peaks),
        Of::maybe("peak_at_clock_gflop_per_s", PEAK_AT_CLOCK, NO_CLOCK, |line| {
            Some(line.row.peak_at_clock()?.high / 1e9)
        })
        .from(Source::Computed),
        Of::maybe(
            "bandwidth_gb_per_s",
            "The device's memory bandwidth; the upper end if it is a range.",
            NO_BANDWIDTH,
            |line| Some(line.peaks.bandwidth?.high / 1e9),
        )
        .from(Source::Peaks),
        Of::maybe(
            "bandwidth_least_gb_per_s",
            "The lower end of `bandwidth_gb_per_s`.",
            NO_BANDWIDTH,
            |line| Some(line.peaks.bandwidth?.low / 1e9),
        )
        .from(Source::Peaks),
        Of::maybe(
            "knee_flop_per_byte",
            "The intensity at which the roofs meet, by their upper ends.",
            "the peak or the bandwidth is",
            |line| line.peaks.knee(line.row.config.precision),
        )
        .from(Source::Computed),
        Of::known("peaks", "The name of the peaks file.", |line| line.peaks.name.clone()).from(Source::Peaks),
        Of::known("peaks_origin", "Vendor, published, or measured where and how.", |line| {
            line.peaks.origin.to_string()
        })
        .from(Source::Peaks),
        Of::known("peaks_confidence", CONFIDENCE, |line| line.peaks.confidence.to_string())
            .from(Source::Peaks),
    ]
}
