//! The configs of a matrix: the product of each env's axes, without the excluded ones, plus the included ones.

use std::collections::BTreeMap;

use super::{Axis, AxisName, AxisValue, Env, Include, Matrix, RepeatRule};
use crate::job::{KEY_SCHEMA, Key, Kind, ModelName, Precision, Profile, WorkerTemplate};

/// One config with how often it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The key of its first repeat.
    pub key: Key,
    /// How often it runs.
    pub repeats: RepeatRule,
    /// The profilers that run it once, after its repeats.
    pub profiles: BTreeMap<Kind, Profile>,
}

impl Config {
    /// The keys of its profiled jobs.
    pub fn profiled(&self) -> impl Iterator<Item = Key> + '_ {
        self.profiles.iter().map(|(kind, profile)| self.key.profiled(*kind, profile.clone()))
    }
}

impl Matrix {
    /// The configs in the order of the file: env by env, the product before the included ones.
    pub fn configs(&self) -> impl Iterator<Item = Config> + '_ {
        self.envs.iter().flat_map(|env| {
            let is_kept = |key: &Key| !self.exclude.iter().any(|selector| selector.matches(key));
            let kept = env.product().filter(is_kept);
            let kept = kept.map(|key| Config { key, repeats: env.repeats, profiles: env.profiles.clone() });
            let added = self.include.iter().filter(|include| include.env == env.name);
            kept.chain(added.map(|include| env.included(include)))
        })
    }
}

impl Env {
    /// The number of configs in the product of the axes; `None` if it overflows.
    pub fn product_size(&self) -> Option<u64> {
        self.axes.iter().try_fold(1, |size: u64, axis| size.checked_mul(axis.points.len().try_into().ok()?))
    }

    /// The profiled jobs of each of its configs, as far as the file decides it.
    pub fn profiled_jobs(&self) -> usize {
        self.profiles.len() - usize::from(self.ops_if_reported && self.profiles.contains_key(&Kind::Ops))
    }

    /// The most jobs of the product, as far as 128 bits can count.
    pub(super) fn product_jobs(&self) -> u128 {
        let per_config = u128::from(self.repeats.max) + self.profiled_jobs() as u128;
        self.axes.iter().fold(per_config, |jobs, axis| jobs.saturating_mul(axis.points.len() as u128))
    }

    /// The product of the axes, the last one varying fastest, each config as the key of its first repeat.
    pub fn product(&self) -> impl Iterator<Item = Key> + '_ {
        let size = self.product_size().unwrap_or(0);
        (0..size).map(|index| self.nth_config(index))
    }

    /// The config at `index` of the product. The index is a number with one digit per axis, which is the axis' point.
    fn nth_config(&self, mut index: u64) -> Key {
        let mut values: Vec<(&AxisName, &AxisValue)> = Vec::new();
        for Axis { names, points } in self.axes.iter().rev() {
            let count = points.len() as u64;
            let point =
                usize::try_from(index % count).expect("less than the number of points, which is a usize");
            index /= count;
            values.extend(names.iter().zip(&points[point]));
        }
        let model = values.iter().find_map(|(_, value)| match value {
            AxisValue::Model(model) => Some(model.clone()),
            AxisValue::Batch(_) | AxisValue::Precision(_) | AxisValue::Param(_) => None,
        });
        let mut key = self.bare_key(model.expect("every env has the axis `models`"));
        for value in values {
            match value {
                (AxisName::Model, AxisValue::Model(_)) => {}
                (AxisName::Batch, AxisValue::Batch(batch)) => key.batch = *batch,
                (AxisName::Precision, AxisValue::Precision(precision)) => key.precision = *precision,
                (AxisName::Param(name), AxisValue::Param(value)) => {
                    drop(key.params.insert(name.clone(), value.clone()))
                }
                (name, value) => {
                    unreachable!("the value of {name:?} is {value:?}: a matrix pairs them by kind")
                }
            }
        }
        finished(key)
    }

    /// The config that `include` adds to this env.
    pub fn included(&self, include: &Include) -> Config {
        let mut key = Key {
            batch: include.batch,
            precision: include.precision,
            ..self.bare_key(include.model.clone())
        };
        for (name, value) in include.params.iter() {
            key.params.insert(name.into(), value.clone());
        }
        Config { key: finished(key), repeats: include.repeats, profiles: self.profiles.clone() }
    }

    /// The part that all configs of the env with this model share. The axes `batches` and `precisions` fill in the
    /// rest.
    fn bare_key(&self, model: ModelName) -> Key {
        Key {
            schema: KEY_SCHEMA,
            kind: Kind::Timing,
            env: self.name.clone(),
            device: self.device,
            model,
            batch: 0,
            precision: Precision::Fp32,
            repeat: 1,
            params: self.params.clone(),
            worker: self.worker.clone(),
            profile: Profile::default(),
        }
    }
}

/// The shipped worker always gets its defaults. For another worker only declared values are known. So a declared value
/// is kept even if it is the shipped worker's default.
fn finished(key: Key) -> Key {
    match key.worker {
        WorkerTemplate::Shipped => Key { params: Key::without_defaults(key.params), ..key },
        WorkerTemplate::Command(_) => key,
    }
}
