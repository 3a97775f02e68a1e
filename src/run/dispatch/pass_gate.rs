//! Waits until the machine is as quiet and as cool as a job's limits require.
#![expect(clippy::disallowed_methods, reason = "a wait takes time")]

use std::time::{Duration, Instant};

use super::state::{Halt, Run};
use crate::event::Event;
use crate::host::probe_counters;
use crate::job::{Device, Job};
use crate::record::{Gate, HostCounters};
use crate::run::gate::{Reading, Verdict, Wanted};
use crate::text::duration_text;

/// The interval between checks, which is also the span over which load is measured.
const LOOK: Duration = Duration::from_secs(1);

impl Run<'_> {
    /// Waits until `job` can start, holding its locks: if two runs wait for a quiet machine, one of them starts first.
    ///
    /// Returns `None` if the job's limits have no such conditions, or none that can be judged beside other jobs. If
    /// they require a quiet machine, this takes at least a second, because load is measured over time.
    pub(super) async fn pass_gate(&mut self, job: &Job) -> Result<Option<Gate>, Halt> {
        let limits = self.order.plan.env(job.key()).limits;
        let Some(asked) = Wanted::of(&limits, self.order.host.cpu.usable, self.order.host.room_beside())
        else {
            return Ok(None);
        };
        let begun = Instant::now();
        let mut load = Load::default();
        let (mut first, mut was_asked) = (true, false);
        loop {
            // Jobs on other devices can start and end during the wait.
            let wanted = asked.beside(!self.beside(job).is_empty());
            was_asked |= !wanted.is_nothing();
            let counters = wanted.quiet.map(|_| probe_counters());
            let Some(foreign) = load.look(Instant::now(), counters) else {
                self.idle(LOOK).await?;
                continue;
            };
            let reading = self.read_machine(&wanted, foreign, job.key().device);
            let waited = begun.elapsed();
            let gate = |gave_up| was_asked.then_some(Gate { waited_s: waited.as_secs_f64(), gave_up });
            match wanted.judge(waited, reading) {
                Verdict::Start => {
                    self.observer.event(&Event::Resumed);
                    return Ok(gate(None));
                }
                Verdict::GiveUp(why) => {
                    self.report_given_up(job, &why, waited);
                    return Ok(gate(Some(why)));
                }
                Verdict::Wait(why) => {
                    self.observer.event(&Event::Gated { job, why: &why, first });
                    first = false;
                }
            }
            self.idle(LOOK).await?;
        }
    }

    /// Reads the other values that `wanted` needs. Warns about each unavailable value, once per run. `foreign`: the
    /// number of processors that other processes keep busy.
    fn read_machine(&mut self, wanted: &Wanted, foreign: Option<f64>, device: Device) -> Reading {
        let temperature = wanted.max_temperature.and_then(|_| self.sensors.temperature_c(device));
        let reading = Reading { foreign, temperature };
        for sentence in wanted.warnings(reading, device) {
            if self.warned.insert(sentence.clone()) {
                self.observer.event(&Event::Warning(&sentence));
            }
        }
        reading
    }

    fn report_given_up(&mut self, job: &Job, why: &str, waited: Duration) {
        let waited = duration_text(waited.as_secs_f64());
        let text = format!("{} starts anyway after waiting {waited}: {why}", job.label());
        self.observer.event(&Event::Resumed);
        self.observer.event(&Event::Warning(&text));
    }
}

/// The host's load between two checks. This run has no job running then, so all of it is foreign load.
#[derive(Debug, Default)]
struct Load {
    /// The last check; `None` if load did not matter then or was not reported.
    last: Option<(Instant, HostCounters)>,
}

impl Load {
    /// Takes the host's `counters` at `now`, or `None` if load does not matter. Returns how many processors were busy
    /// since the last check, or `Some(None)` if that does not matter or is not reported.
    ///
    /// The first check that matters returns `None`, because load is measured over time. Work done while load did not
    /// matter is never counted.
    fn look(&mut self, now: Instant, counters: Option<HostCounters>) -> Option<Option<f64>> {
        let counters = counters.filter(|counters| counters.busy_s.is_some());
        let last = std::mem::replace(&mut self.last, counters.map(|counters| (now, counters)));
        let Some(counters) = counters else { return Some(None) };
        let (then, before) = last?;
        let seconds = now.duration_since(then).as_secs_f64();
        let (busy_s, _) = counters.since(&before);
        Some(busy_s.filter(|_| seconds > 0.0).map(|busy| busy / seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_measured_between_two_checks_that_matter() {
        let start = Instant::now();
        let mut load = Load::default();
        let mut look = |second, busy_s: Option<f64>| {
            let counters = busy_s.map(|busy_s| HostCounters { busy_s: Some(busy_s), ..Default::default() });
            load.look(start + Duration::from_secs(second), counters)
        };
        assert_eq!(look(0, Some(100.0)), None);
        assert_eq!(look(1, Some(100.5)), Some(Some(0.5)));
        // Jobs on other devices start and end. Their work does not count as load.
        assert_eq!(look(2, None), Some(None));
        assert_eq!(look(3, Some(108.0)), None);
        assert_eq!(look(5, Some(108.5)), Some(Some(0.25)));
        // A counter that ran backwards is ignored.
        assert_eq!(look(6, Some(7.0)), Some(None));
    }

    #[test]
    fn a_host_that_does_not_report_its_load_is_not_waited_for() {
        let mut load = Load::default();
        assert_eq!(load.look(Instant::now(), Some(HostCounters::default())), Some(None));
    }
}
