//! Wall clocks that are set while jobs run. Durations are measured by other clocks.

use std::time::{Duration, Instant};

use super::assert_complete;
use crate::harness::hostile::Hostile;
use crate::harness::{Matrix, Project, wait_for};

/// The window that the workers report, in seconds. They run for longer.
const WINDOW: &str = "2";
const LONGER: Duration = Duration::from_millis(2100);

/// Sets the clock by `seconds` while the second of three jobs runs. By their wall-clock times, the first and the third
/// might overlap.
fn set_in_the_middle(seconds: i64) {
    let project = Project::new();
    let hostile = Hostile::clock(&project);
    let matrix = Matrix::new("t").repeats(3).flag("--elapsed", WINDOW.as_ref());
    let matrix = matrix.flag("--release", &project.path("release-{repeat}"));
    let project = project.and(hostile.for_workers(matrix));
    let run = hostile.start(&project, &["run", "t.yaml"]);
    for job in 1..=3 {
        project.wait_started(job);
        let start = Instant::now();
        wait_for("the end of the window", || start.elapsed() >= LONGER);
        if job == 2 {
            hostile.set_clock(seconds);
        }
        std::fs::write(project.path(&format!("release-{job}")), "").unwrap();
    }
    run.wait().code(0);
    assert_complete(&project, 3);
    for record in project.records() {
        let (wall, least) = (record.wall_s(), LONGER.as_secs_f64());
        assert!((least..least + 50.0).contains(&wall), "{}: {wall} s after {seconds} s", record.label);
    }
    // Other tests load the machine, so the mark `contended` is possible.
    project.orchestrate(&["aggregate"]).code(0);
    let metrics = std::fs::read_to_string(project.path("report/t/metrics.csv")).unwrap();
    assert!(metrics.lines().count() == 4 && !metrics.contains("ran beside"), "{seconds} s: {metrics}");
    assert_eq!(project.started(), 3);
}

#[test]
fn a_clock_set_back_loses_and_marks_no_result() {
    set_in_the_middle(-4);
}

#[test]
fn a_clock_set_far_back_loses_and_marks_no_result() {
    set_in_the_middle(-86_400);
}

#[test]
fn a_clock_set_forward_loses_no_result_and_ends_no_worker() {
    set_in_the_middle(86_400);
}

/// The adopting process can compute the duration only from the time since boot.
#[test]
fn a_clock_set_while_a_worker_is_orphaned_loses_no_result() {
    for seconds in [-86_400, 86_400] {
        let project = Project::new();
        let hostile = Hostile::clock(&project);
        let matrix =
            Matrix::new("t").flag("--elapsed", WINDOW.as_ref()).flag("--release", &project.release());
        let project = project.and(hostile.for_workers(matrix));
        let run = hostile.start(&project, &["run", "t.yaml"]);
        project.wait_started(1);
        let start = Instant::now();
        run.kill();
        wait_for("the end of the window", || start.elapsed() >= LONGER);
        hostile.set_clock(seconds);
        project.release_workers();
        hostile.start(&project, &["resume"]).wait().code(0);
        assert_complete(&project, 1);
        assert_eq!(project.started(), 1);
    }
}
