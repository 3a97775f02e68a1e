//! What the README shows works as it stands there.
#![expect(clippy::disallowed_methods, reason = "tests read files")]

use std::fs;
use std::path::Path;

use orchestrate::job::PARAMETERS;
use orchestrate::plan::Standing;

use super::harness::Project;

fn readme() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap()
}

/// The first fenced block of `language` that contains `text`.
fn block(language: &str, text: &str) -> String {
    let (readme, fence) = (readme(), format!("```{language}\n"));
    let blocks = readme.split(&fence).skip(1).filter_map(|rest| rest.split_once("```"));
    let found = blocks.map(|(block, _)| block).find(|block| block.contains(text));
    found.unwrap_or_else(|| panic!("no {language} with {text}")).to_owned()
}

#[test]
fn the_python_worker_runs() {
    let project = Project::new();
    fs::write(project.path("worker.py"), block("python", "ORCHESTRATE_MEASUREMENT")).unwrap();
    fs::write(project.path("python.yaml"), block("yaml", "worker.py")).unwrap();
    project.orchestrate(&["run", "python.yaml"]).code(0);
    let inventory = project.inventory();
    assert_eq!(inventory.jobs.len(), 6);
    for standing in inventory.jobs.values() {
        let Standing::Done(record) = standing else { panic!("{standing:?}") };
        let measurement = record.measurement.as_ref().unwrap();
        assert_eq!(measurement.samples, 20 * u64::from(record.key.batch));
    }
}

#[test]
fn the_matrix_shown_is_valid() {
    let project = Project::new();
    fs::write(project.path("mac.yaml"), block("yaml", "mac_mps")).unwrap();
    project.orchestrate(&["check", "mac.yaml"]).code(0);
}

#[test]
fn every_parameter_is_explained() {
    let readme = readme();
    for parameter in PARAMETERS {
        let row = readme.lines().find(|line| line.starts_with(&format!("| `{}` |", parameter.name)));
        let row = row.unwrap_or_else(|| panic!("{} is not in the README", parameter.name));
        assert!(row.contains(parameter.help), "{row}\nexpected: {}", parameter.help);
    }
}

#[test]
fn every_verb_is_explained() {
    let help = Project::new().orchestrate(&["--help"]).code(0).stdout;
    let verbs: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .collect();
    assert!(verbs.len() > 10, "{help}");
    for verb in verbs {
        assert!(
            readme().contains(&format!("`orchestrate {verb}")) || readme().contains(&format!("`{verb} ")),
            "{verb}"
        );
    }
}
