//! Profiled jobs, driven through the command line, with scripts that behave like `ncu` and `perf`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use nix::sys::signal::Signal;
use orchestrate::job::Kind;
use orchestrate::record::{Counters, Outcome, Record};

use crate::harness::{Ended, Hog, Matrix, Project, Running, is_alive, reports_load, wait_for, write_program};

/// A project whose host claims to have a GPU, and whose `ncu` and `perf` are scripts that behave as `mode` says.
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
            write_program(&path, &text.replace("MODE", mode));
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
fn ncu_counts_the_work_of_the_timing_job() {
    let lab = Lab::new("ok", gpu("t").repeats(2));
    let ended = lab.orchestrate(&["run", "t.yaml"]).code(0);
    ended.says("ncu 2025.3.1");
    let record = lab.record(Kind::Ncu);
    assert_eq!((record.outcome.clone(), record.label.as_str()), (Outcome::Succeeded, "cpu_m_fp32_bs4_ncu"));
    let Some(Counters::Ncu(counters)) = &record.counters else { panic!("{record:?}") };
    // From fake_ncu.sh: 100 fused multiply-adds, 10 additions, 1 multiplication; 4096 and 1024 bytes; 1000 and 3000 ns.
    assert_eq!(counters.totals().flops, Some(211));
    assert_eq!(counters.totals().dram_bytes, Some(5120));
    assert_eq!(counters.zero_flop_share(), Some(0.75));
    // The timing jobs come first.
    let executions = lab.project.executions();
    assert_eq!(executions.last().map(String::as_str), Some("ended cpu_m_fp32_bs4_ncu"));
    lab.orchestrate(&["run", "t.yaml"]).code(0);
    assert_eq!(lab.project.started(), 3, "a profiled job runs only once, too");
}

#[test]
fn counters_are_shown_and_aggregated() {
    let lab = Lab::new("ok", gpu("t"));
    lab.orchestrate(&["run", "t.yaml"]).code(0);
    let shown = lab.orchestrate(&["show", "cpu_m_fp32_bs4_ncu", "--all"]).code(0).stdout;
    assert!(shown.contains("dram_bytes") && shown.contains("5.0 KiB"), "{shown}");
    // On a busy host, such a short job is contended and would be left out.
    lab.orchestrate(&["aggregate", "t", "--include-marked"]).code(0);
    let table = |name: &str| fs::read_to_string(lab.project.path("report/t").join(name)).unwrap();
    assert!(table("counters.csv").contains(",ncu,executed,211,FLOP,"), "{}", table("counters.csv"));
    let kernels = table("kernels.csv");
    assert_eq!(kernels.lines().count(), 3, "{kernels}");
    assert!(kernels.contains("\"void copy_kernel(\"\"x\"\", float *)\""), "{kernels}");
    let metrics = table("metrics.csv");
    assert_eq!(metrics.lines().filter(|line| line.contains(",ncu,")).count(), 1, "{metrics}");
    assert_eq!(table("summary.csv").lines().count(), 2, "a profiled job has no separate row");
}

