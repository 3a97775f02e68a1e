//! A command that cannot work is named before any job is started.

use std::fs;
use std::path::PathBuf;

use crate::harness::{Ended, Project};

/// A project whose worker is `command`, a list in YAML.
fn project(command: &str) -> Project {
    Project::new().and_yaml(&format!(
        "name: m\nmodels: [m]\nbatches: [4, 8]\nrepeats: 2\nlimits: {{ retries: 0 }}\n\
         worker: {{ command: {command}, result: json }}\nenvs: {{ cpu: {{ device: cpu }} }}\n"
    ))
}

/// Python, which the tests of the package need too.
fn python() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path).map(|directory| directory.join("python3"));
    found.into_iter().find(|path| path.is_file()).expect("python3 on the PATH")
}

/// Runs the matrix, which is refused because of `why`. Nothing was started, and the dry run says the same.
fn refuses(project: &Project, why: &str) {
    let says = |ended: Ended| ended.code(1).says("the worker of env `cpu` cannot work").says(why);
    says(project.orchestrate(&["run", "m.yaml"])).says("`worker.command`");
    says(project.orchestrate(&["run", "m.yaml", "--dry-run"]));
    assert_eq!(project.store().job_dirs().unwrap().len(), 0);
    let doctor = project.orchestrate(&["doctor", "m.yaml", "--look", "0s"]);
    assert!(doctor.stdout.contains(why), "{doctor:?}");
}

#[test]
fn a_missing_program_or_script_is_named() {
    refuses(&project("[no-such-program, \"{batch}\"]"), "there is no program `no-such-program` on the PATH");
    let python = python();
    let command = format!("[{python:?}, -u, train.py, \"{{batch}}\"]");
    refuses(&project(&command), "there is no train.py in ");
    // What only looks like a script is left to the worker.
    let other = project("[sh, -c, \"exit 3\", other.py]");
    other.orchestrate(&["run", "m.yaml"]).code(10).says("exited with code 3");
}

#[test]
fn a_module_that_the_interpreter_does_not_find_is_named() {
    let python = python();
    let project = project(&format!("[{python:?}, source/train.py, \"{{batch}}\"]"));
    fs::create_dir(project.path("source")).unwrap();
    let write = |text: &str| fs::write(project.path("source/train.py"), text).unwrap();
    fs::write(project.path("source/beside.py"), "").unwrap();
    let missing =
        format!("source/train.py imports `no_such_module`, which {} does not find", python.display());
    for imports in ["import json, no_such_module.part, beside", "from no_such_module import name"] {
        write(&format!("import sys\n{imports}\nraise SystemExit('it ran')\n"));
        refuses(&project, &missing);
    }
    write("import json\nif True\n");
    refuses(&project, "source/train.py is not read by ");

    // None of these is certain to fail.
    for text in [
        "try:\n    import no_such_module\nexcept ImportError:\n    pass\n",
        "import sys\nsys.path.insert(0, 'elsewhere')\nimport json\nif False:\n    import no_such_module\n",
        "import json, beside, __future__\nfrom os import path\n",
    ] {
        write(&format!("{text}raise SystemExit('it ran')\n"));
        project.orchestrate(&["run", "m.yaml"]).code(10).says("it ran");
    }
}

#[test]
fn python_path_is_that_of_the_worker() {
    let python = python();
    let project = project(&format!("[{python:?}, train.py]"));
    fs::write(project.path("train.py"), "import mine\nraise SystemExit('it ran')\n").unwrap();
    fs::create_dir(project.path("lib")).unwrap();
    fs::write(project.path("lib/mine.py"), "").unwrap();
    refuses(&project, "train.py imports `mine`");
    let yaml = fs::read_to_string(project.path("m.yaml")).unwrap();
    let lib = project.path("lib").display().to_string();
    let env = format!("device: cpu, variables: {{ PYTHONPATH: {lib:?} }}");
    fs::write(project.path("m.yaml"), yaml.replace("device: cpu", &env)).unwrap();
    project.orchestrate(&["run", "m.yaml"]).code(10).says("it ran");
}
