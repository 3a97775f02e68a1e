//! The sentence of each mark: the observation, with the number and the threshold in force. It never names a cause.

use std::fmt;

use super::{Mark, Threshold};
use crate::analysis::claim::{Claim, Compared, Limit, Relation, Sentence, threshold_limit};
use crate::threshold::Unit;

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sentence().fmt(f)
    }
}

impl Mark {
    /// Its name, then the observation, with the numbers that were compared.
    pub fn sentence(&self) -> Sentence {
        self.observed().reworded(|observed| format!("{}: {observed}", self.name()))
    }

    fn observed(&self) -> Sentence {
        match *self {
            Mark::Contended { ref by }
            | Mark::Unsettled { ref by }
            | Mark::Throttled { ref by }
            | Mark::Suspended { ref by }
            | Mark::ClockChanged { ref by } => by.clone(),
            Mark::Spilled { batch, cliff, cores, system_share, threshold } => {
                spilled(batch, [cliff, cores, system_share], threshold)
            }
            Mark::QuotaThrottled { held, quota, threshold } => quota_throttled(held, quota, threshold),
            Mark::Swapped { out_bytes, in_bytes, threshold } => swapped([out_bytes, in_bytes], threshold),
            Mark::Unsynchronised => "the device was not synchronised at both ends of the window".into(),
            Mark::PowerCapped { samples, of, threshold } => power_capped(samples, of, threshold),
            Mark::Oversubscribed { threads, usable } => oversubscribed(threads, usable),
            Mark::OnBattery => "the host ran on its battery".into(),
            Mark::Diverged { iteration } => {
                Sentence::plain(format!("the loss was not finite from measured iteration {iteration} on"))
            }
            Mark::Trend { change, interval, n, threshold } => trend(change, interval, n, threshold),
            Mark::Periodic { every, ratio, n, threshold } => periodic(every, ratio, n, threshold),
            Mark::Bimodal { ratio, numbers, threshold } => bimodal(ratio, numbers, threshold),
            Mark::SlowFirst { ratio, threshold } => slow_first(ratio, threshold),
            Mark::Stalls { stalled, n, ratio, cost, threshold } => {
                stalls([stalled, n], ratio, cost, threshold)
            }
            Mark::LevelShift { places, n, ratio, cost, threshold } => {
                level_shift(places, n, [ratio, cost], threshold)
            }
            Mark::Autocorrelated { correlation, rows, too_narrow, n, threshold } => {
                autocorrelated([rows, n], [correlation, too_narrow], threshold)
            }
            Mark::HighVariation { cv, at_least, n, threshold } => {
                high_variation([cv, at_least], n, threshold)
            }
            Mark::SettingsDiffer { ref env, ref differences } => Sentence::new(
                format!("against {env}: {}", differences.join(", ")),
                differences.iter().cloned().map(Claim::Differ),
            ),
        }
    }
}

fn spilled(batch: u32, [cliff, cores, system_share]: [f64; 3], threshold: f64) -> Sentence {
    let cliff = Compared::passed(Threshold::SpillCliff, cliff, threshold, 1);
    let text = format!(
        "{} times slower than batch {batch} (threshold {}), with {cores:.1} processors busy and {:.0} % of that time \
         in the system, as when device memory is paged to the host",
        cliff.number(),
        cliff.limit(),
        100.0 * system_share
    );
    Sentence::new(text, [cliff])
}

fn quota_throttled(held: f64, quota: Option<f64>, threshold: f64) -> Sentence {
    let held = Compared::passed(Threshold::QuotaHeld, held, threshold, 2);
    let quota = quota.map(|cpus| format!(" of {}", Unit::Processors.text(cpus))).unwrap_or_default();
    let text = format!(
        "the control group's quota{quota} took {} processors from it on average (threshold {})",
        held.number(),
        held.limit()
    );
    Sentence::new(text, [held])
}

fn swapped(bytes: [u64; 2], threshold: f64) -> Sentence {
    let [out, back] = bytes.map(|bytes| bytes as f64 / f64::from(1 << 20));
    let together = threshold_limit(Threshold::SwappedMib, threshold);
    let any = Limit::understood(0.0);
    let [together, out, back] = Compared::all(
        [(out + back, Relation::Above, together), (out, Relation::From, any), (back, Relation::From, any)],
        0,
    );
    let text = format!(
        "the host wrote {} MiB to swap and read {} MiB from it, together {} MiB (threshold {})",
        out.number(),
        back.number(),
        together.number(),
        together.limit()
    );
    Sentence::new(text, [together])
}

