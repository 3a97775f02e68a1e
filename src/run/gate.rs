//! Decides whether the machine is as quiet and as cool as a job's limits require before it starts. Pure: takes readings
//! and the time waited so far, returns a [`Verdict`]. `dispatch/pass_gate.rs` reads and waits.

use std::time::Duration;

use crate::job::Device;
use crate::matrix::Limits;
use crate::text::{beyond, decimals};

/// The requirements of a job's limits on the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wanted {
    /// How many processors other processes may keep busy.
    pub quiet: Option<f64>,
    /// The highest temperature of the device, in °C.
    pub max_temperature: Option<f64>,
    /// The longest wait.
    pub timeout: Duration,
}

/// The state of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reading {
    /// How many processors other processes kept busy over the last second or more; `None` if the host does not report
    /// it.
    pub foreign: Option<f64>,
    /// The temperature of the device in °C; `None` if it cannot be read.
    pub temperature: Option<f64>,
}

/// The decision about a job that is ready to start.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// Start it.
    Start,
    /// Keep waiting, for this reason.
    Wait(String),
    /// Start it despite this reason, because the longest wait is over.
    GiveUp(String),
}

impl Wanted {
    /// The requirements of `limits` on a host with `usable` processors, and with `room` for other processes beside a
    /// job's quota; `None` if there are none.
    pub(super) fn of(limits: &Limits, usable: u32, room: f64) -> Option<Wanted> {
        let wanted = Wanted {
            quiet: limits.quiet.map(|quiet| quiet.processors(usable, room)),
            max_temperature: limits.max_temperature,
            timeout: limits.gate_timeout,
        };
        (!wanted.is_nothing()).then_some(wanted)
    }

    /// The requirements that can be judged now. If `has_neighbours`, other jobs run on other devices by permission.
    /// Their work cannot be distinguished from foreign work, so quiet is not required while they run.
    pub(super) fn beside(&self, has_neighbours: bool) -> Wanted {
        Wanted { quiet: self.quiet.filter(|_| !has_neighbours), ..*self }
    }

    /// Whether there are no requirements.
    pub(super) fn is_nothing(&self) -> bool {
        self.quiet.is_none() && self.max_temperature.is_none()
    }

    /// The decision after waiting for `waited`, given `reading`. A missing reading is ignored.
    pub(super) fn judge(&self, waited: Duration, reading: Reading) -> Verdict {
        let over = |limit: Option<f64>, reading: Option<f64>| {
            let (limit, reading) = (limit?, reading?);
            (reading > limit).then_some((reading, limit))
        };
        let busy = over(self.quiet, reading.foreign).map(|(processors, limit)| {
            let [processors, _] = beyond(processors, limit, 2);
            format!("other processes keep {processors} processors busy (quiet: {})", decimals(limit, 4))
        });
        let hot = over(self.max_temperature, reading.temperature)
            .map(|(celsius, limit)| format!("the device is at {celsius} °C (max_temperature: {limit})"));
        let why: Vec<String> = busy.into_iter().chain(hot).collect();
        match why.join(", and ") {
            why if why.is_empty() => Verdict::Start,
            why if waited >= self.timeout => Verdict::GiveUp(why),
            why => Verdict::Wait(why),
        }
    }

