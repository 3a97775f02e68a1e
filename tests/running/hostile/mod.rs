//! Faults of the machine: full disks, changed clocks, missing programs, odd names, closed streams. No result is lost or
//! wrong, the message names the cause and the next command, and `resume` completes the plan.

mod clock;
mod disk;
mod names;
mod place;
mod programs;
mod signals;
mod streams;

use orchestrate::record::Outcome;

use crate::harness::Project;

/// Checks that each of `jobs` jobs succeeded with the measurement of its worker, that no file was changed, and that no
/// worker is left.
#[track_caller]
fn assert_complete(project: &Project, jobs: usize) {
    let records = project.records();
    assert_eq!(records.len(), jobs);
    for record in &records {
        assert_eq!(record.outcome, Outcome::Succeeded, "{}", record.label);
        let measurement = record.measurement.as_ref().expect("a success is measured");
        assert_eq!(measurement.samples, 2 * u64::from(record.key.batch));
        assert!(record.wall_s() >= 0.0 && record.ended_at >= record.started_at, "{}", record.label);
    }
    project.orchestrate(&["verify"]).code(0);
    project.assert_quiet();
}
