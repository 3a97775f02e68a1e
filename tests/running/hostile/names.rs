//! Names as long as a file system permits, or longer, and paths that are not UTF-8.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::assert_complete;
use crate::harness::{Ended, Matrix, Project, Running, own_worker};

/// A name that is not UTF-8.
fn no_text() -> &'static OsStr {
    OsStr::from_bytes(b"r\xff\xfes")
}

/// Runs `orchestrate` with `arguments`, in `directory`.
fn orchestrate(project: &Project, directory: &Path, arguments: &[&OsStr]) -> Ended {
    let mut command = project.command(&[]);
    command.args(arguments).current_dir(directory);
    Running::start(command).wait()
}

fn words<'a>(words: &'a [&'a str]) -> Vec<&'a OsStr> {
    words.iter().map(OsStr::new).collect()
}

#[test]
fn the_longest_names_fit_into_every_file_and_longer_ones_are_refused() {
    let long = "x".repeat(64);
    let long_model = format!("{}/{}/{}", "x".repeat(31), "y".repeat(31), "z".repeat(32));
    let matrix = |name: &str, env: &str, model: &str| {
        let worker = env!("CARGO_BIN_EXE_fake-worker");
        let command = format!("[{worker}, --batch, \"{{batch}}\", --out, \"{{out}}\"]");
        format!(
            "name: {name}\nmodels: [{model}]\nbatches: [1000000]\nrepeats: 1\nlimits: {{ retries: 0 }}\n\
             worker: {{ command: {command}, result: json }}\nenvs: {{ {env}: {{ device: cpu }} }}\n"
        )
    };
    let project = Project::new().and_yaml(&matrix(&long, &long, &long_model));
    project.orchestrate(&["run", "m.yaml"]).code(0);
    assert_complete(&project, 1);
    for verb in ["status", "aggregate", "report", "verify"] {
        project.orchestrate(&[verb]).code(0);
    }
    let longer = "x".repeat(255);
    for (name, env, model, most) in
        [(&longer, &long, &long, 64), (&long, &longer, &long, 64), (&long, &long, &longer, 96)]
    {
        let project = Project::new().and_yaml(&matrix(name, env, model));
        let run = project.orchestrate(&["run", "m.yaml"]).code(3).says("m.yaml:");
        let run = run.says(&format!("at most {most} ASCII letters"));
        assert!(run.stderr.len() < 1000, "{run:?}");
        assert!(!project.path("runs").exists());
    }
}

/// The id of a model on Hugging Face is used as it is, except in file names.
#[test]
fn a_model_can_have_a_hugging_face_id() {
    let yaml =
        own_worker("\"model\": \"{model}\"", &[], "repeats: 2", "").replace("resnet18", "facebook/opt-125m");
    let project = Project::new().and_yaml(&yaml);
    project.orchestrate(&["run", "m.yaml"]).code(0);
    let again = project.orchestrate(&["run", "m.yaml"]).code(0);
    assert!(again.stdout.contains("all 2 jobs are done"), "{again:?}");
    let directories: Vec<String> = fs::read_dir(project.path("runs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("cpu_facebook--opt-125m_fp32_bs4_run"))
        .collect();
    assert_eq!(directories.len(), 2, "{directories:?}");
    for arguments in [
        &["status"][..],
        &["show", "cpu_facebook--opt-125m_fp32_bs4_run1"],
        &["status", "--model", "facebook/opt-125m"],
        &["report", "--include-marked"],
    ] {
        let shown = project.orchestrate(arguments).code(0);
        assert!(shown.stdout.contains("facebook"), "{shown:?}");
    }
    let summary = fs::read_to_string(project.path("report/m/summary.csv")).unwrap();
    assert!(summary.contains(",facebook/opt-125m,"), "{summary}");
    for model in ["/opt", "a/../b", "a//b", "a/.b"] {
        let refused = Project::new().and_yaml(&yaml.replace("facebook/opt-125m", model));
        refused.orchestrate(&["run", "m.yaml"]).code(3).says("in up to three parts between slashes");
    }
}

#[test]
fn directories_with_the_longest_names_work_and_longer_ones_are_named() {
    let project = Project::with(Matrix::new("t").repeats(2));
    let name = "d".repeat(255);
    let store = format!("{name}/{name}");
    project.orchestrate(&["run", "t.yaml", "--store", &store]).code(0);
    project.orchestrate(&["verify", "--store", &store]).code(0);
    let longer = "d".repeat(256);
    let run = project.orchestrate(&["run", "t.yaml", "--store", &longer]).code(12).says("File name too long");
    run.says("cannot create the store").says("choose another store with `--store DIR`");
    let read = project.orchestrate(&["run", &format!("{longer}.yaml")]).code(3);
    read.says("cannot read the matrix").says("File name too long");
    assert_eq!(project.started(), 2);
}

#[test]
fn a_store_with_a_path_outside_utf8_is_refused() {
    let project = Project::with(Matrix::new("t"));
    let store = project.path("").join(no_text());
    let run = [&words(&["run", "t.yaml", "--store"])[..], &[store.as_os_str()]].concat();
    let refused = orchestrate(&project, &project.path(""), &run).code(12);
    refused.says("is not UTF-8").says("choose a store whose whole path is UTF-8 with `--store DIR`");
    assert!(!store.exists());
    // The same is true of a store in such a directory.
    let directory = project.path("").join(no_text());
    fs::create_dir(&directory).unwrap();
    fs::copy(project.path("t.yaml"), directory.join("t.yaml")).unwrap();
    orchestrate(&project, &directory, &words(&["run", "t.yaml"])).code(12).says("is not UTF-8");
    assert_eq!((project.started(), fs::read_dir(&directory).unwrap().count()), (0, 1));
    let inside = project.path("runs").into_os_string();
    let run = [&words(&["run", "t.yaml", "--store"])[..], &[inside.as_os_str()]].concat();
    orchestrate(&project, &directory, &run).code(0);
    assert_complete(&project, 1);
}

#[test]
fn a_matrix_file_with_a_name_outside_utf8_runs_and_resumes() {
    let project = Project::with(Matrix::new("t").repeats(2));
    let mut name = no_text().to_owned();
    name.push(".yaml");
    fs::rename(project.path("t.yaml"), project.path("").join(&name)).unwrap();
    let here = project.path("");
    for verb in ["check", "plan", "run"] {
        orchestrate(&project, &here, &[verb.as_ref(), &name]).code(0);
    }
    for verb in ["resume", "status", "aggregate"] {
        project.orchestrate(&[verb]).code(0);
    }
    assert_complete(&project, 2);
}

#[test]
fn a_matrix_outside_utf8_is_refused_with_a_hint() {
    let project = Project::new();
    fs::write(project.path("m.yaml"), b"name: r\xff\n").unwrap();
    project.orchestrate(&["run", "m.yaml"]).code(3).says("m.yaml").says("save it as UTF-8");
}

#[test]
fn an_argument_outside_utf8_is_named() {
    let project = Project::with(Matrix::new("t"));
    for verb in [&["status"][..], &["logs"], &["run", "t.yaml", "--only"]] {
        let arguments = [&words(verb)[..], &[no_text()]].concat();
        let refused = orchestrate(&project, &project.path(""), &arguments).code(2);
        refused.says("the argument `r\u{fffd}\u{fffd}s` is not UTF-8").says("hint: ");
    }
    assert_eq!(project.started(), 0);
}

#[test]
fn variables_outside_utf8_do_not_stop_a_run() {
    for name in ["ANY", "HOME", "PATH", "LANG", "TERM", "TMPDIR", "OMP_NUM_THREADS", "ORCHESTRATE_STORE"] {
        let project = Project::with(Matrix::new("t"));
        let mut command = project.command(&["run", "t.yaml"]);
        let before = std::env::var_os(name).filter(|_| name == "PATH");
        let mut value: OsString =
            before.map_or_else(OsString::new, |path| [path, ":".into()].into_iter().collect());
        value.push(no_text());
        let ended = Running::start({
            command.env(name, &value);
            command
        });
        let ended = ended.wait();
        // A variable with a path that jobs need is refused by name.
        match name {
            "ORCHESTRATE_STORE" => drop(ended.code(12).says("is not UTF-8")),
            _ => {
                ended.code(0);
                assert_complete(&project, 1);
            }
        }
    }
    let project = Project::with(Matrix::new("t"));
    let mut command = project.command(&["run", "t.yaml"]);
    command.env("ORCHESTRATE_WORKER", no_text());
    let run = Running::start(command).wait().code(1).says("is not UTF-8");
    run.says("use a path in UTF-8");
}
