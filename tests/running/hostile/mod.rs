//! A hostile world. Whatever the machine does, nothing is lost, nothing is believed that should not be, a message names
//! the thing and how to go on, and `resume` finishes.

mod clock;
mod disk;
mod names;
mod place;
mod programs;
mod signals;
mod streams;

use orchestrate::record::Outcome;

use crate::harness::Project;

/// Checks that each of `jobs` jobs has a success that measured what its worker measures, that every file is as it was
/// written, and that no worker is left.
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
