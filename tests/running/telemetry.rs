//! Samples of the sensors during a job, and waiting for a quiet machine.

use std::fs;

use nix::sys::signal::Signal;
use orchestrate::analysis::marks::Thresholds;
use orchestrate::host::probe_host;
use orchestrate::job::Job;
use orchestrate::record::{Record, Sensor, parse_samples};

use crate::harness::{Hog, Matrix, Project, Running, reports_load, wait_for};

/// The samples of the job's first attempt.
fn samples(project: &Project, record: &Record) -> Vec<orchestrate::record::Sample> {
    let dir = project.store().job_dir(&Job::new(record.key.clone())).attempt(1);
    parse_samples(&fs::read_to_string(dir.telemetry()).unwrap())
}

#[test]
fn a_run_records_its_samples_and_their_summary() {
    let project = Project::with(Matrix::new("t"));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    let record = project.record();
    let samples = samples(&project, &record);
    let telemetry = record.observed.telemetry.unwrap();
    // One just before the start, one right after the end, and possibly some between.
    assert!(samples.len() >= 2, "{samples:?}");
    assert_eq!(telemetry.samples as usize, samples.len());
    assert!(!telemetry.of_window, "the fake worker does not say when its window was");
    let started = record.started_at.timestamp_millis() as f64 / 1e3;
    assert!((samples[0].unix_s - started).abs() < 60.0, "{} {started}", samples[0].unix_s);
    assert_eq!(telemetry.gpu, None, "a job on the processor");
    assert_eq!(samples[0].get(Sensor::CpuBusy).is_some(), reports_load());
    if cfg!(target_os = "linux") {
        assert!(telemetry.readings(Sensor::MemoryAvailable).is_some_and(|bytes| bytes.min > 0.0));
    }
    assert_eq!(record.observed.gate, None, "nothing was asked for");
    let shown = project.orchestrate(&["show", "cpu_m_fp32_bs4_run1", "--all"]).code(0);
    assert!(shown.stdout.contains("\ntelemetry of attempt 1\n"), "{shown:?}");
    project.orchestrate(&["aggregate", "t"]).code(0);
    let metrics = fs::read_to_string(project.path("report/t/metrics.csv")).unwrap();
    assert!(metrics.contains(",telemetry_samples,"), "{metrics}");
}

/// The same happens to a worker that gets SIGTSTP.
#[test]
fn a_worker_that_was_stopped_for_a_while_is_marked_suspended() {
    if !std::path::Path::new("/proc/thread-self/children").exists() {
        return;
    }
    let project = Project::new();
    let matrix = Matrix::new("t").flag("--release", &project.release());
    let project = project.and(matrix);
    let running = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    let worker = nix::unistd::Pid::from_raw(project.workers()[0]);
    nix::sys::signal::kill(worker, Signal::SIGSTOP).unwrap();
    let [job] = &project.store().job_dirs().unwrap()[..] else { panic!("one job") };
    let telemetry = job.attempt(1).telemetry();
    let stops = |sample: &orchestrate::record::Sample| sample.get(Sensor::WorkerStopped).unwrap_or_default();
    wait_for("two looks at the stopped worker", || {
        let samples = parse_samples(&fs::read_to_string(&telemetry).unwrap());
        samples.last().is_some_and(|last| stops(last) >= 2.0)
    });
    nix::sys::signal::kill(worker, Signal::SIGCONT).unwrap();
    project.release_workers();
    // On a busy host it can be marked as contended as well.
    running.wait().code(0).says("1 job is done but left out of the statistics (").says("suspended");
    let record = project.record();
    assert!(
        record.observed.since_boot_s.is_some_and(|(start, end)| 0.0 < start && start < end),
        "{record:?}"
    );
    let stopped = record.observed.telemetry.unwrap().growth(Sensor::WorkerStopped);
    assert!(stopped >= Some(2), "{stopped:?}");
    let explained = project.orchestrate(&["explain", "cpu_m_fp32_bs4_run1"]).code(0);
    assert!(explained.stdout.contains("its worker was stopped for about "), "{explained:?}");
}

