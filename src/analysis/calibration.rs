//! The scatter of a machine's runs under equal conditions, and so the differences that it can resolve. The verb
//! `calibrate` trains a small network in two envs that differ only in name, in interleaved repeats; this derives the
//! noise from their runs.
//!
//! Scatter is computed on logarithms, so 0.01 is 1 %.

use super::blocks::blocks;
use super::compare::{Rate, Settings, Sides, Verdict, compare};
use super::idle::Idle;
use super::noise::{Calibrated, Noise};
use super::{Judged, Run};
use crate::record::Record;
use crate::stats::{self, CONFIDENCE, Interval, SLOPE_NEEDS, TooFew, Variance};

/// The two envs.
pub const SIDES: [&str; 2] = ["one", "other"];

/// The calibration of a machine from the runs of `judged`, which are those of the plan `plan`.
///
/// # Errors
/// See [`noise`].
pub fn calibrated(plan: &str, judged: &Judged<'_>) -> Result<Calibrated, TooFew> {
    let noise = noise(judged)?;
    let last = judged.runs.iter().filter(|run| run.counts()).filter_map(|run| run.cell.record());
    let last = last.max_by_key(|record| record.ended_at).expect("pairs of runs count");
    Ok(Calibrated {
        plan: plan.to_owned(),
        device: last.key.device,
        host: last.provenance.host.clone(),
        date: last.ended_at.format("%Y-%m-%d").to_string(),
        noise,
    })
}

/// A run that counts.
struct Counted<'r> {
    side: usize,
    record: &'r Record,
    log: f64,
    block: usize,
}

/// The noise of the runs of `judged`.
///
/// # Errors
/// Fewer than three blocks contain a run of both envs that counts.
pub fn noise(judged: &Judged<'_>) -> Result<Noise, TooFew> {
    let runs = counted(&judged.runs);
    let blocks = by_block(&runs);
    let pairs: Vec<[f64; 2]> =
        blocks.iter().filter_map(|block| Some([block.sides[0]?, block.sides[1]?])).collect();
    let differences: Vec<f64> = pairs.iter().map(|[one, other]| other - one).collect();
    let estimate = stats::Estimate::mean(&differences)?;
    let n = pairs.len();
    let variance = stats::standard_deviation(&differences)?.powi(2) / 2.0;
    let ends = stats::deviation_interval(Variance { value: variance, freedom: estimate.freedom }, CONFIDENCE);
    let centres: Vec<f64> = pairs.iter().map(|[one, other]| f64::midpoint(*one, *other)).collect();
    let beyond = stats::standard_deviation(&centres)?.powi(2) - variance / 2.0;
    let verdict = checked(&runs);
    Ok(Noise {
        pairs: n,
        left_out: judged.runs.iter().filter(|run| run.cell.success().is_some() && !run.counts()).count(),
        window_s: stats::median(&windows(&runs))?,
        within: variance.sqrt(),
        within_interval: (ends.low, ends.high),
        between: beyond.max(0.0).sqrt(),
        drift_per_hour: drift(&blocks),
        autocorrelation: autocorrelation(&judged.runs),
        by_iterations: by_iterations(&judged.runs),
        idle_processors: idle_processors(&judged.runs),
        verdict: verdict.as_str(),
        is_wrong: matches!(verdict, Verdict::Faster | Verdict::Slower),
    })
}

