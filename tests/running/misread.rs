//! A store of an older version, which read some floats as a neighbouring float: its jobs do not run again, and leftover
//! directories are named.

use std::fs;
use std::path::Path;

use orchestrate::job::Job;
use orchestrate::plan::{Standing, quote};

use crate::harness::{Matrix, Project, edit_sealed};

/// The declared number, and the id of its job, which is a hash of these digits.
const DECLARED: (&str, &str) =
    ("0.0025118864315095794", "a1dde7cbf59befd80355c848cfe4bb75fa3b48c76ad4df8f0132683a47dff1a5");

/// The number that the older version read instead, and the id under which it ran the job again.
const MISREAD: (&str, &str) =
    ("0.002511886431509579", "3fb7a15ca0976478818b0ddd7736fe1a99a461feec0c0884b7fc414a9d226b85");

/// Its program does not exist, so a job that is started fails.
const MATRIX: &str = r#"name: t
models: [m]
batches: [4]
repeats: 1
params: { lr: 0.0025118864315095794 }
worker: { command: [train, "{lr}", "{out}"], result: json }
envs: { cpu: { device: cpu } }
"#;

fn dir_name(id: &str) -> String {
    format!("cpu_m_fp32_bs4_run1-{}", &id[..12])
}

fn key(lr: &str) -> String {
    format!(
        r#"{{"schema":1,"kind":"timing","env":"cpu","device":"cpu","model":"m","batch":4,"precision":"fp32","repeat":1,
            "params":{{"lr":{lr}}},"worker":{{"command":["train","{{lr}}","{{out}}"]}}}}"#
    )
}

fn record(lr: &str, id: &str) -> String {
    format!(
        r#"{{"schema":1,"id":"{id}","label":"cpu_m_fp32_bs4_run1","key":{},"attempt":1,
            "started_at":"2026-11-20T08:00:00Z","ended_at":"2026-11-20T08:00:01Z","outcome":{{"kind":"succeeded"}},
            "measurement":{{"schema":1,"samples":4,"elapsed_s":0.25,"synchronized":true,
                "effective":{{"device":"cpu","precision":"fp32","batch":4}}}},
            "process":null,"observed":{{}},"provenance":{{"orchestrate":"0.1.0","host":{{}},"worker":{{}},
                "matrix":{{"name":"t","path":"t.yaml","sha256":""}},"command":[],"environment":{{}}}}}}"#,
        key(lr)
    )
}

#[test]
fn a_number_that_was_misread_runs_once() {
    let project = Project::with(Matrix::new("t"));
    let path = project.path("t.yaml");
    let text = fs::read_to_string(&path).unwrap().replace("\"--trace\"", "\"--lr\", \"{lr}\", \"--trace\"");
    fs::write(&path, format!("{text}params: {{ lr: {} }}\n", DECLARED.0)).unwrap();
    for verb in [&["run", "t.yaml"][..], &["run", "t.yaml"], &["resume"], &["resume"]] {
        project.orchestrate(verb).code(0);
    }
    assert_eq!((project.started(), project.store().job_dirs().unwrap().len()), (1, 1));
    assert_eq!(project.inventory().problems, []);
}

/// The store after `run`, `run` and `resume` of the older version: the declared job with its record, and the misread
/// one.
fn old_store() -> Project {
    let project = Project::new();
    fs::write(project.path("t.yaml"), MATRIX).unwrap();
    for (lr, id) in [DECLARED, MISREAD] {
        let dir = project.path("runs").join(dir_name(id));
        fs::create_dir_all(dir.join("attempts/01")).unwrap();
        fs::write(dir.join("key.json"), key(lr)).unwrap();
        fs::write(dir.join("record.json"), record(lr, id)).unwrap();
    }
    project
}

