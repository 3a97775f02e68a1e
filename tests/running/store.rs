//! What a damaged store comes to: never a crash, never a false "done".

use std::fs;

use orchestrate::job::Job;
use orchestrate::plan::{NotDone, Standing};

use crate::harness::{Matrix, Project};

#[test]
fn a_record_cut_at_any_byte_is_not_done() {
    let project = Project::with(Matrix::new("t"));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    let job = Job::new(project.record().key);
    let path = project.store().job_dir(&job).record();
    let whole = fs::read(&path).unwrap();
    assert!(matches!(project.inventory().standing(&job), Standing::Done(_)));
    // The last byte is the end of the last line; without it the record is whole.
    for length in 0..whole.len() - 2 {
        fs::write(&path, &whole[..length]).unwrap();
        let inventory = project.inventory();
        let standing = inventory.standing(&job);
        assert!(matches!(standing, Standing::NotDone(NotDone::Corrupt { .. })), "{length}: {standing:?}");
        assert_eq!(inventory.problems.len(), 1);
    }
    project.orchestrate(&["resume"]).code(0).says("record.json is torn");
    assert_eq!(project.started(), 2);
    assert!(matches!(project.inventory().standing(&job), Standing::Done(_)));
    let aside = project.store().job_dir(&job).path().join("record.unreadable.json");
    assert_eq!(fs::read(aside).unwrap(), whole[..whole.len() - 3]);
}

#[test]
fn a_record_that_says_something_else_than_its_directory_is_not_done() {
    let project = Project::with(Matrix::new("t"));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    let job = Job::new(project.record().key);
    let path = project.store().job_dir(&job).record();
    let whole = fs::read_to_string(&path).unwrap();
    for (from, to, why) in [
        ("\"batch\": 4,", "\"batch\": 5,", "belongs in another directory"),
        ("\"schema\": 1,", "\"schema\": 7,", "has schema 7: expected 1"),
        (&job.id().to_string()[..], &"0".repeat(64)[..], "but its key hashes to"),
    ] {
        fs::write(&path, whole.replacen(from, to, 1)).unwrap();
        let inventory = project.inventory();
        let Standing::NotDone(NotDone::Corrupt { message }) = inventory.standing(&job) else {
            panic!("{from}: {inventory:?}");
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
fn a_store_that_is_no_directory_is_exit_12() {
    let project = Project::with(Matrix::new("t"));
    fs::write(project.path("runs"), "").unwrap();
    for verb in [&["run", "t.yaml"][..], &["resume"]] {
        project.orchestrate(verb).code(12).says("hint:");
    }
}

/// As on a read-only disk, but root is stopped too.
#[test]
fn a_store_that_cannot_be_written_does_no_harm_where_nothing_is_to_be_written() {
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
fn the_plan_that_was_run_last_is_the_last_one_even_if_it_was_saved_before() {
    let project = Project::with(Matrix::new("first")).and(Matrix::new("second"));
    for matrix in ["first.yaml", "second.yaml", "first.yaml"] {
        project.orchestrate(&["run", matrix]).code(0);
    }
    assert_eq!(project.orchestrate(&["resume"]).code(0).stdout, "first: all 1 jobs are done\n");
}

#[test]
fn resume_without_a_plan_or_with_a_wrong_name_says_what_there_is() {
    let project = Project::with(Matrix::new("mac"));
    project.orchestrate(&["resume"]).code(12).says("orchestrate run");
    project.orchestrate(&["run", "mac.yaml"]).code(0);
    project.orchestrate(&["resume", "mca"]).code(12).says("did you mean `mac`?");
}

#[test]
fn resume_takes_the_plan_saved_last_and_says_what_else_is_left() {
    let project = Project::with(Matrix::new("first").behave(&["exit3"])).and(Matrix::new("second"));
    project.orchestrate(&["run", "first.yaml"]).code(10);
    project.orchestrate(&["run", "second.yaml"]).code(0);
    let resumed = project.orchestrate(&["resume"]).code(0);
    assert_eq!(resumed.stdout, "second: all 1 jobs are done\n");
    assert!(resumed.stderr.contains("jobs are also left in: first"), "{resumed:?}");
    project.orchestrate(&["resume", "first"]).code(10);
    assert_eq!(project.started(), 3);
}
