//! `metrics.csv` joins with `summary.csv` on the columns that the manual names, without duplicate lines.

use std::collections::BTreeMap;

use super::column::Table;
use super::fixture::{StudyBuilder, key};
use super::table::{metrics, summary};
use super::{Study, analyse, random_table};
use crate::job::ParamValue;
use crate::record::{Outcome, Record};

/// The columns that the manual joins on.
const ON: [&str; 7] = ["env", "device", "model", "precision", "batch", "params", "part"];

/// For each line of `metrics.csv`: whether it is a timing job with a result, and the number of its partners in
/// `summary.csv`.
fn partners(study: &Study) -> Vec<(bool, usize)> {
    let analysis = analyse(study);
    let (runs, rows) = (metrics(&analysis).table(), summary(&analysis).table());
    let keys = |table: &Table| -> Vec<Vec<String>> {
        let place =
            |name: &&str| table.header().iter().position(|column| column == name).expect("a column of both");
        let places: Vec<usize> = ON.iter().map(place).collect();
        table.rows.iter().map(|row| places.iter().map(|place| row[*place].clone()).collect()).collect()
    };
    let mut met: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    keys(&rows).into_iter().for_each(|key| *met.entry(key).or_default() += 1);
    let place =
        |name: &str| runs.header().iter().position(|column| column == name).expect("a column of metrics.csv");
    let (status, kind) = (place("status"), place("kind"));
    let found = |(key, row): (Vec<String>, &Vec<String>)| {
        let is_timed = row[status] == "succeeded" && row[kind] == "timing";
        (is_timed, met.get(&key).copied().unwrap_or_default())
    };
    keys(&runs).into_iter().zip(&runs.rows).map(found).collect()
}

#[test]
fn a_run_joins_its_row_of_a_split_config() {
    let elsewhere = |record: &mut Record| record.provenance.host.hostname = "elsewhere".into();
    let compiled = |repeat: u32, is_on: bool| {
        let mut key = key("cpu", "resnet18", 16, repeat);
        key.params.insert("channels_last".into(), ParamValue::Bool(is_on));
        key
    };
    let study = StudyBuilder::new()
        .run_with(compiled(1, true), 10.0, |_| {})
        .run_with(compiled(2, true), 20.0, elsewhere)
        .run_with(compiled(3, true), 20.0, elsewhere)
        .run_with(compiled(1, false), 10.0, |_| {})
        .run_with(compiled(2, false), 20.0, elsewhere)
        .run("cpu", "vgg16", 16, 1, 3.0)
        .failure(key("cpu", "vgg16", 16, 2), Outcome::Signalled { signal: 9 })
        .not_run(key("cpu", "vgg16", 16, 3), "it waits")
        .build();
    let met = partners(&study);
    assert_eq!(met.len(), 8);
    let expected: Vec<(bool, usize)> = [(true, 1); 6].into_iter().chain([(false, 0); 2]).collect();
    assert_eq!(met, expected);
}

/// Its FLOPs per sample are those of its network, and there is only one row that it can belong to.
#[test]
fn a_profiled_job_joins_the_row_of_its_config() {
    let config = key("cpu", "resnet18", 16, 1);
    let study =
        StudyBuilder::new().runs("cpu", "resnet18", 16, &[10.0, 11.0]).kernels(&config, Vec::new(), 1.0);
    let study = study.build();
    assert!(partners(&study).into_iter().all(|(_, rows)| rows == 1));
    let runs = metrics(&analyse(&study)).table();
    let column = |name: &str| {
        let place = runs.header().iter().position(|column| column == name).expect("a column of metrics.csv");
        runs.rows.iter().map(|row| row[place].as_str()).collect::<Vec<_>>()
    };
    assert_eq!(column("part"), ["1 of 1"; 3]);
    let flops = column("training_gflop_per_sample");
    assert!(flops.iter().all(|one| *one != "NA" && *one == flops[0]), "{flops:?}");
}

/// Whether each env has one device, as those of a matrix have. Random tables are not that strict.
fn is_of_a_matrix(study: &Study) -> bool {
    let keys = || study.cells.iter().map(|cell| cell.job.key());
    keys().all(|one| keys().all(|other| one.env != other.env || one.device == other.device))
}

#[test]
fn joins_have_no_duplicate_lines() {
    let studies: Vec<(u64, Study)> = (0..100).map(|seed| (seed, random_table::study(seed))).collect();
    let possible = || studies.iter().filter(|(_, study)| is_of_a_matrix(study));
    assert!(possible().count() > 20, "too few tables");
    for (seed, study) in possible() {
        for (is_timed, rows) in partners(study) {
            assert!(rows <= 1 && (rows == 1 || !is_timed), "seed {seed}: {rows}");
        }
    }
}

#[test]
fn the_manual_joins_on_these_columns() {
    let manual = include_str!("../../docs/reading-the-report.md");
    let names = ON.map(|name| format!("\"{name}\"")).join(", ");
    assert!(manual.contains(&format!("on = [{names}]")), "{names}");
}