fn power_capped(samples: u32, of: u32, threshold: f64) -> Sentence {
    let share = Compared::passed(Threshold::ThrottledShare, f64::from(samples) / f64::from(of), threshold, 0);
    let (percent, limit) = (share.number(), share.limit());
    let text = format!(
        "the board was at its power limit in {samples} of {of} samples, {percent} % of them (threshold {limit})"
    );
    Sentence::new(text, [share])
}

fn oversubscribed(threads: u32, usable: u32) -> Sentence {
    let usable = Limit::printed(f64::from(usable), 0);
    let threads = Compared::new(f64::from(threads), Relation::Above, usable, 0);
    let text = format!("{} compute threads on {} usable processors", threads.number(), threads.limit());
    Sentence::new(text, [threads])
}

/// All three numbers have the same sign, since only significant trends are reported.
fn trend(change: f64, (low, high): (f64, f64), n: usize, threshold: f64) -> Sentence {
    let (word, sign) = if change > 0.0 { ("longer", 1.0) } else { ("shorter", -1.0) };
    let relation = if change > 0.0 { Relation::Above } else { Relation::Below };
    let from_zero = |share: f64| (100.0 * share, relation, Limit::understood(0.0));
    let size = (100.0 * sign * change, Relation::Above, threshold_limit(Threshold::Trend, threshold));
    let [size, low, high] = Compared::all([size, from_zero(low), from_zero(high)], 0);
    let text = format!(
        "iterations became {word} over the window, by {} % of their median (Theil–Sen over n = {n}: {} to {} %; \
         threshold {})",
        size.number(),
        low.number(),
        high.number(),
        size.limit()
    );
    Sentence::new(text, [size, low, high])
}

fn periodic(every: usize, ratio: f64, n: usize, threshold: f64) -> Sentence {
    let (relation, bound) =
        if ratio > 1.0 { (Relation::Above, threshold) } else { (Relation::Below, 1.0 / threshold) };
    let ratio = Compared::new(ratio, relation, Limit::understood(bound), 2);
    let text = format!(
        "every {} iteration took {} times as long as the others (n = {n}, threshold {})",
        ordinal(every),
        ratio.number(),
        Threshold::Periodic.text(threshold)
    );
    Sentence::new(text, [ratio])
}

fn bimodal(ratio: f64, (fast, slow): (usize, usize), threshold: f64) -> Sentence {
    let ratio = Compared::passed(Threshold::Bimodal, ratio, threshold, 2);
    let text = format!(
        "{slow} iterations took {} times as long as the other {fast}, with hardly any between them (threshold {})",
        ratio.number(),
        ratio.limit()
    );
    Sentence::new(text, [ratio])
}

fn slow_first(ratio: f64, threshold: f64) -> Sentence {
    let ratio = Compared::passed(Threshold::SlowFirst, ratio, threshold, 1);
    let text = format!(
        "the first measured iteration took {} times as long as the median of the others (threshold {})",
        ratio.number(),
        ratio.limit()
    );
    Sentence::new(text, [ratio])
}

fn stalls([stalled, n]: [usize; 2], ratio: f64, cost: f64, threshold: f64) -> Sentence {
    let cost = Compared::passed(Threshold::Stalls, cost, threshold, 1);
    let text = format!(
        "{stalled} of {n} iterations took about {ratio:.1} times the median and cost {} % of the window (threshold {})",
        cost.number(),
        cost.limit()
    );
    Sentence::new(text, [cost])
}

fn level_shift((from, to): (usize, usize), n: usize, [ratio, cost]: [f64; 2], threshold: f64) -> Sentence {
    let cost = Compared::passed(Threshold::LevelShift, cost, threshold, 1);
    let text = format!(
        "iterations {from} to {to} of {n} took {ratio:.2} times as long as the others; the slower part cost {} % of the \
         window (threshold {})",
        cost.number(),
        cost.limit()
    );
    Sentence::new(text, [cost])
}

