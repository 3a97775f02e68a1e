//! Attempts of a worker with one mistake each, and the remarks about them.

use chrono::{DateTime, TimeDelta};
use serde_json::{Value, json};

use super::*;
use crate::job::{Key, ParamValue, WorkerTemplate};
use crate::protocol::Report;
use crate::record::{Ending, Outcome, ProcessStats, decide_outcome, testing};

/// The input of a check: a job, the end of its worker, and the files that the worker wrote.
struct Case {
    key: Key,
    ending: Ending,
    file: Option<Value>,
    iterations: Option<String>,
    stdout: &'static str,
    assumed: &'static [&'static str],
    left_processes: bool,
}

/// Seconds since 1970 at the start of the worker.
const STARTED: i64 = 1_790_000_000;

/// A worker without remarks: 8 samples in a window of 0.5 s, in a process that lives 2 s.
fn sound() -> Case {
    let words = ["train.py", "{model}", "{batch}", "{precision}", "{device}", "{lr}"];
    Case {
        key: Key {
            model: "resnet18".into(),
            batch: 4,
            params: [("lr".to_owned(), ParamValue::Int(1))].into(),
            worker: WorkerTemplate::Command(words.map(str::to_owned).into()),
            ..Key::example()
        },
        ending: Ending::Ended { code: Some(0), signal: None },
        file: Some(json!({
            "schema": 1, "samples": 8, "elapsed_s": 0.5, "synchronized": true, "unit": "images",
            "effective": {
                "device": "cpu", "precision": "fp32", "batch": 4, "model": "resnet18", "lr": 1, "input_size": 224,
                "classes": 1000,
            },
            "details": {
                "device_name": "CPU", "versions": { "torch": "2" }, "window_started_at": STARTED + 1,
                "first_step_s": 0.5, "data_wait_s": 0, "involuntary_switches": 3, "parameters": 11_689_512,
            },
        })),
        iterations: Some("elapsed_s,data_wait_s,clock\n0.25,0,host\n0.25,0,host\n".to_owned()),
        stdout: "{\"event\":\"measure\",\"done\":1,\"of\":2}\n",
        assumed: &[],
        left_processes: false,
    }
}

impl Case {
    /// The same case with `value` at `pointer` of the file; `null` removes the field.
    fn with(mut self, pointer: &str, value: Value) -> Case {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let parent = self.file.as_mut().unwrap().pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match value {
            Value::Null => drop(parent.remove(name).expect(pointer)),
            value => drop(parent.insert(name.to_owned(), value)),
        }
        self
    }

    fn remarks(&self) -> Vec<Remark> {
        let text = self.file.as_ref().map(Value::to_string);
        let report = text.as_deref().map(Report::parse);
        let outcome = decide_outcome(&self.key, &self.ending, report.as_ref(), Some("why"), Some(2.0));
        let started_at = DateTime::from_timestamp(STARTED, 0).unwrap();
        let mut record = Record {
            started_at,
            ended_at: started_at + TimeDelta::seconds(2),
            process: Some(ProcessStats { wall_s: Some(2.0), ..ProcessStats::default() }),
            measurement: match report {
                Some(Ok(Report::Measured(measurement))) => Some(*measurement),
                _ => None,
            },
            ..testing::record_of(self.key.clone(), outcome)
        };
        record.observed.left_processes = self.left_processes;
        remarks(&Attempted {
            record: &record,
            measurement: text.as_deref(),
            iterations: self.iterations.as_deref(),
            stdout: self.stdout,
            assumed: self.assumed,
        })
    }
}

/// The remarks as text, as the command prints them.
fn remarks_text(remarks: &[Remark]) -> String {
    let line = |Remark { weight, about, what, change, loss }: &Remark| {
        format!("{} [{about}]: {what}\n  change: {change}\n  lost:   {loss}\n", weight.as_str())
    };
    remarks.iter().map(line).collect::<String>() + &tally_text(remarks) + "\n"
}

