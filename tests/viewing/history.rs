//! `history`, as a user sees it.
#![expect(clippy::disallowed_methods, reason = "tests write scripts and read what programs leave behind")]

use std::fs;

use crate::harness::{Ended, Project};

/// A worker that takes this many milliseconds, plus up to 2 % by repeat and a little at random.
fn worker(milliseconds: &str) -> String {
    let script = r#"
case "$2" in 1) block=1.00 ;; 2) block=1.02 ;; *) block=0.98 ;; esac
seconds=$(awk "BEGIN { print MS * 0.001 * $block * (1 + 0.001 * ((7 * $2 + $3) % 5)) }")
printf '{"schema":1,"samples":400,"elapsed_s":%s,"synchronized":true,"unit":"images","effective":{' "$seconds" > "$1"
printf '"device":"cpu","precision":"fp32","batch":%s}}' "$3" >> "$1"
"#;
    script.replace("MS", milliseconds)
}

const MATRIX: &str = "name: m\nmodels: [net]\nbatches: [4, 8]\nrepeats: 3\nenvs: { cpu: { device: cpu } }\n\
    worker: { command: [sh, worker.sh, \"{out}\", \"{repeat}\", \"{batch}\"], result: json }\n";

fn history(project: &Project, words: &[&str]) -> Ended {
    project.orchestrate(&[&["history", "--include-marked"], words].concat())
}

/// Three workers, of which the second is 20 % slower. Each replaces the results of the previous one.
fn project() -> Project {
    let project = Project::new();
    fs::write(project.path("m.yaml"), MATRIX).unwrap();
    for milliseconds in ["2.0", "2.5", "2.0001"] {
        fs::write(project.path("worker.sh"), worker(milliseconds)).unwrap();
        project.orchestrate(&["run", "m.yaml", "--rerun-stale"]).code(0);
    }
    project
}

#[test]
fn replaced_results_are_history_with_a_verdict_per_change() {
    let project = project();
    let found = history(&project, &["--by", "worker", "--json", "--out", "there"]).code(0).json();
    let points = found["points"].as_array().unwrap();
    assert_eq!(points.len(), 6, "{found}");
    for config in points.chunks(3) {
        let verdicts: Vec<&str> = config[1..].iter().map(|it| it["verdict"].as_str().unwrap()).collect();
        assert_eq!(verdicts, ["slower", "faster"], "{found}");
        assert_eq!(
            (&config[1]["before"], &config[2]["before"]),
            (&config[0]["version"], &config[1]["version"])
        );
        assert!(config[0]["reason"].is_string() && config[0]["n"] == 3, "{found}");
    }
    let csv = fs::read_to_string(project.path("there/history.csv")).unwrap();
    assert_eq!(csv.lines().count(), 7, "{csv}");
    let package = fs::read_to_string(project.path("there/datapackage.json")).unwrap();
    assert!(package.contains("history.csv"), "{package}");
    let text = history(&project, &["--by", "worker"]).code(0).stdout;
    assert_eq!(text.matches("slower").count(), 2, "{text}");
}

#[test]
fn without_a_commit_another_kind_of_version_is_proposed() {
    let project = Project::new();
    fs::write(project.path("m.yaml"), MATRIX).unwrap();
    fs::write(project.path("worker.sh"), worker("2.0")).unwrap();
    project.orchestrate(&["run", "m.yaml"]).code(0);
    let ended = history(&project, &[]);
    ended.code(13).says("--by worker");
    let found = history(&project, &["--by", "matrix", "--json"]).code(0).json();
    assert_eq!(found["points"].as_array().unwrap().len(), 2, "{found}");
}
