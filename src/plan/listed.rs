//! The jobs of a plan in its file: every config once, and for each job its config and its repeat.
//!
//! ```json
//! "jobs": { "configs": [{ …, "repeat": 1 }, …], "order": [[0, 1], [1, 1], [0, 2], …] }
//! ```
//!
//! The file stays small for few configs with many repeats as well as for many configs with few, and jobs that are read
//! share the parts of their config. Schema 1 lists whole keys instead.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor, value};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::job::{ConfigOf, Job, Key, Repeats};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    /// The key of each config's first repeat.
    configs: Vec<Key>,
    /// The place of each job's config in `configs`, and its repeat.
    order: Vec<(usize, u32)>,
}

/// Writes these `jobs`.
pub(super) fn serialize<S: Serializer>(jobs: &[Job], serializer: S) -> Result<S::Ok, S::Error> {
    let mut places: HashMap<ConfigOf<'_>, usize> = HashMap::new();
    let mut configs = Vec::new();
    let mut order = Vec::with_capacity(jobs.len());
    for key in jobs.iter().map(Job::key) {
        let place = *places.entry(ConfigOf::new(key)).or_insert_with(|| {
            configs.push(key.config());
            configs.len() - 1
        });
        order.push((place, key.repeat));
    }
    Listed { configs, order }.serialize(serializer)
}

/// Reads what [`serialize`] or schema 1 has written.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Job>, D::Error> {
    deserializer.deserialize_any(JobsVisitor)
}

struct JobsVisitor;

impl<'de> Visitor<'de> for JobsVisitor {
    type Value = Vec<Job>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the jobs of a plan")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Vec<Job>, A::Error> {
        Vec::deserialize(value::SeqAccessDeserializer::new(seq))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<Job>, A::Error> {
        let Listed { configs, order } = Listed::deserialize(value::MapAccessDeserializer::new(map))?;
        let mut repeats: Vec<Option<Repeats>> = vec![None; configs.len()];
        let job = |(place, repeat): (usize, u32)| {
            let config = configs.get(place).ok_or_else(|| {
                A::Error::custom(format!("a job is of config {place}, but there are only {}", configs.len()))
            })?;
            Ok(repeats[place].get_or_insert_with(|| Repeats::of(config.clone())).job(repeat))
        };
        order.into_iter().map(job).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::plan::Plan;

    fn key(batch: u32, repeat: u32) -> Key {
        Key { batch, repeat, ..Key::example() }
    }

    fn read(jobs: Value) -> Result<Vec<Key>, serde_json::Error> {
        let mut plan = serde_json::to_value(Plan::example(Vec::new())).unwrap();
        plan["jobs"] = jobs;
        serde_json::from_value::<Plan>(plan).map(|plan| plan.keys().cloned().collect())
    }

    #[test]
    fn each_config_is_written_once() {
        let plan = Plan::example(vec![key(4, 1), key(8, 1), key(4, 2), key(8, 2), key(4, 3)]);
        let jobs = &serde_json::to_value(&plan).unwrap()["jobs"];
        assert_eq!(jobs["configs"].as_array().unwrap().len(), 2);
        assert_eq!(jobs["order"], json!([[0, 1], [1, 1], [0, 2], [1, 2], [0, 3]]));
        assert_eq!(read(jobs.clone()).unwrap(), Vec::from_iter(plan.keys().cloned()));
    }

    #[test]
    fn whole_keys_are_read_too() {
        let keys = [key(4, 1), key(8, 2)];
        assert_eq!(read(serde_json::to_value(&keys).unwrap()).unwrap(), keys);
    }

    #[test]
    fn a_job_of_no_config_is_refused() {
        let error = read(json!({ "configs": [key(4, 1)], "order": [[1, 1]] })).unwrap_err().to_string();
        assert_eq!(error, "a job is of config 1, but there are only 1");
        assert!(read(json!({ "configs": [], "order": [], "more": 1 })).is_err());
        assert!(read(json!("none")).unwrap_err().to_string().contains("expected the jobs of a plan"));
    }
}
