//! The table of marks: the effect of each one on statistics with the reason, its subject, its thresholds, and its text
//! in the manual. The manual's tables and the legend of a report are generated from it.

use super::{Mark, MarkName, Threshold};

/// Everything that is declared about a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Its effect on the run, with the reason.
    pub effect: Effect,
    /// Its subject.
    pub scope: Scope,
    /// The thresholds of its rule.
    pub thresholds: &'static [Threshold],
    /// When it is raised, to complete "raised when"; `{name}` is replaced by the value of one of its thresholds.
    pub raised: &'static str,
    /// Its meaning, as a sentence.
    pub meaning: &'static str,
    /// The remedy, as a sentence.
    pub remedy: &'static str,
}

/// The effect of a mark on the statistics, with the reason as a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The run counts: its number is valid for this config on this machine.
    Kept(&'static str),
    /// The run does not count: it measured something other than this config on this machine.
    LeftOut(&'static str),
    /// The run has no throughput, so no switch can include it.
    Voids(&'static str),
}

/// The subject of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One run.
    Run,
    /// A row; no single run is to blame.
    Row,
    /// A row compared with one of another env.
    Comparison,
}

impl Effect {
    /// `kept`, `left out` or `no throughput`, as in the tables.
    pub fn word(self) -> &'static str {
        match self {
            Effect::Kept(_) => "kept",
            Effect::LeftOut(_) => "left out",
            Effect::Voids(_) => "no throughput",
        }
    }

    /// The reason, as a sentence.
    pub fn reason(self) -> &'static str {
        match self {
            Effect::Kept(reason) | Effect::LeftOut(reason) | Effect::Voids(reason) => reason,
        }
    }
}

impl Scope {
    /// The wording of the manual.
    pub fn word(self) -> &'static str {
        match self {
            Scope::Run => "run",
            Scope::Row => "row",
            Scope::Comparison => "comparison",
        }
    }
}

impl Mark {
    /// Whether a run with this mark is left out of statistics unless the user includes it.
    pub fn disqualifies(&self) -> bool {
        match MarkName::from(self).declaration().effect {
            Effect::LeftOut(_) | Effect::Voids(_) => true,
            Effect::Kept(_) => false,
        }
    }

    /// Whether a run with this mark has no throughput, so that no switch can include it.
    pub fn voids(&self) -> bool {
        matches!(MarkName::from(self).declaration().effect, Effect::Voids(_))
    }
}

