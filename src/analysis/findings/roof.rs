//! Findings about the bounds of rows, about peaks and about rooflines.

use std::collections::HashMap;

use indexmap::IndexMap;

use super::finding::{Finding, finding};
use super::flops::flops;
use super::kind::FindingKind;
use crate::analysis::bound::{AT_ROOF, Bound, Class, Evidence, FAR_FROM_ROOF, Obstacle};
use crate::analysis::claim::{Claim, Compared, Limit, Relation, Sentence};
use crate::analysis::group::Row;
use crate::analysis::marks::Thresholds;
use crate::analysis::peaks::{Confidence, Origin};
use crate::analysis::roofline::{BytesSource, Point, Roofline};
use crate::text::{capitalised, count_text};

pub(super) fn roof(
    rows: &[Row<'_>],
    rooflines: &[Roofline<'_>],
    classes: &[Class],
    thresholds: &Thresholds,
) -> Vec<Finding> {
    let mut found = bounds(rows, rooflines, classes);
    found.extend(flops(rows, thresholds));
    found.extend(missing_costs(rows));
    found.extend(missing_peaks(rows));
    found.extend(missing_ceilings(rows));
    found.extend(other_thread_counts(rows));
    found.extend(lent_peaks(rows));
    found.extend(doubtful_peaks(rows));
    found.extend(above_roof(rows, rooflines));
    found
}

/// The bounds of rows whose bytes were counted, and of rows that an obstacle keeps from their roofs.
fn bounds(rows: &[Row<'_>], rooflines: &[Roofline<'_>], classes: &[Class]) -> Vec<Finding> {
    let points = rooflines.iter().flat_map(|roofline| &roofline.points);
    let counted: HashMap<usize, &Point> = points
        .filter(|point| point.source == BytesSource::Measured)
        .map(|point| (point.row, point))
        .collect();
    let rows = rows.iter().zip(classes).enumerate();
    let bounded = rows.filter_map(|(index, (row, class))| {
        let sentence = bound(row, class, counted.get(&index).copied())?;
        Some(finding(FindingKind::Bound, sentence).about(row.label()))
    });
    bounded.collect()
}

/// The bound of `row`; `None` if it is unknown, or if another finding reports it, such as one about waiting for data.
fn bound(row: &Row<'_>, class: &Class, counted: Option<&Point>) -> Option<Sentence> {
    let (label, bound) = (row.label(), class.bound);
    match (&class.evidence, counted) {
        (Evidence::Obstacle(obstacle), Some(point)) => Some(in_spite_of_counters(&label, obstacle, point)),
        (Evidence::Obstacle(Obstacle::Processors { .. } | Obstacle::Spill { .. }), None)
        | (Evidence::Throughput | Evidence::Activity | Evidence::Operators, _) => {
            Some(class.why().reworded(|why| format!("{label} is {bound}: {why}.")))
        }
        (Evidence::Counters | Evidence::Nothing, Some(_)) => Some(by_counters(&label, class)),
        (Evidence::Obstacle(_) | Evidence::Counters | Evidence::Nothing, None) => None,
    }
}

fn in_spite_of_counters(label: &str, obstacle: &Obstacle, point: &Point) -> Sentence {
    let (bound, place) = (obstacle.bound(), point.place);
    let sentence = obstacle.sentence().reworded(|obstacle| {
        format!(
            "{label} is {bound}: {obstacle}. It reaches {place} with the bytes that ncu counted, which is no evidence \
             in this case."
        )
    });
    sentence.claiming(place.claims())
}

/// The bound of a row by its counters. [`Class::why()`] would add the times of its kernels, which are no evidence here.
fn by_counters(label: &str, class: &Class) -> Sentence {
    let verdict = match class.bound {
        Bound::Unknown => format!("What limits {label} is unknown"),
        bound => format!("{label} is {bound}"),
    };
    class.why.clone().reworded(|why| {
        format!(
            "{verdict}: {why} (at a roof from {:.0} %, far from both below {:.0} %). Each kernel was counted with \
             empty caches, so the run itself might have moved fewer bytes.",
            100.0 * AT_ROOF,
            100.0 * FAR_FROM_ROOF
        )
    })
}

/// Rows without a cost. Rows without a result are left out: other findings report them.
fn missing_costs(rows: &[Row<'_>]) -> Vec<Finding> {
    let measured = rows.iter().filter(|row| row.circumstances.is_some());
    let sentences = measured.filter_map(|row| {
        let reason = row.cost.as_ref().err()?;
        Some((Some(row.config.model.to_string()), reason.to_string()))
    });
    counted_about(FindingKind::MissingCost, sentences, "without FLOP/s")
}

fn missing_peaks(rows: &[Row<'_>]) -> Vec<Finding> {
    let sentences = rows.iter().filter_map(|row| Some(row.peaks.as_ref()?.as_ref().err()?.to_string()));
    counted(FindingKind::MissingPeaks, sentences, "without a share of the peak and without a roofline")
}

fn missing_ceilings(rows: &[Row<'_>]) -> Vec<Finding> {
    let sentences = rows.iter().filter_map(|row| {
        let peaks = row.ceilings()?;
        let precision = row.config.precision;
        if peaks.ceiling(precision).is_none() {
            let reason = peaks.reason_without(precision).map(|reason| format!(" ({reason})"));
            let reason = reason.unwrap_or_default();
            return Some(format!("the peaks `{}` have no figure for {precision}{reason}", peaks.name));
        }
        peaks.bandwidth.is_none().then(|| format!("the peaks `{}` have no bandwidth", peaks.name))
    });
    counted(FindingKind::MissingCeiling, sentences, "missing from the roofline")
}

fn other_thread_counts(rows: &[Row<'_>]) -> Vec<Finding> {
    let sentences = rows.iter().filter_map(|row| {
        let peaks = row.ceilings()?;
        let Origin::Measured { threads: Some(measured), .. } = peaks.origin else { return None };
        let found = row.circumstances.as_ref()?;
        let used = match found.effective.settings.whole("threads") {
            Some(used) => (used != u64::from(measured)).then(|| format!("the runs used {used}"))?,
            None if measured == found.usable_processors() => return None,
            None => {
                let usable = found.usable_processors();
                format!("and the worker does not report how many of {usable} the runs used")
            }
        };
        let threads = count_text(measured as usize, "thread");
        Some(format!("the peaks `{}` were measured with {threads}, {used}", peaks.name))
    });
    counted(FindingKind::OtherThreads, sentences, "compared with them")
}

/// Peaks that were measured on another device of the same name in the same host.
fn lent_peaks(rows: &[Row<'_>]) -> Vec<Finding> {
    let sentences = rows.iter().filter_map(|row| {
        let peaks = row.ceilings()?;
        let Origin::Measured { uuid: Some(measured), .. } = &peaks.origin else { return None };
        let used = match &row.circumstances.as_ref()?.device_uuid {
            Some(used) if used == measured => return None,
            Some(used) => format!("the runs were on {used}, another device of the same name"),
            None => "the worker does not report which device of that name it used".to_owned(),
        };
        Some(format!("the peaks `{}` were measured on {measured}, and {used}", peaks.name))
    });
    counted(FindingKind::LentPeaks, sentences, "compared with them")
}

/// Warnings from the measurement of peaks, and peaks of low confidence.
fn doubtful_peaks(rows: &[Row<'_>]) -> Vec<Finding> {
    let sentences = rows.iter().filter_map(Row::ceilings).flat_map(|peaks| {
        let name = &peaks.name;
        let warnings = peaks.warnings.iter();
        let doubts = warnings.map(move |warning| format!("the peaks `{name}` are doubtful: {warning}"));
        let little = match peaks.confidence {
            Confidence::Low => Some(format!("the peaks `{name}` are of low confidence")),
            Confidence::Estimate => Some(format!("the peaks `{name}` are an estimate, computed from clocks")),
            Confidence::Medium | Confidence::High => None,
        };
        doubts.chain(little)
    });
    counted(FindingKind::DoubtfulPeaks, sentences, "compared with them")
}

fn above_roof(rows: &[Row<'_>], rooflines: &[Roofline<'_>]) -> Vec<Finding> {
    let points = rooflines.iter().flat_map(|roofline| &roofline.points);
    let of_point = |point: &Point| {
        let attainable = Limit::printed(point.attainable / 1e9, 0);
        let attained = Compared::new(point.attained / 1e9, Relation::Above, attainable, 0);
        let text = format!(
            "{} is above its roof: {} GFLOP/s attained, {} attainable at {:.1} FLOP/byte ({} bytes). The roof is too \
             low, or its bytes or FLOPs are too many.",
            rows[point.row].label(),
            attained.number(),
            attained.limit(),
            point.intensity,
            point.source
        );
        finding(FindingKind::AboveRoof, Sentence::new(text, [attained])).about(rows[point.row].label())
    };
    let is_reported = |point: &&Point| point.source != BytesSource::Estimated && point.is_above_roof();
    points.filter(is_reported).map(of_point).collect()
}

/// One finding per distinct sentence, with the number of its rows: `… (2 rows compared with them).`
fn counted(kind: FindingKind, sentences: impl Iterator<Item = String>, tail: &str) -> Vec<Finding> {
    counted_about(kind, sentences.map(|sentence| (None, sentence)), tail)
}

/// [`counted`] for sentences with subjects.
fn counted_about(
    kind: FindingKind,
    sentences: impl Iterator<Item = (Option<String>, String)>,
    tail: &str,
) -> Vec<Finding> {
    let mut rows: IndexMap<(Option<String>, String), usize> = IndexMap::new();
    for sentence in sentences {
        *rows.entry(sentence).or_default() += 1;
    }
    let one = |((subject, text), n): ((Option<String>, String), usize)| {
        let text = format!("{} ({} {tail}).", capitalised(&text), count_text(n, "row"));
        Finding { subject, ..finding(kind, Sentence::new(text, [Claim::some(n)])) }
    };
    rows.into_iter().map(one).collect()
}
