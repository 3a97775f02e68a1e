//! Fuzzes the files of a store. Most damaged files have a valid seal, as after a bug in this or another version.

use std::time::Duration;

use chrono::DateTime;

use super::attempt::Attempt;
use super::inventory::parse_key;
use super::plans::{parse_plan, plan_json};
use super::record::parse_record;
use crate::files::{FormError, from_sealed_json, to_json, to_sealed_json};
use crate::fuzz::{Form, Target, files, fuzz};
use crate::job::{Job, Key};
use crate::matrix::Limits;
use crate::plan::Plan;
use crate::record::{HostCounters, Record, TimeFlavour, testing};
use crate::text::with_causes;

#[test]
fn fuzz_record() {
    let seeds =
        [files("tests/records/schema_1", "", ".json"), files("tests/records/schema_2", "", ".json")].concat();
    let target =
        Target { name: "record", form: Form::Sealed, seeds, words: &["succeeded", "cpu", "fp32", "schema"] };
    fuzz(target, |bytes| {
        let record = match from_sealed_json::<Record>(bytes) {
            Ok(record) => record,
            Err(error) => return with_causes(&error),
        };
        let _ = (record.wall_s(), record.outcome.to_string(), record.outcome.policy());
        // A record that was read can be written and read again.
        let written = to_sealed_json(&record);
        let name = Job::new(record.key.clone()).dir_name();
        match parse_record(&written, &name) {
            Ok(again) => assert_eq!(to_sealed_json(&again), written),
            Err(error) => return with_causes(&error),
        }
        "read".to_owned()
    });
}

#[test]
fn fuzz_plan() {
    let keys: Vec<Key> = (1..4).map(|repeat| Key { repeat, ..Key::example() }).collect();
    let seeds = vec![plan_json(&Plan::example(keys))];
    let target =
        Target { name: "plan", form: Form::Sealed, seeds, words: &["matrix", "configs", "envs", "schema"] };
    fuzz(target, |bytes| match parse_plan(bytes) {
        Ok(plan) => {
            let jobs: Vec<Job> = plan.jobs().collect();
            assert!(jobs.iter().all(|job| plan.envs.contains_key(&job.key().env)));
            let again =
                parse_plan(&plan_json(&plan)).expect("a plan that was read can be written and read again");
            assert!(again.jobs().map(|job| job.id()).eq(jobs.iter().map(Job::id)));
            format!("{} jobs", jobs.len())
        }
        Err(error) => with_causes(&error),
    });
}

#[test]
fn fuzz_attempt() {
    let counters =
        HostCounters { busy_s: Some(100.0), load: Some(0.5), oom_kills: Some(3), ..HostCounters::default() };
    let start = DateTime::from_timestamp(1_000_000, 0).expect("a moment in 1970");
    let limits = Limits::default();
    let attempt = Attempt::new(start, limits, TimeFlavour::Gnu, counters, Vec::new(), testing::provenance());
    let attempt = attempt.started_since_boot(Some(Duration::from_secs(1000)));
    let seeds = vec![to_sealed_json(&attempt)];
    let target =
        Target { name: "attempt", form: Form::Sealed, seeds, words: &["gnu", "10s", "schema", "timeout"] };
    let now = Duration::from_secs(2000);
    fuzz(target, |bytes| {
        let read: Result<Attempt, FormError> = from_sealed_json(bytes);
        let attempt = match read {
            Ok(attempt) => attempt,
            Err(error) => return with_causes(&error),
        };
        let boot = attempt.provenance.host.boot_id.clone();
        assert!(attempt.time_left(boot.as_deref(), Some(now)) <= attempt.limits.timeout);
        let end = super::tests::unseen();
        let end = attempt.with_corrected_end(end.clone(), end.at, boot.as_deref(), Some(now));
        let job = Job::new(Key::example());
        let nowhere = crate::files::JobDir::at("/nonexistent".into()).attempt(1);
        let record = attempt.conclude(&job, &nowhere, end);
        assert!(record.wall_s() >= 0.0 && record.ended_at >= record.started_at);
        record.outcome.kind().to_owned()
    });
}

#[test]
fn fuzz_key() {
    let seeds = vec![to_json(&Key::example())];
    let target = Target {
        name: "key",
        form: Form::Tree,
        seeds,
        words: &["cpu", "fp32", "shipped", "timing", "{out}"],
    };
    fuzz(target, |bytes| match parse_key(&String::from_utf8_lossy(bytes)) {
        Ok(key) => {
            let id = Job::new(key.clone()).id();
            let text = String::from_utf8(to_json(&key)).expect("JSON is UTF-8");
            assert_eq!(
                parse_key(&text).expect("a key that was read can be written and read again").id(),
                id,
                "{text}"
            );
            format!("{} {:?}", key.device, key.kind)
        }
        Err(error) => error.to_string(),
    });
}
