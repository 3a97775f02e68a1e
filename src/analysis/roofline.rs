//! Places rows as points below the roofs of their devices.
//!
//! attainable = min(peak, intensity × bandwidth); knee = peak ÷ bandwidth. The source of a point's bytes is part of its
//! type, because only counted bytes are evidence for a bound. Bytes estimated from the bandwidth roof place a
//! point on that roof by construction, so such points are only in `roofline_points.csv`, for comparison.

use std::fmt;

use super::bound::{Bound, Class, Place};
use super::counted::NcuRun;
use super::group::{Row, Statistics};
use super::operators::Breakdown;
use super::peaks::{Peaks, Range};
use crate::job::{Name, Precision};

/// The source of a point's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BytesSource {
    /// Counted by the device.
    Measured,
    /// Modelled: every layer's inputs, weights and outputs once, forward and backward. Without a description of the
    /// network, those of every operator in its profile.
    Modelled,
    /// Estimated: attained FLOP/s ÷ the peak bandwidth. Only for comparison with the seed reports.
    Estimated,
}

impl BytesSource {
    /// Whether figures show points with such bytes.
    pub fn is_drawn(self) -> bool {
        self != BytesSource::Estimated
    }
}

impl fmt::Display for BytesSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BytesSource::Measured => "measured",
            BytesSource::Modelled => "modelled",
            BytesSource::Estimated => "estimated",
        })
    }
}

/// A row placed on a roofline.
#[derive(Clone, Debug)]
pub struct Point {
    /// The row's index among the analysis's rows.
    pub row: usize,
    /// Its number in the figure, from 1; points of one row share it.
    pub number: usize,
    /// The source of its bytes.
    pub source: BytesSource,
    /// FLOPs per byte.
    pub intensity: f64,
    /// The FLOP/s that training the network takes at the measured throughput.
    pub attained: f64,
    /// FLOP/s that the roofs allow at this intensity, by their upper ends.
    pub attainable: f64,
    /// Its place below its roofs, with the uncertainties.
    pub place: Place,
    /// The limit of its row.
    pub bound: Bound,
}

impl Point {
    /// Whether it is above its roof. That is impossible, so the roof, the bytes or the FLOPs are wrong.
    pub fn is_above_roof(&self) -> bool {
        // An estimated point is on the roof by construction; rounding must not lift it above.
        self.attained > self.attainable * (1.0 + 1e-9)
    }
}

/// The roofs of one device, and the points of one env below them.
#[derive(Clone, Debug)]
pub struct Roofline<'a> {
    /// The env.
    pub env: Name,
    /// The number of this roofline in the env, from 1. An env whose runs had several devices has several.
    pub part: usize,
    /// The device's ceilings.
    pub peaks: &'a Peaks,
    /// The precisions of its points that have a roof.
    pub precisions: Vec<Precision>,
    /// Measured points if bytes were counted, modelled points and, only for the CSV, estimated points.
    pub points: Vec<Point>,
}

