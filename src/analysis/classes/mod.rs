//! Decides the class of each row: its limit, with the evidence.
//!
//! The evidence is examined in this order, and the first that decides wins:
//!
//! 1. An obstacle: the row waits for data or for the host, or its memory spilled. [`bound::obstacles`]
//! 2. Counters: its place below the roofs with the bytes that a profiler counted.
//! 3. Throughput: it attains at least 60 % of the compute roof, and its traffic cannot change that: [`throughput`]. Or
//!    data beyond its caches take at least 60 % of the memory roof. [`traffic`]
//! 4. Operators: at least 60 % of its time is in operators at one roof, far from both, or outside of all operators.
//! 5. Activity: it attains little of the compute roof, and its memory is hardly in use. [`traffic`]
//!
//! If none of them decides, the class is unknown and names the cheapest [`experiment`] that would decide it.

mod throughput;
mod traffic;

use std::collections::HashMap;

use super::bound::{Bound, Class, Evidence, Obstacle};
use super::claim::{Compared, Limit, Relation, Sentence};
use super::experiment::experiment;
use super::group::Row;
use super::operators::{Breakdown, TimeByLimit};
use super::roofline::{BytesSource, Point, Roofline};

/// The share of an iteration from which one kind of limit is that of the row.
pub const MOST_OF_TIME: f64 = 0.6;

/// In a mixture, limits below this share of the time are not named.
const NAMED_FROM: f64 = 0.1;

