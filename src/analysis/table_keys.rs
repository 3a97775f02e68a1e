//! The keys of the CSV files: the columns that identify a line, and those that refer to a line of another file.

/// The keys of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// The columns that identify a line; empty if there are none.
    pub primary: &'static [&'static str],
    /// The columns that name a line of another file.
    pub foreign: &'static [ForeignKey],
}

/// Columns that name a line of another file, which has them too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    /// The other file, without its extension.
    pub file: &'static str,
    /// The columns.
    pub columns: &'static [&'static str],
}

/// The columns that identify a row.
const ROW: &[&str] = &["env", "device", "model", "precision", "batch", "params", "part"];

/// The same for several lines per row, each with a separate name.
const ROW_AND_COUNTER: &[&str] =
    &["env", "device", "model", "precision", "batch", "params", "part", "profiler", "counter"];
const ROW_AND_RANK: &[&str] = &["env", "device", "model", "precision", "batch", "params", "part", "rank"];
const ROW_AND_REPEAT: &[&str] = &["env", "device", "model", "precision", "batch", "params", "part", "repeat"];

/// Refers to the line of a row in `summary.csv`.
const TO_ROW: &[ForeignKey] = &[ForeignKey { file: "summary", columns: ROW }];

impl Keys {
    /// One line per job, which may be of a row.
    pub const JOBS: Keys = Keys { primary: &["job"], foreign: TO_ROW };
    /// One line per row.
    pub const ROWS: Keys = Keys { primary: ROW, foreign: &[] };
    /// One line per row of those that [`Keys::ROWS`] list.
    pub const OF_ROWS: Keys = Keys { primary: ROW, foreign: TO_ROW };
    /// One line per job of those that [`Keys::JOBS`] list.
    pub const OF_JOBS: Keys =
        Keys { primary: &["job"], foreign: &[ForeignKey { file: "metrics", columns: &["job"] }] };
    /// Any number of lines per row.
    pub const WITHIN_ROWS: Keys = Keys { primary: &[], foreign: TO_ROW };
    /// One line per row and counter.
    pub const COUNTERS: Keys = Keys { primary: ROW_AND_COUNTER, foreign: TO_ROW };
    /// One line per row and kernel.
    pub const KERNELS: Keys = Keys { primary: ROW_AND_RANK, foreign: TO_ROW };
    /// One line per row and operator.
    pub const OPERATORS: Keys = Keys { primary: ROW_AND_RANK, foreign: TO_ROW };
    /// One line per run.
    pub const RUNS: Keys = Keys { primary: ROW_AND_REPEAT, foreign: TO_ROW };
    /// One line per value of an axis.
    pub const EFFECTS: Keys = Keys { primary: &["axis", "value"], foreign: &[] };
    /// One line per config, host and version.
    pub const VERSIONS: Keys = Keys { primary: &["config", "host", "version"], foreign: &[] };
    /// No key.
    pub const NONE: Keys = Keys { primary: &[], foreign: &[] };
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::analysis::fixture::{StudyBuilder, kernel, key, study_with_peaks};
    use crate::analysis::table::{CSV_FILES, CellType, NOT_KNOWN, Table};
    use crate::analysis::{Study, analyse, random_table};

    fn studies() -> Vec<Study> {
        let mut counted = study_with_peaks();
        let kernels = vec![kernel("gemm", 1.0, 200.0, 1.0), kernel("relu", 1.0, 1.0, 1.0)];
        let added = StudyBuilder::new().kernels(&key("cpu", "resnet18", 16, 1), kernels, 2.0);
        counted.cells.extend(added.build().cells);
        (0..8).map(random_table::study).chain([counted]).collect()
    }

    fn tables(study: &Study) -> BTreeMap<&'static str, Table> {
        let analysis = analyse(study);
        let name = |name: &'static str| name.strip_suffix(".csv").expect("they are CSV files");
        CSV_FILES.iter().map(|file| (name(file.name), (file.rows)(&analysis).table())).collect()
    }

    /// The key of each line in which nothing is `NA`.
    fn keys(table: &Table, columns: &[&str]) -> Vec<Vec<String>> {
        let header = table.header();
        let place = |name: &&str| header.iter().position(|column| column == name).expect(name);
        let places: Vec<usize> = columns.iter().map(place).collect();
        let keys = table.rows.iter().map(|row| places.iter().map(|place| row[*place].clone()).collect());
        keys.filter(|key: &Vec<String>| !key.iter().any(|word| word == NOT_KNOWN)).collect()
    }

    #[test]
    fn keys_name_one_line() {
        let mut named = 0;
        for tables in studies().iter().map(tables) {
            for file in CSV_FILES {
                let name = file.name.strip_suffix(".csv").expect("they are CSV files");
                let primary = keys(&tables[name], file.keys.primary);
                assert_eq!(primary.len(), tables[name].rows.len(), "{name}");
                if !file.keys.primary.is_empty() {
                    assert_eq!(primary.iter().collect::<BTreeSet<_>>().len(), primary.len(), "{name}");
                }
                for ForeignKey { file, columns } in file.keys.foreign {
                    let others = keys(&tables[file], columns);
                    for key in keys(&tables[name], columns) {
                        assert!(others.contains(&key), "{name}: {key:?} is not in {file}");
                        named += 1;
                    }
                }
            }
        }
        assert!(named > 200, "only {named} lines refer to another file");
    }

    #[test]
    fn cells_are_of_the_type_of_their_column() {
        for tables in studies().iter().map(tables) {
            for (file, table) in &tables {
                for row in &table.rows {
                    for (about, cell) in table.columns.iter().zip(row) {
                        let fits = match about.cell_type {
                            _ if cell == NOT_KNOWN => about.absent.is_some(),
                            CellType::Text | CellType::Any => true,
                            CellType::Integer => cell.parse::<i64>().is_ok(),
                            CellType::Number => cell.parse::<f64>().is_ok(),
                            CellType::Boolean => cell.parse::<bool>().is_ok(),
                            CellType::Time => chrono::DateTime::parse_from_rfc3339(cell).is_ok(),
                        };
                        assert!(fits, "{file}: {} is `{cell}`", about.name);
                    }
                }
            }
        }
    }
}
