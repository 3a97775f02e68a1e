//! A done job whose worker has changed is stale. The user decides whether it is repeated or accepted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use orchestrate::files::JobDir;
use orchestrate::plan::{Inventory, NotDone, Standing};
use orchestrate::record::{Outcome, Record};
use serde_json::Value;

use crate::harness::{Ended, Matrix, Project, Running, edit_sealed, own_worker, write_program};

/// A project whose worker is a copy of the fake one, so that a test can change it.
struct Changeable {
    project: Project,
    worker: PathBuf,
}

impl Changeable {
    fn with(matrix: impl FnOnce(Matrix, &Project) -> Matrix) -> Changeable {
        let project = Project::new();
        let worker = project.path("worker");
        let matrix = matrix(Matrix::new("t").worker(&worker), &project);
        let changeable = Changeable { project: project.and(matrix), worker };
        changeable.install(Path::new(env!("CARGO_BIN_EXE_fake-worker")));
        changeable
    }

    /// Replaces the worker with a copy of `program`. Another process writes it: a child of a concurrent test could
    /// inherit a file that this process has open for writing, and the file could not be executed.
    fn install(&self, program: &Path) {
        let status = Command::new("cp").arg("-f").arg(program).arg(&self.worker).status().unwrap();
        assert!(status.success());
    }

    fn shell(&self, script: &str) {
        let status = Command::new("sh").args(["-c", script, "sh"]).arg(&self.worker).status().unwrap();
        assert!(status.success());
    }

    /// Changes the worker's bytes, but not its behaviour.
    fn change(&self) {
        self.shell("printf x >> \"$1\"");
    }

    fn touch(&self) {
        self.shell("touch -d '2001-01-01 00:00:00' \"$1\" 2> /dev/null || touch -t 200101010000 \"$1\"");
    }

    /// Makes the worker fail from now on.
    fn break_it(&self) {
        self.shell(
            "printf '#!/bin/sh\\nexit 3\\n' > \"$1.new\" && chmod 755 \"$1.new\" && mv \"$1.new\" \"$1\"",
        );
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        self.project.orchestrate(arguments)
    }

    fn json(&self, arguments: &[&str]) -> Value {
        self.run(arguments).json()
    }

    /// The numbers of done and stale jobs in a plan.
    fn done_and_stale(&self) -> (u64, u64) {
        let counts = self.json(&["plan", "t.yaml", "--json"])["counts"].clone();
        (counts["done"].as_u64().unwrap(), counts["stale"].as_u64().unwrap())
    }

    /// The directory of the only job.
    fn dir(&self) -> JobDir {
        let mut dirs = self.project.store().job_dirs().unwrap();
        assert_eq!(dirs.len(), 1);
        dirs.remove(0)
    }

    /// The record that is kept in the attempt `number` of the only job.
    fn kept(&self, number: u32) -> Option<Record> {
        self.dir().attempt(number).load_record().unwrap()
    }

    fn inventory(&self) -> Inventory {
        self.project.inventory()
    }
}

#[test]
fn changed_bytes_make_a_job_stale_and_a_new_time_does_not() {
    let scene = Changeable::with(|matrix, _| matrix.repeats(2));
    scene.run(&["run", "t.yaml"]).code(0);
    let records = scene.project.records();
    scene.touch();
    assert_eq!(scene.done_and_stale(), (2, 0));
    scene.change();
    assert_eq!(scene.done_and_stale(), (0, 2));
    let plan = scene.run(&["plan", "t.yaml"]).code(0).says("run t.yaml --rerun-stale` repeats");
    let old = &records[0].provenance.worker.sha256.as_ref().unwrap()[..12];
    assert!(plan.stdout.contains(&format!("worker {old} → ")), "{plan:?}");
    assert!(plan.stdout.contains("0 to run, 2 stale"), "{plan:?}");
    // A stale job is still done: it is reported but not repeated.
    let run = scene.run(&["run", "t.yaml"]).code(0).says("2 jobs are done but stale (worker ");
    assert!(run.stdout.contains("all 2 jobs are done"), "{run:?}");
    assert!(run.stderr.contains("`orchestrate resume t --rerun-stale` repeats"), "{run:?}");
    assert_eq!((scene.project.started(), scene.project.records()), (2, records.clone()));
    let status = scene.run(&["status"]).code(0).says("accept --all");
    assert!(status.stdout.contains("\nstale: worker ") && status.stdout.contains(": 2 jobs"), "{status:?}");
    // With the former bytes, the job is not stale.
    scene.install(Path::new(env!("CARGO_BIN_EXE_fake-worker")));
    assert_eq!(scene.done_and_stale(), (2, 0));
}