/// The rooflines of `rows`, which have these `breakdowns`: one per env and peaks. A row without throughput, cost,
/// bandwidth or a ceiling for its precision has no point. Until [`set_bounds`], the bound of each point is unknown.
pub(super) fn rooflines<'a>(rows: &[Row<'a>], breakdowns: &[Option<Breakdown<'_>>]) -> Vec<Roofline<'a>> {
    let mut found: Vec<Roofline<'a>> = Vec::new();
    for (index, (row, breakdown)) in rows.iter().zip(breakdowns).enumerate() {
        let Some(peaks) = row.ceilings() else { continue };
        let env = &row.config.env;
        let known =
            found.iter().position(|roofline| roofline.env == *env && roofline.peaks.name == peaks.name);
        let place = known.unwrap_or(found.len());
        let number = known.map_or(1, |place| found[place].points.last().map_or(1, |point| point.number + 1));
        let points = points((index, row, breakdown.as_ref()), peaks, number);
        if points.is_empty() {
            continue;
        }
        if known.is_none() {
            let part = 1 + found.iter().filter(|roofline| roofline.env == *env).count();
            found.push(Roofline {
                env: env.clone(),
                part,
                peaks,
                precisions: Vec::new(),
                points: Vec::new(),
            });
        }
        let roofline = &mut found[place];
        roofline.points.extend(points);
        if !roofline.precisions.contains(&row.config.precision) {
            roofline.precisions.push(row.config.precision);
        }
    }
    found
}

/// Sets the bound of every point to that of its row, by `classes`.
pub(super) fn set_bounds(rooflines: &mut [Roofline<'_>], classes: &[Class]) {
    for point in rooflines.iter_mut().flat_map(|roofline| &mut roofline.points) {
        point.bound = classes[point.row].bound;
    }
}

/// The samples per second of `row`: Student's interval of the geometric mean, or the range of the runs if they are too
/// few. The median is always within it.
pub(super) fn rates(row: &Row<'_>) -> Option<Range> {
    let Statistics { median, min, max, interval, .. } = row.statistics.as_ref().ok()?;
    let (low, high) = interval.as_ref().map_or((*min, *max), |interval| (interval.low, interval.high));
    Some(Range { low: low.min(*median), high: high.max(*median) })
}

fn points(
    (index, row, breakdown): (usize, &Row<'_>, Option<&Breakdown<'_>>),
    peaks: &Peaks,
    number: usize,
) -> Vec<Point> {
    let precision = row.config.precision;
    let (Some(attained), Ok(cost), Some(bandwidth)) = (row.attained(), &row.cost, peaks.bandwidth) else {
        return Vec::new();
    };
    let (Some(ceiling), Some(rates)) = (peaks.ceiling(precision), rates(row)) else { return Vec::new() };
    let flops = cost.training_flops();
    let point = |source, intensity: f64| {
        let (peak, allowed) = (ceiling.flops_per_s, bandwidth.times(intensity));
        let place = Place { attained: rates.times(flops), peak, allowed };
        let (attainable, bound) = (peak.high.min(allowed.high), Bound::Unknown);
        Point { row: index, number, source, intensity, attained, attainable, place, bound }
    };
    let measured =
        row.counted.ncu.as_ref().and_then(NcuRun::dram_bytes_per_sample).filter(|bytes| *bytes > 0.0);
    let measured = measured.map(|bytes| point(BytesSource::Measured, flops / bytes));
    let of_operators = || Some(breakdown?.compulsory_bytes()? / f64::from(row.config.batch));
    let modelled = cost.described().map(|network| network.modelled_bytes).or_else(of_operators);
    let modelled = modelled.map(|bytes| point(BytesSource::Modelled, flops / bytes));
    let estimated = point(BytesSource::Estimated, attained / bandwidth.high);
    measured.into_iter().chain(modelled).chain([estimated]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::bound::{AT_ROOF, FAR_FROM_ROOF};
    use crate::analysis::peaks::Ceiling;
    use crate::analysis::{analyse, fixture};
    use crate::job::Key;

    /// A mistake of the seed reports: every point on the memory roof, and "memory-bound" read off it.
    #[test]
    fn only_counted_bytes_decide_a_bound() {
        let study = fixture::study_with_peaks();
        let analysis = analyse(&study);
        let points: Vec<&Point> = analysis.rooflines.iter().flat_map(|roofline| &roofline.points).collect();
        assert!(!points.is_empty());
        assert!(points.iter().all(|point| point.bound == Bound::Unknown));
        let estimated: Vec<_> =
            points.iter().filter(|point| point.source == BytesSource::Estimated).collect();
        assert!(estimated.iter().all(|point| (point.attained / point.attainable - 1.0).abs() < 1e-9));
    }

    #[test]
    fn a_place_is_at_a_roof_or_far_from_both() {
        let place = |attained: f64, peak: f64, allowed: f64| Place {
            attained: Range::exactly(attained),
            peak: Range::exactly(peak),
            allowed: Range::exactly(allowed),
        };
        let of = |attained| place(attained, 100.0, 50.0).class().bound();
        assert_eq!([of(10.0), of(20.0), of(30.0)], [Bound::Latency, Bound::Unknown, Bound::Memory]);
        assert_eq!(place(70.0, 100.0, 500.0).class().bound(), Bound::Compute);
        assert_eq!(of(60.0), Bound::Unknown, "above the memory roof");
        assert_eq!(of(50.0), Bound::Memory, "at the memory roof");
        assert_eq!(of(AT_ROOF * 50.0), Bound::Memory, "near enough to the memory roof");
        assert_eq!(of(FAR_FROM_ROOF * 50.0), Bound::Unknown, "not far enough from it");
    }

    /// Rounding does not lift a point above its roof.
    #[test]
    fn a_point_at_its_roof_is_not_above_it() {
        let is_above = |attained| {
            let (source, bound) = (BytesSource::Measured, Bound::Memory);
            let [one, attained_range] = [1.0, attained].map(Range::exactly);
            let place = Place { attained: attained_range, peak: one, allowed: one };
            Point { row: 0, number: 1, source, intensity: 1.0, attained, attainable: 1.0, place, bound }
                .is_above_roof()
        };
        assert_eq!([1.0, 1.0 + 1e-9, 1.0 + 1e-8].map(is_above), [false, false, true]);
    }

    /// Each env and each of its devices has its own roofline, in which the rows are numbered.
    #[test]
    fn each_device_has_its_own_roofline() {
        const OTHER: &str = "Other CPU";
        let mut others = fixture::measured_peaks(2e12, 2e11);
        (others.name, others.device, others.names) =
            ("measured/other".into(), OTHER.into(), vec![OTHER.into()]);
        let on_other = |record: &mut crate::record::Record| {
            record.measurement.as_mut().unwrap().details.device_name = Some(OTHER.to_owned());
        };
        let study = fixture::StudyBuilder::new()
            .peaks(fixture::measured_peaks(1e12, 1e11))
            .peaks(others)
            .run("a", "resnet18", 4, 1, 10.0)
            .run("a", "resnet18", 8, 1, 10.0)
            .run_with(fixture::key("a", "resnet18", 8, 2), 10.0, on_other)
            .run("b", "resnet18", 4, 1, 10.0)
            .build();
        let analysis = analyse(&study);
        let found: Vec<_> = analysis
            .rooflines
            .iter()
            .map(|it| {
                let numbers: Vec<_> = it.points.iter().map(|point| (point.row, point.number)).collect();
                (it.env.as_str(), it.part, it.peaks.name.as_str(), numbers)
            })
            .collect();
        let expected = [
            ("a", 1, "measured/bench-1-cpu", vec![(0, 1), (0, 1), (1, 2), (1, 2)]),
            ("a", 2, "measured/other", vec![(2, 1), (2, 1)]),
            ("b", 1, "measured/bench-1-cpu", vec![(3, 1), (3, 1)]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_point_above_its_roof_is_reported_and_not_moved() {
        let study = fixture::StudyBuilder::new()
            .peaks(fixture::measured_peaks(1e9, 1e9))
            .run("cpu", "resnet18", 16, 1, 100.0)
            .build();
        let analysis = analyse(&study);
        let point = &analysis.rooflines[0].points[0];
        assert!(point.is_above_roof() && point.attained > 1e12 && point.attainable <= 1e9);
        let about: Vec<_> =
            analysis.findings.iter().filter(|finding| finding.text.contains("above its roof")).collect();
        assert!(about.len() == 1 && about[0].text.contains("FLOP/byte (modelled bytes)"), "{about:?}");
    }

    #[test]
    fn each_precision_has_its_own_roof() {
        let mut peaks = fixture::measured_peaks(100e9, 1e15);
        for (precision, flops) in
            [(Precision::Bf16, 400e9), (Precision::Amp, 300e9), (Precision::Tf32, 200e9)]
        {
            peaks.flops.push(Ceiling::of(precision, Range::exactly(flops)));
        }
        let study =
            Precision::ALL.into_iter().fold(fixture::StudyBuilder::new().peaks(peaks), |study, precision| {
                let key = Key { precision, ..fixture::key("cpu", "resnet18", 16, 1) };
                study.run_with(key, 1.0, |record| {
                    record.measurement.as_mut().unwrap().effective.precision = precision;
                })
            });
        let study = study.build();
        let analysis = analyse(&study);
        let roofs: Vec<_> = analysis.rooflines[0]
            .points
            .iter()
            .filter(|point| point.source == BytesSource::Modelled)
            .map(|point| (analysis.rows[point.row].config.precision.as_str(), point.attainable))
            .collect();
        for expected in [("fp32", 100e9), ("tf32", 200e9), ("amp", 300e9), ("bf16", 400e9)] {
            assert!(roofs.contains(&expected), "{expected:?} is not in {roofs:?}");
        }
        let drawn: Vec<_> = analysis.rooflines[0].precisions.iter().map(|it| it.as_str()).collect();
        assert_eq!((drawn.len(), roofs.len()), (4, 4), "{drawn:?}");
    }
}
