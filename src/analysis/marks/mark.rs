//! The marks themselves: their names, what they do to a run, and how they read.

use std::fmt;

/// A named doubt about a run, or about a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// Others used the processors or the device meanwhile.
    Contended {
        /// By what, with the number and the threshold.
        by: String,
    },
    /// The window was not synchronised with the device: its seconds mean nothing.
    Unsynchronised,
    /// It was started although the machine was not as quiet or as cool as its limits ask.
    Unsettled {
        /// What the machine was, with the last readings.
        by: String,
    },
    /// Heat, or the hardware's own protection, held the clocks down.
    Throttled {
        /// By what, with the number and the threshold.
        by: String,
    },
    /// Memory of the device was paged to the host.
    Spilled {
        /// The smaller batch that it is held against.
        batch: u32,
        /// How many times the throughput at that batch is this run's.
        cliff: f64,
        /// Processors that the run kept busy.
        cores: f64,
        /// The share of that time spent in the system.
        system_share: f64,
        /// The least cliff that counts.
        threshold: f64,
    },
    /// The host wrote memory to swap, or read it back.
    Swapped {
        /// Bytes written to swap.
        out_bytes: u64,
        /// Bytes read from swap.
        in_bytes: u64,
        /// Bytes that are suffered.
        threshold: u64,
    },
    /// The board was at the power it is allowed to take.
    PowerCapped {
        /// Samples in which it was.
        samples: u32,
        /// All samples.
        of: u32,
        /// The share of them that is suffered.
        threshold: f64,
    },
    /// There were more compute threads than processors to run them.
    Oversubscribed {
        /// Compute threads.
        threads: u32,
        /// Processors the process could run on.
        usable: u32,
    },
    /// The host ran on its battery.
    OnBattery,
    /// The loss was infinite or not a number: the time is that of the arithmetic, but nothing was being learnt.
    Diverged {
        /// The first such iteration of the window, counted from 0.
        iteration: u64,
    },
    /// Iterations took longer and longer, or shorter and shorter.
    Trend {
        /// The change from the window's start to its end, as a share of the median iteration.
        change: f64,
        /// Its interval.
        interval: (f64, f64),
        /// Iterations.
        n: usize,
        /// The change that is suffered.
        threshold: f64,
    },
    /// Every k-th iteration took longer or shorter than the others: a synchronisation is missing, or one is too many.
    Periodic {
        /// k.
        every: usize,
        /// Its median, in multiples of that of the others.
        ratio: f64,
        /// Iterations looked at.
        n: usize,
        /// The ratio, or its inverse, that is suffered.
        threshold: f64,
    },
    /// Iterations were of two kinds with nothing between them, in no regular turn.
    Bimodal {
        /// The slower kind's median, in multiples of the faster's.
        ratio: f64,
        /// Iterations of the faster kind, and of the slower.
        numbers: (usize, usize),
        /// The ratio that is suffered.
        threshold: f64,
    },
    /// The first measured iteration was slow: the warm-up was too short.
    SlowFirst {
        /// Its seconds, in multiples of the median of the others.
        ratio: f64,
        /// The ratio that is suffered.
        threshold: f64,
    },
    /// A clock was not the same all through the window, or not that of the other runs of the group.
    ClockChanged {
        /// How, with the number and the threshold.
        by: String,
    },
    /// The runs of a row scatter. A doubt about the row, not about any of its runs.
    HighVariation {
        /// The coefficient of variation.
        cv: f64,
        /// Runs.
        n: usize,
        /// The coefficient that is suffered.
        threshold: f64,
    },
    /// A row stands beside one of another env that differs in more than what is declared. A doubt about the comparison.
    SettingsDiffer {
        /// The other env.
        env: String,
        /// In what, as `name this / that`.
        differences: Vec<String>,
    },
}

