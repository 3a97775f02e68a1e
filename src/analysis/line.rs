//! Lines: rows that differ only in the batch, such as `gpu resnet18 fp32` at batches 8, 16 and 32 on one machine.
//!
//! Figures and tables that join rows of several batches use [`Line`]s. The number of a row within its config cannot
//! join them. It follows the order of the repeats, so row 1 of one batch and row 1 of another can be of two machines.

use std::collections::{BTreeSet, HashMap};

use super::circumstances::Circumstances;
use super::group::Row;
use crate::job::ConfigOf;

/// Rows that differ only in the batch. Each batch has at most one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The indices of its rows among the rows of the analysis, in order.
    pub rows: Vec<usize>,
    /// The label that distinguishes it from other lines of the same settings: ` on HOST`, or else ` (1 of 2)`. Empty if
    /// there is no other.
    pub distinction: String,
    /// The batches that other lines of the same settings have and this one lacks.
    pub elsewhere: BTreeSet<u32>,
}

/// A line while rows are added.
struct Begun {
    /// `None` until a row with a result is added.
    circumstances: Option<Circumstances>,
    rows: Vec<usize>,
    batches: BTreeSet<u32>,
}

impl Begun {
    /// Whether a row with these circumstances, which can be unknown, belongs to the line.
    fn admits(&self, circumstances: Option<&Circumstances>, batch: u32) -> bool {
        let is_alike = match (&self.circumstances, circumstances) {
            (Some(own), Some(other)) => own == other,
            // A row without a result has no circumstances. It belongs to the first line that lacks its batch.
            (None, _) | (_, None) => true,
        };
        is_alike && !self.batches.contains(&batch)
    }
}

/// The lines of `rows`, in the order of their first rows.
pub(super) fn lines(rows: &[Row<'_>]) -> Vec<Line> {
    let mut places: HashMap<ConfigOf<'_>, Vec<usize>> = HashMap::new();
    let mut begun: Vec<Begun> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let mut circumstances = row.circumstances.clone();
        circumstances.iter_mut().for_each(|it| it.effective.batch = 0);
        let batch = row.config.batch;
        let family = places.entry(ConfigOf::of_any_batch(&row.config)).or_default();
        let known = family.iter().copied().find(|place| begun[*place].admits(circumstances.as_ref(), batch));
        let place = known.unwrap_or_else(|| {
            family.push(begun.len());
            begun.push(Begun { circumstances: None, rows: Vec::new(), batches: BTreeSet::new() });
            begun.len() - 1
        });
        let line = &mut begun[place];
        line.rows.push(index);
        line.batches.insert(batch);
        line.circumstances = line.circumstances.take().or(circumstances);
    }
    let family = |line: &Begun| &places[&ConfigOf::of_any_batch(&rows[line.rows[0]].config)];
    begun.iter().map(|line| finished(line, family(line), &begun)).collect()
}

/// The finished `line`. `family` are the indices in `begun` of all lines of the same settings.
fn finished(line: &Begun, family: &[usize], begun: &[Begun]) -> Line {
    let family: Vec<&Begun> = family.iter().map(|place| &begun[*place]).collect();
    let hosts: BTreeSet<Option<&str>> = family.iter().map(|line| line.host()).collect();
    let distinction = match line.host() {
        _ if family.len() == 1 => String::new(),
        Some(host) if hosts.len() == family.len() => format!(" on {host}"),
        _ => {
            let number = family.iter().position(|other| std::ptr::eq(*other, line)).unwrap_or_default();
            format!(" ({} of {})", number + 1, family.len())
        }
    };
    let all: BTreeSet<u32> = family.iter().flat_map(|line| &line.batches).copied().collect();
    Line { rows: line.rows.clone(), distinction, elsewhere: all.difference(&line.batches).copied().collect() }
}

impl Begun {
    fn host(&self) -> Option<&str> {
        self.circumstances.as_ref().map(Circumstances::host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::{StudyBuilder, key};
    use crate::record::{Outcome, Record};

    fn on(host: &'static str) -> impl Fn(&mut Record) {
        move |record| record.provenance.host.hostname = host.into()
    }

    /// A line: its batches with their throughputs (0 without a result), its distinction, and the batches of others.
    type Found = (Vec<(u32, f64)>, String, Vec<u32>);

    fn found(study: StudyBuilder) -> Vec<Found> {
        let study = study.build();
        let analysis = analyse(&study);
        let batch = |row: &usize| {
            (analysis.rows[*row].config.batch, analysis.rows[*row].samples_per_s().unwrap_or(0.0))
        };
        let of = |line: &Line| {
            let elsewhere = line.elsewhere.iter().copied().collect();
            (line.rows.iter().map(batch).collect(), line.distinction.clone(), elsewhere)
        };
        analysis.lines.iter().map(of).collect()
    }

    #[test]
    fn a_line_has_rows_of_one_machine_only() {
        let study = StudyBuilder::new()
            .run_with(key("gpu", "resnet18", 8, 1), 10.0, on("a"))
            .run_with(key("gpu", "resnet18", 8, 2), 20.0, on("b"))
            .run_with(key("gpu", "resnet18", 16, 1), 21.0, on("b"))
            .run_with(key("gpu", "resnet18", 16, 2), 11.0, on("a"))
            .run_with(key("gpu", "resnet18", 32, 1), 12.0, on("a"));
        let a = (vec![(8, 10.0), (16, 11.0), (32, 12.0)], " on a".to_owned(), vec![]);
        let b = (vec![(8, 20.0), (16, 21.0)], " on b".to_owned(), vec![32]);
        assert_eq!(found(study), [a, b]);
    }

    #[test]
    fn lines_of_one_host_are_numbered_and_the_first_has_the_rows_without_a_result() {
        let driver = |version: &'static str| {
            move |record: &mut Record| {
                record.measurement.as_mut().unwrap().details.versions.insert("torch".into(), version.into());
            }
        };
        let study = StudyBuilder::new()
            .failure(key("gpu", "resnet18", 4, 1), Outcome::Signalled { signal: 9 })
            .run_with(key("gpu", "resnet18", 8, 1), 10.0, driver("1"))
            .run_with(key("gpu", "resnet18", 8, 2), 20.0, driver("2"));
        let first = (vec![(4, 0.0), (8, 10.0)], " (1 of 2)".to_owned(), vec![]);
        let second = (vec![(8, 20.0)], " (2 of 2)".to_owned(), vec![4]);
        assert_eq!(found(study), [first, second]);
        assert_eq!(
            found(StudyBuilder::new().runs("cpu", "vgg16", 8, &[1.0])),
            [(vec![(8, 1.0)], String::new(), vec![])]
        );
    }
}