#[test]
fn the_hint_of_a_plan_selects_the_same_jobs() {
    let scene = Changeable::with(|matrix, _| matrix.repeats(2));
    scene.run(&["run", "t.yaml", "--store", "my runs"]).code(0);
    scene.change();
    let flags =
        ["--profile", "perf", "--env", "cpu", "--model", "m", "--only", "batch>=4", "--store", "my runs"];
    let hint = "hint: `orchestrate run t.yaml --profile perf --env cpu --model m --only 'batch>=4' --rerun-stale \
                --store 'my runs'` repeats stale jobs";
    scene.run(&[&["plan", "t.yaml"], &flags[..]].concat()).code(0).says(hint);
    let hint = "hint: `orchestrate resume t --only 'repeat>1' --rerun-stale --store 'my runs'` repeats";
    scene.run(&["status", "t", "--only", "repeat>1", "--store", "my runs"]).code(0).says(hint);
}

#[test]
fn a_rerun_repeats_stale_jobs_and_keeps_their_old_records() {
    let scene = Changeable::with(|matrix, _| matrix);
    scene.run(&["run", "t.yaml"]).code(0);
    let before = scene.project.record();
    // Nothing is stale, so nothing is repeated.
    scene.run(&["run", "t.yaml", "--rerun-stale"]).code(0);
    assert_eq!(scene.project.started(), 1);
    scene.change();
    scene.run(&["resume", "--rerun-stale"]).code(0);
    let after = scene.project.record();
    assert_eq!((after.attempt, &after.outcome), (2, &Outcome::Succeeded));
    assert_ne!(after.provenance.worker.sha256, before.provenance.worker.sha256);
    assert_eq!(scene.kept(1), Some(before));
    assert_eq!(scene.done_and_stale(), (1, 0));
    scene.run(&["run", "t.yaml", "--rerun-stale"]).code(0);
    assert_eq!(scene.project.started(), 2);
}

#[test]
fn runs_of_two_workers_are_never_pooled() {
    let scene = Changeable::with(|matrix, _| matrix.repeats(2));
    scene.run(&["run", "t.yaml"]).code(0);
    scene.change();
    scene.run(&["run", "t.yaml", "--rerun-stale", "--only", "repeat=2"]).code(0);
    assert_eq!(scene.project.started(), 3);
    assert_eq!(scene.done_and_stale(), (1, 1));
    let status = scene.json(&["status", "--json"]);
    let groups = status["configs"][0]["throughput"].as_array().unwrap();
    assert_eq!(groups.len(), 2, "{status}");
    assert!(groups[1]["differences"][0].as_str().unwrap().starts_with("worker "), "{status}");
}