/// The hog starts during a job, which waits until the sensors were read three more times.
#[test]
fn a_job_disturbed_by_a_hog_is_left_out_and_can_be_repeated() {
    let project = Project::new();
    let matrix = Matrix::new("t").flag("--release", &project.release());
    let project = project.and(matrix);
    let running = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    let hogs: Vec<Hog> = (0..hogs_needed()).map(|_| Hog::start()).collect();
    let [job] = &project.store().job_dirs().unwrap()[..] else { panic!("one job") };
    let telemetry = job.attempt(1).telemetry();
    let looks = || fs::read_to_string(&telemetry).map_or(0, |text| text.lines().count());
    let before = looks();
    wait_for("three more looks at the sensors", || looks() >= before + 3);
    project.release_workers();
    let ended = running.wait().code(0);
    drop(hogs);
    assert!(project.record().observed.telemetry.unwrap().samples >= 4);
    // Within a quota of a larger host, the hogs cannot take enough processors.
    if reports_load() && probe_host().room_beside() < 1.0 {
        ended
            .says("1 job is done but left out of the statistics (contended")
            .says("`orchestrate resume t --rerun-marked`");
        let explained = project.orchestrate(&["explain", "cpu_m_fp32_bs4_run1"]).code(0);
        assert!(
            explained.stdout.contains("state      done, but left out of the statistics"),
            "{explained:?}"
        );
        assert!(explained.stdout.contains("contended: other processes kept "), "{explained:?}");
        let shown = project.orchestrate(&["show", "cpu_m_fp32_bs4_run1"]).code(0);
        assert!(shown.stdout.contains("(left out of the statistics)"), "{shown:?}");
        project.orchestrate(&["run", "t.yaml", "--rerun-marked"]).code(0);
        assert_eq!(project.record().attempt, 2);
    }
}

/// A matrix whose worker runs long enough for a rate of processor seconds.
const SLOW: &str = r#"
name: m
models: [net]
batches: [4]
repeats: 4
worker: { command: [sh, slow.sh, "{out}"], result: json }
envs: { cpu: { device: cpu } }
"#;

const SLOW_WORKER: &str = r#"
sleep 1.2
printf '{"schema":1,"samples":400,"elapsed_s":0.4,"synchronized":true,"effective":{' > "$1"
printf '"device":"cpu","precision":"fp32","batch":4}}' >> "$1"
"#;

#[test]
fn a_busy_host_is_reported_before_the_first_job_and_with_each() {
    let hogs: Vec<Hog> = (0..hogs_needed()).map(|_| Hog::start()).collect();
    let run = |words: &[&str]| {
        let project = Project::new().and_yaml(SLOW);
        fs::write(project.path("slow.sh"), SLOW_WORKER).unwrap();
        project.orchestrate(&[&["run", "m.yaml"], words].concat()).code(0)
    };
    let (ended, quiet) = (run(&[]), run(&["--quiet", "--only", "repeat=1"]));
    drop(hogs);
    assert_eq!(quiet.stderr, "");
    if !reports_load() || probe_host().room_beside() >= 1.0 {
        return;
    }
    let place = |words: &str| ended.stderr.find(words).unwrap_or_else(|| panic!("no `{words}` in {ended:?}"));
    let warning = place("warning: other processes keep ");
    assert!(warning < place("[1/4] start "), "{ended:?}");
    assert_eq!(ended.stderr.matches(" · contended: left out\n").count(), 4, "{ended:?}");
    let hint = place("hint: 3 jobs in a row are left out of the statistics (contended).");
    assert!(place("[3/4] done ") < hint && hint < place("[4/4] start "), "{ended:?}");
    assert_eq!(ended.stderr.matches("jobs in a row").count(), 1, "{ended:?}");
}

