//! Estimates how long jobs will take, from the durations of earlier ones.
//!
//! The best available basis is used: jobs of the same config, then of the same env and model, then of the same env.
//! Between configs, a duration is scaled by the number of images, including warm-up. Start-up does not scale, so such
//! an estimate is rough. Each [`Estimate`] names its basis.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::Plan;
use crate::job::{JobId, Key, Kind, ModelName, Name, ParamValue};
use crate::record::Record;
use crate::stats::RunningMedian;
use crate::text::duration_text;

/// The basis of an estimate, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Earlier repeats of the same config.
    Config,
    /// Other configs of the same env and model, scaled by images.
    Model,
    /// Other models of the same env, scaled by images.
    Env,
}

/// The estimated duration of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Wall-clock seconds, without the cool-down after it.
    pub seconds: f64,
    /// The basis.
    pub basis: Basis,
}

/// The estimated duration of several jobs, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TimeLeft {
    /// Wall-clock seconds of the jobs with an estimate, including cool-downs.
    pub seconds: f64,
    /// The number of jobs.
    pub jobs: usize,
    /// The number of jobs without a basis, whose time is not included.
    pub jobs_without_basis: usize,
}

impl fmt::Display for TimeLeft {
    /// Such as `about 12m 5s`, `about 12m 5s and 3 jobs of unknown length`, `unknown for all 40 jobs, …` or `nothing`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TimeLeft { seconds, jobs, jobs_without_basis: unknown } = *self;
        match (jobs, unknown) {
            (0, _) => f.write_str("nothing"),
            (1, 1) => f.write_str("unknown, because no job of its env has finished yet"),
            (_, 0) => write!(f, "about {}", duration_text(seconds)),
            _ if unknown == jobs => {
                write!(f, "unknown for all {jobs} jobs, because no job of their envs has finished yet")
            }
            (_, 1) => write!(f, "about {} and 1 job of unknown length", duration_text(seconds)),
            _ => write!(f, "about {} and {unknown} jobs of unknown length", duration_text(seconds)),
        }
    }
}

/// Durations of finished jobs, by basis. Learning from a job and estimating one takes O(log n).
#[derive(Clone, Debug, Default)]
pub struct Estimator {
    by_config: BTreeMap<JobId, RunningMedian>,
    /// Seconds per image.
    by_model: BTreeMap<(Kind, Name, ModelName), RunningMedian>,
    /// Seconds per image.
    by_env: BTreeMap<(Kind, Name), RunningMedian>,
    /// Seconds between two jobs, by env.
    cool_down: BTreeMap<Name, f64>,
}

impl Estimator {
    /// Learns from `records`, including those of other plans.
    pub fn new<'a>(plan: &Plan, records: impl IntoIterator<Item = &'a Record>) -> Estimator {
        let cool_down =
            |(name, env): (&Name, &super::PlannedEnv)| (name.clone(), env.limits.cool_down.as_secs_f64());
        let cool_down = plan.envs.iter().map(cool_down).collect();
        let mut estimator = Estimator { cool_down, ..Estimator::default() };
        for record in records {
            estimator.learn(record);
        }
        estimator
    }

    /// Learns from one more record. The duration of a failed attempt is ignored. The few iterations of a job of the
    /// kind `ops` are not used for other configs, because most of its time is the worker's start.
    pub fn learn(&mut self, record: &Record) {
        let seconds = record.wall_s();
        if !record.outcome.is_success() || seconds <= 0.0 {
            return;
        }
        let key = &record.key;
        let an_image = seconds / images(key);
        self.by_config.entry(key.config_id()).or_default().add(seconds);
        if key.kind == Kind::Ops {
            return;
        }
        self.by_model.entry(model_of(key)).or_default().add(an_image);
        self.by_env.entry(env_of(key)).or_default().add(an_image);
    }

    /// The median seconds of the config with this id.
    pub(super) fn of_config(&self, config: JobId) -> Option<f64> {
        self.by_config.get(&config)?.get()
    }

    /// The median seconds per image of the jobs of a kind, env and model.
    pub(super) fn of_model(&self, model: &(Kind, Name, ModelName)) -> Option<f64> {
        self.by_model.get(model)?.get()
    }

    /// The median seconds per image of the jobs of a kind and env.
    pub(super) fn of_env(&self, env: &(Kind, Name)) -> Option<f64> {
        self.by_env.get(env)?.get()
    }

    /// Seconds between two jobs of an env.
    pub(super) fn cool_down(&self, env: &Name) -> f64 {
        self.cool_down.get(env).copied().unwrap_or(0.0)
    }

    /// The estimate for the job of `key`; `None` if no job of its env and kind has finished.
    pub fn estimate(&self, key: &Key) -> Option<Estimate> {
        if self.by_config.is_empty() {
            return None;
        }
        if let Some(seconds) = self.of_config(key.config_id()) {
            return Some(Estimate { seconds, basis: Basis::Config });
        }
        if let Some(an_image) = self.of_model(&model_of(key)) {
            return Some(Estimate { seconds: an_image * images(key), basis: Basis::Model });
        }
        let an_image = self.of_env(&env_of(key))?;
        Some(Estimate { seconds: an_image * images(key), basis: Basis::Env })
    }

    /// The estimate for the jobs of `keys`, one after the other.
    pub fn time_left<'a>(&self, keys: impl IntoIterator<Item = &'a Key>) -> TimeLeft {
        let mut left = TimeLeft::default();
        for key in keys {
            left.jobs += 1;
            left.seconds += self.cool_down(&key.env);
            match self.estimate(key) {
                Some(estimate) => left.seconds += estimate.seconds,
                None => left.jobs_without_basis += 1,
            }
        }
        left
    }
}

