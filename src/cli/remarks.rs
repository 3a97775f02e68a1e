//! Remarks on finished jobs whose marks leave them out of the statistics: ` · contended: left out`. Only marks that
//! follow from the record of the job are known during a run; others need the other runs of its row.

use std::sync::Arc;

use crate::analysis::idle::Idle;
use crate::analysis::marks::{Mark, MarkName, Thresholds, mark_names, marks};
use crate::analysis::{Cell, Span};
use crate::event::{NarratedLine, Weight};
use crate::job::Job;
use crate::plan::Plan;
use crate::record::Record;

/// After this many consecutive jobs that are left out, an advice is printed once.
const ENOUGH: usize = 3;

/// Follows the finished jobs of a run.
#[derive(Debug)]
pub(super) struct Remarks {
    thresholds: Thresholds,
    idle: Idle,
    /// Whether all jobs wait for a quiet host.
    wait: bool,
    /// The number of consecutive jobs that are left out, up to now.
    in_a_row: usize,
    has_advised: bool,
}

impl Remarks {
    /// For a run of `plan`. `idle` contains how busy machines are without jobs.
    pub(super) fn new(plan: &Plan, idle: Idle) -> Remarks {
        let wait = plan.envs.values().all(|env| env.limits.quiet.is_some());
        Remarks { thresholds: plan.thresholds, idle, wait, in_a_row: 0, has_advised: false }
    }

    /// Adds the marks that leave the job out to `line`, the line about the end of its attempt. After [`ENOUGH`] in a
    /// row, returns an advice, once.
    pub(super) fn add(
        &mut self,
        line: &mut NarratedLine,
        job: &Job,
        record: &Record,
    ) -> Option<NarratedLine> {
        if !record.outcome.is_success() {
            return None;
        }
        let disqualifying = self.disqualifying_marks(job, record);
        if disqualifying.is_empty() {
            self.in_a_row = 0;
            return None;
        }
        let names = mark_names(&disqualifying).join(" and ");
        line.text += &format!(" · {names}: left out");
        self.in_a_row += 1;
        if self.in_a_row < ENOUGH || self.has_advised {
            return None;
        }
        self.has_advised = true;
        Some(NarratedLine { text: self.advice(&names, &disqualifying[0]), weight: Weight::News })
    }

    /// The marks that leave `record` out and follow from it alone.
    fn disqualifying_marks(&self, job: &Job, record: &Record) -> Vec<Mark> {
        let cell = Cell {
            job: job.clone(),
            peaks: None,
            usd_per_hour: None,
            record: Ok(Arc::new(record.clone())),
            iterations: None,
        };
        let found = marks(&[&cell], &[Span::of(record)], &self.idle, &self.thresholds);
        found.into_iter().flatten().filter(Mark::disqualifies).collect()
    }

    fn advice(&self, names: &str, mark: &Mark) -> String {
        let name = MarkName::from(mark);
        let remedy = name.declaration().remedy;
        let quiet = match (name, self.wait) {
            (MarkName::Contended, false) => {
                " `orchestrate doctor` names the busiest processes; `limits: { quiet: true }` in the matrix makes jobs \
                 wait for a quiet host."
            }
            _ => "",
        };
        format!("hint: {ENOUGH} jobs in a row are left out of the statistics ({names}). {remedy}{quiet}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture;
    use crate::matrix::check;
    use crate::plan::expand;
    use crate::record::{MatrixFacts, Outcome};

    fn remarks(limits: &str) -> Remarks {
        let matrix = format!(
            "name: m\nmodels: [vgg16]\nbatches: [4]\nlimits: {{ {limits} }}\nenvs: {{ cpu: {{ device: cpu }} }}\n"
        );
        Remarks::new(&expand(&check(&matrix).unwrap(), MatrixFacts::example()), Idle::default())
    }

    /// A run during which other processes kept `foreign` processors busy.
    fn run(foreign: f64) -> Record {
        let mut record = fixture::record(fixture::key("cpu", "vgg16", 4, 1), 80.0, 0);
        record.observed.host_busy_s = Some((1.9 + foreign) * record.wall_s());
        record
    }

    /// The line of a job after these remarks, and the advice.
    fn add(remarks: &mut Remarks, record: &Record) -> (String, Option<String>) {
        let mut line = NarratedLine { text: "[1/9] done   x".to_owned(), weight: Weight::News };
        let advice = remarks.add(&mut line, &Job::new(record.key.clone()), record);
        (line.text, advice.map(|advice| advice.text))
    }

    #[test]
    fn left_out_runs_are_remarked() {
        let mut remarks = remarks("");
        assert_eq!(add(&mut remarks, &run(0.0)).0, "[1/9] done   x");
        assert_eq!(add(&mut remarks, &run(1.0)).0, "[1/9] done   x · contended: left out");
        let failed = Record { outcome: Outcome::Signalled { signal: 9 }, ..run(1.0) };
        assert_eq!(add(&mut remarks, &failed).0, "[1/9] done   x");
        let mut unsynchronised = run(0.0);
        unsynchronised.measurement.as_mut().unwrap().synchronized = false;
        assert_eq!(add(&mut remarks, &unsynchronised).0, "[1/9] done   x · unsynchronised: left out");
    }

    #[test]
    fn three_in_a_row_cause_one_advice() {
        let mut remarks = remarks("");
        let advice: Vec<bool> = [1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
            .map(|it| add(&mut remarks, &run(it)).1.is_some())
            .into();
        assert_eq!(advice.iter().position(|is_given| *is_given), Some(5));
        assert_eq!(advice.iter().filter(|is_given| **is_given).count(), 1);
    }

    #[test]
    fn waiting_is_not_advised_twice() {
        for (limits, says) in [("", true), ("quiet: true", false)] {
            let mut remarks = remarks(limits);
            let advice: Vec<String> = (0..3).filter_map(|_| add(&mut remarks, &run(1.0)).1).collect();
            assert_eq!(advice.len(), 1);
            assert!(
                advice[0].starts_with("hint: 3 jobs in a row are left out of the statistics (contended).")
            );
            assert_eq!(advice[0].contains("quiet: true"), says, "{advice:?}");
        }
    }
}
