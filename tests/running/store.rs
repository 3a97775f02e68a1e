//! A damaged store never causes a crash, or a job that counts as done without a valid record.

use std::fs;

use orchestrate::job::Job;
use orchestrate::plan::{NotDone, Standing};
use serde_json::Value;

use crate::harness::{Matrix, Project, edit_sealed};

#[test]
fn a_record_cut_at_any_byte_is_not_done() {
    let project = Project::with(Matrix::new("t"));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    let job = Job::new(project.record().key);
    let path = project.store().job_dir(&job).record();
    let whole = fs::read(&path).unwrap();
    assert!(matches!(project.inventory().standing(&job), Standing::Done(_)));
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let inventory = project.inventory();
        let standing = inventory.standing(&job);
        assert!(matches!(standing, Standing::NotDone(NotDone::Corrupt { .. })), "{length}: {standing:?}");
        assert_eq!(inventory.problems.len(), 1);
    }
    project.orchestrate(&["resume"]).code(0).says("record.json was changed after it was written");
    assert_eq!(project.started(), 2);
    assert!(matches!(project.inventory().standing(&job), Standing::Done(_)));
    let aside = project.store().job_dir(&job).path().join("record.unreadable.json");
    assert_eq!(fs::read(aside).unwrap(), whole[..whole.len() - 1]);
}