#[test]
fn an_accepted_record_is_kept_until_something_else_changes() {
    let scene = Changeable::with(|matrix, _| matrix.repeats(2));
    scene.run(&["run", "t.yaml"]).code(0);
    scene.run(&["accept", "--all"]).code(0);
    scene.change();
    let dirs = scene.project.store().job_dirs().unwrap();
    let bytes = || dirs.iter().map(|dir| fs::read(dir.record()).unwrap()).collect::<Vec<_>>();
    let before = bytes();
    let accepted = scene.run(&["accept", "cpu_m_fp32_bs4_run1", "runs/cpu_m_fp32_bs4_run1"]).code(0);
    assert_eq!(accepted.stdout.lines().count(), 1, "named twice, accepted once");
    assert!(accepted.stdout.starts_with("accepted cpu_m_fp32_bs4_run1: worker "), "{accepted:?}");
    assert_eq!(scene.done_and_stale(), (1, 1));
    let again = scene.run(&["accept", "cpu_m_fp32_bs4_run1"]).code(0);
    assert!(again.stdout.contains("is not stale"), "{again:?}");
    let all = scene.run(&["accept", "--all"]).code(0);
    assert!(all.stdout.ends_with("1 job accepted\n"), "{all:?}");
    assert_eq!(scene.done_and_stale(), (2, 0));
    scene.run(&["run", "t.yaml", "--rerun-stale"]).code(0);
    assert_eq!((scene.project.started(), bytes()), (2, before), "records are never edited");
    let explained = scene.run(&["explain", "cpu_m_fp32_bs4_run1"]).code(0).stdout;
    assert!(explained.contains("  decision   done (plan `t`)\n  accepted   20"), "{explained}");
    assert!(explained.contains("\nchanged since it ran\n  worker "), "{explained}");
    scene.change();
    assert_eq!(scene.done_and_stale(), (0, 2), "another change is not the one that was accepted");
    // An unreadable file accepts nothing, and is reported.
    scene.run(&["accept", "--all"]).code(0);
    fs::write(dirs[0].accepted(), "{").unwrap();
    assert_eq!(scene.done_and_stale(), (1, 1));
    scene.run(&["run", "t.yaml"]).code(0).says("accepted.json is torn").says("so nothing is accepted");
}

#[test]
fn only_a_done_job_can_be_accepted() {
    let scene = Changeable::with(|matrix, _| matrix.behave(&["exit3"]));
    scene.run(&["run", "t.yaml"]).code(10);
    scene
        .run(&["accept", "cpu_m_fp32_bs4_run1"])
        .code(4)
        .says("is not done")
        .says("orchestrate explain cpu_m");
    scene.run(&["accept"]).code(2);
    scene.run(&["accept", "cpu_m_fp32_bs4_run1", "--all"]).code(2);
    scene.run(&["accept", "cpu_m_fp32_bs4_run9"]).code(4).says("did you mean");
    assert!(!scene.dir().accepted().exists());
    // A failure is not stale, whatever changes.
    scene.change();
    assert_eq!(scene.done_and_stale(), (0, 0));
}

#[test]
fn a_worker_that_is_replaced_while_a_run_goes_on_stops_it() {
    let scene = Changeable::with(|matrix, project| matrix.repeats(3).flag("--release", &project.release()));
    let run = scene.project.start(&["run", "t.yaml"]);
    scene.project.wait_started(1);
    scene.shell("cp \"$1\" \"$1.new\" && printf x >> \"$1.new\" && mv \"$1.new\" \"$1\"");
    scene.project.release_workers();
    run.wait()
        .code(11)
        .says("run2 is not started: its worker ")
        .says("was replaced while the run went on: worker ")
        .says("stopped by a change of the worker; continue with `orchestrate resume t`");
    assert_eq!((scene.project.started(), scene.project.record().outcome), (1, Outcome::Succeeded));
    scene.run(&["resume"]).code(0).says("1 job is done but stale");
    assert_eq!(scene.project.started(), 3);
    assert!(scene.project.records().iter().all(|record| record.attempt == 1));
}

/// Otherwise its jobs would seem to belong to no plan.
#[test]
fn an_unreadable_plan_is_reported_with_the_cause() {
    let scene = Changeable::with(|matrix, _| matrix);
    scene.run(&["run", "t.yaml"]).code(0);
    let path = scene.project.path("runs/.plans/t.json");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    for verb in [&["explain", "cpu_m_fp32_bs4_run1"][..], &["accept", "--all"]] {
        let text = scene.run(verb).code(0).stderr;
        assert!(text.contains("warning: the plan `t` is left out: ") && text.contains("EOF"), "{text}");
    }
}

#[test]
fn an_unopenable_lock_does_not_make_a_job_busy() {
    let scene = Changeable::with(|matrix, _| matrix);
    scene.run(&["run", "t.yaml"]).code(0);
    scene.change();
    let lock = scene.dir().lock();
    fs::remove_file(&lock).unwrap();
    // Even root cannot open it.
    fs::create_dir(&lock).unwrap();
    let refused = scene
        .run(&["accept", "--all"])
        .code(12)
        .says("cannot lock")
        .says("it is a directory")
        .says("shows its owner");
    assert!(!refused.stderr.contains("another orchestrate runs it"), "{refused:?}");
    fs::remove_dir(&lock).unwrap();
    scene.run(&["accept", "--all"]).code(0);
    assert_eq!(scene.done_and_stale(), (1, 0));
}

