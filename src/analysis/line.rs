//! Rows that differ in the batch alone: those of one config, whatever its batch, in one set of circumstances.
//!
//! Whatever joins rows of several batches goes by these lines. The number of a row within its config would not do. It
//! follows the order of the repeats, so row 1 of one batch and row 1 of another can be of two machines.

use std::collections::{BTreeSet, HashMap};

use super::circumstances::Circumstances;
use super::group::Row;
use crate::job::ConfigOf;

/// Rows that differ in the batch alone. Each batch has one at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The indices of its rows among the analysis's rows, in their order.
    pub rows: Vec<usize>,
    /// What tells it from other lines of the same settings, with a blank in front: its host, or else its number. Empty
    /// if there is no other.
    pub apart: String,
    /// The batches that other lines of the same settings have, and this one lacks.
    pub elsewhere: BTreeSet<u32>,
}

/// A line in the making.
struct Begun {
    /// `None` as long as none of its rows has a result.
    circumstances: Option<Circumstances>,
    rows: Vec<usize>,
    batches: BTreeSet<u32>,
}

impl Begun {
    /// Whether a row in `circumstances`, which can be unknown, belongs to it.
    fn admits(&self, circumstances: Option<&Circumstances>, batch: u32) -> bool {
        let is_alike = match (&self.circumstances, circumstances) {
            (Some(own), Some(other)) => own == other,
            // A row without a result is of no circumstances. It belongs to the first line that lacks its batch.
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

/// `line`, which is one of those of `begun` at the places `family`.
fn finished(line: &Begun, family: &[usize], begun: &[Begun]) -> Line {
    let family: Vec<&Begun> = family.iter().map(|place| &begun[*place]).collect();
    let hosts: BTreeSet<Option<&str>> = family.iter().map(|line| line.host()).collect();
    let apart = match line.host() {
        _ if family.len() == 1 => String::new(),
        Some(host) if hosts.len() == family.len() => format!(" on {host}"),
        _ => {
            let number = family.iter().position(|other| std::ptr::eq(*other, line)).unwrap_or_default();
            format!(" ({} of {})", number + 1, family.len())
        }
    };
    let all: BTreeSet<u32> = family.iter().flat_map(|line| &line.batches).copied().collect();
    Line { rows: line.rows.clone(), apart, elsewhere: all.difference(&line.batches).copied().collect() }
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

    /// A line: its batches with their throughputs, 0 without a result; what tells it apart; the batches of others.
    type Told = (Vec<(u32, f64)>, String, Vec<u32>);

    /// The lines of `study`.
    fn told(study: StudyBuilder) -> Vec<Told> {
        let study = study.build();
        let analysis = analyse(&study);
        let batch = |row: &usize| {
            (analysis.rows[*row].config.batch, analysis.rows[*row].samples_per_s().unwrap_or(0.0))
        };
        let of = |line: &Line| {
            let elsewhere = line.elsewhere.iter().copied().collect();
            (line.rows.iter().map(batch).collect(), line.apart.clone(), elsewhere)
        };
        analysis.lines.iter().map(of).collect()
    }

    #[test]
    fn a_line_is_of_one_machine_whichever_ran_first() {
        let study = StudyBuilder::new()
            .run_with(key("gpu", "resnet18", 8, 1), 10.0, on("a"))
            .run_with(key("gpu", "resnet18", 8, 2), 20.0, on("b"))
            .run_with(key("gpu", "resnet18", 16, 1), 21.0, on("b"))
            .run_with(key("gpu", "resnet18", 16, 2), 11.0, on("a"))
            .run_with(key("gpu", "resnet18", 32, 1), 12.0, on("a"));
        let a = (vec![(8, 10.0), (16, 11.0), (32, 12.0)], " on a".to_owned(), vec![]);
        let b = (vec![(8, 20.0), (16, 21.0)], " on b".to_owned(), vec![32]);
        assert_eq!(told(study), [a, b]);
    }

    #[test]
    fn lines_of_one_host_are_numbered_and_what_has_no_result_is_on_the_first() {
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
        assert_eq!(told(study), [first, second]);
        assert_eq!(
            told(StudyBuilder::new().runs("cpu", "vgg16", 8, &[1.0])),
            [(vec![(8, 1.0)], String::new(), vec![])]
        );
    }
}
