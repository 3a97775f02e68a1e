//! The findings of a report. Each sentence is backed by a computed number and a threshold, and names both. Nothing else
//! is said.

use std::collections::{BTreeMap, BTreeSet};

use super::counted::stray;
use super::group::Row;
use super::marks::{Mark, Threshold, Thresholds, foreign_cores};
use super::peaks::Origin;
use super::roofline::{AT_ROOF, Bound, BytesSource, FAR_FROM_ROOF, Point, Roofline};
use super::unconfirmed::{count_unconfirmed, unconfirmed_text};
use super::{Run, pipeline};
use crate::job::{PARAMETERS, distinction, varying_parameters};

/// The topic of a finding. Findings are listed in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// Some jobs have no result.
    Completeness,
    /// Runs that are not pooled, or are left out.
    Comparability,
    /// How much the numbers scatter.
    Spread,
    /// What else the host did.
    Host,
    /// Peaks and rooflines.
    Roof,
}

/// A sentence with its number and threshold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The topic.
    pub topic: Topic,
    /// The sentence.
    pub text: String,
}

fn finding(topic: Topic, text: String) -> Finding {
    Finding { topic, text }
}

/// All findings, by topic.
pub fn findings(
    runs: &[Run<'_>],
    rows: &[Row<'_>],
    rooflines: &[Roofline<'_>],
    thresholds: &Thresholds,
) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(completeness(runs));
    found.extend(rows.iter().filter_map(|row| split(row, rows)));
    found.extend(settings_differ(rows));
    found.extend(mixed_settings(rows));
    found.extend(not_confirmed(rows));
    found.extend(stray_profiles(runs, rows));
    found.extend(disturbed_profiles(runs));
    found.extend(bounds(rows, rooflines));
    found.extend(far_from_model(rows, thresholds));
    found.extend(left_out(rows));
    found.extend(included(rows));
    found.extend(variation(rows));
    found.extend(marked_but_counted(runs));
    found.extend(load_unknown(runs));
    found.extend(waiting_for_data(rows, thresholds));
    found.extend(data_gaps(rows, thresholds));
    found.extend(unreadable_images(runs));
    found.extend(missing_costs(rows));
    found.extend(missing_peaks(rows));
    found.extend(missing_ceilings(rows));
    found.extend(other_thread_counts(rows));
    found.extend(doubtful_peaks(rows));
    found.extend(above_roof(rows, rooflines));
    found.sort_by_key(|finding| finding.topic);
    found
}

/// `1 run`, `3 runs`.
fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// The first few of `names`, and the number of the others.
fn list<S: AsRef<str>>(names: &[S]) -> String {
    const SHOWN: usize = 4;
    let shown: Vec<&str> = names.iter().take(SHOWN).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn completeness(runs: &[Run<'_>]) -> Option<Finding> {
    let succeeded = runs.iter().filter(|run| run.cell.success().is_some()).count();
    let failed = runs.iter().filter(|run| run.cell.is_failure()).count();
    let not_run = runs.len() - succeeded - failed;
    (failed + not_run > 0).then(|| {
        let verb = if runs.len() == 1 { "has" } else { "have" };
        finding(
            Topic::Completeness,
            format!(
                "{succeeded} of {} {verb} a result; {failed} failed and {not_run} were not run.",
                count(runs.len(), "job")
            ),
        )
    })
}

fn split(row: &Row<'_>, rows: &[Row<'_>]) -> Option<Finding> {
    let (part, of) = row.part;
    if of < 2 || part < 2 {
        return None;
    }
    let first = rows.iter().find(|other| other.config == row.config)?;
    let differences = first.circumstances.as_ref()?.differences(row.circumstances.as_ref()?);
    Some(finding(
        Topic::Comparability,
        format!(
            "Runs of {}{} are not pooled: row {part} of {of} differs from row 1 in {}.",
            row.config.label().trim_end_matches("_run1"),
            row.distinction,
            list(&differences)
        ),
    ))
}

/// Profiled jobs that say nothing about any row.
fn stray_profiles(runs: &[Run<'_>], rows: &[Row<'_>]) -> Vec<Finding> {
    let sentence = |(cell, differences): (&super::Cell, Vec<String>)| {
        let text = format!(
            "The counters of {} are not compared with the timing runs of its config: they differ in {}.",
            cell.job.label(),
            list(&differences)
        );
        finding(Topic::Comparability, text)
    };
    stray(runs, rows).into_iter().map(sentence).collect()
}

/// Disturbed profiled jobs: their counters include the other users of the device or the host.
fn disturbed_profiles(runs: &[Run<'_>]) -> Vec<Finding> {
    let sentence = |run: &Run<'_>| {
        let marks: Vec<String> = run.left_out_by().map(ToString::to_string).collect();
        let text = format!("The counters of {} are left out: {}.", run.cell.job.label(), marks.join("; "));
        finding(Topic::Comparability, text)
    };
    runs.iter()
        .filter(|run| !run.cell.is_timing() && run.left_out_by().next().is_some())
        .map(sentence)
        .collect()
}

/// What limits the configs whose bytes were counted.
fn bounds(rows: &[Row<'_>], rooflines: &[Roofline<'_>]) -> Vec<Finding> {
    let points =
        rooflines.iter().flat_map(|roofline| roofline.points.iter().map(move |point| (roofline, point)));
    let measured = points.filter(|(_, point)| point.source == BytesSource::Measured);
    measured
        .map(|(roofline, point)| finding(Topic::Roof, bound_text(&rows[point.row], roofline, point)))
        .collect()
}

fn bound_text(row: &Row<'_>, roofline: &Roofline<'_>, point: &Point) -> String {
    let ceiling = roofline.peaks.ceiling(row.config.precision).map(|ceiling| ceiling.flops_per_s.high);
    let of_compute = ceiling.map_or(f64::NAN, |ceiling| 100.0 * point.attained / ceiling);
    let of_memory = roofline
        .peaks
        .bandwidth
        .map_or(f64::NAN, |bandwidth| 100.0 * point.attained / (point.intensity * bandwidth.high));
    let verdict = match point.bound {
        Bound::Compute | Bound::Memory | Bound::Latency => point.bound.to_string(),
        Bound::Unknown if point.is_above_roof() => "above its roof, so its bound is unknown".to_owned(),
        Bound::Unknown => "between its roofs, so its bound is unknown".to_owned(),
    };
    format!(
        "{} is {verdict}: with the bytes that ncu counted it reaches {of_compute:.0} % of the compute roof and \
         {of_memory:.0} % of the memory roof (at a roof from {:.0} %, far from both below {:.0} %). Each kernel was \
         counted with empty caches, so the run itself might have moved fewer bytes.",
        row.label(),
        100.0 * AT_ROOF,
        100.0 * FAR_FROM_ROOF
    )
}

/// Configs whose device executed more or fewer operations than the network has.
fn far_from_model(rows: &[Row<'_>], thresholds: &Thresholds) -> Vec<Finding> {
    let text = |row: &Row<'_>| {
        let executed = row.counted.ncu.as_ref()?.flops_per_image()?;
        let modelled = row.cost.as_ref().ok()?.training_flops as f64;
        let share = executed / modelled - 1.0;
        (share.abs() > thresholds.of(Threshold::ExecutedFlops)).then(|| {
            format!(
                "Per image of {}, the device executed {:.2} GFLOP and the network has {:.2} ({:+.0} %; threshold {}). \
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

/// Undeclared differences between rows of several envs.
fn settings_differ(rows: &[Row<'_>]) -> Vec<Finding> {
    let mut by_envs: BTreeMap<(&str, &str, String), usize> = BTreeMap::new();
    for row in rows {
        for doubt in &row.doubts {
            let Mark::SettingsDiffer { env, differences } = doubt else { continue };
            // The other row has the same mark in reverse.
            if row.config.env < *env {
                *by_envs.entry((&row.config.env, env, differences.join(", "))).or_default() += 1;
            }
        }
    }
    let sentence = |((env, other, differences), n): ((&str, &str, String), usize)| {
        let text = format!(
            "{env} and {other} have undeclared differences (settings-differ, {}): {differences}.",
            count(n, "row")
        );
        finding(Topic::Comparability, text)
    };
    by_envs.into_iter().map(sentence).collect()
}

/// Whether a row's mark says that `name` differs.
fn is_said(rows: &[Row<'_>], name: &str) -> bool {
    rows.iter().flat_map(|row| &row.doubts).any(|doubt| match doubt {
        Mark::SettingsDiffer { differences, .. } => {
            differences.iter().any(|difference| difference.split(' ').next() == Some(name))
        }
        _ => false,
    })
}

/// Undeclared settings that differ between rows, where no mark reports them. Only parameters of the shipped worker
/// count: other settings that a worker reports might follow from the config.
fn mixed_settings(rows: &[Row<'_>]) -> Vec<Finding> {
    let mut by_name: BTreeMap<&'static str, BTreeMap<String, BTreeSet<&str>>> = BTreeMap::new();
    for row in rows {
        let Some(circumstances) = &row.circumstances else { continue };
        for parameter in PARAMETERS {
            let name = parameter.name;
            let Some(value) = circumstances.effective.settings.get(name) else { continue };
            if row.config.params.contains_key(name) {
                continue;
            }
            by_name.entry(name).or_default().entry(value.to_string()).or_default().insert(&row.config.env);
        }
    }
    by_name
        .into_iter()
        .filter(|(name, values)| values.len() > 1 && !is_said(rows, name))
        .map(|(name, values)| {
            let values: Vec<String> = values
                .into_iter()
                .map(|(value, envs)| format!("{value} ({})", envs.into_iter().collect::<Vec<_>>().join(", ")))
                .collect();
            let text = format!(
                "The setting `{name}` is not declared and has {} values: {}.",
                values.len(),
                values.join(", ")
            );
            finding(Topic::Comparability, text)
        })
        .collect()
}

/// Declared parameters that the records of some rows do not confirm.
fn not_confirmed(rows: &[Row<'_>]) -> Vec<Finding> {
    let mut by_names: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    for row in rows {
        let records = row.runs.iter().filter_map(|run| Some((run.cell.job.key(), run.cell.record()?)));
        for names in count_unconfirmed(records).into_keys() {
            *by_names.entry(names).or_default() += 1;
        }
    }
    let sentence = |(names, n): (Vec<String>, usize)| {
        let text = format!("Not confirmed: {} ({}).", unconfirmed_text(&names), count(n, "row"));
        finding(Topic::Comparability, text)
    };
    by_names.into_iter().map(sentence).collect()
}

fn left_out(rows: &[Row<'_>]) -> Vec<Finding> {
    rows.iter()
        .filter(|row| row.left_out() > 0)
        .map(|row| {
            let reasons: BTreeSet<String> =
                row.runs.iter().flat_map(Run::left_out_by).map(ToString::to_string).collect();
            let reasons: Vec<String> = reasons.into_iter().collect();
            let text = format!(
                "{} of {} of {} left out of the statistics: {}.",
                row.left_out(),
                count(row.runs.len(), "run"),
                row.label(),
                list(&reasons)
            );
            finding(Topic::Comparability, text)
        })
        .collect()
}

/// Runs that are included despite marks that leave runs out.
fn included(rows: &[Row<'_>]) -> Vec<Finding> {
    let sentence = |row: &Row<'_>| {
        let runs = row.runs.iter().filter(|run| run.is_included());
        let reasons: BTreeSet<String> = runs
            .flat_map(|run| run.marks.iter().filter(|mark| mark.disqualifies()))
            .map(ToString::to_string)
            .collect();
        let reasons: Vec<String> = reasons.into_iter().collect();
        let text = format!(
            "{} of {} of {} included despite their marks (--include-marked): {}.",
            row.included(),
            count(row.runs.len(), "run"),
            row.label(),
            list(&reasons)
        );
        finding(Topic::Comparability, text)
    };
    rows.iter().filter(|row| row.included() > 0).map(sentence).collect()
}

fn variation(rows: &[Row<'_>]) -> Vec<Finding> {
    let doubts = rows.iter().flat_map(|row| row.doubts.iter().map(move |doubt| (row, doubt)));
    doubts
        .filter(|(_, doubt)| matches!(doubt, Mark::HighVariation { .. }))
        .map(|(row, doubt)| finding(Topic::Spread, format!("{}: {doubt}.", row.label())))
        .collect()
}

/// Marks that leave no run out, by name. If all runs have the same text, it is given once; otherwise the first few are
/// listed with their runs.
fn marked_but_counted(runs: &[Run<'_>]) -> Vec<Finding> {
    let varying = varying_parameters(runs.iter().map(|run| run.cell.job.key()));
    let label =
        |run: &Run<'_>| format!("{}{}", run.cell.job.label(), distinction(run.cell.job.key(), &varying));
    let mut by_name: BTreeMap<&'static str, Vec<(String, String)>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.counts()) {
        for mark in run.marks.iter().filter(|mark| !mark.disqualifies()) {
            by_name.entry(mark.name()).or_default().push((label(run), mark.to_string()));
        }
    }
    let sentence = |(name, marks): (&'static str, Vec<(String, String)>)| {
        let n = count(marks.len(), "run");
        let says = |text: &str| marks.iter().all(|(_, other)| other == text);
        if let Some((_, text)) = marks.first().filter(|(_, text)| says(text)) {
            return finding(Topic::Host, format!("{n} marked but counted: {text}."));
        }
        let details: Vec<String> = marks
            .iter()
            .map(|(label, text)| {
                format!("{label}, {}", text.trim_start_matches(name).trim_start_matches(": "))
            })
            .collect();
        finding(Topic::Host, format!("{n} marked {name} but counted: {}.", details_list(&details)))
    };
    by_name.into_iter().map(sentence).collect()
}

/// Like [`list`], for texts that contain commas.
fn details_list(details: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = details.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ");
    match details.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

fn load_unknown(runs: &[Run<'_>]) -> Option<Finding> {
    let unknown = runs
        .iter()
        .filter(|run| run.cell.is_timing())
        .filter_map(|run| run.cell.success())
        .filter(|(record, _)| foreign_cores(record).is_none())
        .count();
    (unknown > 0).then(|| {
        let text = format!(
            "The host's load during {} is not known, so only overlap with other runs of the store could be checked.",
            count(unknown, "run")
        );
        finding(Topic::Host, text)
    })
}

fn waiting_for_data(rows: &[Row<'_>], thresholds: &Thresholds) -> Vec<Finding> {
    rows.iter()
        .filter_map(|row| {
            let shares = pipeline::data_wait_shares(row);
            let share = crate::stats::median(&shares).ok()?;
            (share > thresholds.of(Threshold::DataWaitShare)).then(|| {
                let text = format!(
                    "{} waited for data during {:.0} % of its window, median of n = {} (threshold {}).",
                    row.label(),
                    100.0 * share,
                    shares.len(),
                    thresholds.text(Threshold::DataWaitShare)
                );
                finding(Topic::Host, text)
            })
        })
        .collect()
}

fn data_gaps(rows: &[Row<'_>], thresholds: &Thresholds) -> Vec<Finding> {
    let gaps = pipeline::gaps(rows);
    gaps.iter().map(|gap| finding(Topic::Host, gap.sentence(thresholds))).collect()
}

fn unreadable_images(runs: &[Run<'_>]) -> Option<Finding> {
    let most = runs
        .iter()
        .filter_map(|run| run.cell.success())
        .filter_map(|(record, measured)| Some((measured.details.unreadable_images?, &record.label)))
        .filter(|(images, _)| *images > 0)
        .max()?;
    let text = format!(
        "Up to {} images could not be decoded and were left out (in {}; threshold 0).",
        most.0, most.1
    );
    Some(finding(Topic::Host, text))
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
            finding(topic, format!("{first}{} ({} {tail}).", chars.as_str(), count(n, "row")))
        })
        .collect()
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
        let used = row.circumstances.as_ref()?.effective.settings.whole("threads")?;
        (used != u64::from(measured)).then(|| {
            format!("the peaks `{}` were measured with {measured} threads, the runs used {used}", peaks.name)
        })
    });
    counted(Topic::Roof, sentences, "compared with them")
}

/// The warnings that were given when peaks were measured.
fn doubtful_peaks(rows: &[Row<'_>]) -> Vec<Finding> {
    let sentences = rows.iter().filter_map(Row::ceilings).flat_map(|peaks| {
        let warnings = peaks.warnings.iter();
        warnings.map(|warning| format!("the peaks `{}` are doubtful: {warning}", peaks.name))
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

#[cfg(test)]
mod tests {
    use crate::analysis::analyse;
    use crate::analysis::fixture::{StudyBuilder, key, measured_peaks, study_with_peaks};
    use crate::job::{Key, Precision};
    use crate::protocol::LeftOut;
    use crate::record::Record;

    fn texts(study: &crate::analysis::Study) -> Vec<String> {
        analyse(study).findings.into_iter().map(|finding| finding.text).collect()
    }

    /// A study in which no number passes its threshold has no findings.
    #[test]
    fn an_undisturbed_study_has_no_findings() {
        let study = StudyBuilder::new()
            .peaks(measured_peaks(250e9, 20e9))
            .runs("cpu", "resnet18", 16, &[10.0, 10.1, 9.9])
            .build();
        assert_eq!(texts(&study), [""; 0]);
    }

    #[test]
    fn findings_have_number_and_threshold() {
        insta::assert_snapshot!(texts(&study_with_peaks()).join("\n"));
    }

    /// Each sentence appears on one side of its threshold and not on the other.
    #[test]
    fn findings_appear_past_their_thresholds() {
        let with = |change: fn(&mut Record)| {
            let study = StudyBuilder::new()
                .peaks(measured_peaks(250e9, 20e9))
                .run_with(key("cpu", "resnet18", 16, 1), 10.0, change)
                .build();
            texts(&study)
        };
        let wait = |share: f64| {
            let study = StudyBuilder::new()
                .peaks(measured_peaks(250e9, 20e9))
                .run_with(key("cpu", "resnet18", 16, 1), 10.0, |record| {
                    record.measurement.as_mut().unwrap().details.data_wait_s = Some(16.0 * share);
                })
                .build();
            texts(&study).len()
        };
        assert_eq!((wait(0.09), wait(0.11)), (0, 1));
        let spread = |other: f64| {
            let builder = StudyBuilder::new().peaks(measured_peaks(250e9, 20e9));
            texts(&builder.runs("cpu", "resnet18", 16, &[10.0, other]).build()).len()
        };
        assert_eq!((spread(10.7), spread(10.8)), (0, 1));
        assert_eq!(
            with(|record| record.measurement.as_mut().unwrap().details.unreadable_images = Some(3)),
            [
                "Up to 3 images could not be decoded and were left out (in cpu_resnet18_fp32_bs16_run1; threshold 0)."
            ]
        );
        assert_eq!(
            with(|record| record.measurement.as_mut().unwrap().effective.settings.set("threads", 1)),
            [
                "The peaks `measured/bench-1-cpu` were measured with 2 threads, the runs used 1 (1 row compared with \
              them)."
            ]
        );
    }

    /// A mistake of the seed reports: peaks of other hardware.
    #[test]
    fn peaks_of_another_device_are_refused_and_reported() {
        let mut study = StudyBuilder::new()
            .peaks(measured_peaks(250e9, 20e9))
            .run_with(key("cpu", "resnet18", 16, 1), 10.0, |record| {
                record.measurement.as_mut().unwrap().details.device_name = Some("Other CPU".to_owned());
            })
            .build();
        study.cells[0].peaks = Some("measured/bench-1-cpu".to_owned());
        let analysis = analyse(&study);
        assert!(analysis.rooflines.is_empty());
        assert_eq!(analysis.rows[0].share_of_peak(), None);
        let texts = texts(&study);
        assert!(
            texts[0].contains("`Test CPU @ 2.00 GHz` (cpu)") && texts[0].contains("`Other CPU` (cpu)"),
            "{texts:?}"
        );
    }

    #[test]
    fn gaps_and_doubts_of_measured_peaks_are_reported() {
        let mut peaks = measured_peaks(250e9, 20e9);
        peaks.warnings = vec!["the measured bandwidth is low".to_owned()];
        let fp32 = key("cpu", "resnet18", 16, 1);
        let bf16 = Key { precision: Precision::Bf16, ..fp32.clone() };
        peaks.left_out =
            vec![LeftOut { precision: Precision::Bf16, reason: "it is emulated: why".to_owned() }];
        let doubted = StudyBuilder::new().peaks(peaks.clone()).run_with(fp32, 10.0, |_| ()).build();
        assert_eq!(
            texts(&doubted),
            [
                "The peaks `measured/bench-1-cpu` are doubtful: the measured bandwidth is low (1 row compared with \
              them)."
            ]
        );
        peaks.warnings.clear();
        let left_out = StudyBuilder::new().peaks(peaks).run_with(bf16, 10.0, |_| ()).build();
        assert_eq!(
            texts(&left_out),
            [
                "The peaks `measured/bench-1-cpu` have no figure for bf16 (it is emulated: why) (1 row missing from \
              the roofline)."
            ]
        );
    }
}