#[test]
fn a_failed_rerun_is_reported_and_the_success_stays_readable() {
    let scene = Changeable::with(|matrix, _| matrix);
    scene.run(&["run", "t.yaml"]).code(0);
    let before = scene.project.record();
    scene.break_it();
    scene.run(&["run", "t.yaml", "--rerun-stale"]).code(10).says("exited with code 3");
    let record = scene.project.record();
    assert_eq!((record.attempt, record.outcome.kind()), (2, "exited"));
    assert_eq!(scene.kept(1), Some(before));
    let explained = scene.json(&["explain", "cpu_m_fp32_bs4_run1", "--json"]);
    assert_eq!((&explained["done"], &explained["decision"]), (&false.into(), &"run".into()));
    let kinds: Vec<&Value> =
        explained["attempts"].as_array().unwrap().iter().map(|it| &it["outcome"]["kind"]).collect();
    assert_eq!(kinds, ["succeeded", "exited"]);
    scene.install(Path::new(env!("CARGO_BIN_EXE_fake-worker")));
    scene.run(&["resume"]).code(0);
    assert_eq!((scene.project.record().attempt, scene.project.started()), (3, 2));
    assert_eq!(scene.kept(2).unwrap().outcome.kind(), "exited");
}

/// A project with one done job, whose worker was changed and now waits for its release.
fn waiting_rerun() -> Changeable {
    let scene = Changeable::with(|matrix, project| matrix.flag("--release", &project.release()));
    scene.project.release_workers();
    scene.run(&["run", "t.yaml"]).code(0);
    fs::remove_file(scene.project.release()).unwrap();
    scene.change();
    scene
}

#[test]
fn a_stopped_rerun_leaves_the_success_in_place() {
    let scene = waiting_rerun();
    let before = scene.project.record();
    let run = scene.project.start(&["run", "t.yaml", "--rerun-stale"]);
    scene.project.wait_started(2);
    run.signal(Signal::SIGINT);
    run.wait().code(11).says("continue with `orchestrate resume t --rerun-stale`");
    assert_eq!(scene.project.record(), before);
    assert_eq!(scene.kept(2).unwrap().outcome.kind(), "interrupted");
    assert_eq!(scene.done_and_stale(), (0, 1));
    scene.project.release_workers();
    scene.run(&["resume", "--rerun-stale"]).code(0);
    assert_eq!(scene.project.record().attempt, 3);
    assert_eq!(scene.kept(1), Some(before));
    scene.project.assert_quiet();
}

#[test]
fn a_rerun_whose_orchestrate_was_killed_is_adopted() {
    let scene = waiting_rerun();
    let before = scene.project.record();
    let run = scene.project.start(&["run", "t.yaml", "--rerun-stale"]);
    scene.project.wait_started(2);
    run.kill();
    let reruns: Vec<NotDone> = scene.inventory().reruns.into_values().collect();
    assert_eq!(reruns, [NotDone::Running]);
    assert_eq!(scene.json(&["status", "--json"])["counts"]["running"], 1);
    let accepted = scene.run(&["accept", "cpu_m_fp32_bs4_run1"]).code(0);
    assert!(accepted.stdout.contains("is running again"), "{accepted:?}");
    assert!(!scene.dir().accepted().exists());
    let mut resume = scene.project.start(&["resume"]);
    resume.wait_for_line("the worker of cpu_m_fp32_bs4_run1");
    scene.project.release_workers();
    resume.wait().code(0);
    let after = scene.project.record();
    assert_eq!((after.attempt, after.observed.adopted, scene.project.started()), (2, true, 2));
    assert_eq!(scene.kept(1), Some(before));
    assert!(scene.inventory().reruns.is_empty());
}