/// The processors that the idle machine keeps busy, as the mark `contended` would derive them from these runs.
fn idle_processors(runs: &[Run<'_>]) -> Option<f64> {
    let records: Vec<&Record> = runs.iter().filter_map(|run| run.cell.record()).collect();
    Idle::of(records.iter().copied()).on(&records.first()?.provenance.host)
}

fn counted<'r>(runs: &'r [Run<'_>]) -> Vec<Counted<'r>> {
    let counting = runs.iter().filter(|run| run.counts()).filter_map(|run| {
        let (record, _) = run.cell.success()?;
        let side = SIDES.iter().position(|side| record.key.env == *side)?;
        Some((side, record, run.samples_per_s()?.ln()))
    });
    let found: Vec<(usize, &Record, f64)> = counting.collect();
    let records: Vec<&Record> = found.iter().map(|(_, record, _)| *record).collect();
    let numbered = found.into_iter().zip(blocks(&records));
    numbered.map(|((side, record, log), block)| Counted { side, record, log, block }).collect()
}

/// The runs of a block.
struct Block {
    /// The start of its first run, in hours since the epoch.
    hours: f64,
    /// The log of the throughput of each side; the last one of several runs.
    sides: [Option<f64>; 2],
}

/// The blocks in the order of time.
fn by_block(runs: &[Counted<'_>]) -> Vec<Block> {
    let mut found: std::collections::BTreeMap<usize, Block> = std::collections::BTreeMap::new();
    for run in runs {
        let hours = run.record.started_at.timestamp_millis() as f64 / 3.6e6;
        let block = found.entry(run.block).or_insert(Block { hours, sides: [None; 2] });
        block.hours = block.hours.min(hours);
        block.sides[run.side] = Some(run.log);
    }
    let mut blocks: Vec<Block> = found.into_values().collect();
    blocks.sort_by(|one, other| one.hours.total_cmp(&other.hours));
    blocks
}

fn windows(runs: &[Counted<'_>]) -> Vec<f64> {
    runs.iter().filter_map(|run| Some(run.record.measurement.as_ref()?.elapsed_s)).collect()
}

/// Theil and Sen's slope over blocks that contain both sides, as a change of the log per hour.
fn drift(blocks: &[Block]) -> Option<(f64, f64, f64)> {
    let centres: Vec<(f64, f64)> = blocks
        .iter()
        .filter_map(|block| Some((block.hours, f64::midpoint(block.sides[0]?, block.sides[1]?))))
        .collect();
    let values: Vec<f64> = centres.iter().map(|(_, centre)| *centre).collect();
    if values.len() < SLOPE_NEEDS {
        return None;
    }
    let hours = (centres.last()?.0 - centres.first()?.0) / (values.len() - 1) as f64;
    let stats::Slope { per_step, interval: Interval { low, high, .. } } =
        stats::correlated_slope(&values, CONFIDENCE).ok()?;
    (hours > 0.0).then(|| (per_step / hours, low / hours, high / hours))
}

/// The seconds of the iterations of each run that counts.
fn iterations<'r>(runs: &'r [Run<'_>]) -> impl Iterator<Item = Vec<f64>> + 'r {
    let counting = runs.iter().filter(|run| run.counts());
    counting.filter_map(|run| run.cell.iterations.as_ref()?.compute_s())
}

fn autocorrelation(runs: &[Run<'_>]) -> Option<f64> {
    let found: Vec<f64> =
        iterations(runs).filter_map(|seconds| stats::autocorrelation(&seconds).ok()).collect();
    stats::median(&found).ok()
}

/// The median over runs of the error of a mean of iterations: their coefficient of variation ÷ √(effective size).
fn by_iterations(runs: &[Run<'_>]) -> Option<f64> {
    let error = |seconds: Vec<f64>| {
        Some(stats::coefficient_of_variation(&seconds).ok()? / stats::effective_size(&seconds).ok()?.sqrt())
    };
    stats::median(&iterations(runs).filter_map(error).collect::<Vec<_>>()).ok()
}

/// The verdict of a comparison of both sides.
fn checked(runs: &[Counted<'_>]) -> Verdict {
    let side = |place: usize| -> Vec<Rate> {
        let own = runs.iter().filter(|run| run.side == place);
        own.map(|run| Rate { per_s: run.log.exp(), block: Some(run.block) }).collect()
    };
    let comparison = compare(&[Sides { from: side(0), to: side(1) }], Settings::default());
    comparison.configs[0].map_or(Verdict::CannotTell, |config| config.verdict)
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, TimeDelta};

    use super::*;
    use crate::analysis::fixture::{StudyBuilder, key};
    use crate::analysis::noise::{Order, is_calibration};
    use crate::analysis::{Study, judge};
    use crate::random::SplitMix64;

    /// `blocks` blocks five minutes apart, with this scatter, and a drift per hour.
    fn study(blocks: u32, within: f64, between: f64, drift: f64, seed: u64) -> Study {
        let mut random = SplitMix64::new(seed);
        let mut builder = StudyBuilder::new();
        for repeat in 1..=blocks {
            let hours = f64::from(repeat) / 12.0;
            let block = between * random.normal() + drift * hours;
            for (place, env) in SIDES.into_iter().enumerate() {
                let rate = 20.0 * (block + within * random.normal()).exp();
                builder = builder.run_with(key(env, "resnet18", 16, repeat), rate, |record| {
                    let wall = record.ended_at - record.started_at;
                    let start = TimeDelta::minutes(5 * i64::from(repeat) + 2 * place as i64);
                    record.started_at = DateTime::UNIX_EPOCH + start;
                    record.ended_at = record.started_at + wall;
                });
            }
        }
        builder.build()
    }

    fn found(study: &Study) -> Noise {
        noise(&judge(study)).unwrap()
    }

    #[test]
    fn scatter_within_and_between_blocks_is_separated() {
        let noise = found(&study(60, 0.01, 0.03, 0.0, 5));
        assert_eq!((noise.pairs, noise.left_out), (60, 0));
        assert!((noise.within - 0.01).abs() < 0.003 && (noise.between - 0.03).abs() < 0.01, "{noise:?}");
        assert!(noise.within_interval.0 < noise.within && noise.within < noise.within_interval.1);
        assert!(!noise.is_wrong, "{noise:?}");
    }

    /// The scatter of the mean of a pair is that of its runs, and not one of blocks.
    #[test]
    fn equal_blocks_hardly_scatter_beyond_their_runs() {
        let noise = found(&study(200, 0.02, 0.0, 0.0, 7));
        assert!(noise.between < 0.0105, "{noise:?}");
    }

    /// Over many machines, the interval of the scatter has its nominal coverage.
    #[test]
    fn the_interval_of_the_scatter_covers_it() {
        let covers = |seed: u64| {
            let (low, high) = found(&study(8, 0.01, 0.02, 0.0, seed)).within_interval;
            low <= 0.01 && 0.01 <= high
        };
        let covered = (0..400).filter(|seed| covers(*seed)).count();
        assert!((370..=391).contains(&covered), "{covered} of 400");
    }

    #[test]
    fn a_drift_is_per_hour() {
        let (drift, low, high) = found(&study(24, 0.005, 0.0, -0.05, 3)).drift_per_hour.unwrap();
        assert!(
            (drift + 0.05).abs() < 0.01 && low < drift && drift < high && high < 0.0,
            "{drift} {low} {high}"
        );
        assert_eq!(found(&study(5, 0.005, 0.0, -0.05, 3)).drift_per_hour, None);
    }

    #[test]
    fn interleaved_runs_resolve_more_and_more_repeats_resolve_more() {
        let noise = found(&study(60, 0.01, 0.03, 0.0, 5));
        let [paired, apart] =
            [Order::Interleaved, Order::Apart].map(|order| noise.resolves(5, order).unwrap());
        assert!(paired < apart && noise.resolves(20, Order::Interleaved).unwrap() < paired);
        assert_eq!(noise.resolves(2, Order::Interleaved), None);
        // A difference that n repeats resolve needs n repeats.
        for repeats in [5, 8, 20] {
            let share = noise.resolves(repeats, Order::Interleaved).unwrap();
            assert_eq!(noise.repeats_for(share * 1.0001, Order::Interleaved), Some(repeats));
        }
    }

    #[test]
    fn two_blocks_are_too_few() {
        assert_eq!(noise(&judge(&study(2, 0.01, 0.03, 0.0, 5))).unwrap_err().n, 2);
    }

    #[test]
    fn plans_of_calibrations_are_recognised_by_name() {
        let is = |name: &str| is_calibration(&name.parse().unwrap());
        assert!(is("calibration-cpu") && !is("calibration") && !is("calibrations") && !is("mac"));
    }
}
