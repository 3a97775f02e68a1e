//! Tests of an attempt, from its `attempt.json` to its record.
#![expect(clippy::disallowed_methods, reason = "tests make the files they look at")]

use std::fs;
use std::time::Duration;

use chrono::DateTime;

use super::attempt::{Attempt, End};
use super::directory::Store;
use crate::files::{AttemptDir, to_sealed_json};
use crate::job::{Job, Key};
use crate::lock::JobLock;
use crate::matrix::Limits;
use crate::record::{Ending, HostCounters, Outcome, TimeFlavour, testing};
use crate::store::save_record;

const MEASUREMENT: &str = r#"{"schema":1,"samples":400,"elapsed_s":0.5,"synchronized":true,
    "effective":{"device":"cpu","precision":"fp32","batch":4}}"#;

/// A report of `time` about a program that exited with 0.
const REPORT: &str = include_str!("../../tests/records/gnu_time_exit_0.txt");

fn job() -> Job {
    Job::new(Key::example())
}

pub(crate) fn attempt() -> Attempt {
    let counters = HostCounters {
        busy_s: Some(100.0),
        steal_s: None,
        load: Some(0.5),
        oom_kills: Some(3),
        ..HostCounters::default()
    };
    let start = DateTime::from_timestamp(1_000_000, 0).unwrap();
    Attempt::new(start, Limits::default(), TimeFlavour::Gnu, counters, Vec::new(), testing::provenance())
}

pub(super) fn unseen() -> End {
    End {
        ending: Ending::UNOBSERVED,
        at: DateTime::from_timestamp(1_000_100, 0).unwrap(),
        counters: Some(HostCounters {
            busy_s: Some(150.0),
            steal_s: Some(1.0),
            load: None,
            oom_kills: Some(3),
            ..HostCounters::default()
        }),
        clock_was_set: false,
        adopted: true,
        left_processes: false,
    }
}

struct Place {
    _directory: tempfile::TempDir,
    dir: AttemptDir,
}

fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    let dir = Store::at(directory.path()).unwrap().job_dir(&job()).attempt(1);
    fs::create_dir_all(dir.path()).unwrap();
    Place { _directory: directory, dir }
}

/// The JSON in `text` with a new seal, as a newer version might have written it.
fn sealed(text: &str) -> Vec<u8> {
    let mut value: serde_json::Value = serde_json::from_str(text).unwrap();
    value.as_object_mut().unwrap().remove("seal");
    to_sealed_json(&value)
}

#[test]
fn attempt_json_round_trips() {
    let place = place();
    attempt().save(&place.dir).unwrap();
    assert_eq!(Attempt::load(&place.dir).unwrap(), attempt());
    fs::write(place.dir.attempt(), "{").unwrap();
    assert!(Attempt::load(&place.dir).is_err());
}

#[test]
fn only_the_time_since_boot_shortens_the_limit() {
    let seconds = Duration::from_secs;
    let mut attempt = attempt().started_since_boot(Some(seconds(1000)));
    attempt.limits.timeout = seconds(60);
    attempt.provenance.host.boot_id = Some("one".into());
    assert_eq!(attempt.time_left(Some("one"), Some(seconds(1045))), seconds(15));
    assert_eq!(attempt.time_left(Some("one"), Some(seconds(5000))), Duration::ZERO);
    for (boot, now) in [
        (Some("two"), Some(seconds(1045))),
        (None, Some(seconds(1045))),
        (Some("one"), None),
        (Some("one"), Some(seconds(999))),
    ] {
        assert_eq!(attempt.time_left(boot, now), seconds(60), "{boot:?} {now:?}");
    }
    let older = attempt.clone().started_since_boot(None);
    assert_eq!(older.time_left(Some("one"), Some(seconds(5000))), seconds(60));
    for torn in [f64::NAN, -1.0, 1e300] {
        attempt.started_since_boot_s = Some(torn);
        assert_eq!(attempt.time_left(Some("one"), Some(seconds(5000))), seconds(60), "{torn}");
    }
}

/// The wall clock shows 100 s after the start, and 60 s have passed.
#[test]
fn the_end_is_by_the_clock_of_the_start() {
    let mut attempt = attempt().started_since_boot(Some(Duration::from_secs(1000)));
    attempt.provenance.host.boot_id = Some("one".into());
    let end = |now: i64, boot: Option<&str>, since_boot: u64| {
        let now = DateTime::from_timestamp(now, 0).unwrap();
        let end = End { at: now, ..unseen() };
        let end = attempt.with_corrected_end(end, now, boot, Some(Duration::from_secs(since_boot)));
        (end.at.timestamp() - 1_000_000, end.clock_was_set)
    };
    assert_eq!(end(1_000_100, Some("one"), 1100), (100, false));
    assert_eq!(end(1_000_101, Some("one"), 1100), (101, false), "a correction of the time service");
    assert_eq!(end(1_000_100, Some("one"), 1060), (60, true), "set forward");
    assert_eq!(end(990_000, Some("one"), 1060), (60, true), "set back");
    assert_eq!(end(990_000, Some("two"), 1060), (-10_000, false), "unknown");
    assert_eq!(end(990_000, Some("one"), 900), (-10_000, false), "unknown");
}

