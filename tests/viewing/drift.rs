//! Messages of `plan`, `status`, `resume` and `report` after the file of a matrix was edited.
#![expect(clippy::disallowed_methods, reason = "tests edit matrix files")]

use std::fs;

use crate::harness::{Ended, Matrix, Project, own_worker};

/// A project whose matrix `t` of two repeats has run.
fn project() -> Project {
    let project = Project::with(Matrix::new("t").repeats(2));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    project
}

/// Replaces `from` in the matrix `t`.
fn edit(project: &Project, from: &str, to: &str) {
    let path = project.path("t.yaml");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "no `{from}` in {text}");
    fs::write(path, text.replace(from, to)).unwrap();
}

#[track_caller]
fn prints(ended: &Ended, text: &str) {
    assert!(ended.stdout.contains(text), "no `{text}` in {ended:?}");
}

#[test]
fn results_of_a_renamed_env_are_named_before_they_are_repeated() {
    let project = project();
    let quiet = project.orchestrate(&["plan", "t.yaml"]).code(0);
    assert!(!quiet.stdout.contains("renamed"), "{quiet:?}");
    edit(&project, "envs: { cpu:", "envs: { laptop:");
    let renamed =
        "renamed: 2 finished jobs differ from jobs to run only in the env's name: `cpu` → `laptop`\n";
    let hint = "hint: to keep these results, call the env `cpu` again in t.yaml";
    for verb in ["plan", "status"] {
        let ended = project.orchestrate(&[verb, "t.yaml"]).code(0).says(hint);
        prints(&ended, renamed);
    }
    let plan = project.orchestrate(&["plan", "t.yaml", "--json"]).json();
    assert_eq!(plan["renamed"][0], serde_json::json!({ "from": "cpu", "to": "laptop", "jobs": 2 }));
    assert_eq!(plan["counts"]["run"], 2, "a name is part of the identity");
    project.orchestrate(&["run", "t.yaml"]).code(0).says(&format!("warning: {renamed}")).says(hint);
    let both = project.orchestrate(&["plan", "t.yaml"]).code(0);
    assert!(!both.stdout.contains("renamed"), "nothing is lost any more: {both:?}");
}

#[test]
fn resume_warns_about_an_edited_matrix() {
    let project = project();
    edit(&project, "repeats: 2", "repeats: 3");
    edit(&project, "batches: [4]", "batches: [8]");
    let changed = "t.yaml has changed since the plan `t` was saved: 3 jobs added, 2 jobs no longer declared";
    let hint =
        "hint: `orchestrate plan t.yaml` shows what it declares now, `orchestrate run t.yaml` runs that";
    for verb in [&["status"][..], &["status", "t"], &["status", "t.yaml"]] {
        prints(&project.orchestrate(verb).code(0).says(hint), &format!("\n{changed}\n"));
    }
    let status = project.orchestrate(&["status", "--json"]).json();
    assert_eq!(status["drift"]["how"], serde_json::json!({ "kind": "jobs", "added": 3, "removed": 2 }));
    for verb in ["aggregate", "report"] {
        let about = format!("warning: {changed}; these are the results of the saved plan\n");
        project.orchestrate(&[verb, "t"]).code(0).says(&about).says(hint);
    }
    let resumed = project.orchestrate(&["resume"]).code(0).says(hint);
    prints(
        &resumed.says(&format!("warning: {changed}; resuming the saved plan\n")),
        "t: all 2 jobs are done",
    );
}

#[test]
fn new_settings_names_and_mistakes_are_changes() {
    let project = project();
    let says = |text: &str| prints(&project.orchestrate(&["status"]).code(0), text);
    edit(&project, "name: t", "# the same\nname: t");
    let quiet = project.orchestrate(&["status"]).code(0);
    assert!(!quiet.stdout.contains("changed since"), "a comment declares nothing: {quiet:?}");
    edit(&project, "timeout: 60s", "timeout: 61s");
    says("since the plan `t` was saved: the jobs are the same, but not `limits`\n");
    edit(&project, "name: t", "name: u");
    says("since the plan `t` was saved: its matrix is now called `u`\n");
    edit(&project, "models:", "modles:");
    says("since the plan `t` was saved, and now has mistakes\n");
    project.orchestrate(&["status"]).code(0).says("hint: `orchestrate check t.yaml` lists the mistakes");
    fs::remove_file(project.path("t.yaml")).unwrap();
    let quiet = project.orchestrate(&["status"]).code(0);
    assert!(!quiet.stdout.contains("t.yaml"), "a plan does not need its file: {quiet:?}");
}

#[test]
fn a_report_after_a_rename_names_the_results_that_it_cannot_show() {
    let project = Project::new().and_yaml(&own_worker("", &[], "repeats: 2", ""));
    project.orchestrate(&["run", "m.yaml"]).code(0);
    let project =
        project.and_yaml(&own_worker("", &[], "repeats: 2", "").replace("envs: { cpu:", "envs: { laptop:"));
    let report = project.orchestrate(&["report", "m.yaml"]).code(13);
    let note = "2 finished jobs differ from jobs to run only in the env's name: `cpu` → `laptop`";
    report.says(note).says("hint: to keep these results, call the env `cpu` again in m.yaml");
}

#[test]
fn profilers_of_the_command_line_are_no_change_of_the_file() {
    let project = Project::with(Matrix::new("t"));
    // If `perf` does not work here, the job is not run, but the plan contains it.
    project.orchestrate(&["run", "t.yaml", "--profile", "perf"]);
    edit(&project, "name: t", "# the same\nname: t");
    let quiet = project.orchestrate(&["status"]).code(0);
    assert!(!quiet.stdout.contains("changed since"), "{quiet:?}");
    edit(&project, "repeats: 1", "repeats: 2");
    prints(&project.orchestrate(&["status"]).code(0), "was saved: 1 job added\n");
}

#[test]
fn every_hint_names_its_matrix() {
    let project = project();
    // A copy has the same jobs, so they are done, but the saved plan `t` belongs to the other file.
    fs::copy(project.path("t.yaml"), project.path("old.yaml")).unwrap();
    project.orchestrate(&["status", "old.yaml"]).code(0).says("hint: `orchestrate report old.yaml` makes");
    project.orchestrate(&["status", "t.yaml"]).code(0).says("hint: `orchestrate report t` makes");
    fs::write(
        project.path("old.yaml"),
        fs::read_to_string(project.path("t.yaml")).unwrap().replace("repeats: 2", "repeats: 1"),
    )
    .unwrap();
    let old = project.orchestrate(&["status", "old.yaml"]).code(0);
    prints(
        &old,
        "old.yaml differs from the plan `t`, which was saved from t.yaml: 1 job no longer declared\n",
    );
}
