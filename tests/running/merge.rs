//! `orchestrate merge` copies the results of other stores: each one once, complete and unchanged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use orchestrate::files::JobDir;
use orchestrate::lock::OwnerLock;
use orchestrate::plan::Standing;
use orchestrate::record::Record;
use orchestrate::store::Store;
use serde_json::{Value, json};

use crate::harness::{Ended, Matrix, Project, edit_sealed};

/// A project whose matrix `t` has run only in the store `other`.
fn ran_elsewhere(matrix: Matrix) -> Project {
    let project = Project::with(matrix);
    let ended = project.orchestrate(&["run", "t.yaml", "--store", "other"]);
    assert!(matches!(ended.code, Some(0 | 10)), "{ended:?}");
    project
}

/// A project with a matrix `t` with these repeats, whose workers wait until they are released.
fn waiting(repeats: u32) -> Project {
    let project = Project::new();
    let matrix = Matrix::new("t").repeats(repeats).flag("--release", &project.release());
    project.and(matrix)
}

/// A project whose matrix `t` has run in the store `runs` and in the store `other`.
fn ran_twice(matrix: Matrix) -> Project {
    let project = ran_elsewhere(matrix);
    let ended = project.orchestrate(&["run", "t.yaml"]);
    assert!(matches!(ended.code, Some(0 | 10)), "{ended:?}");
    project
}

/// The directories of jobs in the store called `name`, in order.
fn dirs(project: &Project, name: &str) -> Vec<JobDir> {
    Store::at(&project.path(name)).unwrap().job_dirs().unwrap()
}

fn record(dir: &JobDir) -> Record {
    dir.load_record().unwrap().expect("it has a record")
}

/// Every file below `directory` with its content, by relative path, without locks and caches.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != ".cache" && name != ".running" {
                open.push(path);
            } else if path.is_file() && name != "lock" {
                found.insert(path.strip_prefix(directory).unwrap().to_owned(), fs::read(path).unwrap());
            }
        }
    }
    found
}

/// The files of the jobs in the store called `name`.
fn files_of_jobs(project: &Project, name: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = files(&project.path(name));
    found.retain(|path, _| path.components().count() > 1 && !path.starts_with(".plans"));
    found
}

/// Replaces the outcome of the job in `dir`.
fn end_as(dir: &JobDir, outcome: Value) {
    edit_sealed(&dir.record(), |record| record["outcome"] = outcome);
}

fn failed() -> Value {
    json!({ "kind": "exited", "code": 3, "message": "it went wrong" })
}

/// Copies a directory of the project.
fn copy(project: &Project, from: &str, to: &str) {
    let status = Command::new("cp").arg("-r").args([from, to].map(|name| project.path(name))).status();
    assert!(status.unwrap().success());
}