impl MarkName {
    /// The table of all marks.
    pub const fn declaration(self) -> Declaration {
        match self {
            MarkName::Contended => Declaration {
                effect: Effect::LeftOut("The machine was shared with other work."),
                scope: Scope::Run,
                thresholds: &[
                    Threshold::ForeignCores,
                    Threshold::ForeignShare,
                    Threshold::ForeignAbove,
                    Threshold::OverlapS,
                    Threshold::Switches,
                    Threshold::SwitchesFloor,
                    Threshold::SystemShare,
                ],
                raised: "others used the processors or the device while the job ran",
                meaning: "Other work slowed the run down.",
                remedy: "Stop the other work and repeat the run.",
            },
            MarkName::Unsettled => Declaration {
                effect: Effect::LeftOut("The matrix asks for a quieter or cooler machine than this run had."),
                scope: Scope::Run,
                thresholds: &[],
                raised: "`gate_timeout` passed before `quiet` and `max_temperature` were met",
                meaning: "The run did not have the requested conditions.",
                remedy: "Stop other work or cool the machine, or relax the limits.",
            },
            MarkName::Throttled => Declaration {
                effect: Effect::LeftOut("Its clocks depend on the heat of what ran before."),
                scope: Scope::Run,
                thresholds: &[Threshold::ThrottledShare, Threshold::ThrottleEvents],
                raised: "heat or protection held clocks down for more than {throttled_share} of the time, or more than \
                         {throttle_events} if the time is not counted",
                meaning: "The device was slower than it is when it is cool.",
                remedy: "Cool the machine, or set `cool_down`.",
            },
            MarkName::QuotaThrottled => Declaration {
                effect: Effect::LeftOut("The kernel paused its threads repeatedly."),
                scope: Scope::Run,
                thresholds: &[Threshold::QuotaHeld],
                raised: "the quota of its control group took more than {quota_held} from it on average",
                meaning: "A container or a scheduler allows fewer processors than its threads use.",
                remedy: "Set `threads` to the quota, or raise the quota.",
            },
            MarkName::Suspended => Declaration {
                effect: Effect::LeftOut("Part of the measured time passed while it was not running."),
                scope: Scope::Run,
                thresholds: &[Threshold::SuspendedS],
                raised: "the host slept, or the worker was stopped, for more than {suspended_s} while the job ran",
                meaning: "A laptop slept, or a signal or a debugger stopped the worker.",
                remedy: "Repeat the run, and keep the machine awake meanwhile.",
            },
            MarkName::Spilled => Declaration {
                effect: Effect::LeftOut("Its seconds are those of paging."),
                scope: Scope::Run,
                thresholds: &[Threshold::SpillCliff, Threshold::SpillCores, Threshold::SpillSystemShare],
                raised: "a GPU is more than {spill_cliff} slower than at the next smaller batch, with at least \
                         {spill_cores} busy, {spill_system_share} in the system",
                meaning: "Device memory was paged to the host.",
                remedy: "Use a smaller batch.",
            },
            MarkName::Swapped => Declaration {
                effect: Effect::LeftOut("The host was busy with its own memory."),
                scope: Scope::Run,
                thresholds: &[Threshold::SwappedMib],
                raised: "the host wrote to swap and read from it more than {swapped_mib} together",
                meaning: "The host ran short of memory.",
                remedy: "Free memory, or use a smaller batch.",
            },
            MarkName::Unsynchronised => Declaration {
                effect: Effect::Voids("There are no seconds to publish."),
                scope: Scope::Run,
                thresholds: &[],
                raised: "the worker reports `synchronized: false`",
                meaning: "The seconds of the window mean nothing.",
                remedy: "Make the worker synchronise at both ends.",
            },
            MarkName::PowerCapped => Declaration {
                effect: Effect::Kept("Many boards run at their power limit by design."),
                scope: Scope::Run,
                thresholds: &[Threshold::ThrottledShare],
                raised: "the GPU was at its power limit in more than {throttled_share} of the samples",
                meaning: "Power, not the chip, set the clocks.",
                remedy: "Compare only boards with the same limit.",
            },
            MarkName::Oversubscribed => Declaration {
                effect: Effect::Kept("The settings ask for it, and settings are part of the row."),
                scope: Scope::Run,
                thresholds: &[],
                raised: "a run on the processor had more compute threads than usable processors",
                meaning: "Threads waited for processors.",
                remedy: "Set `threads` to the usable processors or fewer.",
            },
            MarkName::OnBattery => Declaration {
                effect: Effect::Kept("The power source is part of the row."),
                scope: Scope::Run,
                thresholds: &[],
                raised: "the host ran on its battery",
                meaning: "Many machines are slower on battery.",
                remedy: "Plug it in.",
            },
            MarkName::Diverged => Declaration {
                effect: Effect::Kept("A network that diverged is still computed whole."),
                scope: Scope::Run,
                thresholds: &[],
                raised: "a loss was infinite or not a number",
                meaning: "The time is real, but nothing was learnt.",
                remedy: "Check the worker, the data and the precision.",
            },
            MarkName::Trend => Declaration {
                effect: Effect::Kept("The window was synchronised at both ends, so its seconds are true."),
                scope: Scope::Run,
                thresholds: &[Threshold::Trend],
                raised: "iterations became longer or shorter by more than {trend} of their median over the window",
                meaning: "A longer window would give another number.",
                remedy: "Look for heat; set a longer `warmup`.",
            },
            MarkName::Periodic => Declaration {
                effect: Effect::Kept("The window was synchronised at both ends, so its seconds are true."),
                scope: Scope::Run,
                thresholds: &[Threshold::Periodic],
                raised: "the median of every k-th iteration was more than {periodic} that of the others, or the \
                         reverse",
                meaning: "A synchronisation might be missing or superfluous.",
                remedy: "Check where the worker takes its times.",
            },
            MarkName::Bimodal => Declaration {
                effect: Effect::Kept("The window was synchronised at both ends, so its seconds are true."),
                scope: Scope::Run,
                thresholds: &[Threshold::Bimodal],
                raised: "iterations were of two kinds, more than {bimodal} apart",
                meaning: "Something switched: a clock, a core, an algorithm.",
                remedy: "Fix the clocks, or measure longer.",
            },
            MarkName::SlowFirst => Declaration {
                effect: Effect::Kept("The window was synchronised at both ends, so its seconds are true."),
                scope: Scope::Run,
                thresholds: &[Threshold::SlowFirst],
                raised: "the first measured iteration took more than {slow_first} the median of the others",
                meaning: "The window contains one-time work.",
                remedy: "Set a longer `warmup`.",
            },
            MarkName::Stalls => Declaration {
                effect: Effect::Kept("The window was synchronised at both ends, so its seconds are true."),
                scope: Scope::Run,
                thresholds: &[Threshold::Stalls],
                raised: "single long iterations cost more than {stalls} of the window",
                meaning: "The throughput depends on how many of them the window contains.",
                remedy: "Find what stops the training, such as checkpoints. Or measure longer.",
            },
            MarkName::LevelShift => Declaration {
                effect: Effect::Kept("The window was synchronised at both ends, so its seconds are true."),
                scope: Scope::Run,
                thresholds: &[Threshold::LevelShift],
                raised: "a stretch of the window was slower than the rest, at a cost of more than {level_shift} of it",
                meaning: "The throughput is a mixture of two speeds.",
                remedy: "Look at clocks, heat and other programs at that time; repeat the run.",
            },
            MarkName::ClockChanged => Declaration {
                effect: Effect::Kept(
                    "If heat is the cause, the run is `throttled` too. Otherwise this is how the processor works.",
                ),
                scope: Scope::Run,
                thresholds: &[Threshold::ClockWithin, Threshold::ClockBetween],
                raised: "a clock varied by more than {clock_within}, or was more than {clock_between} off that of the \
                         other runs",
                meaning: "The device's speed changed.",
                remedy: "Fix the clocks if you have permission.",
            },
            MarkName::HighVariation => Declaration {
                effect: Effect::Kept("No single run is to blame."),
                scope: Scope::Row,
                thresholds: &[Threshold::HighVariation],
                raised: "the coefficient of variation of a row (sd ÷ mean) is above {high_variation}, at 95 % confidence",
                meaning: "The runs of a row scatter.",
                remedy: "Repeat more, or find a quieter machine.",
            },
            MarkName::Autocorrelated => Declaration {
                effect: Effect::Kept("The runs are sound; their interval is not."),
                scope: Scope::Row,
                thresholds: &[Threshold::Autocorrelated],
                raised: "the repeats of a machine correlate: the interval is more than {autocorrelated} too narrow",
                meaning: "Repeats resemble each other more than those of another day.",
                remedy: "Repeat on other days too, and not with `order: sequential`.",
            },
            MarkName::SettingsDiffer => Declaration {
                effect: Effect::Kept("Each row is valid for its settings."),
                scope: Scope::Comparison,
                thresholds: &[],
                raised: "rows of two envs with the same network, batch and precision differ in undeclared settings",
                meaning: "The comparison shows more than the machines.",
                remedy: "Declare the setting, or make it equal.",
            },
        }
    }
}