impl Mark {
    /// Its name, as the CSV files have it.
    pub fn name(&self) -> &'static str {
        match self {
            Mark::Contended { .. } => "contended",
            Mark::Unsynchronised => "unsynchronised",
            Mark::Unsettled { .. } => "unsettled",
            Mark::Throttled { .. } => "throttled",
            Mark::Spilled { .. } => "spilled",
            Mark::Swapped { .. } => "swapped",
            Mark::PowerCapped { .. } => "power-capped",
            Mark::Oversubscribed { .. } => "oversubscribed",
            Mark::OnBattery => "on-battery",
            Mark::Diverged { .. } => "diverged",
            Mark::Trend { .. } => "trend",
            Mark::Periodic { .. } => "periodic",
            Mark::Bimodal { .. } => "bimodal",
            Mark::SlowFirst { .. } => "slow-first",
            Mark::ClockChanged { .. } => "clock-changed",
            Mark::HighVariation { .. } => "high-variation",
            Mark::SettingsDiffer { .. } => "settings-differ",
        }
    }

    /// Whether a run with this mark is left out of statistics.
    ///
    /// Left out is what measured something else than this config on this machine:
    ///
    /// - `contended`, `swapped`: the machine was shared, with other processes or with its own memory's traffic.
    /// - `unsettled`: the matrix asked for a quieter or cooler machine than this run had.
    /// - `throttled`: the device was not the device. Its clocks depend on the heat of what ran before.
    /// - `spilled`: the seconds are those of paging. The row says so instead of giving a throughput that nobody wants.
    /// - `unsynchronised`: there are no seconds.
    ///
    /// Kept is what is true of this config on this machine, but wants a word:
    ///
    /// - `oversubscribed` is what its settings ask for, and settings are part of the group. `on-battery` is slower but
    ///   its own, and the power source is part of the group.
    /// - `diverged`: a network that diverged is still computed whole, though a device that is limited by its power may
    ///   compute what is not a number a little faster.
    /// - `power-capped`: many boards reach their power limit in normal operation and are sold so.
    /// - `trend`, `periodic`, `bimodal`, `slow-first`: the window was synchronised at both ends, so its seconds are true whatever
    ///   happened within. The mark says that a longer window, or a later one, would have given another number.
    /// - `clock-changed`: where that was heat, `throttled` says it; else it is how this processor keeps its clock.
    /// - `high-variation`, `settings-differ` are about rows. No single run is to blame.
    pub fn disqualifies(&self) -> bool {
        match self {
            Mark::Contended { .. }
            | Mark::Unsynchronised
            | Mark::Unsettled { .. }
            | Mark::Throttled { .. }
            | Mark::Spilled { .. }
            | Mark::Swapped { .. } => true,
            Mark::PowerCapped { .. }
            | Mark::Oversubscribed { .. }
            | Mark::OnBattery
            | Mark::Diverged { .. }
            | Mark::Trend { .. }
            | Mark::Periodic { .. }
            | Mark::Bimodal { .. }
            | Mark::SlowFirst { .. }
            | Mark::ClockChanged { .. }
            | Mark::HighVariation { .. }
            | Mark::SettingsDiffer { .. } => false,
        }
    }

    /// Whether a run with this mark has no throughput at all, so that no switch can include it.
    pub fn voids(&self) -> bool {
        matches!(self, Mark::Unsynchronised)
    }
}

/// The names of `marks`, each once, in their order.
pub fn mark_names<'m>(marks: impl IntoIterator<Item = &'m Mark>) -> Vec<&'static str> {
    let mut names = Vec::new();
    for mark in marks {
        if !names.contains(&mark.name()) {
            names.push(mark.name());
        }
    }
    names
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name())?;
        match self {
            Mark::Contended { by }
            | Mark::Unsettled { by }
            | Mark::Throttled { by }
            | Mark::ClockChanged { by } => f.write_str(by),
            Mark::Unsynchronised => f.write_str("the device was not synchronised at both ends of the window"),
            Mark::Spilled { .. } | Mark::Swapped { .. } | Mark::PowerCapped { .. } => self.fmt_of_machine(f),
            Mark::Oversubscribed { threads, usable } => {
                write!(f, "{threads} compute threads on {usable} usable processors")
            }
            Mark::OnBattery => f.write_str("the host ran on its battery"),
            Mark::Diverged { iteration } => {
                write!(f, "the loss was not finite from measured iteration {iteration} on")
            }
            Mark::Trend { .. } | Mark::Periodic { .. } | Mark::Bimodal { .. } | Mark::SlowFirst { .. } => {
                self.fmt_of_times(f)
            }
            Mark::HighVariation { cv, n, threshold } => write!(
                f,
                "the coefficient of variation over n = {n} is {:.1} % (threshold {:.0} %)",
                100.0 * cv,
                100.0 * threshold
            ),
            Mark::SettingsDiffer { env, differences } => {
                write!(f, "against {env}: {}", differences.join(", "))
            }
        }
    }
}