    /// Warnings about readings that are needed but missing, for a job on `device`.
    pub(super) fn warnings(&self, reading: Reading, device: Device) -> Vec<String> {
        let quiet = self.quiet.is_some() && reading.foreign.is_none();
        let temperature = self.max_temperature.is_some() && reading.temperature.is_none();
        let mut sentences = Vec::new();
        if quiet {
            let what = "`quiet` has no effect: this system does not report how busy its processors are";
            sentences.push(what.to_owned());
        }
        if temperature {
            let what = "has no effect: this system does not report the temperature of";
            sentences.push(format!("`max_temperature` {what} `{device}`"));
        }
        sentences
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Quiet;

    fn wanted() -> Wanted {
        Wanted { quiet: Some(0.25), max_temperature: Some(60.0), timeout: Duration::from_secs(300) }
    }

    fn reading(foreign: f64, temperature: f64) -> Reading {
        Reading { foreign: Some(foreign), temperature: Some(temperature) }
    }

    fn judge(seconds: u64, reading: Reading) -> Verdict {
        wanted().judge(Duration::from_secs(seconds), reading)
    }

    #[test]
    fn on_a_quiet_and_cool_machine_jobs_start_immediately() {
        assert_eq!(judge(0, reading(0.25, 60.0)), Verdict::Start);
        assert_eq!(judge(1000, reading(0.0, 20.0)), Verdict::Start, "also after the timeout");
    }

    #[test]
    fn readings_over_their_limits_are_named_and_waited_for() {
        let busy = "other processes keep 1.20 processors busy (quiet: 0.25)";
        let hot = "the device is at 71 °C (max_temperature: 60)";
        assert_eq!(judge(0, reading(1.2, 20.0)), Verdict::Wait(busy.into()));
        assert_eq!(judge(299, reading(0.0, 71.0)), Verdict::Wait(hot.into()));
        assert_eq!(judge(300, reading(1.2, 71.0)), Verdict::GiveUp(format!("{busy}, and {hot}")));
        let no_patience = Wanted { timeout: Duration::ZERO, ..wanted() };
        assert_eq!(no_patience.judge(Duration::ZERO, reading(1.2, 20.0)), Verdict::GiveUp(busy.into()));
    }

    /// One reading per second, as in a run.
    #[test]
    fn a_wait_ends_with_the_first_acceptable_reading() {
        let readings = [(2.0, 70.0), (0.1, 70.0), (2.0, 50.0), (0.1, 50.0), (2.0, 70.0)];
        let verdicts =
            readings.iter().zip(0..).map(|((foreign, hot), second)| judge(second, reading(*foreign, *hot)));
        assert_eq!(verdicts.take_while(|verdict| *verdict != Verdict::Start).count(), 3);
    }

    #[test]
    fn a_missing_reading_is_warned_about_and_not_waited_for() {
        let reading = Reading { foreign: Some(0.1), temperature: None };
        assert_eq!(judge(0, reading), Verdict::Start);
        assert_eq!(
            wanted().warnings(reading, Device::Mps),
            ["`max_temperature` has no effect: this system does not report the temperature of `mps`"]
        );
        assert_eq!(wanted().warnings(Reading::default(), Device::Cpu).len(), 2);
        let quiet_alone = Wanted { max_temperature: None, ..wanted() };
        assert!(quiet_alone.warnings(reading, Device::Cpu).is_empty());
    }

    #[test]
    fn limits_become_requirements() {
        let limits = |quiet, max_temperature| Limits { quiet, max_temperature, ..Limits::default() };
        assert_eq!(Wanted::of(&limits(None, None), 2, 0.0), None);
        let usual = Wanted::of(&limits(Some(Quiet::Usual), None), 64, 0.0).unwrap();
        assert_eq!((usual.quiet, usual.timeout), (Some(3.2), Duration::from_secs(300)));
        let both = limits(Some(Quiet::Processors(0.5)), Some(60.0));
        let beside_quota = Wanted::of(&limits(Some(Quiet::Usual), None), 2, 62.0).unwrap();
        assert_eq!(beside_quota.quiet, Some(62.2));
        let both = Wanted::of(&both, 2, 62.0).unwrap();
        assert_eq!((both.quiet, both.max_temperature), (Some(0.5), Some(60.0)));
    }

    #[test]
    fn quiet_is_required_only_without_neighbours() {
        let readings =
            [(true, Verdict::Start), (false, judge(0, reading(1.2, 20.0))), (true, Verdict::Start)];
        for (has_neighbours, verdict) in readings {
            let wanted = wanted().beside(has_neighbours);
            assert_eq!(wanted.judge(Duration::ZERO, reading(1.2, 20.0)), verdict);
            assert_eq!((wanted.max_temperature, wanted.is_nothing()), (Some(60.0), false));
        }
        let quiet_alone = Wanted { max_temperature: None, ..wanted() };
        assert!(quiet_alone.beside(true).is_nothing() && !quiet_alone.beside(false).is_nothing());
    }
}
