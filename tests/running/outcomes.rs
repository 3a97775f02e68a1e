//! Each behaviour of a worker has its outcome, and the other jobs of the matrix run.

use std::os::unix::fs::PermissionsExt;

use orchestrate::record::Outcome;

use crate::harness::{Matrix, Project, Running, edit_sealed, is_alive, wait_for};

/// The expected result of each behaviour of the fake worker: kind of the outcome, a part of its sentence, number of
/// attempts if one retry is allowed.
const EXPECTED: &[(&str, &str, &str, u32)] = &[
    ("ok", "succeeded", "", 1),
    ("unsynchronised", "succeeded", "", 1),
    ("leave-child", "succeeded", "", 1),
    ("leave-daemon", "succeeded", "", 1),
    ("flaky", "succeeded", "", 2),
    ("exit3", "exited", "code 3: RuntimeError: it went wrong", 2),
    ("measured-exit1", "exited", "code 1", 2),
    ("segfault", "signalled", "signal 11", 2),
    ("abort", "signalled", "signal 6", 2),
    ("kill-self", "signalled", "signal 9", 2),
    ("garbage", "bad_output", "measurement.json is not valid JSON", 2),
    ("half-file", "bad_output", "measurement.json is not valid JSON", 2),
    ("no-output", "bad_output", "no measurement.json", 2),
    ("directory", "bad_output", "measurement.json is not readable", 2),
    ("fifo", "bad_output", "measurement.json is not readable: it is a FIFO", 2),
    ("device", "bad_output", "measurement.json is not readable: it is a device", 2),
    ("fifo-everywhere", "bad_output", "measurement.json is not readable: it is a FIFO", 2),
    ("remove-attempt", "bad_output", "no measurement.json", 2),
    ("remove-job", "bad_output", "no measurement.json", 2),
    ("wrong-samples", "bad_output", "are not 3 iterations", 2),
    ("mismatch", "setting_mismatch", "precision", 1),
    ("oom", "out_of_memory", "tried to allocate 20 GiB", 1),
    ("oom-code", "out_of_memory", "std::bad_alloc", 1),
    ("unsupported", "unsupported", "no such device", 1),
];

#[test]
fn every_behaviour_has_its_outcome_and_the_other_jobs_run() {
    let behaviours: Vec<&str> = EXPECTED.iter().map(|(behaviour, ..)| *behaviour).collect();
    let project =
        Project::with(Matrix::new("t").behave(&behaviours).limits("timeout: 60s, retries: 1, grace: 10s"));
    project.orchestrate(&["run", "t.yaml"]).code(10).says("orchestrate resume t");
    let records = project.records();
    assert_eq!(records.len(), EXPECTED.len());
    for (behaviour, kind, sentence, attempts) in EXPECTED {
        let of_behaviour = |record: &&orchestrate::record::Record| {
            record.key.params.get("behave").is_some_and(|value| value.to_string() == *behaviour)
        };
        let record = records.iter().find(of_behaviour).unwrap();
        assert_eq!(record.outcome.kind(), *kind, "{behaviour}: {:?}", record.outcome);
        assert!(record.outcome.to_string().contains(sentence), "{behaviour}: {}", record.outcome);
        assert_eq!(record.attempt, *attempts, "{behaviour}");
        let report_is_gone = *behaviour == "fifo-everywhere" || behaviour.starts_with("remove-");
        assert_eq!(record.process.is_none(), report_is_gone, "{behaviour} has process statistics");
        assert!(!record.observed.adopted);
        assert_eq!(record.observed.left_processes, behaviour.starts_with("leave-"), "{behaviour}");
    }
    assert_eq!(project.started(), EXPECTED.iter().map(|(.., attempts)| *attempts as usize).sum::<usize>());
    project.assert_quiet();
}