#[test]
fn a_rerun_abandoned_by_another_run_is_not_taken_over() {
    let scene = waiting_rerun();
    let before = scene.project.record();
    let rerun = scene.project.start(&["run", "t.yaml", "--rerun-stale"]);
    scene.project.wait_started(2);
    // It finds the job running, and has no option to repeat stale jobs.
    let mut plain = scene.project.start(&["run", "t.yaml"]);
    plain.wait_for_line("waiting for this host");
    rerun.signal(Signal::SIGINT);
    rerun.wait().code(11);
    scene.project.release_workers();
    plain.wait().code(0).says("it is done");
    assert_eq!((scene.project.started(), scene.project.record()), (2, before));
    assert_eq!(scene.done_and_stale(), (0, 1));
}

#[test]
fn a_rerun_interrupted_during_a_wait_is_repeated() {
    let scene = waiting_rerun();
    let before = scene.project.record();
    let run = scene.project.start(&["run", "t.yaml", "--rerun-stale"]);
    scene.project.wait_started(2);
    run.kill();
    let mut resume = scene.project.start(&["resume"]);
    resume.wait_for_line("the worker of cpu_m_fp32_bs4_run1");
    let worker = nix::unistd::Pid::from_raw(scene.project.workers()[1]);
    let group = nix::unistd::getpgid(Some(worker)).unwrap();
    nix::sys::signal::killpg(group, Signal::SIGKILL).unwrap();
    scene.project.release_workers();
    resume.wait().code(0);
    let after = scene.project.record();
    assert_eq!((after.attempt, &after.outcome, scene.project.started()), (3, &Outcome::Succeeded, 3));
    assert_eq!(scene.kept(1), Some(before));
    assert_eq!(scene.kept(2).unwrap().outcome.kind(), "interrupted");
}

#[test]
fn a_rerun_killed_with_its_worker_is_repeated() {
    let scene = waiting_rerun();
    let before = scene.project.record();
    let run = scene.project.start(&["run", "t.yaml", "--rerun-stale"]);
    scene.project.wait_started(2);
    let worker = nix::unistd::Pid::from_raw(scene.project.workers()[1]);
    let group = nix::unistd::getpgid(Some(worker)).unwrap();
    run.kill();
    nix::sys::signal::killpg(group, Signal::SIGKILL).unwrap();
    scene.project.assert_quiet();
    assert!(scene.inventory().jobs.values().all(|standing| matches!(standing, Standing::Done(_))));
    scene.project.release_workers();
    scene.run(&["resume"]).code(0);
    let after = scene.project.record();
    assert_eq!((after.attempt, &after.outcome), (3, &Outcome::Succeeded));
    assert_eq!(scene.kept(1), Some(before));
    assert_eq!(scene.kept(2).unwrap().outcome.kind(), "interrupted");
}

#[test]
fn records_of_an_older_version_and_of_another_host_are_not_stale() {
    let scene = Changeable::with(|matrix, _| matrix);
    scene.run(&["run", "t.yaml"]).code(0);
    scene.change();
    assert_eq!(scene.done_and_stale(), (0, 1));
    let path = scene.dir().record();
    let whole = fs::read(&path).unwrap();
    let edit = |change: fn(&mut Value)| {
        fs::write(&path, &whole).unwrap();
        edit_sealed(&path, change);
    };
    edit(|record| drop(record["provenance"]["worker"].as_object_mut().unwrap().remove("sha256")));
    assert_eq!(scene.done_and_stale(), (1, 0));
    let elsewhere = |record: &mut Value| {
        let host = &mut record["provenance"]["host"];
        (host["hostname"], host["boot_id"]) = ("another".into(), Value::Null);
        host.as_object_mut().unwrap().remove("machine");
    };
    edit(elsewhere);
    assert_eq!(scene.done_and_stale(), (1, 0));
    let explained = scene.run(&["explain", "cpu_m_fp32_bs4_run1"]).code(0).stdout;
    assert!(explained.contains("compared   only variables, because it ran on another"), "{explained}");
}

