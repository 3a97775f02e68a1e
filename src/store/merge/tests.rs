//! Tests of inspecting both stores, of copying, and of replacing directories.
#![expect(clippy::disallowed_methods, reason = "tests make the files they look at")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::execute::Merge;
use super::inspect::{Found, Incoming, compare, inspect};
use super::merged::{JobFate, MergeError};
use super::staging::Staging;
use crate::files::JobDir;
use crate::job::{Job, Key};
use crate::lock::JobLock;
use crate::plan::Existing;
use crate::record::Outcome;
use crate::record::testing::{record, record_of};
use crate::store::{Store, save_record};

fn job() -> Job {
    Job::new(Key::example())
}

const FAILED: Outcome = Outcome::Signalled { signal: 11 };

/// A store in which the attempts of one job ended like this.
fn store(outcomes: &[Outcome]) -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::at(directory.path()).unwrap();
    let lock = JobLock::try_lock(&job(), store.job_dir(&job())).unwrap();
    for (outcome, attempt) in outcomes.iter().zip(1..) {
        fs::create_dir_all(lock.dir().attempt(attempt).path()).unwrap();
        save_record(&lock, &record(attempt, outcome.clone())).unwrap();
    }
    (directory, store)
}

fn incoming(store: &Store) -> Incoming {
    match inspect(&store.job_dir(&job())) {
        Found::Sound(incoming) => *incoming,
        other => panic!("{other:?}"),
    }
}

/// The names of the entries of `directory`, sorted.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_replaced_directory_is_kept_whole_with_and_without_exchange() {
    for can_exchange in [true, false] {
        let (_here, here) = store(&[FAILED]);
        let (_there, there) = store(&[Outcome::Succeeded]);
        let ours = here.job_dir(&job());
        let before = fs::read(ours.record()).unwrap();
        let staging = Staging::take(&here).unwrap();
        for slot in ["1", "2"] {
            let (copy, _) = staging.copy(&incoming(&there)).unwrap();
            let kept = match can_exchange {
                true => staging.put_instead(&copy, &ours).unwrap(),
                false => staging.make_room(&copy, &ours, false).unwrap(),
            };
            assert_eq!(kept, Some(here.replaced().join(slot).join(job().dir_name())));
            assert_eq!(fs::read(ours.record()).unwrap(), fs::read(there.job_dir(&job()).record()).unwrap());
        }
        let kept = JobDir::at(here.replaced().join("1").join(job().dir_name()));
        assert_eq!(fs::read(kept.record()).unwrap(), before);
        assert!(kept.attempt(1).load_record().unwrap().is_some(), "its attempts are there too");
        assert!(here.verify().unwrap().breaches.is_empty());
        assert_eq!(here.verify().unwrap().jobs, 3, "replaced directories are checked too");
    }
}

#[test]
fn a_replaced_directory_without_attempts_is_removed() {
    for can_exchange in [true, false] {
        let (_here, here) = store(&[]);
        let (_there, there) = store(&[Outcome::Succeeded]);
        let ours = here.job_dir(&job());
        assert_eq!(names(ours.path()), ["lock"]);
        let staging = Staging::take(&here).unwrap();
        let (copy, _) = staging.copy(&incoming(&there)).unwrap();
        let kept = match can_exchange {
            true => staging.put_instead(&copy, &ours).unwrap(),
            false => staging.make_room(&copy, &ours, false).unwrap(),
        };
        assert_eq!((kept, here.replaced().exists()), (None, false));
        assert!(ours.load_record().unwrap().is_some());
    }
}

#[test]
fn a_copy_never_overwrites_a_directory_or_file() {
    let (_here, here) = store(&[]);
    let (_there, there) = store(&[Outcome::Succeeded]);
    let ours = here.job_dir(&job());
    let staging = Staging::take(&here).unwrap();
    let (copy, _) = staging.copy(&incoming(&there)).unwrap();
    assert!(!staging.put(&copy, &ours).unwrap(), "a run can have begun meanwhile");
    assert_eq!(names(ours.path()), ["lock"]);
    fs::remove_dir_all(ours.path()).unwrap();
    fs::write(ours.path(), "").unwrap();
    assert!(!staging.put(&copy, &ours).unwrap(), "it is a file");
    fs::remove_file(ours.path()).unwrap();
    assert!(staging.put(&copy, &ours).unwrap());
    assert_eq!(names(ours.path()), ["attempts", "record.json"]);
}

#[test]
fn copies_of_a_killed_merge_are_removed_and_replaced_results_are_kept() {
    let (_here, here) = store(&[FAILED]);
    let ours = here.job_dir(&job());
    let copies = here.root().join(".merging/1-1.copies");
    fs::create_dir_all(copies.join("a_job/attempts/01")).unwrap();
    // Killed after both directories were exchanged: the replaced one is at the place of the copy.
    fs::rename(ours.path(), copies.join(job().dir_name())).unwrap();
    drop(Staging::take(&here).unwrap());
    assert_eq!(names(&here.root().join(".merging")), [""; 0]);
    let kept = JobDir::at(here.replaced().join("1").join(job().dir_name()));
    assert!(kept.load_record().unwrap().is_some());
}

