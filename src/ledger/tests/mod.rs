//! Each rule on made-up ledgers, both ways, and on random sound ones.

mod made_up;
mod real;
mod runs;
mod sound;

use super::rule::Rule;
use super::{Audited, Mapping, Severity, audit, read};
use crate::analysis::peaks::{Catalogue, parse};

/// The peaks that tests know: a desktop card and the laptop's card of nearly the same name.
fn catalogue() -> Catalogue {
    let desktop = include_str!("../../../peaks/nvidia-rtx-4090.yaml");
    let laptop = include_str!("../../../peaks/nvidia-rtx-4090-laptop.yaml");
    let peaks = [("nvidia-rtx-4090", desktop), ("nvidia-rtx-4090-laptop", laptop)];
    Catalogue::new(peaks.map(|(name, text)| parse(name, text).unwrap()).to_vec())
}

/// The audit of one ledger.
fn audited(csv: &str) -> Audited {
    let ledger = read("l.csv", csv, &[]).unwrap();
    assert_eq!(ledger.unread, [], "{csv}");
    audit(&ledger.entries, &catalogue())
}

/// The rules that object to a ledger, each with the lines that it names, sorted.
fn found(csv: &str) -> Vec<(Rule, Vec<u64>)> {
    let mut found: Vec<(Rule, Vec<u64>)> = audited(csv)
        .objections
        .into_iter()
        .map(|it| (it.rule, it.lines.into_iter().filter_map(|line| line.line).collect()))
        .collect();
    found.sort();
    found
}

/// Asserts that a ledger has exactly these objections, each with its first line.
#[track_caller]
fn assert_found(csv: &str, expected: &[(Rule, u64)]) {
    let found: Vec<(Rule, u64)> = found(csv).into_iter().map(|(rule, lines)| (rule, lines[0])).collect();
    assert_eq!(found, expected, "{csv}\n{:#?}", audited(csv).objections);
}

#[test]
fn reports_unreadable_parts_and_reads_the_rest() {
    let csv =
        "model,batch,images_per_sec,colour\nresnet18,16,fast,red\nresnet18,32,20\nresnet18,64,30,blue\n";
    let ledger = read("l.csv", csv, &[]).unwrap();
    let messages: Vec<String> = ledger.unread.iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            "l.csv: not read: column colour",
            "l.csv:2: not read: `fast` in column images_per_sec; expected a number",
            "l.csv:3: not read: the line has 3 cells, but the header has 4",
        ]
    );
    assert_eq!(ledger.entries.len(), 2);
}

#[test]
fn errors_name_the_file_that_is_not_a_ledger() {
    for (csv, words) in [
        ("", "l.csv is empty"),
        (" \n", "l.csv is empty"),
        ("model,batch\n", "l.csv has a header, but no line below it"),
        (
            "colour,shape\nred,round\n",
            "l.csv has no column that the audit knows; its columns are colour, shape",
        ),
    ] {
        assert_eq!(read("l.csv", csv, &[]).unwrap_err().to_string(), words);
    }
}

#[test]
fn mappings_take_precedence_over_known_columns() {
    let csv = "net;throughput;speed;when\nresnet18;1,5;10.5;-\n";
    let mappings: Vec<Mapping> =
        ["net=model", "speed=images_per_s", "gone=batch"].map(|text| text.parse().unwrap()).to_vec();
    let ledger = read("l.csv", csv, &mappings).unwrap();
    let entry = &ledger.entries[0];
    assert_eq!(entry.text(super::Field::Model), Some("resnet18"));
    assert_eq!(entry.number(super::Field::Throughput).unwrap().value, 10.5);
    assert_eq!(ledger.without, ["gone"]);
    let messages: Vec<String> = ledger.unread.iter().map(ToString::to_string).collect();
    assert!(
        messages.iter().any(|it| it.contains("column throughput, which means the same as speed")),
        "{messages:?}"
    );
}

#[test]
fn reads_mean_and_deviation_from_one_cell() {
    let ledger = read("l.csv", "model\timages_per_s\nvgg11\t1,598.31 ± 2.40\n", &[]).unwrap();
    let number = |field| ledger.entries[0].number(field).unwrap().value;
    assert_eq!((number(super::Field::Throughput), number(super::Field::ThroughputSd)), (1598.31, 2.4));
}

#[test]
fn lines_are_numbered_as_an_editor_numbers_them() {
    let csv = "# a comment\nmodel,batch\n\nvgg11,\"1\"\n# another\n\nvgg11,2\nalexnet,3\n";
    for csv in [csv.to_owned(), csv.replace('\n', "\r\n")] {
        let ledger = read("l.csv", &csv, &[]).unwrap();
        let lines: Vec<u64> = ledger.entries.iter().filter_map(|entry| entry.line).collect();
        assert_eq!(lines, [4, 7, 8], "{csv:?}");
    }
}

#[test]
fn reads_files_of_windows() {
    let wide: Vec<u8> =
        [0xfeffu16].into_iter().chain("modèle".encode_utf16()).flat_map(u16::to_le_bytes).collect();
    assert_eq!(super::decode(&wide).trim_start_matches('\u{feff}'), "modèle");
    assert_eq!(super::decode("modèle".as_bytes()), "modèle");
    assert_eq!(super::decode(b"\xff"), "\u{fffd}");
    assert!(read("l.csv", "\u{feff}model,batch\r\nvgg11,4\r\n", &[]).unwrap().unread.is_empty());
}
