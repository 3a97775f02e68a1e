//! `recompute` on a store that `orchestrate` filled, with fake workers and a fake profiler. It also checks an
//! assumption of the golden store: the summaries of attempt files in records.

use super::{number, recompute};
use crate::harness::{Matrix, Project, Running, write_program};

#[test]
fn recomputes_a_report_of_real_runs() {
    let behaviours = ["scattered", "ok", "iterations", "exit3-second", "unsynchronised", "segfault"];
    let matrix = Matrix::new("m").behave(&behaviours).batches(&[4, 8]).repeats(3);
    let project = Project::with(matrix.env("device: cuda, usd_per_hour: 1.3, profile: { ncu: {} }"));
    std::fs::create_dir(project.path("peaks")).unwrap();
    let ncu = project.path("ncu");
    write_program(&ncu, &include_str!("../profiling/fake_ncu.sh").replace("MODE", "ok"));
    let orchestrate = |arguments: &[&str]| {
        let mut command = project.command(arguments);
        command.env("ORCHESTRATE_DEVICES", "cpu,cuda").env("ORCHESTRATE_NCU", &ncu);
        Running::start(command).wait()
    };
    orchestrate(&["run", "m.yaml", "-q"]).code(10);
    orchestrate(&["report", "-q"]).code(0);
    let printed = recompute(&project, "m", "report/m").code(0).stdout;
    assert!(number(&printed, "cells") > 10_000 && number(&printed, "texts") > 30, "{printed}");
}