#[test]
fn a_sound_worker_gets_no_remarks() {
    assert_eq!(remarks_text(&sound().remarks()), "nothing is wrong, and nothing is left out\n");
}

#[test]
fn every_misbehaviour_gets_a_remark() {
    let ended = |code| Ending::Ended { code: Some(code), signal: None };
    let no_file = |ending| Case { ending, file: None, iterations: None, ..sound() };
    let failed = |kind: &str, code| Case {
        file: Some(json!({ "schema": 1, "failure": { "kind": kind, "message": "why" } })),
        ..no_file(ended(code))
    };
    let (at, effective, details) = ("/details/window_started_at", "/effective/", "/details/");
    let cases = [
        ("it exits with 1 and leaves no file", no_file(ended(1))),
        ("its flags are wrong", no_file(ended(2))),
        ("it exits with 0 and leaves no file", no_file(ended(0))),
        ("it crashes", no_file(Ending::Ended { code: None, signal: Some(11) })),
        ("it takes too long", no_file(Ending::TimedOut { after_s: 60.0 })),
        ("it cannot be started", no_file(Ending::NotStarted { message: "no such file".into() })),
        ("it is out of memory", failed("out_of_memory", 71)),
        ("it is not supported", failed("unsupported", 69)),
        ("it names a failure and exits with 0", failed("other", 0)),
        ("it measures and exits with 1", Case { ending: ended(1), ..sound() }),
        ("it leaves processes behind", Case { left_processes: true, ..sound() }),
        (
            "numbers are texts",
            sound().with("/samples", json!("8")).with(&format!("{effective}batch"), json!("4")),
        ),
        ("a field is missing", sound().with("/synchronized", Value::Null)),
        ("the samples are no whole batches", sound().with("/samples", json!(9))),
        ("the schema is unknown", sound().with("/schema", json!(2))),
        ("milliseconds", sound().with("/elapsed_s", json!(500))),
        ("the window is a little too long", sound().with("/elapsed_s", json!(2.5)).with(at, json!(STARTED))),
        ("it does not wait for the device", sound().with("/synchronized", json!(false))),
        ("another batch", sound().with(&format!("{effective}batch"), json!(8))),
        ("another parameter", sound().with(&format!("{effective}lr"), json!(2))),
        ("an unconfirmed parameter", sound().with(&format!("{effective}lr"), Value::Null)),
        (
            "a batch that was not requested",
            Case { assumed: &["batch"], ..sound().with(&format!("{effective}batch"), json!(8)) },
        ),
        ("a monotonic clock", sound().with(at, json!(12345.5))),
        ("a wait longer than the window", sound().with(&format!("{details}data_wait_s"), json!(0.6))),
        ("a start longer than the life", sound().with(&format!("{details}first_step_s"), json!(60))),
        (
            "ranks that do not add up",
            sound()
                .with(
                    &format!("{details}ranks"),
                    json!([{ "rank": 0, "samples": 4 }, { "rank": 1, "samples": 3 }]),
                )
                .with(&format!("{details}slowest_rank"), json!(2)),
        ),
        (
            "a loss that is not finite",
            sound().with(&format!("{details}first_non_finite_iteration"), json!(1)),
        ),
        (
            "torn iterations",
            Case { iterations: Some("elapsed_s,data_wait_s,clock\n0.25,0,ho".into()), ..sound() },
        ),
        (
            "iterations of another length",
            Case {
                iterations: Some("elapsed_s,data_wait_s,clock\n25,0,host\n25,0,host\n".into()),
                ..sound()
            },
        ),
        (
            "misspelt progress",
            Case { stdout: "{\"event\": \"mesure\", \"done\": 1, \"of\": 2}\n", ..sound() },
        ),
        ("progress of another form", Case { stdout: "{\"event\": \"measure\", \"done\": 1}\n", ..sound() }),
        ("no progress", Case { stdout: "{\"event\": \"epoch done\"}\nloss 6.9\n", ..sound() }),
        ("a network of the same name", sound().with(&format!("{details}parameters"), json!(12))),
        ("unknown shapes", sound().with(&format!("{effective}classes"), Value::Null)),
    ];
    let text: String = cases
        .iter()
        .map(|(what, case)| format!("## {what}\n\n{}\n", remarks_text(&case.remarks())))
        .collect();
    insta::assert_snapshot!(text);
}

