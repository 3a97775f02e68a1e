//! `check-worker` runs a worker once, as `run` does, and reports its mistakes and omissions.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::harness::{Ended, Matrix, Project, Running, is_alive, wait_for};

/// The command of a fake worker with this behaviour.
fn fake(behave: &str) -> Vec<String> {
    let flags = ["device", "precision", "batch", "label", "out"]
        .map(|name| [format!("--{name}"), format!("{{{name}}}")]);
    let begin = [env!("CARGO_BIN_EXE_fake-worker"), "--behave", behave].map(str::to_owned);
    begin.into_iter().chain(flags.into_iter().flatten()).collect()
}

/// A project with its own directory of temporary files.
struct Check {
    project: Project,
}

impl Check {
    fn new() -> Check {
        let project = Project::new();
        fs::create_dir(project.path("tmp")).unwrap();
        Check { project }
    }

    fn start(&self, options: &[&str], command: &[String]) -> Running {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let mut started = self.project.command(&[&["check-worker"], options, &["--"], &words].concat());
        started.env("TMPDIR", self.project.path("tmp"));
        Running::start(started)
    }

    /// Checks the worker, and that the check cleans up.
    fn check(&self, options: &[&str], command: &[String]) -> Ended {
        let ended = self.start(options, command).wait();
        self.assert_clean();
        ended
    }

    fn assert_nothing_temporary(&self) {
        let left: Vec<_> = fs::read_dir(self.project.path("tmp")).unwrap().map(Result::unwrap).collect();
        assert!(left.is_empty(), "{left:?}");
    }

    fn assert_clean(&self) {
        self.assert_nothing_temporary();
        assert!(!self.project.path("runs").exists(), "a check does not use this store");
    }

    /// A worker in Python with the body `text`. In it, `m` is a valid measurement, and `put(m)` writes it.
    fn python(&self, text: &str) -> Vec<String> {
        let begin = "import json, os, sys, time\nbatch = int(sys.argv[1])\n\
                     m = {'schema': 1, 'samples': 2 * batch, 'elapsed_s': 0.0001, 'synchronized': True, 'details': {},\n\
                          'effective': {'device': 'cpu', 'precision': 'fp32', 'batch': batch}}\n\
                     def put(m):\n    open(os.environ['ORCHESTRATE_MEASUREMENT'], 'w').write(json.dumps(m))\n";
        fs::write(self.project.path("w.py"), format!("{begin}{text}\n")).unwrap();
        ["python3", "w.py", "{batch}"].map(str::to_owned).to_vec()
    }
}

#[test]
fn every_misbehaviour_is_reported() {
    let check = Check::new();
    for (behave, code, said) in [
        ("iterations", 0, "nothing is wrong"),
        ("unsynchronised", 10, "wrong: the device was not synchronised at both ends"),
        ("mismatch", 10, "wrong: `precision` is tf32, but fp32 was asked for"),
        ("wrong-samples", 10, "wrong: measurement.json: 8 samples are not 3 iterations of 4"),
        ("exit3", 10, "  | RuntimeError: it went wrong"),
        ("measured-exit1", 10, "wrong: the worker exited with code 1"),
        ("segfault", 10, "wrong: the worker was killed by signal 11"),
        ("garbage", 10, "wrong: measurement.json is not valid JSON"),
        ("no-output", 10, "wrong: the worker wrote no measurement.json"),
        ("directory", 10, "wrong: measurement.json is not readable"),
        ("fifo", 10, "wrong: measurement.json is not readable"),
        ("remove-attempt", 10, "wrong: the worker wrote no measurement.json"),
        ("oom", 10, "wrong: the worker ran out of memory"),
        ("unsupported", 10, "wrong: the worker is not supported here"),
        ("leave-child", 10, "wrong: the worker left processes behind"),
    ] {
        let ended = check.check(&[], &fake(behave)).code(code);
        assert!(ended.stdout.contains(said), "{behave}: {ended:?}");
    }
}

#[test]
fn scripts_are_checked_by_their_output() {
    let check = Check::new();
    for (script, code, said) in [
        ("put(m)", 0, "left out: the worker does not report `details.device_name`"),
        ("m['unit'] = 'tokens'; put(m)", 0, " tokens/s: "),
        ("m['sampels'] = m.pop('samples'); put(m)", 10, "call it `samples`"),
        ("m['elapsed_s'] = 'soon'; m['samples'] = '8'; put(m)", 10, "2 things are wrong"),
        (
            "m['details']['window_started_at'] = time.monotonic(); put(m)",
            10,
            "within the life of the process",
        ),
        ("json.dump(m, open('measurement.json', 'w'))", 10, "into its current directory"),
        ("print('{\"event\": \"mesure\"}'); put(m)", 10, "looks like a progress line, but is not valid"),
        ("m['effective']['batch'] = 1; put(m)", 10, "`batch` is 1, but 4 was asked for"),
        // The model was not declared, so another one is no mistake.
        ("m['effective']['model'] = 'tiny'; put(m)", 0, "doubtful: `model` is tiny"),
        ("raise RuntimeError('it broke')", 10, "RuntimeError: it broke"),
    ] {
        let ended = check.check(&["-q"], &check.python(script)).code(code);
        assert!(ended.stdout.contains(said), "{script}: {ended:?}");
        let _ = fs::remove_file(check.project.path("measurement.json"));
    }
}

