//! The same second program over a store that `orchestrate` filled itself, with fake workers and a fake profiler. What
//! the golden store takes for granted is recomputed here: what records keep of the files of their attempts.

use super::{number, recompute};
use crate::harness::{Matrix, Project, Running, write_program};

#[test]
fn a_report_of_real_runs_is_recomputed_too() {
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
    let said = recompute(&project, "m", "report/m").code(0).stdout;
    assert!(number(&said, "cells") > 10_000 && number(&said, "texts") > 30, "{said}");
}