#[test]
fn records_omit_wall_clock_times_if_the_clock_was_set() {
    let place = place();
    fs::write(place.dir.time(), REPORT).unwrap();
    fs::write(place.dir.measurement(), MEASUREMENT).unwrap();
    let process = |clock_was_set| {
        let record = attempt().conclude(&job(), &place.dir, End { clock_was_set, ..unseen() });
        assert_eq!(record.outcome, Outcome::Succeeded);
        (record.wall_s(), record.process.unwrap().user_s.is_some())
    };
    assert_eq!(process(false), (73.96, true));
    assert_eq!(process(true), (100.0, true));
}

#[test]
fn an_unobserved_end_is_determined_from_the_remaining_files() {
    let place = place();
    let outcome = || attempt().conclude(&job(), &place.dir, unseen()).outcome;
    assert_eq!(outcome().kind(), "interrupted", "there are no files");
    fs::write(place.dir.measurement(), MEASUREMENT).unwrap();
    assert_eq!(outcome().kind(), "interrupted", "`time` was killed as well");
    for length in [0, 10, REPORT.len() / 2] {
        fs::write(place.dir.time(), &REPORT[..length]).unwrap();
        assert_eq!(outcome().kind(), "interrupted", "the report is cut at {length}");
    }
    fs::write(place.dir.time(), REPORT).unwrap();
    let record = attempt().conclude(&job(), &place.dir, unseen());
    assert_eq!(record.outcome, Outcome::Succeeded);
    assert_eq!(record.observed.host_busy_s, Some(50.0));
    assert_eq!(record.observed.host_steal_s, None, "there was no reading before");
    assert!(record.observed.adopted && record.process.is_some() && record.measurement.is_some());
    fs::write(place.dir.time(), format!("Command terminated by signal 9\n{REPORT}")).unwrap();
    assert_eq!(outcome(), Outcome::Signalled { signal: 9 });
    let mut end = unseen();
    end.counters.as_mut().unwrap().oom_kills = Some(4);
    assert_eq!(attempt().conclude(&job(), &place.dir, end).outcome.kind(), "out_of_memory");
}

#[test]
fn the_last_message_of_a_worker_is_found_at_the_end_of_its_log() {
    let place = place();
    fs::write(place.dir.time(), REPORT.replace("Exit status: 0", "Exit status: 3")).unwrap();
    let message = || match attempt().conclude(&job(), &place.dir, unseen()).outcome {
        Outcome::Exited { code: 3, message } => message,
        other => panic!("{other:?}"),
    };
    assert_eq!(message(), None);
    fs::write(place.dir.stderr(), format!("{}\nthe end\n\u{1b}[0m\n", "x".repeat(100_000))).unwrap();
    assert_eq!(message().as_deref(), Some("the end"));
    fs::write(place.dir.stderr(), b"\xff\xfe torn\n").unwrap();
    assert_eq!(message().as_deref(), Some("\u{fffd}\u{fffd} torn"));
}

#[test]
fn a_record_with_an_outcome_of_a_newer_version_is_never_repeated_or_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::at(directory.path()).unwrap();
    let lock = JobLock::try_lock(&job(), store.job_dir(&job())).unwrap();
    save_record(&lock, &testing::record(1, Outcome::Succeeded)).unwrap();
    let path = lock.dir().record();
    let known = fs::read_to_string(&path).unwrap();
    assert_eq!(store.load_job(&job()).blocks(&job()), None);
    assert!(known.contains("\"succeeded\""));
    let unknown = String::from_utf8(sealed(&known.replace("\"succeeded\"", "\"postponed\""))).unwrap();
    fs::write(&path, &unknown).unwrap();
    let why = store.load_job(&job()).blocks(&job()).unwrap();
    assert!(why.contains("the outcome `postponed`, which this version does not know"), "{why}");
    fs::create_dir_all(lock.dir().attempt(2).path()).unwrap();
    save_record(&lock, &testing::record(2, Outcome::Succeeded)).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), unknown);
    // A torn record has no version, and its job runs again.
    fs::write(&path, &unknown[..unknown.len() / 2]).unwrap();
    assert_eq!(store.load_job(&job()).blocks(&job()), None);
}