#[test]
fn options_reach_the_worker() {
    let check = Check::new();
    let words = "assert sys.argv[1:] == ['2', '0.5', '10', 'tf32', 'm'], sys.argv\n\
                 assert os.environ['FOO'] == 'a=b' and os.environ['BAR_1'] == 'c', os.environ\n\
                 m['effective'].update(precision='tf32', lr=0.5, iters=2, model='m'); put(m)";
    let mut command = check.python(words);
    command.extend(["{lr}", "{iters}", "{precision}", "{model}"].map(str::to_owned));
    let options =
        "--batch 2 --param lr=0.5 --precision tf32 --model m --variable FOO=a=b --pass BAR_* --json";
    let options: Vec<&str> = options.split(' ').collect();
    let mut started = check.project.command(&[&["check-worker"], &options[..], &["--"]].concat());
    started.args(&command).env("BAR_1", "c");
    let ended = Running::start(started).wait().code(10);
    let page: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(page["command"], serde_json::json!(["python3", "w.py", "2", "0.5", "10", "tf32", "m"]));
    let wrong: Vec<&str> = page["remarks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|remark| remark["weight"] == "wrong")
        .map(|remark| remark["what"].as_str().unwrap())
        .collect();
    assert_eq!(wrong, ["`iters` is 2, but 10 was asked for"], "{}", ended.stdout);
}

#[test]
fn the_smallest_job_of_a_matrix_is_checked() {
    let check = Check::new();
    check.python("assert sys.argv[1:] == ['2', '10'], sys.argv\nm['samples'] = 20; put(m)");
    let matrix = "name: m\nmodels: [a, b]\nbatches: [8, 2]\nrepeats: 3\nparams: { iters: 1000 }\n\
                  limits: { quiet: 0.001, cool_down: 1h, retries: 5 }\n\
                  worker: { command: [python3, w.py, \"{batch}\", \"{iters}\"] }\n\
                  envs: { elsewhere: { device: cpu, host: no-such-host }, here: { device: cpu } }\n";
    fs::write(check.project.path("m.yaml"), matrix).unwrap();
    let run =
        |more: &[&str]| check.project.orchestrate(&[&["check-worker", "--matrix", "m.yaml"], more].concat());
    run(&[]).code(0).says("running the worker once: python3 w.py 2 10");
    run(&["--env", "here", "--only", "batch=2"]).code(0);
    run(&["--env", "elsewhere"]).code(4).says("cannot be checked here");
    run(&["--env", "nowhere"]).code(4);
    run(&["--batch", "2"]).code(2).says("exclude each other");
    // A failure is not tried again.
    check.python("open('ran', 'a').write('x')\nsys.exit(3)");
    run(&[]).code(10);
    assert_eq!(fs::read_to_string(check.project.path("ran")).unwrap(), "x");
    fs::write(check.project.path("m.yaml"), matrix.replace("batches", "bathces")).unwrap();
    run(&[]).code(3).says("did you mean `batches`");
}

#[test]
fn errors_are_reported_before_anything_starts() {
    let check = Check::new();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    for (options, command, code, said) in [
        (&[][..], &[][..], 2, "`orchestrate check-worker -- python3 train.py --batch {batch}`"),
        (&[], &["sh", "{btach}"], 2, "did you mean `batch`?"),
        (&["--batch", "0"], &["sh"], 2, "`0` is not a value of `--batch`"),
        (&["--param", "lr"], &["sh"], 2, "expected NAME=VALUE"),
        (&["--param", "lr=1"], &["sh"], 2, "no word of `worker.command` contains `{lr}`"),
        (&["--device", "gpu"], &["sh"], 2, "`gpu` is not a device"),
        (&["--env", "a"], &["sh"], 2, "`--matrix FILE`"),
        (&["--variable", "ORCHESTRATE_MEASUREMENT=x"], &["sh"], 2, "ORCHESTRATE_MEASUREMENT"),
    ] {
        check.check(options, &words(command)).code(code).says(said);
    }
    let ended = check.check(&[], &words(&["no-such-program"])).code(10);
    assert!(ended.stdout.contains("there is no program `no-such-program`"), "{ended:?}");
}

#[test]
fn a_store_is_only_kept_in_a_new_directory() {
    let check = Check::new();
    let kept = ["--keep", "a/kept"];
    check.check(&kept, &fake("ok")).code(0);
    let label = "here_worker_fp32_bs4_run1";
    let shown = check.project.orchestrate(&["show", label, "--store", "a/kept"]).code(0).stdout;
    assert!(shown.contains("state        done"), "{shown}");
    check.check(&kept, &fake("ok")).code(2).says("exists already");
}

#[test]
fn a_secret_reaches_the_worker_and_is_not_printed() {
    let check = Check::new();
    let words = "token = os.environ['MY_TOKEN']\nassert token == 'swordfish'\nm['samples'] = token; put(m)\n\
                 print(json.dumps({'event': 'mesure', 'x': token}))\nsys.exit(token)";
    let ended = check.check(&["--variable", "MY_TOKEN=swordfish"], &check.python(words)).code(10);
    assert!(ended.stdout.contains("| set\n") && ended.stdout.contains("`samples` is \"set\""), "{ended:?}");
    let matrix = "name: m\nmodels: [a]\nbatches: [2]\nworker: { command: [python3, w.py, \"{batch}\"] }\n\
                  envs: { here: { device: cpu, secret: [MY_TOKEN] } }\n";
    fs::write(check.project.path("m.yaml"), matrix).unwrap();
    let mut of_matrix = check.project.command(&["check-worker", "--matrix", "m.yaml"]);
    of_matrix.env("MY_TOKEN", "swordfish");
    let by_matrix = Running::start(of_matrix).wait().code(10);
    for text in [&ended.stdout, &ended.stderr, &by_matrix.stdout, &by_matrix.stderr] {
        assert!(!text.contains("swordfish"), "{text}");
    }
    check.project.orchestrate(&["check-worker", "--matrix", "m.yaml"]).code(1).says("$MY_TOKEN is secret");
}

#[test]
fn a_password_in_an_address_is_not_printed() {
    let check = Check::new();
    let words = "proxy = os.environ['HTTPS_PROXY']\nm['samples'] = proxy; put(m)\nprint(proxy[11:20])\n\
                 print(json.dumps({'event': 'mesure', 'x': proxy}))\nsys.exit('no ' + proxy + ' by ' + proxy[11:20])";
    let mut command = check.project.command(&["check-worker", "--pass", "HTTPS_PROXY", "--json", "--"]);
    command.args(check.python(words)).env("HTTPS_PROXY", "https://me:swordfish@host:3128");
    let ended = Running::start(command).wait().code(10);
    assert!(ended.stdout.contains("no set by set"), "{ended:?}");
    assert!(!format!("{ended:?}").contains("swordfish"), "{ended:?}");
}

/// A check and a run never measure at the same time.
#[test]
fn a_check_waits_for_a_run_and_ends_cleanly_at_ctrl_c() {
    let check = Check { project: Project::with(Matrix::new("t")) };
    fs::create_dir(check.project.path("tmp")).unwrap();
    let release: PathBuf = check.project.release();
    let yaml = fs::read_to_string(check.project.path("t.yaml")).unwrap();
    let held = yaml.replace("\"--trace\"", &format!("\"--release\", {release:?}, \"--trace\""));
    fs::write(check.project.path("t.yaml"), held).unwrap();
    let run = check.project.start(&["run", "t.yaml"]);
    check.project.wait_started(1);
    let mut command = fake("hang");
    command.extend(["--trace".to_owned(), check.project.trace().display().to_string()]);
    let mut waiting = check.start(&[], &command);
    waiting.wait_for_line("waiting for ");
    assert_eq!(check.project.started(), 1, "it would measure beside the run");
    check.project.release_workers();
    run.wait().code(0);
    check.project.wait_started(2);
    waiting.signal(Signal::SIGINT);
    waiting.wait().code(11).says("stopping (SIGINT)");
    check.assert_nothing_temporary();
    check.project.assert_quiet();
}

#[test]
fn leftovers_are_removed_only_if_their_check_was_killed() {
    let check = Check::new();
    let trace = ["--trace".to_owned(), check.project.trace().display().to_string()];
    let killed = check.start(&[], &[fake("hang"), trace.to_vec()].concat());
    check.project.wait_started(1);
    killed.kill();
    let worker = check.project.workers()[0];
    assert!(is_alive(worker), "a worker survives its orchestrate");
    for left in fs::read_dir(check.project.path("tmp")).unwrap() {
        let mode = left.unwrap().metadata().unwrap().mode();
        assert_eq!(mode & 0o077, 0, "a worker may write secrets, which other users must not read");
    }
    // A directory with a similar name, and the lock of another host, whose owner may be alive.
    let other = check.project.path("tmp/orchestrate-check.mine");
    let elsewhere = other.join(".check-no-such-host/1-1.lock");
    fs::create_dir_all(elsewhere.parent().unwrap()).unwrap();
    fs::write(&elsewhere, "").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o700)).unwrap();

    let release = ["--release".to_owned(), check.project.release().display().to_string()];
    let mut live = check.start(&[], &[fake("ok"), trace.to_vec(), release.to_vec()].concat());
    live.wait_for_line("a check that was killed left");
    check.project.wait_started(2);
    wait_for("the end of the first worker", || !is_alive(worker));
    let count = || fs::read_dir(check.project.path("tmp")).unwrap().count();
    assert_eq!(count(), 2, "those of the live check and of the other host");

    let mut next = check.start(&[], &fake("ok"));
    next.wait_for_line("waiting for ");
    assert!(is_alive(check.project.workers()[1]));
    check.project.release_workers();
    live.wait().code(0);
    next.wait().code(0);
    assert_eq!(count(), 1);
    assert!(elsewhere.exists());
}