#[test]
fn a_measurement_in_the_current_directory_is_named() {
    let own = |command: &str| {
        let yaml = "name: m\nmodels: [toy]\nbatches: [4]\nrepeats: 1\nlimits: { retries: 0 }\n\
                    envs: { cpu: { device: cpu } }\n";
        Project::new().and_yaml(&format!("{yaml}worker: {{ command: [sh, -c, {command:?}] }}\n"))
    };
    let project = own("echo {} > measurement.json");
    project.orchestrate(&["run", "m.yaml"]).code(10);
    let sentence = project.record().outcome.to_string();
    for part in
        ["into its current directory ", " instead of to the path in $ORCHESTRATE_MEASUREMENT", "{out}"]
    {
        assert!(sentence.contains(part), "no `{part}` in {sentence}");
    }
    let status = project.orchestrate(&["status"]).code(0).says("hint: the worker finds the path `/");
    assert!(status.stdout.contains(&sentence), "{status:?}");
    let project = own("touch -d '2001-01-01' measurement.json");
    project.orchestrate(&["run", "m.yaml"]).code(10);
    let sentence = project.record().outcome.to_string();
    assert!(
        sentence.contains("the worker wrote no measurement.json"),
        "it is older than the attempt: {sentence}"
    );
}

/// `status` shows the same as `explain`.
#[test]
fn a_setting_that_differs_is_shown_with_both_values() {
    let project = Project::with(Matrix::new("t").behave(&["mismatch"]));
    project.orchestrate(&["run", "t.yaml"]).code(10);
    let both = "did not run as requested: precision tf32 instead of fp32";
    let status = project.orchestrate(&["status"]).code(0).says("make the worker do what is declared");
    assert!(status.stdout.contains(&format!("failed: {both}\n")), "{status:?}");
    let explained = project.orchestrate(&["explain", "cpu_m_fp32_bs4_run1"]).code(0);
    assert!(explained.stdout.contains(both), "{explained:?}");
}

#[test]
fn a_process_left_behind_is_killed_even_outside_the_group() {
    let behaviours = match cfg!(target_os = "linux") {
        true => &["leave-child", "leave-daemon", "leave-hidden-daemon"][..],
        false => &["leave-child", "leave-daemon"],
    };
    for behaviour in behaviours {
        let project = Project::with(Matrix::new("t").behave(&[behaviour]));
        project.orchestrate(&["run", "t.yaml"]).code(0);
        assert!(project.record().observed.left_processes, "{behaviour}");
        assert_nothing_left(&project);
    }
}

/// `orchestrate` inherits the background jobs of a shell that runs it with `exec`. They do not belong to a worker.
#[test]
#[cfg(target_os = "linux")]
fn an_inherited_child_is_left_alone() {
    let project = Project::with(Matrix::new("t").behave(&["leave-hidden-daemon"]));
    let mut command = project.in_environment(std::process::Command::new("sh"));
    let script = format!(
        "sleep 120 >sleeps 2>&1 & echo $! >before; exec '{}' run t.yaml",
        env!("CARGO_BIN_EXE_orchestrate")
    );
    command.args(["-c", &script]);
    Running::start(command).wait().code(0);
    end_inherited_child(&project);
    assert_nothing_left(&project);
}

/// The same is true of its children, if it ends while a job runs.
#[test]
#[cfg(target_os = "linux")]
fn a_grandchild_of_an_inherited_child_is_left_alone() {
    let project = Project::new();
    let matrix = Matrix::new("t").behave(&["leave-hidden-daemon"]).flag("--release", &project.release());
    let project = project.and(matrix);
    let mut command = project.in_environment(std::process::Command::new("sh"));
    let script = format!(
        "sh -c 'sleep 120 >sleeps 2>&1 & echo $! >before; until [ -e end ]; do sleep 0.01; done' & \
         until [ -s before ]; do sleep 0.01; done; echo $! >parent; exec '{}' run t.yaml",
        env!("CARGO_BIN_EXE_orchestrate")
    );
    command.args(["-c", &script]);
    let run = Running::start(command);
    project.wait_started(1);
    std::fs::write(project.path("end"), "").unwrap();
    let parent = std::fs::read_to_string(project.path("parent")).unwrap();
    wait_for("the end of its parent", || !is_alive(parent.trim().parse().unwrap()));
    project.release_workers();
    run.wait().code(0);
    end_inherited_child(&project);
    assert_nothing_left(&project);
}

