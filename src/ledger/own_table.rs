//! Tables written by `orchestrate`: their recognition, and the meaning of their columns in an audit.
//!
//! Names and meanings come from the declarations of the columns. A table is a ledger if it has a column with the
//! throughput of its lines.

use std::collections::BTreeSet;

use super::field::Field;
use crate::analysis::table::{
    About, CSV_FILES, CsvFile, Role, Section, comparison_sections, curve_sections, effect_sections,
    history_sections, kernel_sections, offer_sections, operator_sections, point_sections, run_sections,
    time_sections, trace_sections,
};

/// The least share of columns that a table and a declaration must have in common. Other versions of `orchestrate` have
/// a few more or a few less.
const ALIKE: f64 = 0.8;

/// The placeholder for the name of a parameter or a metric in a declared column.
const ANY_NAME: &str = "NAME";

/// The tables that are not in [`CSV_FILES`]: name or use, the subject of a line, and the declarations of columns.
type Declared = (&'static str, &'static str, fn() -> Vec<Section>);

const OTHERS: [Declared; 11] = [
    ("comparison.csv", "config of two sides", comparison_sections),
    ("history.csv", "config, host and version", history_sections),
    (FIGURE, "run", run_sections),
    (FIGURE, "batch of a curve", curve_sections),
    (FIGURE, "part of a run's iterations", trace_sections),
    (FIGURE, "row with its price", offer_sections),
    (FIGURE, "point of a roofline", point_sections),
    (FIGURE, "kernel", kernel_sections),
    (FIGURE, "operator", operator_sections),
    (FIGURE, "config of an axis", effect_sections),
    (FIGURE, "row with the shares of its time", time_sections),
];

/// The name for tables of figures.
const FIGURE: &str = "the table of a figure";

/// A table that `orchestrate` wrote.
#[derive(Debug)]
pub(super) struct OwnTable {
    /// Its usual name, or its use.
    pub(super) name: &'static str,
    /// The subject of its lines, to complete "one line per …".
    pub(super) line: &'static str,
    columns: Vec<About>,
}

/// The meaning of a column of such a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum OwnColumn {
    /// A field, in this unit.
    Known(Field, f64),
    /// Whether the line enters the statistics.
    Counts,
    /// Not needed by an audit.
    Other,
}

impl OwnTable {
    /// The table with this `header`; `None` if `orchestrate` did not write it.
    pub(super) fn of(header: &[String]) -> Option<OwnTable> {
        let ours = CSV_FILES.iter().map(|CsvFile { name, line, sections, .. }| (*name, *line, *sections));
        let tables = ours.chain(OTHERS).map(|(name, line, sections)| {
            let columns = sections().into_iter().flat_map(|section| section.columns).collect();
            OwnTable { name, line, columns }
        });
        let likeness = |table: OwnTable| (table.likeness(header), table);
        // Of tables with the same columns, prefer the one that every report has.
        let best = tables.map(likeness).reduce(|best, other| if other.0 > best.0 { other } else { best });
        best.filter(|(likeness, _)| *likeness >= ALIKE).map(|(_, table)| table)
    }

    /// The share of columns that `header` and the declaration have in common, without those that depend on the study.
    fn likeness(&self, header: &[String]) -> f64 {
        let is_fixed = |name: &&str| !name.contains(ANY_NAME);
        let declared: BTreeSet<&str> =
            self.columns.iter().map(|column| &*column.name).filter(is_fixed).collect();
        let is_of_study = |name: &&str| self.columns.iter().any(|column| varying(column, name).is_some());
        let found: BTreeSet<&str> =
            header.iter().map(String::as_str).filter(|name| !is_of_study(name)).collect();
        let (both, any) = (declared.intersection(&found).count(), declared.union(&found).count());
        both as f64 / any.max(1) as f64
    }

    /// Whether its lines have a throughput.
    pub(super) fn is_ledger(&self) -> bool {
        self.columns.iter().any(|column| column.role == Some(Role::Throughput))
    }

    /// The meaning of the column `name`.
    pub(super) fn column(&self, name: &str) -> OwnColumn {
        let is_it = |column: &&About| column.name == name || varying(column, name).is_some();
        let Some(column) = self.columns.iter().find(is_it) else { return OwnColumn::Other };
        let known = |field, factor| OwnColumn::Known(field, factor);
        match column.role {
            Some(Role::Runs) => known(Field::Runs, 1.0),
            Some(Role::Throughput) => known(Field::Throughput, 1.0),
            Some(Role::ThroughputSd) => known(Field::ThroughputSd, 1.0),
            Some(Role::Samples) => known(Field::Samples, 1.0),
            Some(Role::Window) => known(Field::Elapsed, 1.0),
            Some(Role::Attained) => known(Field::Attained, 1e9),
            Some(Role::Peak) => known(Field::PeakFlops, 1e9),
            Some(Role::Setting) => known(Field::Setting, 1.0),
            Some(Role::Counts) => OwnColumn::Counts,
            None => Field::of_column(name)
                .filter(|(field, _)| field.identifies())
                .map_or(OwnColumn::Other, |(field, factor)| known(field, factor)),
        }
    }

