//! Profiled jobs through the real command line, with programs that behave like `ncu` in each of the ways it has.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use orchestrate::job::Kind;
use orchestrate::record::{Counters, NotProfiled, Outcome, Record};

use crate::harness::{Ended, Matrix, Project, Running};

/// A project whose host has a GPU by its own account, and whose `ncu` is a script that behaves as `mode` says.
struct Lab {
    project: Project,
    ncu: PathBuf,
}

impl Lab {
    fn new(mode: &str, matrix: Matrix) -> Lab {
        let project = Project::with(matrix);
        let ncu = project.path("ncu");
        fs::write(&ncu, include_str!("fake_ncu.sh").replace("MODE", mode)).unwrap();
        fs::set_permissions(&ncu, fs::Permissions::from_mode(0o755)).unwrap();
        Lab { project, ncu }
    }

    fn orchestrate(&self, arguments: &[&str]) -> Ended {
        let mut command = self.project.command(arguments);
        command.env("ORCHESTRATE_DEVICES", "cpu,cuda").env("ORCHESTRATE_NCU", &self.ncu);
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