#[test]
fn unknown_names_get_remarks() {
    let misspelt = sound()
        .with("/samples", Value::Null)
        .with("/sampels", json!(8))
        .with("/device_name", json!("CPU"))
        .with("/effective/warm_up", json!(2))
        .with("/effective/own", json!(2))
        .with("/effective/lr", Value::Null)
        .with("/effective/lR", json!(1))
        .with("/effective/first_loss", json!(6.9))
        .with("/details/device_name", Value::Null)
        .with("/details/device-name", json!("CPU"))
        .with("/details/peak_host_memory", json!(1))
        .with("/details/anything", json!(1))
        .with("/details/ranks", json!([{ "rank": 0, "hosts": "a" }, { "rank": 1, "hosts": "b" }]));
    insta::assert_snapshot!(remarks_text(&misspelt.remarks()));
}

#[test]
fn every_omitted_field_gets_a_remark_with_its_loss() {
    let mut least = sound();
    least.file = Some(json!({
        "schema": 1, "samples": 8, "elapsed_s": 0.5, "synchronized": true,
        "effective": { "device": "cuda", "precision": "fp32", "batch": 4, "lr": 1 },
    }));
    least.key.device = crate::job::Device::Cuda(0);
    least.key.model = "own".into();
    (least.iterations, least.stdout) = (None, "");
    insta::assert_snapshot!(remarks_text(&least.remarks()));
}

#[test]
fn a_tally_counts_each_weight() {
    let of = |weights: &[Weight]| {
        tally_text(
            &weights
                .iter()
                .map(|weight| remark(*weight, Texts { about: "", what: "", change: "", loss: "" }))
                .collect::<Vec<_>>(),
        )
    };
    use Weight::{Doubtful, LeftOut, Wrong};
    for (weights, text) in [
        (&[][..], "nothing is wrong, and nothing is left out"),
        (&[LeftOut], "nothing is wrong; 1 thing is left out"),
        (&[Doubtful, Doubtful], "nothing is wrong; 2 things are doubtful"),
        (&[Doubtful, LeftOut], "nothing is wrong; 1 thing is doubtful, 1 thing is left out"),
        (&[Wrong], "1 thing is wrong"),
        (&[Wrong, Doubtful], "1 thing is wrong, 1 thing is doubtful"),
        (&[Wrong, LeftOut], "1 thing is wrong, 1 thing is left out"),
        (&[Wrong, Wrong, Doubtful, LeftOut], "2 things are wrong, 1 thing is doubtful, 1 thing is left out"),
    ] {
        assert_eq!(of(weights), text);
    }
}

#[test]
fn every_failure_gets_a_wrong_remark() {
    for outcome in [
        Outcome::Exited { code: 1, message: None },
        Outcome::Signalled { signal: 9 },
        Outcome::TimedOut { after_s: 1.0 },
        Outcome::OutOfMemory { message: "why".into(), needed_bytes: None, free_bytes: None },
        Outcome::FailedToSpawn { message: "why".into() },
        Outcome::BadOutput { message: "why".into() },
        Outcome::Unsupported { message: "why".into() },
    ] {
        let record = testing::record(1, outcome);
        let attempted =
            Attempted { record: &record, measurement: None, iterations: None, stdout: "", assumed: &[] };
        assert_eq!(remarks(&attempted)[0].weight, Weight::Wrong, "{:?}", record.outcome);
    }
    assert_eq!(refused("there is no program").weight, Weight::Wrong);
}
