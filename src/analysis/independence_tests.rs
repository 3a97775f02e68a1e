//! Rows do not depend on the runs of other configs or on the order in which files are found.

use std::collections::BTreeMap;

use super::fixture::{StudyBuilder, key};
use super::table::{CSV_FILES, summary};
use super::{Analysis, Study, analyse, random_table};
use crate::job::{DataSource, Device, Key, ParamValue};
use crate::random::SplitMix64;
use crate::record::Record;

const TABLES: u64 = 200;

/// The lines of `summary.csv`, each as its cells by column.
fn lines(study: &Study) -> Vec<BTreeMap<String, String>> {
    let table = summary(&analyse(study)).table();
    let line = |cells: &Vec<String>| table.header().iter().cloned().zip(cells.iter().cloned()).collect();
    table.rows.iter().map(line).collect()
}

/// The lines of `before` that `after` lacks.
fn changed(before: &Study, after: &Study) -> usize {
    let after = lines(after);
    lines(before).iter().filter(|line| !after.contains(line)).count()
}

#[test]
fn a_run_of_another_config_does_not_change_a_row() {
    for seed in 0..TABLES {
        let another = |builder: StudyBuilder| builder.run("a", "squeezenet1_0", 4, 1, 3.0);
        let (before, after) = (random_table::builder(seed), another(random_table::builder(seed)));
        assert_eq!(changed(&before.build(), &after.build()), 0, "table {seed}");
    }
}

/// By design: jobs at the same time, a smaller batch that reveals a cliff, an env that is compared with another one,
/// and synthetic tensors beside files.
#[test]
fn runs_of_other_configs_change_a_row_only_in_four_ways() {
    let alone = || StudyBuilder::new().runs("a", "resnet18", 16, &[10.0, 10.1, 9.9]);
    let first = alone().build().cells[0].record().unwrap().started_at;
    let beside = alone().run_with(key("a", "vgg16", 4, 1), 3.0, |record| {
        let took = record.ended_at - record.started_at;
        (record.started_at, record.ended_at) = (first, first + took);
    });
    assert_eq!(changed(&alone().build(), &beside.build()), 1, "at the same time");

    let paging = |record: &mut Record| {
        let wall = record.wall_s();
        let process = record.process.as_mut().unwrap();
        (process.user_s, process.system_s) = (Some(0.3 * wall), Some(0.7 * wall));
        record.observed.host_busy_s = Some(wall);
    };
    let gpu = |batch| Key { device: Device::Cuda(0), ..key("a", "resnet18", batch, 1) };
    let large = || StudyBuilder::new().run_with(gpu(64), 1.0, paging);
    assert_eq!(changed(&large().build(), &large().run_with(gpu(32), 10.0, |_| {}).build()), 1, "a cliff");

    let other_env = alone().run_with(key("b", "resnet18", 16, 1), 10.0, |record| {
        record.measurement.as_mut().unwrap().effective.settings.set("threads", 1);
    });
    assert_eq!(changed(&alone().build(), &other_env.build()), 1, "another env");

    let on = |builder: StudyBuilder, is_on_files: bool, rate: f64| {
        (1..=3).fold(builder, |builder, repeat| {
            let mut key = key("a", "resnet18", 16, repeat);
            if is_on_files {
                key.params.insert("data".into(), ParamValue::Data(DataSource::Folder("images".into())));
            }
            builder.run_with(key, rate, |_| {})
        })
    };
    let files = || on(StudyBuilder::new(), true, 5.0);
    assert_eq!(changed(&files().build(), &on(files(), false, 10.0).build()), 1, "synthetic tensors");
}

/// The complete text of a report.
fn printed(study: &Study) -> String {
    let analysis: Analysis<'_> = analyse(study);
    let tables = CSV_FILES.iter().map(|file| format!("{:?}", (file.rows)(&analysis).table()));
    let findings = analysis.findings.iter().map(|finding| finding.text.clone());
    tables.chain(findings).collect::<Vec<String>>().join("\n")
}

#[test]
fn the_order_of_files_changes_nothing() {
    for seed in 0..TABLES {
        let study = random_table::study(seed);
        let mut shuffled = study.clone();
        let mut random = SplitMix64::of(seed, &[1]);
        shuffled.cells.sort_by_cached_key(|_| random.draw());
        shuffled.spans.sort_by_cached_key(|_| random.draw());
        assert_eq!(printed(&study), printed(&shuffled), "table {seed}");
    }
}