#[test]
fn a_second_merge_is_rejected_while_one_is_running() {
    let (_here, here) = store(&[]);
    let staging = Staging::take(&here).unwrap();
    let second = Staging::take(&here).unwrap_err();
    assert!(matches!(second, MergeError::Busy(_)), "{second}");
    drop(staging);
    Staging::take(&here).unwrap();
}

#[test]
fn only_files_and_attempts_that_ended_are_copied() {
    let (_here, here) = store(&[]);
    let (_there, there) = store(&[FAILED, Outcome::Succeeded, Outcome::Interrupted { message: "x".into() }]);
    let dir = there.job_dir(&job());
    let attempt = dir.attempt(2);
    mkfifo(&attempt.path().join("pipe"), Mode::S_IRWXU).unwrap();
    symlink("/etc/hostname", attempt.path().join("link")).unwrap();
    fs::create_dir(attempt.path().join("more")).unwrap();
    fs::write(attempt.path().join("more/run.sh"), "exit 3").unwrap();
    fs::set_permissions(attempt.path().join("more/run.sh"), fs::Permissions::from_mode(0o555)).unwrap();
    fs::write(dir.path().join(".record.json.9.tmp"), "half").unwrap();
    fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    fs::create_dir(dir.attempt(4).path()).unwrap();
    let staging = Staging::take(&here).unwrap();
    let (copy, left_out) = staging.copy(&incoming(&there)).unwrap();
    assert_eq!(left_out, ["attempts/02/link", "attempts/02/pipe"]);
    assert_eq!(names(copy.path()), ["attempts", "notes.txt", "record.json"]);
    assert_eq!(names(&copy.attempts_dir()), ["01", "02", "03"], "the fourth has no record");
    let script = copy.attempt(2).path().join("more/run.sh");
    assert_eq!(fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(fs::read_to_string(script).unwrap(), "exit 3");
    assert_eq!(fs::read(copy.record()).unwrap(), fs::read(dir.record()).unwrap());
}

#[test]
fn many_jobs_are_merged_in_batches_with_progress() {
    let (_here, here) = store(&[]);
    let (_there, there) = store(&[]);
    for repeat in 1..=70 {
        let job = Job::new(Key { repeat, ..Key::example() });
        let lock = JobLock::try_lock(&job, there.job_dir(&job)).unwrap();
        save_record(&lock, &record_of(job.key().clone(), Outcome::Succeeded)).unwrap();
    }
    let mut progress = Vec::new();
    let merged =
        Merge::begin(&here, false).unwrap().merge(&there, &mut |done, of| progress.push((done, of))).unwrap();
    assert_eq!(merged.jobs.len(), 70);
    assert!(merged.jobs.iter().all(|job| job.what == JobFate::Taken), "{merged:?}");
    assert_eq!(progress, [(0, 70), (32, 70), (64, 70)]);
    assert_eq!(here.load_inventory().unwrap().jobs.len(), 70);
    assert_eq!(names(&here.root().join(".merging")), [""; 0]);
}

#[test]
fn compares_the_results_of_both_stores() {
    let ok = || Outcome::Succeeded;
    let held = |ours: &[Outcome], theirs: &[Outcome], change: fn(&JobDir)| {
        let ((_here, here), (_there, there)) = (store(ours), store(theirs));
        change(&here.job_dir(&job()));
        compare(&here.job_dir(&job()), &incoming(&there)).0
    };
    let nothing = |_: &JobDir| {};
    assert_eq!(held(&[], &[ok()], nothing), Existing::Nothing);
    assert_eq!(held(&[], &[ok()], |dir| fs::remove_dir_all(dir.path()).unwrap()), Existing::Nothing);
    let begun = |dir: &JobDir| fs::create_dir_all(dir.attempt(1).path()).unwrap();
    assert_eq!(held(&[], &[ok()], begun), Existing::NoResult);
    assert_eq!(held(&[FAILED], &[ok()], nothing), Existing::Failure);
    assert_eq!(held(&[ok()], &[ok()], nothing), Existing::Same);
    assert_eq!(held(&[ok()], &[FAILED], nothing), Existing::Success);
    assert_eq!(held(&[FAILED, ok()], &[ok()], nothing), Existing::Success, "another attempt");
    assert_eq!(held(&[FAILED, ok()], &[FAILED], nothing), Existing::Same, "a later attempt succeeded");
    assert_eq!(held(&[ok(), ok()], &[ok()], nothing), Existing::Same, "a re-run replaced it");
    assert_eq!(held(&[ok()], &[ok(), ok()], nothing), Existing::Earlier, "a re-run replaced ours over there");
    let torn = |dir: &JobDir| fs::write(dir.record(), "{").unwrap();
    let newer = |dir: &JobDir| fs::write(dir.record(), "{\"schema\": 7}").unwrap();
    assert_eq!(held(&[ok()], &[ok()], torn), Existing::NoResult);
    assert_eq!(held(&[ok()], &[ok()], newer), Existing::Newer);
}