/// Asserts that the process whose number the file `before` has is still alive, and ends it.
#[cfg(target_os = "linux")]
fn end_inherited_child(project: &Project) {
    let text = std::fs::read_to_string(project.path("before")).unwrap();
    let before: i32 = text.trim().parse().unwrap();
    assert!(is_alive(before));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(before), nix::sys::signal::Signal::SIGKILL).unwrap();
}

fn assert_nothing_left(project: &Project) {
    let record = project.record();
    let job = orchestrate::job::Job::new(record.key);
    let text = std::fs::read_to_string(project.store().job_dir(&job).attempt(1).stdout()).unwrap();
    let child = text.lines().find_map(|line| line.strip_prefix("left ")).unwrap();
    let child: i32 = child.parse().unwrap();
    assert!(child > 0);
    wait_for("the end of the child", || !is_alive(child));
}

#[test]
fn three_configs_that_fail_in_the_same_words_stop_the_run() {
    let project = Project::with(Matrix::new("t").behave(&["exit3"]).batches(&[1, 2, 3, 4, 5]).repeats(2));
    let why = "3 different configs failed in a row: each exited with code 3: RuntimeError: it went wrong; the \
               remaining jobs are not tried, unless with `--keep-going`";
    project.orchestrate(&["run", "t.yaml"]).code(10).says(why);
    assert_eq!(project.started(), 5, "two repeats of two configs, and one of the third");
    project.orchestrate(&["resume", "--keep-going"]).code(10);
    assert_eq!(project.started(), 15);
}

#[test]
fn a_worker_that_vanishes_stops_the_run() {
    let project = Project::new();
    let worker = project.path("worker");
    let matrix = Matrix::new("t").worker(&worker).repeats(20).flag("--release", &project.release());
    let project = project.and(matrix);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_fake-worker"), &worker).unwrap();
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    std::fs::remove_file(&worker).unwrap();
    project.release_workers();
    run.wait().code(10).says("3 jobs could not be started in a row");
    assert_eq!((project.started(), project.records().len()), (1, 4));
}

/// It still prunes larger batches.
#[test]
fn an_out_of_memory_verdict_survives_an_interruption() {
    let project = Project::new();
    let matrix = Matrix::new("t").behave(&["oom"]).batches(&[4, 8]).flag("--release", &project.release());
    let project = project.and(matrix);
    project.release_workers();
    let pruned =
        |project: &Project| project.orchestrate(&["status", "--json"]).json()["counts"]["pruned"].clone();
    project.orchestrate(&["run", "t.yaml"]).code(10);
    assert_eq!((project.started(), pruned(&project)), (1, 1.into()));
    std::fs::remove_file(project.release()).unwrap();
    let run = project.start(&["resume"]);
    project.wait_started(2);
    run.signal_until_gone(nix::sys::signal::Signal::SIGINT).code(11);
    assert_eq!(pruned(&project), 1);
    assert_eq!(project.record().outcome.kind(), "out_of_memory");
    let dir = project.store().job_dirs().unwrap().remove(0);
    assert_eq!(dir.attempt(2).load_record().unwrap().unwrap().outcome.kind(), "interrupted");
}