#[test]
fn a_record_that_contradicts_its_directory_is_not_done() {
    let project = Project::with(Matrix::new("t"));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    let job = Job::new(project.record().key);
    let path = project.store().job_dir(&job).record();
    let whole = fs::read(&path).unwrap();
    for (pointer, value, why) in [
        ("/key/batch", Value::from(5), "in the wrong directory"),
        ("/schema", Value::from(0), "has schema 0: expected 1 to 2"),
        ("/id", Value::from("0".repeat(64)), "but its key hashes to"),
    ] {
        fs::write(&path, &whole).unwrap();
        edit_sealed(&path, |record| *record.pointer_mut(pointer).unwrap() = value);
        let inventory = project.inventory();
        let Standing::NotDone(NotDone::Corrupt { message }) = inventory.standing(&job) else {
            panic!("{pointer}: {inventory:?}");
        };
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn foreign_and_broken_directories_are_reported_and_skipped() {
    let project = Project::with(Matrix::new("t"));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    let job = Job::new(project.record().key);
    let dir = project.store().job_dir(&job);
    let copy = project.path("runs/a copy");
    fs::create_dir_all(&copy).unwrap();
    fs::copy(dir.key(), copy.join("key.json")).unwrap();
    fs::copy(dir.record(), copy.join("record.json")).unwrap();
    fs::create_dir_all(project.path("runs/notes/attempts/01")).unwrap();
    fs::create_dir_all(project.path("runs/torn")).unwrap();
    fs::write(project.path("runs/torn/key.json"), "{\"schema\":").unwrap();
    fs::create_dir_all(project.path("runs/empty")).unwrap();
    fs::write(project.path("runs/a file"), "").unwrap();
    let inventory = project.inventory();
    assert_eq!(inventory.jobs.len(), 1);
    let problems: Vec<String> = inventory
        .problems
        .iter()
        .map(|problem| problem.path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(problems, ["a copy", "notes", "torn"]);
    project.orchestrate(&["run", "t.yaml"]).code(0).says("warning: ").says("it has no key.json");
    assert_eq!(project.started(), 1);
}

#[test]
fn a_store_that_is_not_a_directory_exits_with_12() {
    let project = Project::with(Matrix::new("t"));
    fs::write(project.path("runs"), "").unwrap();
    for verb in [&["run", "t.yaml"][..], &["resume"]] {
        project.orchestrate(verb).code(12).says("hint:");
    }
}

#[test]
fn a_record_of_a_newer_orchestrate_is_neither_run_again_nor_replaced() {
    let project = Project::with(Matrix::new("t").repeats(2));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    let dir = project.store().job_dirs().unwrap().remove(0);
    let newer = "{\"schema\": 7, \"and\": [\"much\", \"else\"]}";
    fs::write(dir.record(), newer).unwrap();
    fs::write(dir.key(), "{\"schema\": 7}").unwrap();
    let resumed = project.orchestrate(&["resume"]).code(10);
    let why = format!(
        "record.json has schema 7: expected 1 to 2, so a newer orchestrate wrote it; update orchestrate, or delete {}",
        dir.path().display()
    );
    let line = format!("t: nothing to run: 1 done before, 1 blocked ({why} to run it again)\n");
    assert_eq!(resumed.stdout, line, "{resumed:?}");
    let plan = project.orchestrate(&["plan", "t.yaml"]).code(0).stdout;
    assert!(plan.contains(&why) && plan.contains("1 done, 1 blocked"), "{plan}");
    let status = project.orchestrate(&["status"]).code(0).stdout;
    assert!(status.contains("1 blocked") && status.contains(&why), "{status}");
    assert_eq!((project.started(), fs::read_to_string(dir.record()).unwrap().as_str()), (2, newer));
}

/// The newer version ran the job after this one had read the store and before it locked the job.
#[test]
fn a_newer_record_that_appears_during_a_run_is_kept() {
    let project = Project::new();
    let matrix = Matrix::new("t").repeats(2).flag("--release", &project.release());
    let project = project.and(matrix);
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    let first = project.store().job_dirs().unwrap().remove(0);
    let mut key: serde_json::Value = serde_json::from_slice(&fs::read(first.key()).unwrap()).unwrap();
    key["repeat"] = 2.into();
    let second = project.store().job_dir(&Job::new(serde_json::from_value(key).unwrap()));
    fs::create_dir_all(second.path()).unwrap();
    fs::write(second.record(), "{\"schema\": 7}").unwrap();
    project.release_workers();
    run.wait().code(10).says("left   cpu_m_fp32_bs4_run2: record.json has schema 7");
    assert_eq!(project.started(), 1);
    assert_eq!(fs::read_to_string(second.record()).unwrap(), "{\"schema\": 7}");
}

#[test]
fn every_unreadable_record_is_kept() {
    let project = Project::with(Matrix::new("t"));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    let dir = project.store().job_dirs().unwrap().remove(0);
    for torn in ["first", "second", "third"] {
        fs::write(dir.record(), torn).unwrap();
        project.orchestrate(&["resume"]).code(0).says("record.json is torn");
    }
    for (name, torn) in [("", "first"), ("-2", "second"), ("-3", "third")] {
        let aside = dir.path().join(format!("record.unreadable{name}.json"));
        assert_eq!(fs::read_to_string(aside).unwrap(), torn);
    }
}

#[test]
fn a_bad_directory_of_a_job_is_reported() {
    let project = Project::with(Matrix::new("t").behave(&["exit3"]));
    project.orchestrate(&["run", "t.yaml"]).code(10);
    let dir = project.store().job_dirs().unwrap().remove(0);
    let plan = |part: &str| {
        let ended = project.orchestrate(&["plan", "t.yaml"]).code(0);
        assert!(ended.stdout.contains(part), "no `{part}` in {ended:?}");
    };
    fs::remove_file(dir.record()).unwrap();
    fs::remove_file(dir.attempt(1).record()).unwrap();
    let whole = fs::read(dir.attempt(1).attempt()).unwrap();
    fs::write(dir.attempt(1).attempt(), &whole[..whole.len() / 2]).unwrap();
    project.orchestrate(&["resume"]).code(10).says("attempts/01/attempt.json is torn");
    // The next attempt has a record, so a torn file of the earlier one no longer matters.
    assert_eq!(project.orchestrate(&["resume"]).code(10).stderr.matches("is torn").count(), 0);
    fs::remove_file(dir.record()).unwrap();
    fs::remove_file(dir.key()).unwrap();
    plan("its directory cannot be read: it has no key.json");
    fs::write(dir.key(), "{").unwrap();
    plan("its directory cannot be read: key.json is torn");
    // A run rewrites it.
    project.orchestrate(&["resume"]).code(10);
    assert!(project.inventory().problems.is_empty());
    fs::remove_file(dir.record()).unwrap();
    fs::remove_dir_all(dir.path().join("attempts")).unwrap();
    fs::write(dir.path().join("attempts"), "").unwrap();
    plan("attempts cannot be read");
    fs::remove_dir_all(dir.path()).unwrap();
    fs::write(dir.path(), "").unwrap();
    plan("it is not a job's directory despite its name");
}

/// A directory in place of the lock of plans prevents writing, like a read-only disk, but also for root.
#[test]
fn a_read_only_store_is_fine_if_nothing_is_written() {
    let project = Project::with(Matrix::new("t").repeats(2)).and(Matrix::new("other"));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    let plans = project.path("runs/.plans");
    fs::remove_file(plans.join("lock")).unwrap();
    fs::create_dir(plans.join("lock")).unwrap();
    for verb in [&["run", "t.yaml"][..], &["resume"]] {
        let again = project.orchestrate(verb).code(0);
        assert_eq!((again.stdout.as_str(), again.stderr.as_str()), ("t: all 2 jobs are done\n", ""));
    }
    project.orchestrate(&["run", "other.yaml"]).code(12).says("cannot write");
    assert_eq!(project.started(), 2);
}

#[test]
fn resume_takes_the_plan_that_ran_last() {
    let project = Project::with(Matrix::new("first")).and(Matrix::new("second"));
    for matrix in ["first.yaml", "second.yaml", "first.yaml"] {
        project.orchestrate(&["run", matrix]).code(0);
    }
    assert_eq!(project.orchestrate(&["resume"]).code(0).stdout, "first: all 1 jobs are done\n");
}

#[test]
fn resume_without_a_plan_or_with_a_wrong_name_gives_a_hint() {
    let project = Project::with(Matrix::new("mac"));
    project.orchestrate(&["resume"]).code(4).says("orchestrate run");
    project.orchestrate(&["run", "mac.yaml"]).code(0);
    for verb in ["resume", "status"] {
        project.orchestrate(&[verb, "mca"]).code(4).says("did you mean `mac`?");
    }
    project.orchestrate(&["resume", "mac.yaml"]).code(4).says("`orchestrate run mac.yaml` runs this file");
}

#[test]
fn resume_takes_the_last_plan_and_names_the_others() {
    let project = Project::with(Matrix::new("first").behave(&["exit3"])).and(Matrix::new("second"));
    project.orchestrate(&["run", "first.yaml"]).code(10);
    project.orchestrate(&["run", "second.yaml"]).code(0);
    let resumed = project.orchestrate(&["resume"]).code(0);
    assert_eq!(resumed.stdout, "second: all 1 jobs are done\n");
    assert!(resumed.stderr.contains("jobs are also left in: first"), "{resumed:?}");
    project.orchestrate(&["resume", "first"]).code(10);
    assert_eq!(project.started(), 3);
}

#[test]
fn half_written_files_of_a_crash_are_removed() {
    let project = Project::with(Matrix::new("t").behave(&["exit3"]));
    project.orchestrate(&["run", "t.yaml"]).code(10);
    let dir = project.store().job_dirs().unwrap().remove(0);
    let left = [
        dir.path().join(".record.json.9.tmp"),
        dir.attempt(1).path().join(".attempt.json.9.tmp"),
        project.path("runs/.plans/.t.json.9.tmp"),
    ];
    left.iter().for_each(|path| fs::write(path, "half").unwrap());
    // The temporary file of another plan may be in use.
    let other = project.path("runs/.plans/.other.json.9.tmp");
    fs::write(&other, "half").unwrap();
    let project = project.and(Matrix::new("t").behave(&["exit3", "ok"]));
    project.orchestrate(&["run", "t.yaml"]).code(10);
    assert!(left.iter().all(|path| !path.exists()) && other.exists());
}
