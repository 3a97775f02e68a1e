//! Marked runs in statistics: left out, or included on request.

use super::*;
use crate::analysis::table;
use crate::protocol::IterationClock;

/// Three runs: undisturbed, contended, not synchronised.
fn marked() -> StudyBuilder {
    StudyBuilder::new()
        .run("cpu", "resnet18", 16, 1, 10.0)
        .run_with(key("cpu", "resnet18", 16, 2), 6.0, |record| record.observed.host_busy_s = Some(1e6))
        .run_with(key("cpu", "resnet18", 16, 3), 99.0, |record| {
            record.measurement.as_mut().unwrap().synchronized = false;
        })
}

fn column(table: &table::Table, name: &str) -> Vec<String> {
    let index = table.header().iter().position(|column| column == name).unwrap();
    table.rows.iter().map(|row| row[index].clone()).collect()
}

#[test]
fn marked_runs_are_left_out_or_included_and_both_are_reported() {
    for (study, n, counted, included, says) in [
        (
            marked().build(),
            1,
            ["true", "false", "false"],
            "0",
            "2 of 3 runs of cpu_resnet18_fp32_bs16 left out",
        ),
        (
            marked().include_marked().build(),
            2,
            ["true", "true", "false"],
            "1",
            "1 of 3 runs of cpu_resnet18_fp32_bs16 included despite their marks (--include-marked): contended: ",
        ),
    ] {
        let analysis = analyse(&study);
        assert_eq!(analysis.rows[0].statistics.as_ref().unwrap().n, n);
        assert_eq!(column(&table::metrics(&analysis).table(), "in_statistics"), counted);
        assert_eq!(
            column(&table::metrics(&analysis).table(), "marks"),
            ["none", "contended", "unsynchronised"],
            "marks are listed with and without the switch"
        );
        assert_eq!(column(&table::summary(&analysis).table(), "included_marked"), [included]);
        let said = analysis.findings.iter().any(|finding| finding.text.starts_with(says));
        assert!(said, "{:?}", analysis.findings);
    }
}

/// Marks that leave no run out are reported in one sentence per name.
#[test]
fn marks_of_counted_runs_are_reported_by_name() {
    let mut slow = vec![1.0; 12];
    slow[0] = 2.5;
    let study = StudyBuilder::new()
        .run("cpu", "resnet18", 16, 1, 10.0)
        .seconds(IterationClock::Host, &slow)
        .run("cpu", "resnet18", 16, 2, 10.0)
        .seconds(IterationClock::Host, &[[3.0].as_slice(), &slow[1..]].concat())
        .build();
    let analysis = analyse(&study);
    assert!(analysis.runs.iter().all(|run| run.counts()));
    let texts: Vec<&String> = analysis.findings.iter().map(|finding| &finding.text).collect();
    let says = "2 runs marked slow-first but counted: cpu_resnet18_fp32_bs16_run1, the first measured iteration took \
                2.5 times as long as the median of the others (threshold 2 ×); \
                cpu_resnet18_fp32_bs16_run2, the first measured iteration took 3.0 times";
    assert!(texts.iter().any(|text| text.starts_with(says)), "{texts:?}");
}

/// Submission times are not the times of single iterations.
#[test]
fn only_a_synchronised_clock_raises_marks() {
    let mut slow = vec![1.0; 12];
    slow[0] = 2.5;
    let marks = |clock| {
        let study = StudyBuilder::new().run("cpu", "resnet18", 16, 1, 10.0).seconds(clock, &slow).build();
        names(&study).remove(0)
    };
    assert_eq!(marks(IterationClock::Host), ["slow-first"]);
    assert_eq!(marks(IterationClock::DeviceEvents), ["slow-first"]);
    assert!(marks(IterationClock::Submission).is_empty());
}