#[test]
fn a_pruned_batch_is_tried_again_once_there_is_more_memory() {
    let project = Project::with(Matrix::new("t").behave(&["oom"]).batches(&[4, 8]));
    let ran = project.orchestrate(&["run", "t.yaml"]).code(10);
    assert_eq!(project.started(), 1, "{ran:?}");
    ran.says("batch 4 of the same config already ran out of memory on ").says(", with ");
    project.orchestrate(&["run", "t.yaml", "--only", "batch=8"]).code(0);
    assert_eq!(project.started(), 1, "as long as nothing has changed");
    // As if the host had had less memory.
    edit_sealed(&project.store().job_dirs().unwrap()[0].record(), |record| {
        record["provenance"]["host"]["memory_bytes"] = (1 << 20).into();
    });
    project.orchestrate(&["run", "t.yaml", "--only", "batch=8"]).code(10);
    assert_eq!(project.executions().last().map(String::as_str), Some("ended cpu_m_fp32_bs8_run1"));
}

#[test]
fn a_worker_over_its_time_limit_is_stopped() {
    let project = Project::with(
        Matrix::new("t").behave(&["hang", "ignore-sigint"]).limits("timeout: 1s, retries: 0, grace: 1s"),
    );
    project.orchestrate(&["run", "t.yaml"]).code(10);
    let outcomes: Vec<Outcome> = project.records().into_iter().map(|record| record.outcome).collect();
    assert_eq!(outcomes, [Outcome::TimedOut { after_s: 1.0 }, Outcome::TimedOut { after_s: 1.0 }]);
    project.assert_quiet();
}

#[test]
fn out_of_memory_prunes_other_repeats_and_larger_batches_of_the_same_config() {
    let project =
        Project::with(Matrix::new("t").behave(&["oom-above-8", "ok"]).batches(&[4, 16, 32, 64]).repeats(2));
    let first = project.orchestrate(&["run", "t.yaml"]).code(10);
    // Batch 4 twice, batch 16 once, and everything that does not run out of memory.
    assert_eq!(project.started(), 2 + 1 + 8, "{first:?}");
    // A failed job is tried again; pruned ones stay pruned.
    project.orchestrate(&["resume"]).code(10);
    assert_eq!(project.started(), 2 + 1 + 8 + 1);
}

