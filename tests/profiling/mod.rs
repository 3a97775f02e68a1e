//! Profiled jobs through the real command line, with programs that behave like `ncu` in each of the ways it has.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use nix::sys::signal::Signal;
use orchestrate::job::Kind;
use orchestrate::record::{Counters, NotProfiled, Outcome, Record};

use crate::harness::{Ended, Hog, Matrix, Project, Running, is_alive, tells_load, wait_for};

/// A project whose host has a GPU by its own account, and whose `ncu` is a script that behaves as `mode` says.
struct Lab {
    project: Project,
    ncu: PathBuf,
    perf: PathBuf,
}

impl Lab {
    fn new(mode: &str, matrix: Matrix) -> Lab {
        let project = Project::with(matrix);
        let program = |name: &str, text: &str| {
            let path = project.path(name);
            fs::write(&path, text.replace("MODE", mode)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let ncu = program("ncu", include_str!("fake_ncu.sh"));
        let perf = program("perf", include_str!("fake_perf.sh"));
        Lab { project, ncu, perf }
    }

    fn and(self, matrix: Matrix) -> Lab {
        Lab { project: self.project.and(matrix), ..self }
    }

    fn orchestrate(&self, arguments: &[&str]) -> Ended {
        let mut command = self.project.command(arguments);
        command
            .env("ORCHESTRATE_DEVICES", "cpu,cuda")
            .env("ORCHESTRATE_NCU", &self.ncu)
            .env("ORCHESTRATE_PERF", &self.perf);
        Running::start(command).wait()
    }

    fn record(&self, kind: Kind) -> Record {
        let mut records = self.project.records();
        records.retain(|record| record.key.kind == kind);
        assert_eq!(records.len(), 1, "{kind}");
        records.remove(0)
    }
}

fn gpu(name: &'static str) -> Matrix {
    Matrix::new(name).env("device: cuda, profile: { ncu: {} }")
}

#[test]
fn ncu_counts_what_the_timing_job_does() {
    let lab = Lab::new("ok", gpu("t").repeats(2));
    let ended = lab.orchestrate(&["run", "t.yaml"]).code(0);
    ended.says("ncu 2025.3.1");
    let record = lab.record(Kind::Ncu);
    assert_eq!((record.outcome.clone(), record.label.as_str()), (Outcome::Succeeded, "cpu_m_fp32_bs4_ncu"));
    let Some(Counters::Ncu(counters)) = &record.counters else { panic!("{record:?}") };
    // By hand: 100 fused, 10 additions, 1 multiplication; 4096 and 1024 bytes; 1000 and 3000 ns.
    assert_eq!(counters.totals().flops, Some(211));
    assert_eq!(counters.totals().dram_bytes, Some(5120));
    assert_eq!(counters.zero_flop_share(), Some(0.75));
    // The timing jobs came first, and nothing of the profiler is in their statistics.
    let executions = lab.project.executions();
    assert_eq!(executions.last().map(String::as_str), Some("ended cpu_m_fp32_bs4_ncu"));
    lab.orchestrate(&["run", "t.yaml"]).code(0);
    assert_eq!(lab.project.started(), 3, "a profiled job is done once, too");
}

#[test]
fn what_was_counted_is_shown_and_tabled() {
    let lab = Lab::new("ok", gpu("t"));
    lab.orchestrate(&["run", "t.yaml"]).code(0);
    let shown = lab.orchestrate(&["show", "cpu_m_fp32_bs4_ncu"]).code(0).stdout;
    assert!(shown.contains("dram_bytes") && shown.contains("5120"), "{shown}");
    // On a busy host a job of milliseconds is contended, and what it counted left out.
    lab.orchestrate(&["aggregate", "t", "--include-marked"]).code(0);
    let table = |name: &str| fs::read_to_string(lab.project.path("report/t").join(name)).unwrap();
    assert!(table("counters.csv").contains(",ncu,executed,211,FLOP,"), "{}", table("counters.csv"));
    let kernels = table("kernels.csv");
    assert_eq!(kernels.lines().count(), 3, "{kernels}");
    assert!(kernels.contains("\"void copy_kernel(\"\"x\"\", float *)\""), "{kernels}");
    let metrics = table("metrics.csv");
    assert_eq!(metrics.lines().filter(|line| line.contains(",ncu,")).count(), 1, "{metrics}");
    assert_eq!(table("summary.csv").lines().count(), 2, "a profiled job is no row of its own");
}

#[test]
fn perf_without_hardware_counters_says_so_once_and_counts_the_rest() {
    let lab = Lab::new("ok", Matrix::new("t").batches(&[4, 8]).env("device: cpu, profile: { perf: {} }"));
    let ended = lab.orchestrate(&["run", "t.yaml"]).code(0);
    assert_eq!(ended.stderr.matches("perf does not count cycles, instructions").count(), 1, "{ended:?}");
    let records = lab.project.records();
    let counted: Vec<_> = records.iter().filter_map(|record| record.counters.as_ref()).collect();
    assert_eq!(counted.len(), 2);
    for counters in counted {
        let Counters::Perf(perf) = counters else { panic!("{counters:?}") };
        assert_eq!((perf.total("page-faults"), perf.total("cycles"), perf.ipc()), (Some(321.0), None, None));
    }
}

#[test]
fn a_perf_that_may_not_count_is_refused_with_its_remedy() {
    let lab = Lab::new("no_permission", Matrix::new("t").env("device: cpu, profile: { perf: {} }"));
    lab.orchestrate(&["run", "t.yaml"]).code(10).says("kernel.perf_event_paranoid=2");
    assert_eq!(lab.record(Kind::Timing).outcome, Outcome::Succeeded);
    assert_eq!(lab.project.started(), 1, "the worker is not run for nothing");
}

/// A project whose timing job is done, and a matrix `strict` that adds profiled jobs to it under these limits.
fn strict(mode: &str, env: &'static str, limits: &'static str) -> Lab {
    let plain = if env.starts_with("device: cuda") { "device: cuda" } else { "device: cpu" };
    let lab = Lab::new(mode, Matrix::new("plain").env(plain));
    lab.orchestrate(&["run", "plain.yaml"]).code(0);
    lab.and(Matrix::new("strict").env(env).limits(limits))
}

#[test]
fn a_refused_job_waits_for_no_quiet_machine() {
    let limits = "timeout: 60s, retries: 0, quiet: 0.001, gate_timeout: 1h";
    let lab = strict("no_permission", "device: cpu, profile: { perf: {} }", limits);
    let _hog = Hog::start();
    lab.orchestrate(&["run", "strict.yaml"]).code(10).says("kernel.perf_event_paranoid=2");
    assert_eq!(lab.project.started(), 1);
    assert_eq!(lab.record(Kind::Perf).observed.gate, None);
}

#[test]
fn a_refused_job_waits_for_no_cool_down() {
    let limits = "timeout: 60s, retries: 0, cool_down: 1h";
    let matrix = Matrix::new("t").limits(limits).env("device: cpu, profile: { perf: {} }");
    let lab = Lab::new("no_permission", matrix);
    lab.orchestrate(&["run", "t.yaml"]).code(10);
    assert_eq!(lab.project.started(), 1);
}

#[test]
fn a_refused_job_leaves_nothing_to_cool_down_from() {
    let limits = "timeout: 60s, retries: 0, cool_down: 1h";
    let lab = strict("ok", "device: cuda, profile: { ncu: {}, perf: {} }", limits);
    fs::remove_file(&lab.ncu).unwrap();
    lab.orchestrate(&["run", "strict.yaml"]).code(10);
    let (refused, counted) = (lab.record(Kind::Ncu), lab.record(Kind::Perf));
    assert!(refused.started_at < counted.started_at, "otherwise this shows nothing");
    assert_eq!((refused.outcome.kind(), counted.outcome), ("not_profiled", Outcome::Succeeded));
}

#[test]
fn a_profiler_is_asked_before_the_machine_is_judged() {
    if !tells_load() {
        return;
    }
    let limits = "timeout: 60s, retries: 0, quiet: 0.001, gate_timeout: 1s";
    let lab = strict("ok", "device: cpu, profile: { perf: {} }", limits);
    let _hog = Hog::start();
    let ended = lab.orchestrate(&["run", "strict.yaml"]).code(0);
    let place = |text: &str| ended.stderr.find(text).unwrap_or_else(|| panic!("no `{text}` in {ended:?}"));
    assert!(place("perf does not count cycles") < place("starts all the same after a wait"), "{ended:?}");
}

/// Real perf prints of such a list only where it stopped reading, and all that follows.
#[test]
fn an_event_that_perf_does_not_know_is_named_and_no_other() {
    let events = "device: cpu, profile: { perf: { events: [task-clock, nosuch, page-faults] } }";
    let lab = Lab::new("normal", Matrix::new("t").env(events));
    lab.orchestrate(&["run", "t.yaml"])
        .code(10)
        .says("perf does not know the event `nosuch`")
        .says("perf list");
    assert_eq!(lab.record(Kind::Timing).outcome, Outcome::Succeeded);
}

/// What each failure must come to: the word for it, a part of its sentence, and a part of its remedy.
const FAILURES: &[(&str, &str, &str, &str)] = &[
    ("no_permission", "no_permission", "ERR_NVGPUCTRPERM", "NVreg_RestrictProfilingToAdminUsers=0"),
    ("unknown_metric", "unknown_metric", "dram__bytes", "--query-metrics"),
    ("no_kernels", "no_kernels", "no kernel", "NVTX range `orchestrate`"),
    ("library_not_loaded", "library_not_loaded", "LibraryNotLoaded", "gVisor"),
    ("cut", "torn_table", "breaks off", "disk"),
    ("broken", "library_not_loaded", "LibraryNotLoaded", "gVisor"),
];

#[test]
fn an_ncu_that_is_killed_is_told_by_the_signal() {
    let lab = Lab::new("killed", gpu("t"));
    lab.orchestrate(&["run", "t.yaml"]).code(10);
    assert_eq!(lab.record(Kind::Timing).outcome, Outcome::Succeeded);
    assert_eq!(lab.record(Kind::Ncu).outcome, Outcome::Signalled { signal: 9 });
}

#[test]
fn every_failure_of_ncu_has_its_remedy_and_the_timing_jobs_their_results() {
    for (mode, cause, message, remedy) in FAILURES {
        let lab = Lab::new(mode, gpu("t"));
        let ended = lab.orchestrate(&["run", "t.yaml"]).code(10);
        assert_eq!(lab.record(Kind::Timing).outcome, Outcome::Succeeded, "{mode}");
        let record = lab.record(Kind::Ncu);
        assert!(record.counters.is_none(), "{mode}");
        let Outcome::NotProfiled(NotProfiled { cause: found, message: said, remedy: told }) = &record.outcome
        else {
            panic!("{mode}: {:?}", record.outcome)
        };
        assert_eq!(found, cause, "{mode}");
        assert!(said.contains(message), "{mode}: {said}");
        assert!(told.contains(remedy), "{mode}: {told}");
        assert!(ended.stderr.contains(told.as_str()), "{mode}: {ended:?}");
    }
}

#[test]
fn a_missing_ncu_is_said_and_costs_no_result() {
    let lab = Lab::new("ok", gpu("t"));
    fs::remove_file(&lab.ncu).unwrap();
    lab.orchestrate(&["run", "t.yaml"]).code(10).says("ORCHESTRATE_NCU");
    assert_eq!(lab.record(Kind::Timing).outcome, Outcome::Succeeded);
    assert!(matches!(&lab.record(Kind::Ncu).outcome, Outcome::NotProfiled(why) if why.cause == "not_found"));
    assert_eq!(lab.project.started(), 1, "the worker is not run for nothing");
}

#[test]
fn a_program_that_the_variable_names_is_not_replaced_by_another() {
    let lab = Lab::new("ok", Matrix::new("t").env("device: cpu, profile: { perf: {} }"));
    fs::set_permissions(&lab.perf, fs::Permissions::from_mode(0o644)).unwrap();
    let remedy = "let ORCHESTRATE_PERF name the program, or unset it to have it looked for";
    lab.orchestrate(&["run", "t.yaml"]).code(10).says(remedy);
    let Outcome::NotProfiled(why) = lab.record(Kind::Perf).outcome else { panic!("it was profiled") };
    let named = format!("ORCHESTRATE_PERF names {}, which may not be executed", lab.perf.display());
    assert_eq!((why.cause.as_str(), why.message), ("not_found", named));
}

#[test]
fn a_stop_takes_along_what_a_profiler_was_asked() {
    let lab = Lab::new("silent", Matrix::new("t").env("device: cpu, profile: { perf: {} }"));
    let mut command = lab.project.command(&["run", "t.yaml"]);
    let pids = lab.project.path("pids");
    command.env("ORCHESTRATE_PERF", &lab.perf).env("PIDS", &pids);
    let running = Running::start(command);
    let asked = || -> Vec<i32> {
        let text = fs::read_to_string(&pids).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    wait_for("a profiler that was asked", || asked().len() == 2);
    running.signal(Signal::SIGINT);
    running.wait().code(11);
    for pid in asked() {
        wait_for("the end of a process of the profiler", || !is_alive(pid));
    }
}

#[test]
fn a_worker_that_fails_under_ncu_is_told_by_its_own_words() {
    let lab = Lab::new("ok", gpu("t").behave(&["exit3"]));
    lab.orchestrate(&["run", "t.yaml"]).code(10);
    let outcome = lab.record(Kind::Ncu).outcome;
    assert!(outcome.to_string().contains("RuntimeError: it went wrong"), "{outcome}");
}

#[test]
fn a_metric_of_nvprof_is_refused_with_its_name_of_today() {
    let matrix = Matrix::new("t").env("device: cuda, profile: { ncu: { metrics: [flop_count_sp] } }");
    let lab = Lab::new("ok", matrix);
    lab.orchestrate(&["check", "t.yaml"]).code(3).says("sm__sass_thread_inst_executed_op_ffma_pred_on.sum");
}

#[test]
fn a_profiler_is_asked_for_on_the_command_line() {
    let lab = Lab::new("ok", Matrix::new("t").env("device: cuda"));
    lab.orchestrate(&["run", "t.yaml"]).code(0);
    assert_eq!(lab.project.started(), 1);
    lab.orchestrate(&["run", "t.yaml", "--profile", "ncu"]).code(0);
    assert_eq!(lab.record(Kind::Ncu).outcome, Outcome::Succeeded);
    let processor = Project::with(Matrix::new("t"));
    processor
        .orchestrate(&["run", "t.yaml", "--profile", "ncu"])
        .code(2)
        .says("no env has the device `cuda`");
}
