//! Batch scaling: the growth of throughput with the batch, and the knee from which it hardly grows.
//!
//! A curve contains the rows of a [`Line`] with a result: they differ only in the batch. *Gain* is the throughput ÷
//! that of the least batch. *Efficiency* is the gain ÷ the ratio of the batches: 1 if twice the batch takes no more
//! time, so that the device had room. *Growth* is the relative increase of the throughput per doubling of the batch,
//! from one batch to the next: (gain ÷ gain)^(1 ÷ doublings) − 1.
//!
//! The *knee* is the least batch after which every step grows by less than [`KNEE_GROWTH`] per doubling. There is none
//! if the last step still grows by more. Few runs that scatter can move it by a batch.

use super::group::Row;
use super::line::Line;

/// The growth per doubling of the batch below which a larger batch is hardly faster.
pub const KNEE_GROWTH: f64 = 0.1;

/// Rows that differ only in the batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The index of its line among the analysis's lines.
    pub line: usize,
    /// Its rows, by batch; two or more.
    pub steps: Vec<Step>,
    /// The place of the knee among the steps.
    pub knee: Option<usize>,
}

/// A row on its curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The row's index among the analysis's rows.
    pub row: usize,
    /// Its throughput ÷ that of the least batch.
    pub gain: f64,
    /// The gain ÷ the ratio of the batches.
    pub efficiency: f64,
    /// The growth per doubling of the batch since the previous step; `None` for the least batch.
    pub growth: Option<f64>,
}

impl Curve {
    /// The index of the knee's row among the analysis's rows.
    pub fn knee_row(&self) -> Option<usize> {
        Some(self.steps[self.knee?].row)
    }
}

/// A row on a curve: its index, its batch and its throughput.
type Member = (usize, u32, f64);

/// The curves of `lines` of `rows`, in the order of their first rows, without rows that have no result.
pub(super) fn curves(rows: &[Row<'_>], lines: &[Line]) -> Vec<Curve> {
    let member = |index: &usize| Some((*index, rows[*index].config.batch, rows[*index].samples_per_s()?));
    let members = |line: &Line| -> Vec<Member> { line.rows.iter().filter_map(member).collect() };
    let of_line = |(number, line): (usize, &Line)| curve(number, members(line));
    let mut found: Vec<Curve> = lines.iter().enumerate().filter_map(of_line).collect();
    found.sort_by_key(|curve| curve.steps.iter().map(|step| step.row).min());
    found
}

fn curve(line: usize, mut members: Vec<Member>) -> Option<Curve> {
    members.sort_by_key(|(_, batch, _)| *batch);
    let (_, least, first) = *members.first().filter(|_| members.len() > 1)?;
    let mut before: Option<(u32, f64)> = None;
    let mut step = |(row, batch, rate): Member| {
        let gain = rate / first;
        let growth = before.map(|(earlier, its)| growth((earlier, its), (batch, rate)));
        before = Some((batch, rate));
        Step { row, gain, efficiency: gain * f64::from(least) / f64::from(batch), growth }
    };
    let steps: Vec<Step> = members.into_iter().map(&mut step).collect();
    let knee = knee(&steps);
    Some(Curve { line, steps, knee })
}

/// The growth per doubling of the batch, between two batches with their throughputs.
fn growth((earlier, slower): (u32, f64), (later, faster): (u32, f64)) -> f64 {
    let doublings = (f64::from(later) / f64::from(earlier)).log2();
    (faster / slower).powf(1.0 / doublings) - 1.0
}

fn knee(steps: &[Step]) -> Option<usize> {
    let is_flat = |step: &Step| step.growth.is_some_and(|growth| growth < KNEE_GROWTH);
    let flat = steps.iter().rev().take_while(|step| is_flat(step)).count();
    (flat > 0).then(|| steps.len() - 1 - flat)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::{StudyBuilder, key};

    fn of(rates: &[(u32, f64)]) -> Vec<Curve> {
        let study = rates.iter().fold(StudyBuilder::new(), |study, (batch, rate)| {
            study.runs("cpu", "resnet18", *batch, &[*rate])
        });
        analyse(&study.build()).curves
    }

    /// The batch at the knee.
    fn knee_of(rates: &[(u32, f64)]) -> Option<u32> {
        let [curve] = &of(rates)[..] else { panic!("one curve") };
        Some(rates[curve.knee?].0)
    }

    #[test]
    fn gain_efficiency_and_growth_are_those_of_the_throughputs() {
        let [curve] = &of(&[(8, 100.0), (16, 180.0), (64, 259.2)])[..] else { panic!("one curve") };
        let near = |value: f64, expected: f64| (value - expected).abs() < 1e-9;
        assert!(near(curve.steps[1].gain, 1.8) && near(curve.steps[1].efficiency, 0.9));
        assert!(near(curve.steps[1].growth.unwrap(), 0.8));
        // Two doublings have a gain of 1.44, so each has 1.2.
        assert!(near(curve.steps[2].growth.unwrap(), 0.2) && near(curve.steps[2].efficiency, 0.324));
        assert_eq!((curve.steps[0].gain, curve.steps[0].growth), (1.0, None));
    }

    #[test]
    fn the_knee_is_the_least_batch_after_which_no_step_grows_much() {
        assert_eq!(knee_of(&[(8, 100.0), (16, 190.0), (32, 200.0), (64, 202.0)]), Some(16));
        assert_eq!(knee_of(&[(8, 100.0), (16, 105.0), (32, 90.0)]), Some(8));
        // A flat step before a steep one is not a knee.
        assert_eq!(knee_of(&[(8, 100.0), (16, 101.0), (32, 150.0), (64, 151.0)]), Some(32));
        assert_eq!(knee_of(&[(8, 100.0), (16, 101.0), (32, 150.0)]), None);
        assert_eq!(knee_of(&[(8, 100.0), (16, 109.9)]), Some(8));
        assert_eq!(knee_of(&[(8, 100.0), (16, 110.1)]), None);
    }

    #[test]
    fn a_curve_contains_rows_that_differ_only_in_the_batch() {
        let other = |record: &mut crate::record::Record| record.provenance.host.hostname = "other".into();
        let study = StudyBuilder::new()
            .run("cpu", "resnet18", 8, 1, 10.0)
            .run("cpu", "vgg16", 8, 1, 10.0)
            .run("cpu", "resnet18", 16, 1, 12.0)
            .run_with(key("cpu", "resnet18", 32, 1), 14.0, other)
            .build();
        let analysis = analyse(&study);
        let [curve] = &analysis.curves[..] else { panic!("{:?}", analysis.curves) };
        let batches: Vec<u32> = curve.steps.iter().map(|step| analysis.rows[step.row].config.batch).collect();
        assert_eq!(batches, [8, 16]);
        assert!(of(&[(8, 10.0)]).is_empty());
    }
}
