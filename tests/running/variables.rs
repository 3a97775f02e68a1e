//! The `variables` of an env: a change makes its jobs stale, and runs with different ones are never pooled.

use std::fs;

use crate::harness::{Project, edit_sealed, own_worker};

/// A matrix whose worker runs with `variables`, the inside of a YAML mapping.
fn matrix(variables: &str, repeats: u32) -> String {
    own_worker("", &[], &format!("repeats: {repeats}"), &format!(", variables: {{ {variables} }}"))
}

/// A project whose only job ran with `variables`.
fn ran_under(variables: &str) -> Project {
    let project = Project::new().and_yaml(&matrix(variables, 1));
    project.orchestrate(&["run", "m.yaml"]).code(0);
    project
}

/// Why the only job is stale; `None` if it is not.
fn stale(project: &Project) -> Option<String> {
    let plan = project.orchestrate(&["plan", "m.yaml", "--json"]).json();
    let job = &plan["jobs"][0];
    match job["decision"].as_str().unwrap() {
        "done" => None,
        "stale" => Some(job["why"].as_str().unwrap().to_owned()),
        other => panic!("{other}: {plan}"),
    }
}

#[test]
fn a_changed_variable_makes_jobs_stale_and_splits_their_row() {
    let project = Project::new().and_yaml(&matrix("NAP: \"0.2\"", 3));
    project.orchestrate(&["run", "m.yaml"]).code(0);
    let project = project.and_yaml(&matrix("NAP: \"0.4\"", 5));
    let plan = project.orchestrate(&["plan", "m.yaml"]).code(0);
    assert!(plan.stdout.contains("$NAP 0.2 → 0.4") && plan.stdout.contains("2 to run, 3 stale"), "{plan:?}");
    project.orchestrate(&["run", "m.yaml"]).code(0).says("3 jobs are done but stale ($NAP 0.2 → 0.4)");
    let explained = project.orchestrate(&["explain", "cpu_resnet18_fp32_bs4_run1"]).code(0).stdout;
    assert!(explained.contains("\nchanged since it ran\n  $NAP 0.2 → 0.4\n"), "{explained}");

    let split = || {
        let status = project.orchestrate(&["status", "--json"]).json();
        let groups = status["configs"][0]["throughput"].as_array().unwrap().clone();
        groups.iter().map(|group| group["differences"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(split(), [serde_json::json!([]), serde_json::json!(["$NAP 0.2 / 0.4"])]);
    project.orchestrate(&["report", "m.yaml"]).code(0);
    let page = fs::read_to_string(project.path("report/m/report.md")).unwrap();
    assert!(page.contains("are not pooled: row 2 of 2 differs from row 1 in $NAP 0.2 / 0.4"), "{page}");

    // An accepted job is done, and is still in another row.
    project.orchestrate(&["accept", "--all"]).code(0);
    assert_eq!((stale(&project), split().len()), (None, 2));
    let project = project.and_yaml(&matrix("NAP: \"0.6\"", 5));
    assert_eq!(stale(&project).as_deref(), Some("$NAP 0.2 → 0.6"), "another change than the accepted one");
    project.orchestrate(&["run", "m.yaml", "--rerun-stale"]).code(0);
    let napped = |record: &orchestrate::record::Record| record.measurement.as_ref().unwrap().elapsed_s;
    assert_eq!(project.records().iter().map(napped).collect::<Vec<_>>(), [0.6; 5]);
    assert_eq!(stale(&project), None);
}

#[test]
fn a_value_reaches_the_worker_unchanged() {
    let values = ["0123", "1.10", "1e3", "0x10", "True", "99999999999999999999"];
    let declared = values.iter().enumerate().map(|(index, value)| format!("V{index}: {value}"));
    let project = ran_under(&declared.collect::<Vec<_>>().join(", "));
    let dir = project.store().job_dirs().unwrap().remove(0);
    let command = fs::read_to_string(dir.path().join("command.sh")).unwrap();
    for (index, value) in values.iter().enumerate() {
        assert!(command.contains(&format!("V{index}={value}")), "{command}");
    }
}

#[test]
fn each_added_removed_and_changed_variable_is_named() {
    let project = ran_under("GONE: a, KEPT: b, CHANGED: c, EMPTIED: d, LC_ALL: C.UTF-8");
    assert_eq!(stale(&project), None);
    let project =
        project.and_yaml(&matrix("KEPT: b, CHANGED: c c, EMPTIED: \"\", NEW: e, MKL_DYNAMIC: 1", 1));
    let changes = "$CHANGED c → c c; $EMPTIED d → \"\"; $GONE a → not set; $LC_ALL C.UTF-8 → C; \
                $MKL_DYNAMIC not set → 1; $NEW not set → e";
    assert_eq!(stale(&project).as_deref(), Some(changes));
    // Every worker gets this one.
    let project = ran_under("KEPT: b").and_yaml(&matrix("KEPT: b, LC_ALL: C", 1));
    assert_eq!(stale(&project), None);
}

/// The search path of programs does not matter to a run, unless the matrix declares it.
#[test]
fn a_declared_path_is_a_circumstance() {
    let path = std::env::var("PATH").unwrap();
    let project =
        ran_under(&format!("PATH: \"{path}\"")).and_yaml(&matrix(&format!("PATH: \"{path}:/\""), 2));
    project.orchestrate(&["run", "m.yaml"]).code(0).says(&format!("$PATH {path} → {path}:/"));
    let status = project.orchestrate(&["status", "--json"]).json();
    assert_eq!(status["configs"][0]["throughput"].as_array().unwrap().len(), 2, "{status}");
}

/// A record of an older version does not list the declared variables.
#[test]
fn an_old_record_is_compared_as_far_as_possible() {
    let project = ran_under("NAP: \"0.2\", TMPDIR: /tmp");
    let path = project.store().job_dirs().unwrap()[0].record();
    edit_sealed(&path, |record| {
        assert!(record["provenance"].as_object_mut().unwrap().remove("variables").is_some());
    });
    assert_eq!(stale(&project), None);
    let project = project.and_yaml(&matrix("NAP: \"0.2\"", 1));
    assert_eq!(stale(&project), None, "TMPDIR may have been that of the shell");
    let project = project.and_yaml(&matrix("OTHER: \"0.2\", TMPDIR: /var/tmp", 1));
    let changes = "$NAP 0.2 → not set; $OTHER not set → 0.2; $TMPDIR /tmp → /var/tmp";
    assert_eq!(stale(&project).as_deref(), Some(changes));
}
