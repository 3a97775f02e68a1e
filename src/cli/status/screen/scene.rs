//! The contents of the screen of `status --watch`. Pure.

use std::cmp::Reverse;

use chrono::{DateTime, Utc};

use crate::cli::status::overview::Overview;
use crate::job::{Job, Name, State, Tally, distinction};
use crate::record::{Record, Sample, Sensor};
use crate::text::{duration_text, jobs_text, rate_text};

/// The most failures, and the most results, that are shown.
const FAILURES: usize = 3;
const RESULTS: usize = 5;

/// The contents of the screen, apart from the table.
#[derive(Debug)]
pub(super) struct Scene {
    /// The name of the matrix and its jobs by state.
    pub(super) headline: String,
    /// `about 3m 20s left`; empty if nothing is left.
    pub(super) time_left: String,
    pub(super) envs: Vec<EnvLine>,
    pub(super) running: Vec<RunningLine>,
    /// The last failures, the latest first.
    pub(super) failures: Vec<EndedLine>,
    /// The last results, the latest first.
    pub(super) results: Vec<EndedLine>,
}

/// The progress of an env.
#[derive(Debug)]
pub(super) struct EnvLine {
    pub(super) name: Name,
    pub(super) jobs: Tally,
}

/// A job that is running.
#[derive(Debug)]
pub(super) struct RunningLine {
    pub(super) label: String,
    pub(super) started_at: Option<DateTime<Utc>>,
    /// The values of sensors: `2.0 processors busy, 61 °C`.
    pub(super) sensors: String,
}

/// An attempt that ended.
#[derive(Debug)]
pub(super) struct EndedLine {
    pub(super) label: String,
    /// The throughput, or the failure.
    pub(super) what: String,
    pub(super) ended_at: DateTime<Utc>,
}

/// The state of a running job, from its directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Live {
    pub(super) started_at: Option<DateTime<Utc>>,
    pub(super) samples: Vec<Sample>,
}

impl Scene {
    /// The scene of `overview` with the records `ended`. It has no running jobs until [`Scene::set_running`].
    pub(super) fn new<'r>(overview: &Overview, ended: impl Iterator<Item = &'r Record>) -> Scene {
        let (results, failures): (Vec<&Record>, Vec<&Record>) =
            ended.partition(|record| record.outcome.is_success());
        let lines = |mut records: Vec<&Record>, most: usize| -> Vec<EndedLine> {
            records.sort_by_key(|record| Reverse(record.ended_at));
            records.iter().take(most).map(|record| ended_line(record, &overview.varying)).collect()
        };
        let left = &overview.time_left;
        Scene {
            headline: format!(
                "{}: {}: {}",
                overview.matrix,
                jobs_text(overview.counts.jobs()),
                overview.counts
            ),
            time_left: if left.jobs > 0 { format!("time left: {left}") } else { String::new() },
            envs: envs(overview),
            running: Vec::new(),
            failures: lines(failures, FAILURES),
            results: lines(results, RESULTS),
        }
    }

    /// Sets the running jobs and their state. The parameters `varying` distinguish jobs with one label.
    pub(super) fn set_running<'j>(
        &mut self,
        jobs: impl Iterator<Item = (&'j Job, Live)>,
        varying: &[String],
    ) {
        self.running = jobs.map(|(job, live)| running_line(job, &live, varying)).collect();
    }
}

fn envs(overview: &Overview) -> Vec<EnvLine> {
    let mut found: Vec<EnvLine> = Vec::new();
    for config in &overview.configs {
        let known = found.iter().position(|env| env.name == config.key.env);
        let place = known.unwrap_or_else(|| {
            found.push(EnvLine { name: config.key.env.clone(), jobs: Tally::default() });
            found.len() - 1
        });
        found[place].jobs.join(&config.counts);
    }
    found
}

impl EnvLine {
    /// The number of jobs, without those that a rule of repeats might still need.
    pub(super) fn needed(&self) -> usize {
        self.jobs.clone().without(State::NotNeeded).without(State::IfNeeded).jobs()
    }
}

fn running_line(job: &Job, live: &Live, varying: &[String]) -> RunningLine {
    RunningLine {
        label: label(job, varying),
        started_at: live.started_at,
        sensors: sensors(&live.samples).join(", "),
    }
}

fn label(job: &Job, varying: &[String]) -> String {
    format!("{}{}", job.label(), distinction(job.key(), varying))
}

fn ended_line(record: &Record, varying: &[String]) -> EndedLine {
    let rate = record.measurement.as_ref().filter(|_| record.outcome.is_success());
    let what = rate.map_or_else(
        || record.outcome.to_string(),
        |measurement| {
            let seconds = duration_text(record.wall_s());
            format!(
                "{} {}/s in {seconds}",
                rate_text(measurement.samples_per_s()),
                measurement.unit(&record.key)
            )
        },
    );
    EndedLine {
        label: format!("{}{}", record.label, distinction(&record.key, varying)),
        what,
        ended_at: record.ended_at,
    }
}

/// The values of the last of `samples`. Unknown sensors are absent.
pub(in crate::cli) fn sensors(samples: &[Sample]) -> Vec<String> {
    let Some((last, earlier)) = samples.split_last() else { return Vec::new() };
    let value = |sensor: Sensor| last.values.get(&sensor).copied();
    let busy = earlier.last().and_then(|before| {
        let grown = value(Sensor::CpuBusy)? - before.values.get(&Sensor::CpuBusy)?;
        let seconds = last.unix_s - before.unix_s;
        (seconds > 0.0).then(|| format!("{:.1} processors busy", grown / seconds))
    });
    let gauge = |sensor, text: fn(f64) -> String| value(sensor).map(text);
    let gauges = [
        gauge(Sensor::CpuTemperature, |celsius| format!("{celsius:.0} °C")),
        gauge(Sensor::GpuTemperature, |celsius| format!("GPU {celsius:.0} °C")),
        gauge(Sensor::GpuPower, |watts| format!("{watts:.0} W")),
        gauge(Sensor::GpuSmClock, |mhz| format!("{mhz:.0} MHz")),
        gauge(Sensor::GpuMemoryUsed, |bytes| format!("{:.1} GiB", bytes / f64::from(1 << 30))),
    ];
    busy.into_iter().chain(gauges.into_iter().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn unknown_sensors_are_omitted() {
        let sample = |unix_s, busy, celsius: Option<f64>| {
            let mut values = BTreeMap::from([(Sensor::CpuBusy, busy)]);
            values.extend(celsius.map(|it| (Sensor::GpuTemperature, it)));
            Sample { unix_s, values, ..Sample::default() }
        };
        let samples = [sample(10.0, 100.0, None), sample(12.0, 103.0, Some(61.4))];
        assert_eq!(sensors(&samples), ["1.5 processors busy", "GPU 61 °C"]);
        assert_eq!(sensors(&samples[..1]), [""; 0]);
        assert_eq!(sensors(&[]), [""; 0]);
    }
}
