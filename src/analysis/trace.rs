//! The seconds of the iterations of each run, condensed. A window of many iterations is cut into parts of nearly
//! equal length, each with its least, median and greatest seconds.

use super::Analysis;
use super::group::Row;

/// The most parts of a window.
pub const MOST_PARTS: usize = 60;

/// The most rows that are traced: the first ones with a run that is marked, and then the first others.
pub const MOST_ROWS: usize = 60;

/// The iterations of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Its index among the runs of its row.
    pub run: usize,
    /// The parts of its window, in order.
    pub parts: Vec<Part>,
}

/// Some iterations, one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// The first of them, from 1.
    pub first: usize,
    /// The last of them.
    pub last: usize,
    /// The least seconds of one.
    pub least_s: f64,
    /// Their median.
    pub median_s: f64,
    /// The greatest seconds of one.
    pub greatest_s: f64,
}

/// The traces of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct RowTraces {
    /// The row's index among the analysis's rows.
    pub row: usize,
    /// One per run whose iterations are known.
    pub traces: Vec<Trace>,
}

/// The traces of at most [`MOST_ROWS`] rows, and how many rows have traces.
pub fn traces(analysis: &Analysis<'_>) -> (Vec<RowTraces>, usize) {
    let has = |row: &Row<'_>| row.runs.iter().any(|run| seconds(run).is_some());
    let (marked, plain): (Vec<usize>, Vec<usize>) = (0..analysis.rows.len())
        .filter(|row| has(&analysis.rows[*row]))
        .partition(|row| analysis.rows[*row].runs.iter().any(|run| !run.marks.is_empty()));
    let all = marked.len() + plain.len();
    let chosen = marked.into_iter().chain(plain).take(MOST_ROWS);
    (chosen.map(|row| RowTraces { row, traces: of_row(&analysis.rows[row]) }).collect(), all)
}

fn seconds<'r>(run: &'r super::Run<'_>) -> Option<&'r [f64]> {
    run.samples_per_s()?;
    run.cell.iterations.as_ref()?.synchronised_s()
}

fn of_row(row: &Row<'_>) -> Vec<Trace> {
    let runs = row.runs.iter().enumerate();
    runs.filter_map(|(run, it)| Some(Trace { run, parts: parts(seconds(it)?) })).collect()
}

fn parts(seconds: &[f64]) -> Vec<Part> {
    let n = seconds.len();
    let number = n.min(MOST_PARTS);
    let part = |index: usize| {
        let (from, to) = (index * n / number, (index + 1) * n / number);
        let mut sorted = seconds[from..to].to_vec();
        sorted.sort_by(f64::total_cmp);
        let median_s = crate::stats::median(&sorted).ok()?;
        Some(Part { first: from + 1, last: to, least_s: sorted[0], median_s, greatest_s: *sorted.last()? })
    };
    (0..number).filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::StudyBuilder;
    use crate::protocol::IterationClock;

    #[test]
    fn every_iteration_is_in_one_part() {
        for n in [1, 59, 60, 61, 119, 1000] {
            let seconds: Vec<f64> = (1..=n).map(f64::from).collect();
            let parts = parts(&seconds);
            assert!(parts.len() <= MOST_PARTS && parts[0].first == 1, "{n}");
            assert_eq!(parts.last().unwrap().last, seconds.len());
            assert!(parts.windows(2).all(|pair| pair[1].first == pair[0].last + 1), "{n}");
            for part in parts {
                assert!((part.least_s - part.first as f64).abs() < 1e-9);
                assert!((part.greatest_s - part.last as f64).abs() < 1e-9);
                assert!((part.median_s - (part.first + part.last) as f64 / 2.0).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn rows_with_marked_runs_come_first_and_useless_clocks_have_no_trace() {
        let study = StudyBuilder::new()
            .run("cpu", "resnet18", 4, 1, 8.0)
            .seconds(IterationClock::Host, &[0.5; 10])
            .run_with(crate::analysis::fixture::key("cpu", "resnet18", 16, 1), 8.0, |record| {
                record.observed.host_busy_s = Some(1e6);
            })
            .seconds(IterationClock::Host, &[0.5; 10])
            .run("cpu", "resnet18", 32, 1, 8.0)
            .seconds(IterationClock::Submission, &[0.5; 10])
            .build();
        let analysis = analyse(&study);
        let (traces, all) = traces(&analysis);
        let batches: Vec<u32> = traces.iter().map(|of| analysis.rows[of.row].config.batch).collect();
        assert_eq!((batches, all), (vec![16, 4], 2));
    }
}