/// The class of each of `rows`, in their order. `matrix` is the path of the matrix file.
pub(super) fn classes(
    rows: &[Row<'_>],
    obstacles: Vec<Option<Obstacle>>,
    rooflines: &[Roofline<'_>],
    breakdowns: &[Option<Breakdown<'_>>],
    matrix: &str,
) -> Vec<Class> {
    let points = rooflines.iter().flat_map(|roofline| &roofline.points);
    let mut points_of: HashMap<usize, Vec<&Point>> = HashMap::new();
    for point in points {
        points_of.entry(point.row).or_default().push(point);
    }
    let evidence = rows.iter().zip(obstacles).zip(breakdowns).enumerate();
    let class = |(index, ((row, obstacle), breakdown))| match obstacle {
        Some(obstacle) => Class::obstructed(obstacle),
        None => {
            let points = points_of.get(&index).map_or(&[][..], Vec::as_slice);
            by_evidence(row, points, Option::as_ref(breakdown), matrix)
        }
    };
    evidence.map(class).collect()
}

fn by_evidence(row: &Row<'_>, points: &[&Point], breakdown: Option<&Breakdown<'_>>, matrix: &str) -> Class {
    let by_work = without_work(row).unwrap_or_else(|| by_work(row, points, breakdown));
    let is_counted = points.iter().any(|point| point.source == BytesSource::Measured);
    let class = match by_work.bound {
        Bound::Unknown => breakdown
            .and_then(by_operators)
            .or_else(|| traffic::at_most(row).filter(|_| !is_counted))
            .unwrap_or(by_work),
        _ => by_work,
    };
    let is_open = class.bound == Bound::Unknown;
    let experiment = is_open.then(|| experiment(row, breakdown, matrix)).flatten();
    Class { experiment, ..with_breakdown(class, breakdown) }
}

/// The class by counted bytes or by the throughput; unknown with the reason if both are inconclusive.
fn by_work(row: &Row<'_>, points: &[&Point], breakdown: Option<&Breakdown<'_>>) -> Class {
    let with_bytes = |source| points.iter().copied().find(|point| point.source == source);
    match with_bytes(BytesSource::Measured) {
        Some(point) => point.place.class(),
        None => throughput::by_throughput(row, with_bytes(BytesSource::Modelled))
            .or_else(|| traffic::at_least(row))
            .unwrap_or_else(|| Class::unknown(Sentence::plain(unplaced(row, breakdown)))),
    }
}

/// A kind of limit that takes a share of the time.
struct Candidate {
    bound: Bound,
    share: f64,
    /// The place of the time: the end of "60 % of the time is …".
    place: &'static str,
}

/// The class by the time of the operators; `None` if they are inconclusive.
fn by_operators(breakdown: &Breakdown<'_>) -> Option<Class> {
    let limits = &breakdown.limits;
    if !breakdown.is_representative() {
        return None;
    }
    let candidates = candidates(limits);
    let (bound, why) = match candidates.iter().find(|it| it.share >= MOST_OF_TIME) {
        Some(found) => (found.bound, dominance(found)),
        None => (Bound::Mixed, mixture(limits)?),
    };
    Some(Class::shown(bound, Evidence::Operators, why))
}

/// The limits that can dominate, the most specific first.
fn candidates(limits: &TimeByLimit) -> Vec<Candidate> {
    let TimeByLimit { compute, memory, latency, kernel, data, host, .. } = *limits;
    let candidate = |bound, share, place| Candidate { bound, share, place };
    let overhead = if latency >= host {
        candidate(Bound::Latency, latency + host, "in operators far from both roofs, or outside of them")
    } else {
        candidate(Bound::Host, latency + host + data, "outside of operators, or in those far from both roofs")
    };
    vec![
        candidate(Bound::Compute, compute, "in operators at the compute roof"),
        candidate(Bound::Memory, memory, "in operators at the memory roof"),
        candidate(Bound::Host, data, "waiting for data"),
        candidate(Bound::Host, host, "outside of all operators"),
        candidate(Bound::Latency, latency, "in operators far from both roofs, or between kernels"),
        overhead,
        candidate(Bound::Kernel, kernel + latency, "in operators that are at neither roof"),
    ]
}

fn dominance(found: &Candidate) -> Sentence {
    let limit = Limit::with_unit(100.0 * MOST_OF_TIME, " %");
    let share = Compared::new(100.0 * found.share, Relation::From, limit, 0);
    let text = format!("{} % of the time is {} (threshold {})", share.number(), found.place, share.limit());
    Sentence::new(text, [share])
}

/// A mixture of limits, if most of the time is known. `None` if too much of it is open.
fn mixture(limits: &TimeByLimit) -> Option<Sentence> {
    let TimeByLimit { compute, memory, latency, kernel, data, host, open } = *limits;
    if 1.0 - open < MOST_OF_TIME {
        return None;
    }
    let mut named: Vec<(f64, &str)> = [
        (compute, "at the compute roof"),
        (memory, "at the memory roof"),
        (latency, "far from both roofs"),
        (kernel, "at neither roof"),
        (data, "waiting for data"),
        (host, "outside of operators"),
        (open, "in operators whose limit is unknown"),
    ]
    .into_iter()
    .filter(|(share, _)| *share >= NAMED_FROM)
    .collect();
    named.sort_by(|left, right| right.0.total_cmp(&left.0));
    let clauses: Vec<String> =
        named.into_iter().map(|(share, place)| format!("{:.0} % {place}", 100.0 * share)).collect();
    Some(Sentence::plain(format!("of the time, {}", clauses.join(", "))))
}

/// `class` with the largest parts of the time.
fn with_breakdown(class: Class, breakdown: Option<&Breakdown<'_>>) -> Class {
    let Some(breakdown) = breakdown else { return class };
    let text = match breakdown.slowdown().filter(|_| !breakdown.is_representative()) {
        Some(slowdown) => {
            format!(
                "its profiled iterations took {slowdown:.1} × as long as the timed ones, so they decide nothing"
            )
        }
        None => breakdown.text(),
    };
    Class { time: Some(text), ..class }
}

/// The class of a `row` whose FLOPs are counted for comparison only: unknown.
fn without_work(row: &Row<'_>) -> Option<Class> {
    let described = row.cost.as_ref().ok()?.described()?;
    described.convention.leaves_out_work().then(|| {
        Class::unknown(Sentence::plain(format!(
            "the FLOPs are counted by `{}`, which leaves out work",
            described.convention.as_str()
        )))
    })
}

/// The rest of a sentence that begins with a share of the time, such as `47 %`, for profiles without a limit.
pub(super) const OPEN_OPERATORS: &str = "of its time is in operators whose limit is unknown";

/// Why counters and the throughput are inconclusive for `row`, which has this `breakdown`.
fn unplaced(row: &Row<'_>, breakdown: Option<&Breakdown<'_>>) -> String {
    let peaks = row.ceilings();
    let profile = breakdown.filter(|breakdown| breakdown.is_representative());
    let why = if row.statistics.is_err() {
        "no run counts"
    } else if let Some(profile) = profile {
        let open = 100.0 * profile.limits.open;
        return format!("{open:.0} % {OPEN_OPERATORS}");
    } else if row.cost.is_err() {
        "its FLOPs are unknown"
    } else if peaks.is_none() {
        "its device has no peaks"
    } else if peaks.is_none_or(|peaks| peaks.ceiling(row.config.precision).is_none()) {
        "the peaks have no figure for its precision"
    } else if peaks.is_none_or(|peaks| peaks.bandwidth.is_none()) {
        "the peaks have no bandwidth"
    } else {
        "its bytes were not counted"
    };
    why.to_owned()
}

#[cfg(test)]
mod tests;
