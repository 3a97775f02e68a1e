//! Tests that records of every schema that has been on the main branch stay readable.
#![expect(clippy::disallowed_methods, reason = "the corpus is files")]

use std::fs;
use std::path::Path;

use super::record::parse_record;
use crate::job::{Job, Key};
use crate::record::{Counters, RECORD_SCHEMA, Record};

/// The record in the corpus file at `path`, and the file's name.
fn read(path: &Path) -> (String, Record) {
    #[derive(serde::Deserialize)]
    struct Keyed {
        key: Key,
    }
    let bytes = fs::read(path).unwrap();
    let Keyed { key } = serde_json::from_slice(&bytes).unwrap();
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let record = parse_record(&bytes, &Job::new(key).dir_name());
    (name, record.unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// The outcome and measurement of a record as one line.
fn line((name, record): &(String, Record)) -> String {
    let measured = record.measurement.as_ref().map_or_else(
        || "nothing measured".to_owned(),
        |measurement| format!("{} samples in {} s", measurement.samples, measurement.elapsed_s),
    );
    let counted = match &record.counters {
        Some(Counters::Ncu(ncu)) => format!(", {} kernels", ncu.kernels),
        Some(Counters::Perf(perf)) => format!(", {} events", perf.events.len()),
        None => String::new(),
    };
    let sealed = if record.evidence.is_some() { ", sealed" } else { "" };
    format!("{name}: {}; {measured}{counted}{sealed}", record.outcome)
}

#[test]
fn records_of_every_schema_stay_readable() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/records");
    for schema in 1..=RECORD_SCHEMA {
        let entries = fs::read_dir(corpus.join(format!("schema_{schema}"))).unwrap();
        let mut records: Vec<(String, Record)> = entries.map(|entry| read(&entry.unwrap().path())).collect();
        records.sort_by(|left, right| left.0.cmp(&right.0));
        assert!(records.iter().all(|(_, record)| record.schema == schema));
        let lines: Vec<String> = records.iter().map(line).collect();
        insta::assert_snapshot!(format!("schema_{schema}"), lines.join("\n"));
    }
}