impl Mark {
    fn fmt_of_machine(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mark::Spilled { batch, cliff, cores, system_share, threshold } => write!(
                f,
                "{cliff:.1} times slower than batch {batch} (threshold {threshold:.0}), with {cores:.1} processors busy \
                 and {:.0} % of that in the system: device memory was paged to the host",
                100.0 * system_share
            ),
            Mark::Swapped { out_bytes, in_bytes, threshold } => write!(
                f,
                "the host wrote {} MiB to swap and read {} MiB from it (threshold {} MiB)",
                out_bytes >> 20,
                in_bytes >> 20,
                threshold >> 20
            ),
            Mark::PowerCapped { samples, of, threshold } => write!(
                f,
                "the board was at its power limit in {samples} of {of} samples (threshold {:.0} %)",
                100.0 * threshold
            ),
            _ => Ok(()),
        }
    }

    fn fmt_of_times(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mark::Trend { change, interval: (low, high), n, threshold } => write!(
                f,
                "iterations took {:.0} % {} at the window's end than at its start (Theil–Sen over n = {n}, {:.0} to \
                 {:.0} %, threshold {:.0} %)",
                100.0 * change.abs(),
                if *change > 0.0 { "longer" } else { "less" },
                100.0 * low,
                100.0 * high,
                100.0 * threshold
            ),
            Mark::Periodic { every, ratio, n, threshold } => write!(
                f,
                "every {} iteration took {ratio:.2} times as long as the others (n = {n}, threshold {threshold:.1})",
                ordinal(*every)
            ),
            Mark::Bimodal { ratio, numbers: (fast, slow), threshold } => write!(
                f,
                "{slow} iterations took {ratio:.2} times as long as the other {fast}, with nothing between them (threshold \
                 {threshold:.1})"
            ),
            Mark::SlowFirst { ratio, threshold } => write!(
                f,
                "the first measured iteration took {ratio:.1} times as long as the median of the others (threshold \
                 {threshold:.1}): the warm-up was too short"
            ),
            _ => Ok(()),
        }
    }
}

/// `2nd`, `3rd`, `20th`; of the numbers that a period may be.
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

    #[test]
    fn ordinals() {
        let all: Vec<String> = [2, 3, 4, 11, 12, 13, 20].into_iter().map(ordinal).collect();
        assert_eq!(all, ["2nd", "3rd", "4th", "11th", "12th", "13th", "20th"]);
    }

    #[test]
    fn names_stand_once() {
        let contended = |by: &str| Mark::Contended { by: by.to_owned() };
        let marks = [contended("a"), Mark::OnBattery, contended("b")];
        assert_eq!(mark_names(&marks), ["contended", "on-battery"]);
    }

    /// One of each.
    fn every_mark() -> Vec<Mark> {
        vec![
            Mark::Contended { by: "others were at work".into() },
            Mark::Unsynchronised,
            Mark::Throttled { by: "it was hot".into() },
            Mark::Spilled { batch: 128, cliff: 21.4, cores: 1.03, system_share: 0.628, threshold: 4.0 },
            Mark::Swapped { out_bytes: 17 << 20, in_bytes: 0, threshold: 16 << 20 },
            Mark::PowerCapped { samples: 12, of: 40, threshold: 0.05 },
            Mark::Oversubscribed { threads: 3, usable: 2 },
            Mark::OnBattery,
            Mark::Diverged { iteration: 7 },
            Mark::Trend { change: 0.142, interval: (0.091, 0.18), n: 100, threshold: 0.1 },
            Mark::Trend { change: -0.2, interval: (-0.25, -0.1), n: 100, threshold: 0.1 },
            Mark::Periodic { every: 4, ratio: 0.25, n: 100, threshold: 1.2 },
            Mark::Bimodal { ratio: 1.53, numbers: (70, 30), threshold: 1.2 },
            Mark::SlowFirst { ratio: 2.5, threshold: 1.5 },
            Mark::ClockChanged { by: "it varied".into() },
            Mark::HighVariation { cv: 0.123, n: 5, threshold: 0.05 },
            Mark::SettingsDiffer { env: "gpu".into(), differences: vec!["tf32 false / true".into()] },
        ]
    }

    /// A mark says its name, its number and its threshold.
    #[test]
    fn marks_read_as_sentences() {
        let marks = every_mark();
        let texts: Vec<String> = marks.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(texts.join("\n"));
        assert!(marks.iter().all(|mark| mark.to_string().starts_with(&format!("{}: ", mark.name()))));
    }
}
