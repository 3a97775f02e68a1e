//! A command that cannot work is reported before any job starts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::harness::{Ended, Project, is_alive, wait_for, write_program};

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

/// Checks that the matrix is refused with `why`, by a run, which starts no job, and by a dry run.
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
    // A later argument that looks like a script is not checked.
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
    refuses(&project, "source/train.py cannot be parsed by ");

    // None of these is certain to fail.
    let makes_it = "import sys\nsys.modules['no_such_module'] = sys\n";
    fs::write(project.path("source/paths.py"), makes_it).unwrap();
    fs::create_dir(project.path("source/unmarked")).unwrap();
    fs::write(project.path("source/unmarked/paths.py"), makes_it).unwrap();
    for text in [
        "import paths\nimport no_such_module\n",
        "from unmarked import paths\nimport no_such_module\n",
        "import os\nos.execvp('sh', ['sh', '-c', 'echo it ran >&2; exit 1'])\nimport no_such_module\n",
        &format!("{makes_it}import no_such_module\n"),
        "try:\n    import no_such_module\nexcept ImportError:\n    pass\n",
        "import sys\nsys.path.insert(0, 'elsewhere')\nimport json\nif False:\n    import no_such_module\n",
        "import json, beside, __future__\nfrom os import path\n",
    ] {
        write(&format!("{text}raise SystemExit('it ran')\n"));
        project.orchestrate(&["run", "m.yaml"]).code(10).says("it ran");
    }
}

#[test]
fn the_python_path_of_the_worker_is_used() {
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

/// A script that Python can run is never refused.
#[test]
fn a_script_is_checked_as_python_runs_it() {
    let python = python();
    let run = |project: &Project| project.orchestrate(&["run", "m.yaml"]).code(10).says("it ran");
    let given = |words: &str| project(&format!("[{python:?}, {words}, \"{{batch}}\"]"));
    let write = |project: &Project, name: &str, text: &str| {
        fs::create_dir_all(project.path(name).parent().unwrap()).unwrap();
        fs::write(project.path(name), text).unwrap();
    };

    let linked = given("train.py");
    write(&linked, "source/train.py", "import beside\nraise SystemExit('it ran')\n");
    write(&linked, "source/beside.py", "");
    symlink("source/train.py", linked.path("train.py")).unwrap();
    run(&linked);

    let optioned = given("-uX, dev, train.py");
    write(&optioned, "train.py", "raise SystemExit('it ran')\n");
    run(&optioned);

    let safe = given("train.py");
    write(&safe, "train.py", "import mine\nraise SystemExit('it ran')\n");
    write(&safe, "lib/mine.py", "");
    let yaml = fs::read_to_string(safe.path("m.yaml")).unwrap();
    let env = "device: cpu, variables: { PYTHONPATH: lib, PYTHONSAFEPATH: \"1\" }";
    run(&safe.and_yaml(&yaml.replace("device: cpu", env)));

    // A directory, an archive of it, and a script that is compiled.
    let packed = given("app");
    write(&packed, "app/__main__.py", "raise SystemExit('it ran')\n");
    run(&packed);
    for (name, make) in [
        ("app.pyz", "import zipapp; zipapp.create_archive('app', 'app.pyz')"),
        ("train.pyc", "import py_compile; py_compile.compile('app/__main__.py', 'train.pyc')"),
    ] {
        let made = Command::new(&python).args(["-c", make]).current_dir(packed.path("")).status().unwrap();
        assert!(made.success());
        let other = given(name);
        fs::copy(packed.path(name), other.path(name)).unwrap();
        run(&other);
    }
}

/// A launcher that chooses another interpreter is not judged by its own.
#[test]
fn only_known_launchers_are_checked_with_their_interpreter() {
    for (launcher, words, why) in [
        ("torchrun", "train.py", Some("train.py imports `no_such_module`")),
        ("torchrun", "-m, package, train.py", None),
        ("conda", "run, train.py", None),
    ] {
        let project = project(&format!("[./{launcher}, {words}, \"{{batch}}\"]"));
        fs::write(project.path("train.py"), "import no_such_module\n").unwrap();
        let text = format!("#!{}\nraise SystemExit('it ran')\n", python().display());
        write_program(&project.path(launcher), &text);
        match why {
            Some(why) => refuses(&project, why),
            None => drop(project.orchestrate(&["run", "m.yaml"]).code(10).says("it ran")),
        }
    }
}

/// An interpreter can take seconds to start.
#[test]
fn each_script_is_checked_once() {
    let project = project("[./python3, \"train_{batch}.py\"]");
    let text = "#!/bin/sh\n[ \"$2\" = -c ] && echo \"$4\" >> looks\necho it ran >&2\nexit 1\n";
    write_program(&project.path("python3"), text);
    for name in ["train_4.py", "train_8.py"] {
        fs::write(project.path(name), "").unwrap();
    }
    let looks = || fs::read_to_string(project.path("looks")).unwrap();
    project.orchestrate(&["doctor", "m.yaml", "--look", "0s"]);
    assert_eq!(looks(), "train_4.py\ntrain_8.py\n");
    project.orchestrate(&["run", "m.yaml"]).code(10).says("it ran");
    let mut all: Vec<String> = looks().lines().skip(2).map(str::to_owned).collect();
    all.sort();
    assert_eq!(all, ["train_4.py", "train_8.py"]);
}

/// An interpreter that reports its PID and that of its child, and never answers.
fn silent_python(project: &Project) -> Vec<i32> {
    let path = project.path("asked");
    wait_for("a question", || fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n')));
    let text = fs::read_to_string(&path).unwrap();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

#[test]
fn a_stop_ends_an_interpreter_that_never_answers() {
    let verbs: [&[&str]; 3] =
        [&["run", "m.yaml"], &["check-worker", "--matrix", "m.yaml"], &["doctor", "m.yaml", "--look", "0s"]];
    let signals = [(Signal::SIGINT, "SIGINT"), (Signal::SIGTERM, "SIGTERM"), (Signal::SIGHUP, "SIGHUP")];
    for (verb, (signal, name)) in verbs.into_iter().zip(signals) {
        let project = project("[./python3, train.py]");
        fs::write(project.path("train.py"), "import sys\n").unwrap();
        let asked = project.path("asked").display().to_string();
        let silent = format!(
            "#!/bin/sh\nsleep 1000 &\necho $$ $! > '{asked}.tmp'\nmv '{asked}.tmp' '{asked}'\nwait\n"
        );
        write_program(&project.path("python3"), &silent);
        let running = project.start(verb);
        let processes = silent_python(&project);
        running.signal(signal);
        running.wait().code(11).says(&format!("stopped by {name}"));
        for process in processes {
            wait_for("the end of the interpreter and its child", || !is_alive(process));
        }
        assert_eq!(project.store().job_dirs().unwrap().len(), 0);
    }
}