/// The number of hogs that exceeds the threshold of this host.
fn hogs_needed() -> usize {
    Thresholds::default().foreign_limit(probe_host().cpu.usable).ceil() as usize + 1
}

#[test]
fn an_adopted_attempt_keeps_its_samples() {
    let project = Project::new();
    let matrix = Matrix::new("t").flag("--release", &project.release());
    let project = project.and(matrix);
    let running = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    running.kill();
    project.release_workers();
    project.orchestrate(&["resume"]).code(0);
    let record = project.record();
    assert!(record.observed.adopted);
    let telemetry = record.observed.telemetry.clone().unwrap();
    assert_eq!(telemetry.samples as usize, samples(&project, &record).len());
    assert_eq!(telemetry.get(Sensor::CpuEnergy), None, "no sample at the end of the window");
}

#[test]
fn a_job_that_waited_for_quiet_in_vain_runs_with_a_warning() {
    let limits = "timeout: 60s, retries: 0, quiet: 0.001, gate_timeout: 1s";
    let project = Project::with(Matrix::new("t").limits(limits));
    let _hog = Hog::start();
    let ended = project.orchestrate(&["run", "t.yaml"]).code(0);
    let gate = project.record().observed.gate.unwrap();
    if reports_load() {
        let why = gate.gave_up.unwrap();
        assert!(why.contains("processors busy (quiet: 0.001)"), "{why}");
        assert!(gate.waited_s >= 1.0, "{}", gate.waited_s);
        ended.says("starts anyway after waiting").says(&why);
    } else {
        assert_eq!(gate.gave_up, None);
        ended.says("`quiet` has no effect");
    }
    project.assert_quiet();
}

#[test]
fn a_wait_for_quiet_ends_at_a_signal() {
    if !reports_load() {
        return;
    }
    let limits = "timeout: 60s, retries: 0, quiet: 0.001, gate_timeout: 1h";
    let project = Project::with(Matrix::new("t").limits(limits));
    let hog = Hog::start();
    let mut running = project.start(&["run", "t.yaml"]);
    running.wait_for_line("waiting to start cpu_m_fp32_bs4_run1");
    running.signal(Signal::SIGINT);
    running.wait().code(11);
    assert_eq!(project.started(), 0);
    drop(hog);
}

/// The work of another job looks like foreign work, so a job does not wait for quiet while another one runs.
#[test]
fn a_job_beside_another_does_not_wait_for_quiet_and_names_it() {
    if !reports_load() {
        return;
    }
    let limits = "timeout: 60s, retries: 0, quiet: 0.001, gate_timeout: 1h";
    let waiting = Matrix::new("waiting").batches(&[8]).env("device: cuda, share: device").limits(limits);
    let project = Project::new();
    let beside =
        Matrix::new("beside").env("device: cpu, share: device").flag("--release", &project.release());
    let project = project.and(waiting).and(beside);
    let start = |arguments: &[&str]| {
        let mut command = project.command(arguments);
        command.env("ORCHESTRATE_DEVICES", "cpu,cuda");
        Running::start(command)
    };
    let _hog = Hog::start();
    let mut waiting = start(&["run", "waiting.yaml"]);
    waiting.wait_for_line("waiting to start cpu_m_fp32_bs8_run1");
    let beside = start(&["run", "beside.yaml", "--store", "other"]);
    waiting.wait().code(0);
    project.release_workers();
    beside.wait().code(0);
    let observed = project.record().observed;
    // Directly after it takes the lock, its name is not in the lock file yet.
    assert_eq!(observed.beside.len(), 1);
    assert!(["cpu_m_fp32_bs4_run1", "unknown"].contains(&observed.beside[0].as_str()), "{observed:?}");
    let gate = observed.gate.unwrap();
    assert!(gate.gave_up.is_none() && gate.waited_s > 0.0, "{gate:?}");
}
