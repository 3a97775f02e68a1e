//! Names in files of unknown origin: they cannot refer to paths outside of the store or the report.

use std::fs;
use std::path::Path;

use crate::harness::{Matrix, Project, edit_sealed};

/// A project whose job is done, with `word` at `pointer` in its saved plan.
fn with_plan(pointer: &str, word: &str) -> Project {
    let project = Project::with(Matrix::new("t"));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    edit_sealed(&project.path("runs/.plans/t.json"), |plan| {
        *plan.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")) = word.into();
    });
    project
}

/// Everything below `directory`, by path.
fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        found.push(entry.path().display().to_string());
        if entry.path().is_dir() {
            found.extend(files(&entry.path()));
        }
    }
    found.sort();
    found
}

const VERBS: [&[&str]; 5] = [
    &["report", "t", "--out", "deep/report"],
    &["aggregate", "t"],
    &["status"],
    &["resume"],
    &["resume", "t"],
];

#[test]
fn a_plan_named_like_a_path_is_refused() {
    let project = with_plan("/matrix/name", "../../pwn");
    let before = files(&project.path(""));
    for verb in VERBS {
        project
            .orchestrate(verb)
            .code(12)
            .says("t.json is not a saved plan")
            .says("`../../pwn` is not a name")
            .says("hint: save a new plan");
    }
    assert_eq!(files(&project.path("")), before);
    // The matrix declares its name, so the plan is saved again.
    project.orchestrate(&["run", "t.yaml"]).code(0);
    project.orchestrate(&["report", "t"]).code(0);
}

#[test]
fn a_plan_of_another_name_than_its_file_is_refused() {
    let project = with_plan("/matrix/name", "other");
    for verb in VERBS {
        project
            .orchestrate(verb)
            .code(12)
            .says("it is the plan of the matrix `other`")
            .says("hint: rename it");
    }
    assert!(!project.path("report").exists() && !project.path("deep").exists());
}

#[test]
fn a_job_whose_env_or_model_is_a_path_is_refused() {
    for (pointer, word) in [("/jobs/configs/0/env", "../../pwn"), ("/jobs/configs/0/model", "/pwn")] {
        let project = with_plan(pointer, word);
        let before = files(&project.path(""));
        for verb in VERBS {
            project.orchestrate(verb).code(12).says("is not a name");
        }
        assert_eq!(files(&project.path("")), before);
    }
}

#[test]
fn a_key_or_record_with_a_path_as_env_is_unusable() {
    let project = Project::with(Matrix::new("t"));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    let dir = project.store().job_dirs().unwrap().remove(0);
    let text = fs::read_to_string(dir.key()).unwrap();
    fs::write(dir.key(), text.replacen("\"env\": \"cpu\"", "\"env\": \"../../pwn\"", 1)).unwrap();
    edit_sealed(&dir.record(), |record| record["key"]["env"] = "../../pwn".into());
    let status = project.orchestrate(&["status"]).code(0).stdout;
    assert!(status.contains("`../../pwn` is not a name"), "{status}");
    fs::remove_file(project.path("runs/.plans/t.json")).unwrap();
    let name = dir.name();
    for verb in [["explain", &name], ["show", &name], ["accept", &name]] {
        project.orchestrate(&verb).code(12).says("is not a name");
    }
}

#[test]
fn an_invalid_name_selects_no_plan() {
    let project = Project::with(Matrix::new("t"));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    fs::copy(project.path("runs/.plans/t.json"), project.path("secret.json")).unwrap();
    fs::copy(project.path("runs/.plans/t.json"), project.path("runs/.plans/a copy.json")).unwrap();
    project.orchestrate(&["resume", "../../secret"]).code(4).says("has no saved plan `../../secret`");
    // A file whose name is not a valid plan name is ignored.
    project.orchestrate(&["resume"]).code(0);
}
