//! Findings about peaks and rooflines.

use std::collections::{BTreeMap, HashMap};

use super::finding::{Finding, Topic, finding};
use crate::analysis::bound::{AT_ROOF, Bound, Class, FAR_FROM_ROOF, Obstacle};
use crate::analysis::group::Row;
use crate::analysis::marks::{Threshold, Thresholds};
use crate::analysis::peaks::{Confidence, Origin};
use crate::analysis::roofline::{BytesSource, Point, Roofline};
use crate::text::{count_text, significant};

pub(super) fn roof(
    rows: &[Row<'_>],
    rooflines: &[Roofline<'_>],
    classes: &[Class],
    thresholds: &Thresholds,
) -> Vec<Finding> {
    let mut found = bounds(rows, rooflines, classes);
    found.extend(far_from_model(rows, thresholds));
    found.extend(reported_otherwise(rows, thresholds));
    found.extend(missing_costs(rows));
    found.extend(missing_peaks(rows));
    found.extend(missing_ceilings(rows));
    found.extend(other_thread_counts(rows));
    found.extend(lent_peaks(rows));
    found.extend(doubtful_peaks(rows));
    found.extend(above_roof(rows, rooflines));
    found
}

/// What limits the rows whose bytes were counted, and those that something keeps from their roofs.
fn bounds(rows: &[Row<'_>], rooflines: &[Roofline<'_>], classes: &[Class]) -> Vec<Finding> {
    let points = rooflines.iter().flat_map(|roofline| &roofline.points);
    let counted: HashMap<usize, &Point> = points
        .filter(|point| point.source == BytesSource::Measured)
        .map(|point| (point.row, point))
        .collect();
    let rows = rows.iter().zip(classes).enumerate();
    let texts = rows.filter_map(|(index, (row, class))| bound_text(row, class, counted.get(&index).copied()));
    texts.map(|text| finding(Topic::Roof, text)).collect()
}

/// What limits `row`, unless that is unknown, or another finding says it: those about data say who waits for it.
fn bound_text(row: &Row<'_>, class: &Class, counted: Option<&Point>) -> Option<String> {
    let (label, bound, why) = (row.label(), class.bound(), class.why());
    match (class, counted) {
        (Class::Obstructed(obstacle), Some(Point { place, .. })) => Some(format!(
            "{label} is {bound}: {obstacle}. So it says nothing that it reaches {place} with the bytes that ncu counted."
        )),
        (Class::Obstructed(Obstacle::Processors { .. } | Obstacle::Spill { .. }), None) => {
            Some(format!("{label} is {bound}: {why}."))
        }
        (Class::Placed { .. }, Some(_)) => {
            let verdict = match bound {
                Bound::Unknown => format!("What limits {label} is unknown"),
                _ => format!("{label} is {bound}"),
            };
            Some(format!(
                "{verdict}: {why} (at a roof from {:.0} %, far from both below {:.0} %). Each kernel was counted with \
                 empty caches, so the run itself might have moved fewer bytes.",
                100.0 * AT_ROOF,
                100.0 * FAR_FROM_ROOF
            ))
        }
        (Class::Obstructed(_) | Class::Placed { .. }, None) => None,
    }
}

/// Configs whose device executed more or fewer operations than the network has.
fn far_from_model(rows: &[Row<'_>], thresholds: &Thresholds) -> Vec<Finding> {
    let text = |row: &Row<'_>| {
        let executed = row.counted.ncu.as_ref()?.flops_per_sample()?;
        let modelled = row.cost.as_ref().ok()?.needed_flops();
        let share = executed / modelled - 1.0;
        (share.abs() > thresholds.of(Threshold::ExecutedFlops)).then(|| {
            format!(
                "Per sample of {}, the device executed {:.2} GFLOP and the network has {:.2} ({:+.0} %; threshold {}). \
                 Algorithms such as Winograd's need fewer. Padding needs more, and so do undescribed operations.",
                row.label(),
                executed / 1e9,
                modelled / 1e9,
                100.0 * share,
                thresholds.text(Threshold::ExecutedFlops)
            )
        })
    };
    rows.iter().filter_map(text).map(|text| finding(Topic::Roof, text)).collect()
}

/// Configs whose worker counts other FLOPs than the network has.
fn reported_otherwise(rows: &[Row<'_>], thresholds: &Thresholds) -> Vec<Finding> {
    let text = |row: &Row<'_>| {
        let described = row.cost.as_ref().ok()?.described()?;
        let (reported, counted) = (described.reported_flops?, described.needed_flops as f64);
        let (share, cause) = described.miscounted()?;
        (share.abs() > thresholds.of(Threshold::ReportedFlops)).then(|| {
            format!(
                "Per sample of {}, the worker counts {} GFLOP and orchestrate {} ({:+.0} %; threshold {}): {}. \
                 orchestrate's number is used.",
                row.label(),
                significant(reported / 1e9, 4),
                significant(counted / 1e9, 4),
                100.0 * share,
                thresholds.text(Threshold::ReportedFlops),
                cause
            )
        })
    };
    rows.iter().filter_map(text).map(|text| finding(Topic::Roof, text)).collect()
}

fn missing_costs(rows: &[Row<'_>]) -> Vec<Finding> {
    let sentences = rows.iter().filter_map(|row| Some(row.cost.as_ref().err()?.to_string()));
    counted(Topic::Roof, sentences, "without FLOP/s")
}

fn missing_peaks(rows: &[Row<'_>]) -> Vec<Finding> {
    let sentences = rows.iter().filter_map(|row| Some(row.peaks.as_ref()?.as_ref().err()?.to_string()));
    counted(Topic::Roof, sentences, "without a share of the peak and without a roofline")
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
    counted(Topic::Roof, sentences, "missing from the roofline")
}

fn other_thread_counts(rows: &[Row<'_>]) -> Vec<Finding> {
    let sentences = rows.iter().filter_map(|row| {
        let peaks = row.ceilings()?;
        let Origin::Measured { threads: Some(measured), .. } = peaks.origin else { return None };
        let found = row.circumstances.as_ref()?;
        let used = match found.effective.settings.whole("threads") {
            Some(used) => (used != u64::from(measured)).then(|| format!("the runs used {used}"))?,
            None if measured == found.usable_processors() => return None,
            None => format!("nobody says how many of {} the runs used", found.usable_processors()),
        };
        let threads = count_text(measured as usize, "thread");
        Some(format!("the peaks `{}` were measured with {threads}, {used}", peaks.name))
    });
    counted(Topic::Roof, sentences, "compared with them")
}

/// The roofs of a twin: another device of the same name in the same host.
fn lent_peaks(rows: &[Row<'_>]) -> Vec<Finding> {
    let sentences = rows.iter().filter_map(|row| {
        let peaks = row.ceilings()?;
        let Origin::Measured { uuid: Some(measured), .. } = &peaks.origin else { return None };
        let used = match &row.circumstances.as_ref()?.device_uuid {
            Some(used) if used == measured => return None,
            Some(used) => format!("the runs were on {used}, another device of the same name"),
            None => "the worker does not say which device of that name it had".to_owned(),
        };
        Some(format!("the peaks `{}` were measured on {measured}, and {used}", peaks.name))
    });
    counted(Topic::Roof, sentences, "compared with them")
}

/// The warnings that were given when peaks were measured, and peaks of little confidence.
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
    counted(Topic::Roof, sentences, "compared with them")
}

fn above_roof(rows: &[Row<'_>], rooflines: &[Roofline<'_>]) -> Vec<Finding> {
    let points = rooflines.iter().flat_map(|roofline| &roofline.points);
    points
        .filter(|point| point.source != BytesSource::Estimated && point.is_above_roof())
        .map(|point| {
            let text = format!(
                "{} lies above its roof: {:.0} GFLOP/s attained, {:.0} attainable at {:.1} FLOP/byte ({} bytes). The \
                 roof is too low, or its bytes or FLOPs are too many.",
                rows[point.row].label(),
                point.attained / 1e9,
                point.attainable / 1e9,
                point.intensity,
                point.source
            );
            finding(Topic::Roof, text)
        })
        .collect()
}

/// Merges equal sentences, and appends the number of rows that each holds for.
fn counted(topic: Topic, sentences: impl Iterator<Item = String>, tail: &str) -> Vec<Finding> {
    let mut by_text: BTreeMap<String, usize> = BTreeMap::new();
    for sentence in sentences {
        *by_text.entry(sentence).or_default() += 1;
    }
    by_text
        .into_iter()
        .map(|(text, n)| {
            let mut chars = text.chars();
            let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
            finding(topic, format!("{first}{} ({} {tail}).", chars.as_str(), count_text(n, "row")))
        })
        .collect()
}
