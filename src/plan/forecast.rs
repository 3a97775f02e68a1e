//! The time left of the open jobs of a run, kept up to date while they run.
//!
//! [`Forecast`] has the same result as [`Estimator::time_left`] without iterating over the jobs. Jobs with the same
//! basis are added up, and an event changes three sums: those of a config, of its model and of its env.

use std::collections::BTreeMap;

use super::estimate::{Estimator, TimeLeft, env_of, images, model_of};
use crate::job::{JobId, Key, Kind, ModelName, Name};
use crate::record::Record;

/// The most that a sum contributes, in nanoseconds: far beyond anything real, and too little for the total to overflow.
const MOST_NANOS: f64 = 1e27;

/// The time left of the open jobs of a run. An event takes O(log n), the time left O(1).
#[derive(Debug, Default)]
pub struct Forecast {
    estimator: Estimator,
    /// All open jobs, by config.
    configs: BTreeMap<JobId, Sum>,
    /// Open jobs whose config is not a basis, by model.
    models: BTreeMap<(Kind, Name, ModelName), Sum>,
    /// Open jobs whose model is not a basis either, by env.
    envs: BTreeMap<(Kind, Name), Sum>,
    total: Total,
}

/// Open jobs, added up.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    jobs: usize,
    /// The number of images that they train on.
    images: f64,
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.jobs += other.jobs;
        self.images += other.images;
    }

    fn remove(&mut self, other: Sum) {
        self.jobs -= other.jobs;
        // Rounding errors do not remain after the last job.
        self.images = if self.jobs == 0 { 0.0 } else { self.images - other.images };
    }
}

/// The sum over all open jobs.
#[derive(Debug, Default)]
struct Total {
    jobs: usize,
    jobs_without_basis: usize,
    /// A whole number, so that the order of events does not matter and the end is exactly 0.
    nanos: i128,
}

/// The sums that an event changes.
struct Place {
    config: JobId,
    model: (Kind, Name, ModelName),
    env: (Kind, Name),
}

impl Place {
    fn of(key: &Key) -> Self {
        Place { config: key.config_id(), model: model_of(key), env: env_of(key) }
    }
}

impl Forecast {
    /// The forecast of a run without open jobs. `estimator` knows how long earlier jobs took.
    pub fn new(estimator: Estimator) -> Self {
        Forecast { estimator, ..Forecast::default() }
    }

    /// Adds the job of `key` to the open jobs.
    pub fn open(&mut self, key: &Key) {
        let job = Sum { jobs: 1, images: images(key) };
        self.change(&Place::of(key), |forecast, place| {
            forecast.configs.entry(place.config).or_default().add(job);
        });
        self.total.jobs += 1;
        self.total.nanos += nanos(self.estimator.cool_down(&key.env));
    }

    /// Removes the job of `key` from the open jobs.
    pub fn close(&mut self, key: &Key) {
        let job = Sum { jobs: 1, images: images(key) };
        self.change(&Place::of(key), |forecast, place| {
            forecast.configs.entry(place.config).or_default().remove(job);
        });
        self.total.jobs -= 1;
        self.total.nanos -= nanos(self.estimator.cool_down(&key.env));
    }

    /// Learns from the end of an attempt: [`Estimator::learn`].
    pub fn learn(&mut self, record: &Record) {
        self.change(&Place::of(&record.key), |forecast, _| forecast.estimator.learn(record));
    }

    /// How long the open jobs will take, one after the other.
    pub fn time_left(&self) -> TimeLeft {
        let Total { jobs, jobs_without_basis, nanos } = self.total;
        TimeLeft { seconds: nanos as f64 / 1e9, jobs, jobs_without_basis }
    }

    /// Subtracts the contribution of `place` from the sums above it, changes `place`, and adds the new contribution.
    fn change(&mut self, place: &Place, change: impl FnOnce(&mut Self, &Place)) {
        self.take_out(place);
        change(self, place);
        self.put_back(place);
    }

    fn take_out(&mut self, place: &Place) {
        let (nanos, jobs_without_basis) = self.contribution(place);
        self.total.nanos -= nanos;
        self.total.jobs_without_basis -= jobs_without_basis;
        if self.estimator.of_model(&place.model).is_none() {
            let model = sum(&self.models, &place.model);
            self.envs.entry(place.env.clone()).or_default().remove(model);
        }
        if self.estimator.of_config(place.config).is_none() {
            let config = sum(&self.configs, &place.config);
            self.models.entry(place.model.clone()).or_default().remove(config);
        }
    }