#[test]
fn missing_hardware_counters_are_reported_once_and_the_rest_is_counted() {
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
fn a_perf_without_permission_is_refused_with_its_remedy() {
    let lab = Lab::new("no_permission", Matrix::new("t").env("device: cpu, profile: { perf: {} }"));
    lab.orchestrate(&["run", "t.yaml"]).code(10).says("kernel.perf_event_paranoid=2");
    assert_eq!(lab.record(Kind::Timing).outcome, Outcome::Succeeded);
    assert_eq!(lab.project.started(), 1, "the worker does not run without a profiler");
}

/// A project whose timing job is done, and a matrix `strict` that adds profiled jobs with these limits.
fn strict(mode: &str, env: &'static str, limits: &'static str) -> Lab {
    let plain = if env.starts_with("device: cuda") { "device: cuda" } else { "device: cpu" };
    let lab = Lab::new(mode, Matrix::new("plain").env(plain));
    lab.orchestrate(&["run", "plain.yaml"]).code(0);
    lab.and(Matrix::new("strict").env(env).limits(limits))
}

#[test]
fn a_refused_job_does_not_wait_for_a_quiet_machine() {
    let limits = "timeout: 60s, retries: 0, quiet: 0.001, gate_timeout: 1h";
    let lab = strict("no_permission", "device: cpu, profile: { perf: {} }", limits);
    let _hog = Hog::start();
    lab.orchestrate(&["run", "strict.yaml"]).code(10).says("kernel.perf_event_paranoid=2");
    assert_eq!(lab.project.started(), 1);
    assert_eq!(lab.record(Kind::Perf).observed.gate, None);
}

#[test]
fn a_refused_job_does_not_cool_down() {
    let limits = "timeout: 60s, retries: 0, cool_down: 1h";
    let matrix = Matrix::new("t").limits(limits).env("device: cpu, profile: { perf: {} }");
    let lab = Lab::new("no_permission", matrix);
    lab.orchestrate(&["run", "t.yaml"]).code(10);
    assert_eq!(lab.project.started(), 1);
}

#[test]
fn no_cool_down_follows_a_refused_job() {
    let limits = "timeout: 60s, retries: 0, cool_down: 1h";
    let lab = strict("ok", "device: cuda, profile: { ncu: {}, perf: {} }", limits);
    fs::remove_file(&lab.ncu).unwrap();
    lab.orchestrate(&["run", "strict.yaml"]).code(10);
    let (refused, counted) = (lab.record(Kind::Ncu), lab.record(Kind::Perf));
    assert!(refused.started_at < counted.started_at, "otherwise this test is meaningless");
    assert_eq!((refused.outcome.kind(), counted.outcome), ("not_profiled", Outcome::Succeeded));
}

#[test]
fn a_profiler_is_checked_before_the_wait_for_a_quiet_machine() {
    if !reports_load() {
        return;
    }
    let limits = "timeout: 60s, retries: 0, quiet: 0.001, gate_timeout: 1s";
    let lab = strict("ok", "device: cpu, profile: { perf: {} }", limits);
    let _hog = Hog::start();
    let ended = lab.orchestrate(&["run", "strict.yaml"]).code(0);
    let place = |text: &str| ended.stderr.find(text).unwrap_or_else(|| panic!("no `{text}` in {ended:?}"));
    assert!(place("perf does not count cycles") < place("starts anyway after waiting"), "{ended:?}");
}

/// The real perf prints only the end of a long list of events, starting near the unknown one.
#[test]
fn only_the_event_that_perf_does_not_know_is_named() {
    let events = "device: cpu, profile: { perf: { events: [task-clock, nosuch, page-faults] } }";
    let lab = Lab::new("normal", Matrix::new("t").env(events));
    lab.orchestrate(&["run", "t.yaml"])
        .code(10)
        .says("perf does not know the event `nosuch`")
        .says("perf list");
    assert_eq!(lab.record(Kind::Timing).outcome, Outcome::Succeeded);
}

/// The expected failure for each mode of `ncu`: a cause, a part of the message, and a part of the remedy.
const FAILURES: &[(&str, &str, &str, &str)] = &[
    ("no_permission", "no_permission", "ERR_NVGPUCTRPERM", "NVreg_RestrictProfilingToAdminUsers=0"),
    ("unknown_metric", "unknown_metric", "dram__bytes", "--query-metrics"),
    ("no_kernels", "no_kernels", "no kernels", "NVTX range `orchestrate`"),
    ("library_not_loaded", "library_not_loaded", "LibraryNotLoaded", "gVisor"),
    ("cut", "torn_table", "cut off", "disk"),
    ("broken", "library_not_loaded", "LibraryNotLoaded", "gVisor"),
];

#[test]
fn a_killed_ncu_is_reported_by_its_signal() {
    let lab = Lab::new("killed", gpu("t"));
    lab.orchestrate(&["run", "t.yaml"]).code(10);
    assert_eq!(lab.record(Kind::Timing).outcome, Outcome::Succeeded);
    assert_eq!(lab.record(Kind::Ncu).outcome, Outcome::Signalled { signal: 9 });
}

#[test]
fn failures_of_ncu_are_explained_and_timing_jobs_keep_their_results() {
    for (mode, cause, message, remedy) in FAILURES {
        let lab = Lab::new(mode, gpu("t"));
        let ended = lab.orchestrate(&["run", "t.yaml"]).code(10);
        assert_eq!(lab.record(Kind::Timing).outcome, Outcome::Succeeded, "{mode}");
        let record = lab.record(Kind::Ncu);
        assert!(record.counters.is_none(), "{mode}");
        let Outcome::NotProfiled(why) = &record.outcome else { panic!("{mode}: {:?}", record.outcome) };
        assert_eq!(why.cause, *cause, "{mode}");
        assert!(why.message.contains(message), "{mode}: {why}");
        assert!(why.remedy.contains(remedy), "{mode}: {why}");
        assert!(ended.stderr.contains(&why.remedy), "{mode}: {ended:?}");
    }
}

#[test]
fn a_missing_ncu_is_reported_and_timing_jobs_keep_their_results() {
    let lab = Lab::new("ok", gpu("t"));
    fs::remove_file(&lab.ncu).unwrap();
    lab.orchestrate(&["run", "t.yaml"]).code(10).says("ORCHESTRATE_NCU");
    assert_eq!(lab.record(Kind::Timing).outcome, Outcome::Succeeded);
    assert!(matches!(&lab.record(Kind::Ncu).outcome, Outcome::NotProfiled(why) if why.cause == "not_found"));
    assert_eq!(lab.project.started(), 1, "the worker does not run without a profiler");
}

#[test]
fn the_program_in_orchestrate_perf_is_not_replaced_by_another() {
    let lab = Lab::new("ok", Matrix::new("t").env("device: cpu, profile: { perf: {} }"));
    fs::set_permissions(&lab.perf, fs::Permissions::from_mode(0o644)).unwrap();
    let remedy = "set ORCHESTRATE_PERF to the program's path, or unset it to search PATH";
    lab.orchestrate(&["run", "t.yaml"]).code(10).says(remedy);
    let Outcome::NotProfiled(why) = lab.record(Kind::Perf).outcome else { panic!("it was profiled") };
    let named = format!("ORCHESTRATE_PERF names {}, which is not executable", lab.perf.display());
    assert_eq!((why.cause.as_str(), why.message), ("not_found", named));
}

#[test]
fn a_stop_ends_the_check_of_a_profiler() {
    let lab = Lab::new("silent", Matrix::new("t").env("device: cpu, profile: { perf: {} }"));
    let mut command = lab.project.command(&["run", "t.yaml"]);
    let pids = lab.project.path("pids");
    command.env("ORCHESTRATE_PERF", &lab.perf).env("PIDS", &pids);
    let running = Running::start(command);
    let asked = || -> Vec<i32> {
        let text = fs::read_to_string(&pids).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    wait_for("the start of the profiler", || asked().len() == 2);
    running.signal(Signal::SIGINT);
    running.wait().code(11);
    for pid in asked() {
        wait_for("the end of a profiler process", || !is_alive(pid));
    }
}

#[test]
fn a_worker_that_fails_under_ncu_is_reported_with_the_error_of_the_worker() {
    let lab = Lab::new("ok", gpu("t").behave(&["exit3"]));
    lab.orchestrate(&["run", "t.yaml"]).code(10);
    let outcome = lab.record(Kind::Ncu).outcome;
    assert!(outcome.to_string().contains("RuntimeError: it went wrong"), "{outcome}");
}

#[test]
fn a_metric_of_nvprof_is_refused_with_its_current_name() {
    let matrix = Matrix::new("t").env("device: cuda, profile: { ncu: { metrics: [flop_count_sp] } }");
    let lab = Lab::new("ok", matrix);
    lab.orchestrate(&["check", "t.yaml"]).code(3).says("sm__sass_thread_inst_executed_op_ffma_pred_on.sum");
}

#[test]
fn a_profiler_can_be_requested_on_the_command_line() {
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