    /// The name of the setting in the column `name`: the parameter, if the column is named after one.
    pub(super) fn setting<'n>(&self, name: &'n str) -> &'n str {
        self.columns.iter().find_map(|column| varying(column, name)).unwrap_or(name)
    }
}

/// The part of `name` at the place of the placeholder in the name of `column`.
fn varying<'n>(column: &About, name: &'n str) -> Option<&'n str> {
    let (before, after) = column.name.split_once(ANY_NAME)?;
    name.strip_prefix(before)?.strip_suffix(after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::study_with_peaks;
    use crate::ledger::{Ledger, LedgerError, audit, read};

    /// The tables of a report, by name.
    fn written() -> Vec<(&'static str, String)> {
        let study = study_with_peaks();
        let analysis = analyse(&study);
        CSV_FILES.iter().map(|file| (file.name, (file.rows)(&analysis).written().csv)).collect()
    }

    fn ledger(name: &str) -> Ledger {
        let (_, csv) = written().into_iter().find(|(found, _)| *found == name).unwrap();
        read(name, &csv, &[]).unwrap()
    }

    #[test]
    fn every_table_of_a_report_is_recognised() {
        for (name, csv) in written() {
            let header: Vec<String> = csv.lines().next().unwrap().split(',').map(str::to_owned).collect();
            let table = OwnTable::of(&header).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(table.name, name);
            assert_eq!(table.is_ledger(), ["metrics.csv", "summary.csv"].contains(&name), "{name}");
        }
        for foreign in ["env,model,precision,batch,samples_per_s", "iteration,elapsed_s,loss", ""] {
            let header: Vec<String> = foreign.split(',').map(str::to_owned).collect();
            assert!(OwnTable::of(&header).is_none(), "{foreign}");
        }
    }

    #[test]
    fn a_table_without_throughputs_is_refused_by_its_name() {
        for (name, csv) in written().into_iter().filter(|(name, _)| !name.starts_with(['m', 's'])) {
            match read("x.csv", &csv, &[]) {
                Err(LedgerError::NoThroughputs { name: found, .. }) => assert_eq!(found, name),
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    #[test]
    fn rows_and_runs_are_audited_without_a_mapping() {
        let catalogue = study_with_peaks().peaks;
        for (name, runs) in [("summary.csv", true), ("metrics.csv", false)] {
            let ledger = ledger(name);
            let audited = audit(&ledger.entries, &catalogue);
            assert!(audited.rows > 0 && audited.objections.is_empty(), "{name}: {audited:?}");
            let unread: Vec<String> = ledger.unread.iter().map(ToString::to_string).collect();
            let left_out = "metrics.csv: not read: 2 lines that `in_statistics` excludes".to_owned();
            assert_eq!(unread, if runs { Vec::new() } else { vec![left_out] }, "failed jobs do not count");
            let has = |field| ledger.entries.iter().any(|entry| entry.number(field).is_some());
            assert!(has(Field::Throughput) && has(Field::Attained) && has(Field::Batch), "{name}");
            assert_eq!((has(Field::Runs), has(Field::Elapsed)), (runs, !runs), "{name}");
        }
    }

    #[test]
    fn finds_a_changed_number() {
        let (_, csv) = written().into_iter().find(|(name, _)| *name == "metrics.csv").unwrap();
        let header: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
        let place = header.iter().position(|name| *name == "window_s").unwrap();
        let mut lines: Vec<String> = csv.lines().map(str::to_owned).collect();
        let mut cells: Vec<String> = lines[1].split(',').map(str::to_owned).collect();
        let window: f64 = cells[place].parse().unwrap();
        cells[place] = (1.5 * window).to_string();
        lines[1] = cells.join(",");
        let changed = read("metrics.csv", &lines.join("\n"), &[]).unwrap();
        assert_eq!(audit(&changed.entries, &study_with_peaks().peaks).objections.len(), 1);
    }

    #[test]
    fn runs_that_do_not_count_are_not_read() {
        let (_, csv) = written().into_iter().find(|(name, _)| *name == "metrics.csv").unwrap();
        let before = ledger("metrics.csv");
        let ledger = read("metrics.csv", &csv.replacen(",true,", ",false,", 1), &[]).unwrap();
        assert_eq!(ledger.entries.len() + 1, before.entries.len());
        let unread: Vec<String> = ledger.unread.iter().map(ToString::to_string).collect();
        assert_eq!(unread, ["metrics.csv: not read: 3 lines that `in_statistics` excludes"]);
    }
}
