//! Damaged records and peaks, through the whole analysis: no number in a file may make a table panic or hang.

use std::sync::Arc;

use super::fixture::study_with_peaks;
use super::peaks::{parse, parse_measured};
use super::table::CSV_FILES;
use super::{Cell, Span, analyse};
use crate::fuzz::{Form, Target, files, fuzz};
use crate::record::Record;
use crate::text::with_causes;

#[test]
fn fuzz_analysis() {
    let study = study_with_peaks();
    let records = study.cells.iter().filter_map(Cell::record);
    let seeds: Vec<Vec<u8>> =
        records.map(|record| serde_json::to_vec(record).expect("a record is JSON")).collect();
    let target =
        Target { name: "analysis", form: Form::Tree, seeds, words: &["succeeded", "cpu", "fp32", "cuda:0"] };
    fuzz(target, |bytes| {
        let record: Record = match serde_json::from_slice(bytes) {
            Ok(record) => record,
            Err(error) => return error.to_string(),
        };
        let mut study = study.clone();
        // Replaces one of several cells, so that it is compared with others.
        study.cells[3].record = Ok(Arc::new(record));
        study.spans = study.cells.iter().filter_map(Cell::record).map(Span::of).collect();
        let analysis = analyse(&study);
        for file in CSV_FILES {
            let _ = (file.rows)(&analysis).table();
        }
        let marks: Vec<&str> = analysis.runs[3].marks.iter().map(|mark| mark.name()).collect();
        format!("{marks:?} {:?}", analysis.findings.len())
    });
}

#[test]
fn fuzz_peaks() {
    let target = Target {
        name: "peaks",
        form: Form::Tree,
        seeds: files("peaks", "", ".yaml"),
        words: &["flops", "bytes_per_s", "confidence", "source", "device", "TFLOP/s", "GB/s"],
    };
    fuzz(target, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let measured =
            parse_measured("m", &text).map_or_else(|error| with_causes(&error), |_| "read".to_owned());
        let published = parse("p", &text).map_or_else(|error| with_causes(&error), |_| "read".to_owned());
        format!("{measured} {published}")
    });
}