    fn put_back(&mut self, place: &Place) {
        if self.estimator.of_config(place.config).is_none() {
            let config = sum(&self.configs, &place.config);
            self.models.entry(place.model.clone()).or_default().add(config);
        }
        if self.estimator.of_model(&place.model).is_none() {
            let model = sum(&self.models, &place.model);
            self.envs.entry(place.env.clone()).or_default().add(model);
        }
        let (nanos, jobs_without_basis) = self.contribution(place);
        self.total.nanos += nanos;
        self.total.jobs_without_basis += jobs_without_basis;
    }

    /// The contribution of the sums at `place` to the total: nanoseconds, and jobs without a basis.
    fn contribution(&self, place: &Place) -> (i128, usize) {
        let config = sum(&self.configs, &place.config);
        let model = sum(&self.models, &place.model);
        let env = sum(&self.envs, &place.env);
        let of_config = self.estimator.of_config(place.config).map(|seconds| config.jobs as f64 * seconds);
        let of_model = self.estimator.of_model(&place.model).map(|an_image| model.images * an_image);
        let of_env = self.estimator.of_env(&place.env).map(|an_image| env.images * an_image);
        let seconds = [of_config, of_model, of_env].into_iter().flatten();
        (seconds.map(nanos).sum(), if of_env.is_none() { env.jobs } else { 0 })
    }
}

fn sum<K: Ord>(sums: &BTreeMap<K, Sum>, at: &K) -> Sum {
    sums.get(at).copied().unwrap_or_default()
}

fn nanos(seconds: f64) -> i128 {
    (seconds * 1e9).clamp(0.0, MOST_NANOS).round() as i128
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, TimeDelta};
    use proptest::prelude::*;

    use super::*;
    use crate::job::{ParamValue, Params};
    use crate::matrix::Limits;
    use crate::plan::{Plan, PlannedEnv};
    use crate::record::{Outcome, testing::record_of};

    /// A job: its env, model, batch, repeat and kind.
    type Drawn = (bool, bool, u32, u32, u8);

    fn key((is_cpu, is_vgg, batch, repeat, kind): Drawn) -> Key {
        Key {
            env: if is_cpu { "cpu" } else { "gpu" }.into(),
            model: if is_vgg { "vgg16" } else { "resnet18" }.into(),
            batch,
            repeat,
            kind: [Kind::Timing, Kind::Perf, Kind::Ops][usize::from(kind)],
            params: Params::from([("iters".into(), ParamValue::Int(i64::from(batch) + 3))]),
            ..Key::example()
        }
    }

    fn plan() -> Plan {
        let limits = Limits { cool_down: std::time::Duration::from_millis(1500), ..Limits::default() };
        let env = PlannedEnv { limits, ..PlannedEnv::example() };
        Plan { envs: BTreeMap::from([("cpu".into(), env)]), ..Plan::example(Vec::new()) }
    }

    fn ended(key: Key, milliseconds: i64) -> Record {
        let outcome =
            if milliseconds % 7 == 0 { Outcome::Signalled { signal: 9 } } else { Outcome::Succeeded };
        let ended_at = DateTime::UNIX_EPOCH + TimeDelta::milliseconds(milliseconds);
        Record { ended_at, ..record_of(key, outcome) }
    }

    fn drawn() -> impl Strategy<Value = Drawn> {
        (
            any::<bool>(),
            any::<bool>(),
            1..4_u32,
            1..4_u32,
            prop_oneof![3 => Just(0_u8), 1 => Just(1), 1 => Just(2)],
        )
    }

    proptest! {
        /// The definition: the estimates of all open jobs, added up.
        #[test]
        fn after_any_events_it_is_the_time_of_the_open_jobs(
            open in prop::collection::btree_set(drawn(), 0..20),
            events in prop::collection::vec((drawn(), 0..100_000_i64, any::<bool>()), 0..40),
        ) {
            let mut estimator = Estimator::new(&plan(), []);
            let mut forecast = Forecast::new(estimator.clone());
            let mut open: Vec<Key> = open.into_iter().map(key).collect();
            open.iter().for_each(|key| forecast.open(key));
            for (drawn, milliseconds, closes) in events {
                let record = ended(key(drawn), milliseconds);
                estimator.learn(&record);
                forecast.learn(&record);
                if closes && let Some(place) = open.iter().position(|open| *open == record.key) {
                    forecast.close(&open.remove(place));
                }
                let (found, expected) = (forecast.time_left(), estimator.time_left(&open));
                prop_assert_eq!((found.jobs, found.jobs_without_basis), (expected.jobs, expected.jobs_without_basis));
                let difference = (found.seconds - expected.seconds).abs();
                prop_assert!(difference <= 1e-6 + 1e-9 * expected.seconds, "{:?} {:?}", found, expected);
            }
            open.iter().for_each(|key| forecast.close(key));
            prop_assert_eq!(forecast.time_left(), TimeLeft::default());
        }
    }
}