/// The lookup key of a job's model basis.
pub(super) fn model_of(key: &Key) -> (Kind, Name, ModelName) {
    (basis_kind(key), key.env.clone(), key.model.clone())
}

/// The lookup key of a job's env basis.
pub(super) fn env_of(key: &Key) -> (Kind, Name) {
    (basis_kind(key), key.env.clone())
}

/// The kind of the jobs from whose time per image the job of `key` is estimated. A job of the kind `ops` trains like a
/// timing job.
fn basis_kind(key: &Key) -> Kind {
    if key.kind == Kind::Ops { Kind::Timing } else { key.kind }
}

/// The number of images that a job trains on, including warm-up and profiled iterations; those of one iteration if the
/// number of iterations is unknown.
pub(super) fn images(key: &Key) -> f64 {
    let number = |name| match key.asked(name) {
        Some(ParamValue::Int(value)) => value as f64,
        _ => 0.0,
    };
    let iters = number("iters");
    let profiled = if key.kind == Kind::Ops && iters > 0.0 { key.profiled_iters() as f64 } else { 0.0 };
    f64::from(key.batch) * (number("warmup") + iters + profiled).max(1.0)
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, TimeDelta};
    use proptest::prelude::*;

    use super::*;
    use crate::job::Params;
    use crate::matrix::Limits;
    use crate::plan::PlannedEnv;
    use crate::record::testing::record_of;
    use crate::record::{Outcome, ProcessStats};

    fn key(env: &str, model: &str, batch: u32, repeat: u32) -> Key {
        Key {
            env: env.into(),
            model: model.into(),
            batch,
            repeat,
            params: Params::from([
                ("warmup".into(), ParamValue::Int(1)),
                ("iters".into(), ParamValue::Int(9)),
            ]),
            ..Key::example()
        }
    }

    fn record(key: Key, wall_s: f64) -> Record {
        Record {
            ended_at: DateTime::UNIX_EPOCH + TimeDelta::seconds(1000),
            process: Some(ProcessStats { wall_s: Some(wall_s), ..ProcessStats::default() }),
            ..record_of(key, Outcome::Succeeded)
        }
    }

    fn plan(cool_down: u64) -> Plan {
        let cool_down = std::time::Duration::from_secs(cool_down);
        let limits = Limits { cool_down, ..Limits::default() };
        let env = PlannedEnv { limits, ..PlannedEnv::example() };
        Plan { envs: BTreeMap::from([("cpu".into(), env)]), ..Plan::example(Vec::new()) }
    }

    #[test]
    fn the_best_basis_counts() {
        let records = [
            record(key("cpu", "resnet18", 16, 1), 10.0),
            record(key("cpu", "resnet18", 16, 2), 14.0),
            record(key("cpu", "resnet18", 16, 3), 99.0),
            record(key("cpu", "vgg16", 8, 1), 40.0),
        ];
        let estimator = Estimator::new(&plan(0), &records);
        let estimate = |key: Key| estimator.estimate(&key).map(|it| (it.seconds.round(), it.basis));
        assert_eq!(estimate(key("cpu", "resnet18", 16, 4)), Some((14.0, Basis::Config)));
        // 14 s for 160 images, so twice that for 320.
        assert_eq!(estimate(key("cpu", "resnet18", 32, 1)), Some((28.0, Basis::Model)));
        // Four times as many iterations, warm-up included.
        let mut longer = key("cpu", "resnet18", 16, 1);
        longer.params.insert("iters".into(), ParamValue::Int(39));
        assert_eq!(estimate(longer), Some((56.0, Basis::Model)));
        // Seconds per image: 10/160, 14/160, 40/80, 99/160; their median is 0.294.
        assert_eq!(estimate(key("cpu", "resnet50", 16, 1)), Some((47.0, Basis::Env)));
        assert_eq!(estimate(key("gpu", "resnet18", 16, 1)), None);
        let profiled = Key { kind: Kind::Ncu, ..key("cpu", "resnet18", 16, 1) };
        assert_eq!(estimate(profiled), None);
    }

    #[test]
    fn a_job_that_profiles_operators_takes_as_long_as_its_iterations_in_a_timing_job() {
        // 20 s for 10 iterations, so 10 s for a warm-up of 1, a window of 1 and 3.
        let mut estimator = Estimator::new(&plan(0), &[record(key("cpu", "vgg16", 8, 1), 20.0)]);
        let ops = Key { kind: Kind::Ops, ..key("cpu", "vgg16", 8, 1) };
        let estimate = |estimator: &Estimator, key: &Key| estimator.estimate(key).map(|it| it.seconds);
        assert_eq!(estimate(&estimator, &ops), Some(10.0));
        estimator.learn(&record(ops.clone(), 5.0));
        assert_eq!(estimate(&estimator, &ops), Some(5.0), "its own time takes precedence");
        assert_eq!(estimate(&estimator, &key("cpu", "vgg16", 16, 1)), Some(40.0), "other configs ignore it");
    }

    #[test]
    fn failures_and_stopped_clocks_are_not_a_basis() {
        let stood_still = |record: Record| Record { ended_at: record.started_at, ..record };
        let failed =
            Record { outcome: Outcome::TimedOut { after_s: 5.0 }, ..record(key("cpu", "vgg16", 8, 1), 5.0) };
        let estimator =
            Estimator::new(&plan(0), &[failed, stood_still(record(key("cpu", "vgg16", 8, 2), 0.0))]);
        assert_eq!(estimator.estimate(&key("cpu", "vgg16", 8, 3)), None);
    }

    #[test]
    fn time_left_counts_cool_downs_and_unknown_jobs() {
        let estimator = Estimator::new(&plan(5), &[record(key("cpu", "vgg16", 8, 1), 20.0)]);
        let keys = [key("cpu", "vgg16", 8, 2), key("cpu", "vgg16", 8, 3), key("gpu", "vgg16", 8, 1)];
        let left = estimator.time_left(&keys);
        assert_eq!(left, TimeLeft { seconds: 50.0, jobs: 3, jobs_without_basis: 1 });
    }

    #[test]
    fn without_a_report_of_time_the_clock_is_used() {
        assert_eq!(record(key("cpu", "vgg16", 8, 1), 5.0).wall_s(), 5.0);
        assert_eq!(record(key("cpu", "vgg16", 8, 1), 0.0).wall_s(), 1000.0);
        let by_clock = Record { process: None, ..record(key("cpu", "vgg16", 8, 1), 5.0) };
        assert_eq!(by_clock.wall_s(), 1000.0);
    }

    proptest! {
        /// An estimate is always within the range of its basis.
        #[test]
        fn an_estimate_is_within_the_range_of_its_basis(walls in prop::collection::vec(0.1..1e4, 1..9)) {
            let records: Vec<Record> = (1..)
                .zip(&walls)
                .map(|(repeat, wall)| record(key("cpu", "vgg16", 8, repeat), *wall))
                .collect();
            let seconds = Estimator::new(&plan(0), &records).estimate(&key("cpu", "vgg16", 8, 99)).unwrap().seconds;
            let least = walls.iter().copied().fold(f64::INFINITY, f64::min);
            let most = walls.iter().copied().fold(0.0, f64::max);
            prop_assert!((least..=most).contains(&seconds));
        }
    }

    #[test]
    fn times_left() {
        let text =
            |seconds, jobs, jobs_without_basis| TimeLeft { seconds, jobs, jobs_without_basis }.to_string();
        assert_eq!(text(0.0, 0, 0), "nothing");
        assert_eq!(text(90.0, 3, 0), "about 1m 30s");
        assert_eq!(text(90.0, 3, 1), "about 1m 30s and 1 job of unknown length");
        assert_eq!(text(90.0, 3, 2), "about 1m 30s and 2 jobs of unknown length");
        assert_eq!(text(5.0, 3, 3), "unknown for all 3 jobs, because no job of their envs has finished yet");
        assert_eq!(text(0.0, 1, 1), "unknown, because no job of its env has finished yet");
    }
}