/// The path of an interpreter does not identify it, because each virtual environment usually has one.
#[test]
fn envs_with_different_interpreters_run_the_same_script() {
    let project = Project::new();
    for env in ["a", "b"] {
        fs::create_dir(project.path(env)).unwrap();
        write_program(&project.path(env).join("python"), &format!("#!/bin/sh\n# {env}\nexec sh \"$@\"\n"));
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/harness/own_worker.sh");
    let env = |name| {
        format!(
            "{name}: {{ device: cpu, worker: {{ command: [{name}/python, {script:?}, '{{out}}', '{{batch}}'] }} }}"
        )
    };
    let yaml =
        format!("name: m\nmodels: [m]\nbatches: [4]\nrepeats: 2\nenvs: {{ {}, {} }}\n", env("a"), env("b"));
    let project = project.and_yaml(&yaml);
    project.orchestrate(&["run", "m.yaml"]).code(0);
    assert!(project.records().iter().all(|record| record.outcome == Outcome::Succeeded));
    assert_eq!(project.records().len(), 4);
}

/// A declared default makes the same job, but the worker reported another value.
#[test]
fn a_default_that_the_worker_did_not_report_makes_its_job_stale() {
    let yaml = own_worker("\"warmup\": 3", &[], "repeats: 1", "");
    let project = Project::new().and_yaml(&yaml);
    project.orchestrate(&["run", "m.yaml"]).code(0);
    let declare = |warmup: u32| {
        let declared = format!("repeats: 1\nparams: {{ warmup: {warmup} }}");
        fs::write(project.path("m.yaml"), yaml.replace("repeats: 1", &declared)).unwrap();
        project.orchestrate(&["plan", "m.yaml", "--json"]).json()
    };
    let default = orchestrate::job::parameter("warmup").unwrap().default_value().unwrap().to_string();
    let plan = declare(default.parse().unwrap());
    assert_eq!(plan["counts"]["stale"], 1, "{plan}");
    assert_eq!(plan["jobs"][0]["why"], format!("warmup 3 → {default}"), "{plan}");
    project.orchestrate(&["run", "m.yaml", "--rerun-stale"]).code(10).says("warmup");
}

#[test]
fn a_script_named_by_a_placeholder_makes_only_its_jobs_stale() {
    let project = Project::new();
    let ours = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/harness/own_worker.sh");
    for script in ["a.sh", "b.sh"] {
        fs::copy(ours, project.path(script)).unwrap();
    }
    let yaml = own_worker("", &[], "repeats: 1\naxes: { script: [a.sh, b.sh] }", "");
    let project = project.and_yaml(&yaml.replace(ours, "{script}"));
    project.orchestrate(&["run", "m.yaml"]).code(0);
    let changed = format!("{}# changed\n", fs::read_to_string(ours).unwrap());
    fs::write(project.path("a.sh"), changed).unwrap();
    let plan = project.orchestrate(&["plan", "m.yaml", "--json"]).json();
    let decisions = [0, 1].map(|job| plan["jobs"][job]["decision"].as_str().unwrap().to_owned());
    assert_eq!(decisions, ["stale", "done"], "{plan}");
}

/// In an older version, the interpreter was compared with the recorded script, and all jobs became stale.
#[test]
fn an_absent_script_is_reported_as_not_compared() {
    let project = Project::new();
    let script = project.path("train.sh");
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/harness/own_worker.sh"), &script).unwrap();
    let yaml = own_worker("", &[], "repeats: 2", "");
    let ours = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/harness/own_worker.sh");
    let project = project.and_yaml(&yaml.replace(ours, "train.sh"));
    project.orchestrate(&["run", "m.yaml"]).code(0);
    let warning = "train.sh is not here; it may have changed since it ran";
    let stale = |ended: &Ended| ended.stdout.contains("stale");
    let here = project.orchestrate(&["status"]).code(0);
    assert!(!stale(&here) && !here.stderr.contains(warning), "{here:?}");

    let elsewhere = tempfile::tempdir().unwrap();
    let mut command = project.command(&["status", "--store"]);
    command.arg(project.path("runs")).current_dir(elsewhere.path());
    let said = Running::start(command).wait().code(0).says(warning);
    assert!(!stale(&said) && said.stderr.matches(warning).count() == 1, "{said:?}");

    fs::write(&script, "# changed\n").unwrap();
    assert!(stale(&project.orchestrate(&["status"])));
    fs::remove_file(&script).unwrap();
    assert!(!stale(&project.orchestrate(&["status"]).says(warning)));
}
