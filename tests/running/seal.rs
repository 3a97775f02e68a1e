//! Changes of records, plans and evidence are detected.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use orchestrate::plan::{NotDone, Standing, quote};

use crate::harness::{Matrix, Project, edit_sealed};

/// A project with a success and a failure, aggregated once.
fn finished() -> Project {
    let project = Project::with(Matrix::new("t").behave(&["iterations", "exit3"]));
    project.orchestrate(&["run", "t.yaml"]).code(10);
    project.orchestrate(&["aggregate"]).code(0);
    project
}

/// Every file below `directory`, in order.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// The tables that `aggregate` wrote.
fn tables(project: &Project) -> BTreeMap<&'static str, String> {
    let read = |name| (name, fs::read_to_string(project.path("report/t").join(name)).unwrap());
    ["metrics.csv", "summary.csv", "failures.csv"].map(read).into()
}

fn success(project: &Project) -> orchestrate::files::JobDir {
    let is_success = |dir: &orchestrate::files::JobDir| {
        dir.load_record().unwrap().is_some_and(|record| record.outcome.is_success())
    };
    project.store().job_dirs().unwrap().into_iter().find(is_success).unwrap()
}

#[test]
fn an_edited_record_is_no_result() {
    let project = finished();
    let path = success(&project).record();
    let text = fs::read_to_string(&path).unwrap();
    let edited = text.replace("\"elapsed_s\": 0.5", "\"elapsed_s\": 0.1");
    assert_ne!(text, edited);
    fs::write(&path, edited).unwrap();
    let why = "record.json was changed after it was written: its seal does not match";
    let status = project.orchestrate(&["status"]).code(0).stdout;
    assert!(status.contains(why) && !status.contains("images/s  8"), "{status}");
    for verb in [&["explain", "behave=iterations"][..], &["plan", "t.yaml"], &["verify"]] {
        let ended = project.orchestrate(verb);
        assert!(ended.stdout.contains(why) || verb[0] == "explain", "{verb:?}: {ended:?}");
    }
    project.orchestrate(&["resume"]).code(10).says(why);
    assert_eq!(project.started(), 4, "both jobs ran again");
    project.orchestrate(&["verify"]).code(0);
}

#[test]
fn every_bit_of_a_record_counts() {
    let project = finished();
    let dir = success(&project);
    let whole = fs::read(dir.record()).unwrap();
    let id = dir.load_record().unwrap().unwrap().id;
    let why = "record.json was changed after it was written: its seal does not match";
    for index in 0..whole.len() {
        // A bit of each byte here; the test of the seal itself flips them all.
        let mut changed = whole.clone();
        changed[index] ^= 1 << (index % 8);
        fs::write(dir.record(), changed).unwrap();
        let error = dir.load_record().unwrap_err().to_string();
        // A flip within the seal can break the JSON.
        assert!(error == why || error.starts_with("record.json is torn"), "byte {index}: {error}");
    }
    let edited = String::from_utf8(whole).unwrap().replace("\"repeat\": 1", "\"repeat\": 2");
    fs::write(dir.record(), edited).unwrap();
    let standing = project.inventory().jobs.swap_remove(&id).unwrap();
    assert_eq!(standing, Standing::NotDone(NotDone::Corrupt { message: why.to_owned() }));
}

