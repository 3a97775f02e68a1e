//! Tests that keys keep their id on disk: `id(parse(print(key))) = id(key)`, for every file that contains a key.

use proptest::prelude::*;

use super::inventory::parse_key;
use super::plans::{parse_plan, plan_json};
use super::record::parse_record;
use crate::files::{to_json, to_sealed_json};
use crate::job::{Job, Key, arbitrary};
use crate::plan::{Plan, PlannedEnv};
use crate::record::{Outcome, testing};

fn plan_of(key: &Key) -> Plan {
    let envs = [(key.env.clone(), PlannedEnv::example())].into();
    Plan { envs, ..Plan::example(vec![key.clone()]) }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// `just identity` runs this for a million keys.
    #[test]
    fn a_key_keeps_its_id_in_every_file(key in arbitrary::key()) {
        let job = Job::new(key.clone());
        let read = parse_key(&text(to_json(&key))).unwrap();
        prop_assert_eq!(read.id(), job.id(), "key.json");
        prop_assert_eq!(&read, &key);
        let plan = parse_plan(&plan_json(&plan_of(&key))).unwrap();
        prop_assert_eq!(plan.jobs().next().map(|job| job.id()), Some(job.id()), "the saved plan");
        let record = testing::record_of(key, Outcome::Succeeded);
        let read = parse_record(&to_sealed_json(&record), &job.dir_name()).unwrap();
        prop_assert_eq!((read.id, read.key.id()), (job.id(), job.id()), "record.json");
    }
}