fn autocorrelated([rows, n]: [usize; 2], [correlation, too_narrow]: [f64; 2], threshold: f64) -> Sentence {
    let too_narrow = Compared::passed(Threshold::Autocorrelated, too_narrow, threshold, 1);
    let text = format!(
        "repeats resemble the ones before them (correlation {correlation:.2} over {rows} rows of the machine), so the \
         95 % interval of n = {n} is too narrow, by about {} times (threshold {})",
        too_narrow.number(),
        too_narrow.limit()
    );
    Sentence::new(text, [too_narrow])
}

fn high_variation([cv, at_least]: [f64; 2], n: usize, threshold: f64) -> Sentence {
    let [cv, bound] = [cv, at_least].map(|share| 100.0 * share);
    let passed = threshold_limit(Threshold::HighVariation, threshold);
    let [cv, at_least] =
        Compared::all([(cv, Relation::From, Limit::understood(bound)), (bound, Relation::Above, passed)], 1);
    let text = format!(
        "the coefficient of variation over n = {n} is {} %, and at least {} % at 95 % confidence (threshold {})",
        cv.number(),
        at_least.number(),
        at_least.limit()
    );
    Sentence::new(text, [cv, at_least])
}

/// `2nd`, `3rd`, `20th`, for the possible lengths of a period.
fn ordinal(number: usize) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ordinals() {
        let all: Vec<String> = [2, 3, 4, 11, 12, 13, 20, 21].into_iter().map(ordinal).collect();
        assert_eq!(all, ["2nd", "3rd", "4th", "11th", "12th", "13th", "20th", "21st"]);
    }

    /// A mark of each kind with a threshold, whose number is just beyond it or far.
    fn beyond(threshold: f64, by: f64, n: usize) -> Vec<Mark> {
        let passed = threshold * (1.0 + by);
        let samples = u32::try_from(n).unwrap();
        let half = (passed * f64::from(1 << 20) / 2.0).ceil() as u64 + 1;
        vec![
            Mark::Spilled { batch: 4, cliff: passed, cores: 1.0, system_share: 0.5, threshold },
            Mark::QuotaThrottled { held: passed, quota: None, threshold },
            Mark::Swapped { out_bytes: half, in_bytes: half, threshold },
            Mark::PowerCapped {
                samples,
                of: samples + 7,
                threshold: 0.999 * f64::from(samples) / f64::from(samples + 7),
            },
            Mark::Oversubscribed { threads: samples + 1, usable: samples },
            Mark::Trend { change: passed, interval: (passed * by.min(0.9), 2.0 * passed), n, threshold },
            Mark::Trend { change: -passed, interval: (-2.0 * passed, -passed * by.min(0.9)), n, threshold },
            Mark::Periodic { every: 2, ratio: 1.0 + passed, n, threshold: 1.0 + threshold },
            Mark::Periodic { every: 2, ratio: 1.0 / (1.0 + passed), n, threshold: 1.0 + threshold },
            Mark::Bimodal { ratio: 1.0 + passed, numbers: (n, n), threshold: 1.0 + threshold },
            Mark::SlowFirst { ratio: 1.0 + passed, threshold: 1.0 + threshold },
            Mark::Stalls { stalled: n, n: 2 * n, ratio: 3.0, cost: passed, threshold },
            Mark::LevelShift { places: (1, n), n: 2 * n, ratio: 1.2, cost: passed, threshold },
            Mark::Autocorrelated { correlation: 0.7, rows: n, too_narrow: passed, n, threshold },
            Mark::HighVariation { cv: 2.0 * passed, at_least: passed, n, threshold },
            Mark::SettingsDiffer { env: "b".parse().unwrap(), differences: vec!["threads 1 / 2".to_owned()] },
        ]
    }

    proptest! {
        /// A regression test: "5.0 % (threshold 5 %)" was printed.
        #[test]
        fn printed_numbers_pass_the_printed_threshold(
            threshold in 1e-3..20.0f64,
            by in prop_oneof![1e-7..1e-3f64, 1e-3..5.0f64],
            n in 1..9_999usize,
        ) {
            for mark in beyond(threshold, by, n) {
                let Sentence { text, claims } = mark.sentence();
                prop_assert!(!claims.is_empty(), "{text}");
                for claim in claims {
                    prop_assert!(claim.is_true_in(&text), "{text}: {claim:?}");
                }
            }
        }
    }
}