#[test]
fn a_program_that_cannot_be_started_stops_the_run() {
    // It is executable, but the system cannot execute it.
    let project = Project::new();
    let program = project.path("worker");
    std::fs::write(&program, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let project = project.and(Matrix::new("t").worker(&program).repeats(5));
    project.orchestrate(&["run", "t.yaml"]).code(10).says("could not be started");
    let kinds: Vec<_> = project.records().iter().map(|record| record.outcome.kind()).collect();
    assert_eq!(kinds, ["failed_to_spawn"; 3]);
}

#[test]
fn a_failed_job_is_tried_again_with_fresh_retries_and_keeps_its_history() {
    let project = Project::with(Matrix::new("t").behave(&["exit3"]).limits("retries: 1"));
    project.orchestrate(&["run", "t.yaml"]).code(10);
    project.orchestrate(&["resume"]).code(10);
    let record = project.record();
    assert_eq!(record.attempt, 4);
    let dir = project.store().job_dir(&orchestrate::job::Job::new(record.key.clone()));
    for attempt in dir.attempts().unwrap() {
        let kept = attempt.load_record().unwrap().unwrap();
        assert_eq!((kept.attempt, kept.outcome.kind()), (attempt.number(), "exited"));
    }
}

#[test]
fn a_second_run_starts_nothing_and_prints_one_line() {
    let project = Project::with(Matrix::new("t").repeats(3));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    for verb in [&["run", "t.yaml"][..], &["resume"], &["resume", "t", "--no-wait"]] {
        let again = project.orchestrate(verb).code(0);
        assert_eq!((again.stdout.as_str(), again.stderr.as_str()), ("t: all 3 jobs are done\n", ""));
    }
    assert_eq!(project.started(), 3);
}

#[test]
fn jobs_for_other_hosts_are_left_alone() {
    let project = Project::with(Matrix::new("t").env("device: cpu, host: elsewhere"));
    let ended = project.orchestrate(&["run", "t.yaml"]).code(0);
    assert!(ended.stdout.starts_with("t: nothing to run: 1 not here (the env `cpu` belongs"), "{ended:?}");
    assert_eq!(project.started(), 0);
}

#[test]
fn a_dry_run_prints_the_commands_and_touches_nothing() {
    let project = Project::with(Matrix::new("t").batches(&[4, 8]));
    let ended = project.orchestrate(&["run", "t.yaml", "--dry-run"]).code(0);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{ended:?}");
    assert_eq!(lines[0], "# cpu_m_fp32_bs4_run1");
    assert!(lines[1].contains("--behave ok --device cpu --precision fp32 --batch 4"), "{ended:?}");
    assert!(!project.path("runs").exists() && !project.path("locks").exists());
    assert_eq!(project.started(), 0);
}

#[test]
fn a_command_of_a_dry_run_works_when_pasted_and_changes_no_result() {
    let project = Project::with(
        Matrix::new("t").behave(&["iterations"]).env("device: cpu, variables: { NOTE: \"a 'b' $c\" }"),
    );
    project.orchestrate(&["run", "t.yaml"]).code(0);
    let dir = project.store().job_dirs().unwrap().remove(0).attempt(1);
    let files = [dir.iterations(), dir.measurement()];
    let bytes = || files.each_ref().map(|path| std::fs::read(path).unwrap());
    let before = bytes();

    // An added variable makes the job stale, so its command is printed although it is done.
    let project = project.and(
        Matrix::new("t")
            .behave(&["iterations"])
            .env("device: cpu, variables: { NOTE: \"a 'b' $c\", NEW: 1 }, secret: [HF_TOKEN]"),
    );
    let printed = project.orchestrate(&["run", "t.yaml", "--rerun-stale", "--dry-run"]).code(0).stdout;
    assert!(!printed.contains(&dir.path().display().to_string()), "{printed}");
    let pasted = |token: Option<&str>| {
        let mut command = project.in_environment(std::process::Command::new("sh"));
        command
            .current_dir("/")
            .args(["-c", &printed])
            .env_remove("HF_TOKEN")
            .env("TMPDIR", project.path(""));
        command.envs(token.map(|token| ("HF_TOKEN", token))).output().unwrap()
    };
    let said = |output: &std::process::Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let refused = pasted(None);
    assert!(
        !refused.status.success() && said(&refused).contains("HF_TOKEN: its value is secret"),
        "{refused:?}"
    );
    assert_eq!(project.started(), 1);
    let ran = pasted(Some("hush"));
    assert!(ran.status.success(), "{ran:?}");
    let text = said(&ran);
    let scratch = text.lines().next().unwrap().strip_prefix("writing to ").unwrap();
    let written = std::path::Path::new(scratch).join("iterations.csv");
    assert!(written.is_file(), "{scratch}");
    assert_eq!((project.started(), bytes() == before), (2, true));
}

#[test]
fn a_missing_worker_or_data_folder_is_reported_before_anything_runs() {
    let project = Project::new();
    let shipped = "name: t\nmodels: [resnet18]\nbatches: [4]\nenvs: { cpu: { device: cpu } }\n";
    std::fs::write(project.path("t.yaml"), shipped).unwrap();
    let mut command = project.command(&["run", "t.yaml"]);
    let output = command.env("ORCHESTRATE_WORKER", "no/worker").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("no/worker") && said.contains("hint: build it with `./bootstrap.sh build`"),
        "{said}"
    );

    let data = "params: { data: { folder: no/images } }\n";
    std::fs::write(project.path("t.yaml"), format!("{shipped}{data}")).unwrap();
    let worker = env!("CARGO_BIN_EXE_fake-worker");
    let output = project.command(&["run", "t.yaml"]).env("ORCHESTRATE_WORKER", worker).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("no/images of cpu_resnet18_fp32_bs4_run1 does not exist"), "{said}");
}