#[test]
fn old_results_are_read_and_leftovers_are_named() {
    let project = old_store();
    let inventory = project.inventory();
    assert_eq!(inventory.problems, []);
    for (lr, id) in [DECLARED, MISREAD] {
        let job = Job::new(serde_json::from_str(&key(lr)).unwrap());
        assert_eq!(job.id().to_string(), id);
        assert!(matches!(inventory.standing(&job), Standing::Done(_)), "{lr}");
    }
    let left_over = format!(
        "{}: an older orchestrate read lr={} as {} and so ran {} a second time",
        dir_name(MISREAD.1),
        DECLARED.0,
        MISREAD.0,
        dir_name(DECLARED.1)
    );
    let delete = format!("`rm -r runs/{}` deletes it", dir_name(MISREAD.1));
    for _ in 0..2 {
        let ran = project.orchestrate(&["run", "t.yaml"]).code(0).says(&left_over).says(&delete);
        assert_eq!(ran.stdout, "t: all 1 jobs are done\n");
    }
    for verb in [&["plan", "t.yaml"][..], &["status"], &["resume"]] {
        let ended = project.orchestrate(verb).code(0).says(&delete);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert!(said.contains(&left_over), "no `{left_over}` in {said}");
    }
    assert_eq!(project.store().job_dirs().unwrap().len(), 2, "nothing was started");
    fs::remove_dir_all(project.path("runs").join(dir_name(MISREAD.1))).unwrap();
    let status = project.orchestrate(&["status"]).code(0);
    assert!(!format!("{status:?}").contains("left over"), "{status:?}");
}

#[test]
fn leftovers_are_explained() {
    let project = old_store();
    project.orchestrate(&["run", "t.yaml"]).code(0);
    let explained = project.orchestrate(&["explain", &dir_name(MISREAD.1)]).code(0).stdout;
    for part in [
        format!("misread    an older orchestrate read lr={} as {}", DECLARED.0, MISREAD.0),
        format!("`orchestrate explain {}` explains the declared job", dir_name(DECLARED.1)),
        format!("`rm -r runs/{}` deletes this job: no plan uses it", dir_name(MISREAD.1)),
    ] {
        assert!(explained.contains(&part), "no `{part}` in {explained}");
    }
    let declared = project.orchestrate(&["explain", &dir_name(DECLARED.1)]).code(0).stdout;
    assert!(declared.contains("done (plan `t`)") && !declared.contains("misread"), "{declared}");
}

/// A matrix that declares neither number, and one that declares both.
#[test]
fn jobs_declared_by_other_plans_are_not_misread() {
    let project = old_store();
    let other = MATRIX.replace("name: t", "name: u").replace("models: [m]", "models: [n]");
    let axis = format!("axes: {{ lr: [{}, {}] }}", DECLARED.0, MISREAD.0);
    let both = MATRIX.replace("name: t", "name: v").replace("params: { lr: 0.0025118864315095794 }", &axis);
    for (name, text) in [("u.yaml", other), ("v.yaml", both)] {
        fs::write(project.path(name), text).unwrap();
        let planned = project.orchestrate(&["plan", name]).code(0);
        assert!(!format!("{planned:?}").contains("misread"), "{planned:?}");
    }
}

/// `resume` of the older version saved the plan as it had read it.
#[test]
fn a_misread_plan_is_named_and_saved_again() {
    let project = old_store();
    project.orchestrate(&["run", "t.yaml"]).code(0);
    let path = project.path("runs/.plans/t.json");
    let plan = fs::read_to_string(&path).unwrap();
    edit_sealed(&path, |plan| {
        *plan = serde_json::from_str(&plan.to_string().replace(DECLARED.0, MISREAD.0)).unwrap();
    });
    let status = project.orchestrate(&["status"]).code(0).says("`orchestrate run t.yaml` saves a new plan");
    let line = format!("misread: the plan contains {}", dir_name(MISREAD.1));
    assert!(status.stdout.contains(&line), "{status:?}");
    project.orchestrate(&["run", "t.yaml"]).code(0);
    assert_eq!(fs::read_to_string(&path).unwrap(), plan);
}

#[test]
fn a_directory_with_the_key_of_another_job_gets_a_hint() {
    let project = old_store();
    let (own, copy) = (project.path("runs").join(dir_name(DECLARED.1)), project.path("runs/renamed"));
    fs::rename(&own, &copy).unwrap();
    let holds = format!("key.json belongs to the job {}, so nothing here counts", dir_name(DECLARED.1));
    let typed = |path: &Path| quote(&path.display().to_string());
    let back = format!("`mv {} {}` moves it to where it counts", typed(&copy), typed(&own));
    for verb in [&["plan", "t.yaml"][..], &["status", "t.yaml"]] {
        let shown = project.orchestrate(verb).code(0).stdout;
        assert!(shown.contains(&holds) && shown.contains(&back), "{shown}");
    }
    let explained = project.orchestrate(&["explain", "renamed"]).code(0).stdout;
    assert!(
        explained.contains("which is not the job's directory") && explained.contains(&back),
        "{explained}"
    );
    fs::rename(&copy, &own).unwrap();
    project.orchestrate(&["run", "t.yaml"]).code(0);
}
