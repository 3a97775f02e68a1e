//! Waiting until the machine is as a job's limits ask.
#![expect(clippy::disallowed_methods, reason = "a wait takes time")]

use std::time::{Duration, Instant};

use super::{Halt, Run};
use crate::job::{Device, Job};
use crate::record::Gate;
use crate::run::event::Event;
use crate::run::gate::{Reading, Verdict, Wanted};
use crate::run::host::HostCounters;
use crate::run::progress::duration_text;

/// Between two looks. It is also the time over which the processors' load is taken.
const LOOK: Duration = Duration::from_secs(1);

impl Run<'_> {
    /// Waits until `job` may start; `None` if its limits ask for nothing. Where quiet is asked for that takes at least a
    /// second, for a load is over time. `beside`: jobs that run on other devices.
    pub(super) async fn pass_gate(&mut self, job: &Job, beside: &[String]) -> Result<Option<Gate>, Halt> {
        let limits = self.order.plan.env(job.key()).limits;
        let usable = self.order.host.cpu.usable;
        let Some(wanted) = Wanted::of(&limits, usable, !beside.is_empty()) else { return Ok(None) };
        let begun = Instant::now();
        let mut load = Load::begin(&wanted);
        let mut first = true;
        loop {
            if load.is_told() || !first {
                self.idle(LOOK).await?;
            }
            let reading = self.read_machine(&wanted, &mut load, job.key().device);
            let waited = begun.elapsed();
            let gate = |gave_up| Gate { waited_s: waited.as_secs_f64(), gave_up };
            match wanted.judge(waited, reading) {
                Verdict::Start => {
                    self.observer.event(&Event::Resumed);
                    return Ok(Some(gate(None)));
                }
                Verdict::GiveUp(why) => {
                    self.tell_given_up(job, &why, waited);
                    return Ok(Some(gate(Some(why))));
                }
                Verdict::Wait(why) => {
                    self.observer.event(&Event::Gated { job, why: &why, first });
                    first = false;
                }
            }
        }
    }

    /// Reads what `wanted` asks for, and warns once a run of what nobody tells.
    fn read_machine(&mut self, wanted: &Wanted, load: &mut Load, device: Device) -> Reading {
        let temperature = wanted.max_temperature.and_then(|_| self.sensors.temperature_c(device));
        let reading = Reading { foreign: load.read(), temperature };
        for sentence in wanted.untold(reading, device) {
            if self.told.insert(sentence.clone()) {
                self.observer.event(&Event::Warning(&sentence));
            }
        }
        reading
    }

    fn tell_given_up(&mut self, job: &Job, why: &str, waited: Duration) {
        let waited = duration_text(waited.as_secs_f64());
        let text = format!("{} starts all the same after a wait of {waited}: {why}", job.label());
        self.observer.event(&Event::Resumed);
        self.observer.event(&Event::Warning(&text));
    }
}

/// The host's load between two looks. No job of ours runs meanwhile, so all of it is others'.
struct Load {
    /// The last look; `None` where load does not matter or is not told.
    last: Option<(Instant, HostCounters)>,
}

impl Load {
    fn begin(wanted: &Wanted) -> Load {
        let counters = wanted.quiet.map(|_| HostCounters::probe()).filter(|it| it.busy_s.is_some());
        Load { last: counters.map(|counters| (Instant::now(), counters)) }
    }

    fn is_told(&self) -> bool {
        self.last.is_some()
    }

    /// Processors that were busy since the last look.
    fn read(&mut self) -> Option<f64> {
        let (then, before) = self.last.take()?;
        let (now, after) = (Instant::now(), HostCounters::probe());
        let seconds = now.duration_since(then).as_secs_f64();
        let (busy_s, _) = after.since(&before);
        self.last = Some((now, after));
        busy_s.filter(|_| seconds > 0.0).map(|busy| busy / seconds)
    }
}