/// `FLIPS=all` flips every byte of every file, which takes some ten minutes.
#[test]
fn a_flipped_byte_changes_no_number_unreported() {
    let project = finished();
    let before = tables(&project);
    let all = std::env::var("FLIPS").is_ok_and(|flips| flips == "all");
    for path in files(&project.path("runs")) {
        let whole = fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let step = if all { 1 } else { whole.len().div_ceil(3).max(1) };
        for index in (0..whole.len()).step_by(step) {
            let mut changed = whole.clone();
            changed[index] ^= 1;
            fs::write(&path, changed).unwrap();
            let verified = project.orchestrate(&["verify"]);
            let aggregated = project.orchestrate(&["aggregate"]);
            let reported = format!("{}{}", aggregated.stderr, tables(&project)["metrics.csv"]);
            let is_same = aggregated.code == Some(0) && tables(&project) == before;
            assert!(is_same || reported.contains(&name), "{}, byte {index}: {aggregated:?}", path.display());
            let rests_on_nothing = ["stdout.log", "stderr.log", "command.sh", "README.md", "lock"];
            if !rests_on_nothing.contains(&&*name) {
                assert_eq!(verified.code, Some(1), "{}, byte {index}: {verified:?}", path.display());
                assert!(verified.stdout.contains(&name), "{verified:?}");
            }
        }
        fs::write(&path, whole).unwrap();
    }
    project.orchestrate(&["verify"]).code(0);
    project.orchestrate(&["aggregate"]).code(0);
    assert_eq!(tables(&project), before);
}

#[test]
fn a_changed_evidence_file_excludes_its_run() {
    let project = finished();
    let dir = success(&project);
    let path = dir.attempt(1).iterations();
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [&whole[..], b"\n"].concat()).unwrap();
    let why = "attempts/01/iterations.csv was changed after the record was written";
    let aggregated = project.orchestrate(&["aggregate"]).code(0);
    assert!(aggregated.stdout.contains(why), "{aggregated:?}");
    let name = dir.name();
    for verb in [&["explain", &name][..], &["show", &name]] {
        let shown = project.orchestrate(verb).code(0).stdout;
        assert!(shown.contains(why), "{shown}");
    }
    let explained = project.orchestrate(&["explain", &name]).stdout;
    let directory = quote(&dir.path().display().to_string());
    assert!(explained.contains(&format!("`rm -r {directory}` to run it again")), "{explained}");
    let verified = project.orchestrate(&["verify"]).code(1);
    assert!(verified.stdout.contains(&format!("{name}: {why}\n")), "{verified:?}");
    // The file is no longer used, but the values in the record remain.
    fs::remove_file(&path).unwrap();
    let why = "iterations.csv was deleted after the record was written";
    project.orchestrate(&["aggregate"]).code(0).says(why);
    let json: serde_json::Value =
        serde_json::from_str(&project.orchestrate(&["verify", "--json"]).code(1).stdout).unwrap();
    assert_eq!(json["differs"][0]["what"], format!("attempts/01/{why}"));
    fs::write(&path, whole).unwrap();
    project.orchestrate(&["verify"]).code(0);
}

#[test]
fn a_changed_plan_is_saved_again_and_old_records_have_no_seal() {
    let project = finished();
    let plan = project.path("runs/.plans/t.json");
    let text = fs::read_to_string(&plan).unwrap();
    fs::write(&plan, text.replace("\"batch\": 4", "\"batch\": 8")).unwrap();
    let why = "it was changed after it was written: its seal does not match";
    for verb in [&["resume"][..], &["status"], &["aggregate"]] {
        project.orchestrate(verb).code(12).says(why).says("save a new plan: `orchestrate run MATRIX.yaml`");
    }
    let verified = project.orchestrate(&["verify"]).code(1).stdout;
    assert!(verified.contains(&format!(".plans: t.json: {why}")), "{verified}");
    project.orchestrate(&["run", "t.yaml"]).code(10);
    assert_eq!(fs::read_to_string(&plan).unwrap(), text);

    // Files of an older version without a seal are still valid.
    let record = success(&project).record();
    edit_sealed(&record, |record| record["schema"] = 1.into());
    let text = fs::read_to_string(&record).unwrap();
    let (body, _) = text.split_once(",\n  \"seal\"").unwrap();
    let mut older: serde_json::Value = serde_json::from_str(&format!("{body}\n}}")).unwrap();
    older.as_object_mut().unwrap().remove("evidence").unwrap();
    fs::write(&record, older.to_string()).unwrap();
    let verified = project.orchestrate(&["verify"]).code(0).stdout;
    assert!(verified.contains("not checked: 1 record of an older version, which has no seal"), "{verified}");
    let status = project.orchestrate(&["status", "--json"]).json();
    assert_eq!(status["counts"]["done"], 1);
}