/// The fate of each job in the JSON of a merge.
fn fates(ended: &Ended) -> Vec<String> {
    let view: Value =
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    let jobs = view["stores"].as_array().unwrap().iter().flat_map(|store| store["jobs"].as_array().unwrap());
    jobs.map(|job| job["what"].as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn prints(ended: &Ended, text: &str) {
    assert!(ended.stdout.contains(text), "no `{text}` in {ended:?}");
}

#[test]
fn results_of_another_store_are_taken_once_unchanged() {
    let project = ran_elsewhere(Matrix::new("t").behave(&["iterations", "exit3"]).repeats(2));
    let merged = project.orchestrate(&["merge", "other"]).code(0);
    assert_eq!(merged.stdout, "other: 4 jobs (4 taken), 1 saved plan (1 taken)\n", "{merged:?}");
    assert_eq!(merged.stderr, "");
    let taken = files_of_jobs(&project, "runs");
    assert!(taken.len() > 20 && taken == files_of_jobs(&project, "other"), "{:?}", taken.keys());
    project.orchestrate(&["verify"]).code(0);
    let plan = project.orchestrate(&["plan", "t.yaml", "--json"]).json();
    assert_eq!((&plan["counts"]["done"], &plan["counts"]["run"]), (&2.into(), &2.into()));
    let before = files(&project.path("runs"));
    let again = project.orchestrate(&["merge", "other", "-q"]).code(0);
    assert_eq!(again.stdout, "other: 4 jobs (4 already here), 1 saved plan (1 already here)\n");
    assert_eq!(again.stderr, "");
    assert!(files(&project.path("runs")) == before, "to merge again changes nothing");
    // Jobs that failed there are tried again here; those that succeeded are not.
    project.orchestrate(&["resume"]).code(10);
    assert_eq!(project.started(), 6);
}

#[test]
fn rows_of_two_hosts_stay_apart_after_a_merge() {
    let project = Project::with(Matrix::new("t").repeats(2));
    project.orchestrate(&["run", "t.yaml", "--only", "repeat=1"]).code(0);
    project.orchestrate(&["run", "t.yaml", "--only", "repeat=2", "--store", "other"]).code(0);
    for dir in dirs(&project, "other") {
        edit_sealed(&dir.record(), |record| {
            let host = &mut record["provenance"]["host"];
            host["hostname"] = "beta".into();
            host["boot_id"] = "another boot".into();
            host["machine"] = json!({ "hardware": "beta's hardware", "system": "beta's system" });
        });
    }
    let merged = project.orchestrate(&["merge", "other"]).code(0);
    prints(&merged, "other: 1 job (1 taken), 1 saved plan (1 already here)\n");
    project.orchestrate(&["report", "t", "--include-marked"]).code(0);
    let mut summary = csv::Reader::from_path(project.path("report/t/summary.csv")).unwrap();
    let rows: Vec<BTreeMap<String, String>> = summary.deserialize().collect::<Result<_, _>>().unwrap();
    let n: Vec<&str> = rows.iter().map(|row| row["n"].as_str()).collect();
    assert_eq!(n, ["1", "1"], "{rows:?}");
}

#[test]
fn two_successes_of_a_job_conflict_and_the_local_one_is_kept() {
    let project = ran_twice(Matrix::new("t"));
    let [ours, theirs] = ["runs", "other"].map(|name| dirs(&project, name).remove(0));
    let before = files(ours.path());
    for _ in 0..2 {
        let merged = project.orchestrate(&["merge", "other"]).code(16).says("hint: `--replace` takes");
        let head =
            format!("conflict: {}: it succeeded here and there; this store keeps its own", ours.name());
        prints(&merged, &head);
        for (side, dir) in [("here ", &ours), ("there", &theirs)] {
            let Record { attempt, ended_at, provenance, .. } = record(dir);
            let (host, ended_at) = (&provenance.host.hostname, ended_at.format("%Y-%m-%d %H:%M:%S UTC"));
            let path = dir.path().display();
            prints(&merged, &format!("  {side}  attempt {attempt} on {host}, ended {ended_at}, {path}\n"));
        }
        prints(&merged, "other: 1 job (1 conflict), 1 saved plan (1 already here)\n");
        assert!(files(ours.path()) == before);
    }
    let view = project.orchestrate(&["merge", "other", "--json"]).code(16);
    assert_eq!(fates(&view), ["conflict"]);
    let replaced = project.orchestrate(&["merge", "other", "--replace"]).code(0);
    let kept = project.path("runs/.replaced/1").join(ours.name());
    prints(&replaced, &format!("there attempt 1 succeeded; the replaced result is now {}\n", kept.display()));
    assert!(files(ours.path()) == files(theirs.path()) && files(&kept) == before, "both are whole");
    project.orchestrate(&["merge", "other", "--replace"]).code(0);
    assert!(!project.path("runs/.replaced/2").exists(), "the result is already here");
    // The replaced records are a store, which every verb can read, and which can be merged back.
    let shown = project.orchestrate(&["show", "cpu_m_fp32_bs4_run1", "--store", "runs/.replaced/1"]).code(0);
    prints(&shown, &record(&JobDir::at(kept)).provenance.host.hostname);
    prints(&project.orchestrate(&["verify"]).code(0), "checked 2 jobs, 2 records");
    project.orchestrate(&["merge", "runs/.replaced/1", "--replace"]).code(0);
    assert!(files(ours.path()) == before);
    assert_eq!(project.started(), 2);
}

#[test]
fn a_success_replaces_a_failure_and_never_the_other_way_round() {
    let project = ran_twice(Matrix::new("t"));
    let [ours, theirs] = ["runs", "other"].map(|name| dirs(&project, name).remove(0));
    let success = fs::read(ours.record()).unwrap();
    end_as(&ours, failed());
    let failure = files(ours.path());
    let merged = project.orchestrate(&["merge", "other"]).code(0);
    let kept = project.path("runs/.replaced/1").join(ours.name());
    let line = format!(
        "replaced: {}: here attempt 1 exited with code 3: it went wrong, there attempt 1 succeeded; the replaced \
         result is now {}\n",
        ours.name(),
        kept.display()
    );
    prints(&merged, &line);
    prints(&merged, "other: 1 job (1 replaced), 1 saved plan (1 already here)\n");
    assert!(files(&kept) == failure && files(ours.path()) == files(theirs.path()));
    // The reverse: a failure there never replaces a success here.
    fs::write(ours.record(), success).unwrap();
    end_as(&theirs, failed());
    let before = files(ours.path());
    for flags in [&["merge", "other"][..], &["merge", "other", "--replace"]] {
        let merged = project.orchestrate(flags).code(0);
        prints(&merged, "here attempt 1 succeeded, there attempt 1 exited with code 3: it went wrong\n");
        prints(&merged, "other: 1 job (1 kept)");
        assert!(files(ours.path()) == before);
    }
}

#[test]
fn a_success_replaces_a_job_without_a_result() {
    let project = ran_twice(Matrix::new("t").repeats(2));
    let [cut_off, torn] = <[JobDir; 2]>::try_from(dirs(&project, "runs")).unwrap();
    fs::remove_file(cut_off.record()).unwrap();
    fs::write(torn.record(), "{").unwrap();
    let merged = project.orchestrate(&["merge", "other"]).code(0);
    for dir in [&cut_off, &torn] {
        prints(
            &merged,
            &format!("replaced: {}: here it had no result, there attempt 1 succeeded", dir.name()),
        );
        assert!(project.path("runs/.replaced/1").join(dir.name()).join("attempts/01/time.txt").exists());
    }
    project.orchestrate(&["run", "t.yaml"]).code(0);
    assert_eq!(project.started(), 4, "both are done");
}

#[test]
fn damaged_jobs_are_named_and_the_others_are_taken() {
    let project = ran_elsewhere(Matrix::new("t").behave(&["iterations"]).repeats(4));
    let there = dirs(&project, "other");
    let flip = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(path, bytes).unwrap();
    };
    flip(&there[0].record());
    flip(&there[1].attempt(1).iterations());
    fs::remove_file(there[2].attempt(1).time()).unwrap();
    flip(&project.path("other/.plans/t.json"));
    let merged =
        project.orchestrate(&["merge", "other"]).code(16).says("hint: copy the damaged results again");
    for (dir, why) in [
        (&there[0], "record.json was changed after it was written: its seal does not match"),
        (&there[1], "attempts/01/iterations.csv was changed"),
        (&there[2], "attempts/01/time.txt"),
    ] {
        prints(&merged, &format!("damaged: {}: {why}", dir.name()));
        assert!(!project.path("runs").join(dir.name()).exists());
    }
    prints(&merged, "damaged: the plan `t`: ");
    prints(&merged, "other: 4 jobs (1 taken, 3 damaged), 1 saved plan (1 damaged)\n");
    project.orchestrate(&["verify"]).code(0);
    // Copied again, they are taken.
    flip(&there[0].record());
    flip(&there[1].attempt(1).iterations());
    let merged = project.orchestrate(&["merge", "other"]).code(16);
    prints(&merged, "other: 4 jobs (2 taken, 1 already here, 1 damaged)");
}

/// In the other store, its digest is right. A link would have another target here, so it is not copied.
#[test]
fn copies_are_verified() {
    let project = ran_elsewhere(Matrix::new("t").behave(&["iterations"]));
    let iterations = dirs(&project, "other").remove(0).attempt(1).iterations();
    fs::rename(&iterations, project.path("moved.csv")).unwrap();
    std::os::unix::fs::symlink(project.path("moved.csv"), &iterations).unwrap();
    project.orchestrate(&["verify", "--store", "other"]).code(0);
    let merged = project.orchestrate(&["merge", "other"]).code(16);
    prints(&merged, "its copy is not as it was written: attempts/01/iterations.csv was deleted");
    assert!(dirs(&project, "runs").is_empty());
    assert_eq!(fs::read_dir(project.path("runs/.merging")).unwrap().count(), 0);
}

#[test]
fn leftovers_of_a_killed_merge_are_removed_and_are_no_results() {
    let project = ran_elsewhere(Matrix::new("t").repeats(2));
    let there = dirs(&project, "other").remove(0);
    let half = project.path("runs/.merging/1-1.copies").join(there.name());
    fs::create_dir_all(&half).unwrap();
    fs::copy(there.key(), half.join("key.json")).unwrap();
    fs::copy(there.record(), half.join("record.json")).unwrap();
    assert!(project.inventory().jobs.is_empty(), "a copy counts nowhere");
    prints(&project.orchestrate(&["merge", "other"]).code(0), "2 taken");
    assert_eq!(fs::read_dir(project.path("runs/.merging")).unwrap().count(), 0);
    assert!(!project.path("runs/.replaced").exists());
}

#[test]
fn a_merge_that_is_killed_at_any_moment_is_completed_by_the_next_one() {
    let project = ran_twice(Matrix::new("t").behave(&["iterations"]).repeats(6));
    // Two are new, two failed here, and two are in conflict.
    let here = dirs(&project, "runs");
    here[..2].iter().for_each(|dir| fs::remove_dir_all(dir.path()).unwrap());
    here[2..4].iter().for_each(|dir| end_as(dir, failed()));
    let mut code = None;
    for round in 0..60_u64 {
        let mut merge = project.start(&["merge", "other", "--replace"]);
        code = merge.kill_after_spinning(round * 100_000);
        if code == Some(0) {
            break;
        }
        let inventory = project.inventory();
        assert_eq!(inventory.problems, [], "round {round}");
        project.orchestrate(&["verify"]).code(0);
    }
    if code != Some(0) {
        project.orchestrate(&["merge", "other", "--replace"]).code(0);
    }
    assert!(files_of_jobs(&project, "other").iter().all(|(path, content)| {
        fs::read(project.path("runs").join(path)).is_ok_and(|found| found == *content)
    }));
    let kept: usize = fs::read_dir(project.path("runs/.replaced"))
        .unwrap()
        .map(|slot| fs::read_dir(slot.unwrap().path()).unwrap().count())
        .sum();
    assert_eq!(kept, 4, "only the replaced records are kept");
    // A process killed while it creates its lock leaves an empty file, which has no effect.
    let left = fs::read_dir(project.path("runs/.merging")).unwrap().flatten();
    assert_eq!(left.filter(|it| it.path().extension().is_none_or(|end| end != "tmp")).count(), 0);
    assert_eq!(project.started(), 12);
}

#[test]
fn sources_that_are_not_other_stores_are_refused() {
    let project = ran_twice(Matrix::new("t"));
    let job = dirs(&project, "other").remove(0).name();
    let before = files(&project.path("runs"));
    fs::write(project.path("a_file"), "").unwrap();
    for directory in ["empty", "notes/plans", "machine", "runs/nested"] {
        fs::create_dir_all(project.path(directory)).unwrap();
    }
    copy(&project, "other", "machine/runs");
    std::os::unix::fs::symlink("runs", project.path("link")).unwrap();
    let one_job = format!("other/{job}");
    for (directory, code, error, hint) in [
        ("missing", 4, "there is no store at missing", "copy the `runs/` directory of the other machine"),
        ("a_file", 12, "a_file is a file, not a store", "unpack an archive first"),
        ("a_file/x", 4, "there is no store at a_file/x", "copy the `runs/` directory"),
        ("empty", 4, "empty is empty", "name the `runs/` directory itself"),
        (
            "notes",
            4,
            "notes is not a store: it holds no directory of a job",
            "name the `runs/` directory itself",
        ),
        ("machine", 4, "machine is not a store", "did you mean machine/runs?"),
        (
            one_job.as_str(),
            4,
            "is the directory of one job, not a store",
            "name the store that contains it: other",
        ),
        ("runs", 2, "runs is this store itself", "name the store of another machine"),
        ("link", 2, "link is this store itself", "name the store of another machine"),
        ("runs/nested", 2, "runs/nested is inside this store", "name the store of another"),
    ] {
        for words in
            [&["merge", directory][..], &["merge", "other", directory], &["merge", directory, "--dry-run"]]
        {
            let ended = project.orchestrate(words).code(code).says(error).says(&format!("hint: {hint}"));
            assert_eq!(ended.stdout, "");
        }
    }
    project.orchestrate(&["merge"]).code(2);
    fs::remove_dir(project.path("runs/nested")).unwrap();
    assert!(files(&project.path("runs")) == before, "a refused merge changes nothing");
    assert!(!project.path("runs/.merging").exists());
}

#[test]
fn a_dry_run_of_a_merge_prints_the_same_and_changes_nothing() {
    let project = ran_elsewhere(Matrix::new("t").behave(&["ok", "exit3"]));
    for flags in [&["merge", "other", "--dry-run"][..], &["merge", "other", "--dry-run", "--replace"]] {
        let printed = project.orchestrate(flags).code(0);
        let expected =
            "other: 2 jobs (2 taken), 1 saved plan (1 taken)\nnothing was changed, because of --dry-run\n";
        assert_eq!(printed.stdout, expected);
    }
    assert!(!project.path("runs").exists(), "not even the store");
    project.orchestrate(&["run", "t.yaml"]).code(10);
    let before = files(&project.path("runs"));
    let rehearsed = project.orchestrate(&["merge", "other", "--replace", "--dry-run", "--json"]).json();
    assert_eq!(rehearsed["dry_run"], true);
    assert!(files(&project.path("runs")) == before);
    let merged = project.orchestrate(&["merge", "other", "--replace", "--json"]).json();
    let fates = |view: &Value| -> Vec<Value> {
        view["stores"][0]["jobs"].as_array().unwrap().iter().map(|job| job["what"].clone()).collect()
    };
    let mut sorted = fates(&merged);
    assert_eq!(fates(&rehearsed), sorted);
    sorted.sort_by_key(ToString::to_string);
    assert_eq!(sorted, ["kept", "replaced"]);
}

#[test]
fn a_job_that_runs_here_is_left_alone() {
    let project = waiting(1);
    project.release_workers();
    project.orchestrate(&["run", "t.yaml", "--store", "other"]).code(0);
    fs::remove_file(project.release()).unwrap();
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(2);
    for flags in [&["merge", "other", "--json"][..], &["merge", "other", "--replace", "--json", "--dry-run"]]
    {
        let merged = project.orchestrate(flags).code(16).says("hint: repeat the merge later");
        assert_eq!(fates(&merged), ["busy"]);
    }
    let merged = project.orchestrate(&["merge", "other"]).code(16);
    prints(&merged, "cpu_m_fp32_bs4_run1 is busy: ");
    project.release_workers();
    run.wait().code(0);
    assert_eq!(fates(&project.orchestrate(&["merge", "other", "--json"]).code(16)), ["conflict"]);
    project.assert_quiet();
}

#[test]
fn a_concurrent_run_does_not_repeat_merged_jobs() {
    let project = waiting(2);
    project.release_workers();
    project.orchestrate(&["run", "t.yaml", "--store", "other", "--only", "repeat=2"]).code(0);
    fs::remove_file(project.release()).unwrap();
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(2);
    prints(&project.orchestrate(&["merge", "other"]).code(0), "other: 1 job (1 taken)");
    project.release_workers();
    run.wait().code(0);
    assert_eq!((project.started(), project.records().len()), (2, 2));
    project.assert_quiet();
}

#[test]
fn a_job_running_in_the_other_store_is_unfinished() {
    let project = waiting(2);
    project.release_workers();
    project.orchestrate(&["run", "t.yaml", "--store", "other", "--only", "repeat=1"]).code(0);
    fs::remove_file(project.release()).unwrap();
    let run = project.start(&["run", "t.yaml", "--store", "other"]);
    project.wait_started(2);
    let merged = project.orchestrate(&["merge", "other"]).code(0);
    prints(&merged, "unfinished: cpu_m_fp32_bs4_run2-");
    prints(&merged, ": it is running over there\n");
    prints(&merged, "other: 2 jobs (1 taken, 1 unfinished)");
    assert_eq!(dirs(&project, "runs").len(), 1);
    copy(&project, "other", "copy");
    project.release_workers();
    run.wait().code(0);
    // The copy of a running attempt never ends.
    let merged = project.orchestrate(&["merge", "copy"]).code(0);
    prints(&merged, ": attempt 1 has no record: it was running when it was copied, or was cut off\n");
    prints(&project.orchestrate(&["merge", "other"]).code(0), "other: 2 jobs (1 taken, 1 already here)");
    project.assert_quiet();
}

#[test]
fn results_that_no_matrix_of_this_store_declares_are_listed() {
    let project = ran_elsewhere(Matrix::new("t").batches(&[4, 8]));
    let project = project.and(Matrix::new("t").batches(&[4]));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    let merged = project.orchestrate(&["merge", "other"]).code(16).says("hint: `orchestrate report FILE`");
    prints(&merged, "kept: the plan `t`: the two differ: 1 job there alone; this store keeps its own\n");
    let line = "1 result belongs to no matrix of this store: other configs of env `cpu` (1)\n";
    prints(&merged, line);
    prints(&project.orchestrate(&["merge", "other"]).code(16), line);
    // They are not lost: with a matrix that declares them, they are in the report.
    let project = project.and(Matrix::new("t").batches(&[4, 8]));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    assert_eq!(project.started(), 3);
    // Without any plan, it is the env that is unknown.
    fs::remove_dir_all(project.path("other/.plans")).unwrap();
    let merged = project.orchestrate(&["merge", "other", "--store", "third", "--json"]).json();
    assert_eq!(merged["undeclared"], json!([{ "env": "cpu", "jobs": 2, "env_is_declared": false }]));
}

#[test]
fn a_merged_plan_does_not_become_the_last_one() {
    let project = ran_elsewhere(Matrix::new("t")).and(Matrix::new("mine").batches(&[8]));
    project.orchestrate(&["run", "mine.yaml"]).code(0);
    project.orchestrate(&["merge", "other"]).code(0);
    assert_eq!(project.store().plan_names().unwrap(), ["mine", "t"]);
    let resumed = project.orchestrate(&["resume"]).code(0);
    assert_eq!(resumed.stdout, "mine: all 1 jobs are done\n");
}

#[test]
fn several_stores_are_merged_one_after_another() {
    let project = Project::with(Matrix::new("t").repeats(2));
    project.orchestrate(&["run", "t.yaml", "--store", "a", "--only", "repeat=1"]).code(0);
    project.orchestrate(&["run", "t.yaml", "--store", "b"]).code(0);
    let merged = project.orchestrate(&["merge", "a", "b"]).code(16);
    prints(&merged, "a: 1 job (1 taken), 1 saved plan (1 taken)\n");
    prints(&merged, "b: 2 jobs (1 taken, 1 conflict), 1 saved plan (1 already here)\n");
    let [first, second] = ["a", "b"].map(|name| record(&dirs(&project, name)[0]));
    let here = record(&dirs(&project, "runs")[0]);
    assert!(here == first && here != second, "the first store that has it wins");
}

#[test]
fn a_second_concurrent_merge_is_refused() {
    let project = ran_elsewhere(Matrix::new("t"));
    let other = OwnerLock::take(&project.path("runs/.merging"), "merge").unwrap();
    let refused = project.orchestrate(&["merge", "other"]).code(12);
    refused
        .says("another merge is at work on this store: pid ")
        .says("hint: repeat this one when it has ended");
    assert!(dirs(&project, "runs").is_empty());
    drop(other);
    fs::remove_dir_all(project.path("runs/.merging")).unwrap();
    fs::write(project.path("runs/.merging"), "").unwrap();
    project.orchestrate(&["merge", "other"]).code(12).says("cannot lock ").says("hint: ");
    fs::remove_file(project.path("runs/.merging")).unwrap();
    project.orchestrate(&["merge", "other"]).code(0);
    let standing = project.inventory().jobs.into_values().next().unwrap();
    assert!(matches!(standing, Standing::Done(_)));
}

#[test]
fn names_and_files_of_another_store_are_escaped() {
    let project = ran_elsewhere(Matrix::new("t"));
    let there = dirs(&project, "other").remove(0);
    let red = "\u{1b}[31mred\u{9b}";
    let named = project.path("other").join(format!("{red}-0123456789ab"));
    fs::create_dir(&named).unwrap();
    fs::write(named.join("key.json"), red).unwrap();
    nix::unistd::mkfifo(&there.attempt(1).path().join(red), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for flags in [&["merge", "other", "--dry-run"][..], &["merge", "other"], &["merge", "other", "--json"]] {
        let ended = project.orchestrate(flags).code(16);
        let all = format!("{}{}", ended.stdout, ended.stderr);
        assert!(!all.contains(['\u{1b}', '\u{9b}']), "{flags:?}: {all:?}");
        assert!(all.contains("red"), "{flags:?}: {all}");
    }
    assert!(dirs(&project, "runs")[0].attempt(1).measurement().exists(), "the result is taken");
}
