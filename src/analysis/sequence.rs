//! The runs of each machine in the order in which they started, each as the distance of its throughput from that of
//! its row. So drifts, shifts of blocks and outliers of all configs are visible together.
//!
//! It is for figures only: [`super::marks`] and [`super::block_shift`] decide.

use std::collections::{BTreeMap, HashMap};

use super::Run;
use super::blocks::{blocks, by_machine};
use super::group::Row;
use crate::record::Record;
use crate::stats::{self, CONFIDENCE, correlated_slope, median, medians_of_parts};

/// The least number of runs for a median of a block.
const LEAST_OF_BLOCK: usize = 3;

/// The most numbers that a slope is computed from. Its time grows with their square.
const MOST_OF_SLOPE: usize = 200;

/// The runs of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    /// The host's name.
    pub host: String,
    /// The first digits of the machine's id, if any record has one.
    pub machine: Option<String>,
    /// The runs with a throughput, by time.
    pub runs: Vec<Placed>,
    /// Their blocks, by time.
    pub blocks: Vec<Block>,
    /// The drift of the throughput; `None` if too few runs count.
    pub drift: Option<Drift>,
}

/// A run in the sequence of its machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placed {
    /// The index of its row among the analysis's rows.
    pub row: usize,
    /// Its own index among the runs of that row.
    pub run: usize,
    /// Its place among the runs of the machine, from 1.
    pub place: usize,
    /// The number of its block on the machine, from 1.
    pub block: usize,
    /// Its throughput ÷ that of its row − 1. `None` if fewer than two runs of the row count: the median would be
    /// the run itself.
    pub change: Option<f64>,
}

/// Runs that were made together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    /// The repeat of its runs.
    pub repeat: u32,
    /// The places of its first and last run.
    pub places: [usize; 2],
    /// The median change of its runs that count; `None` of fewer than three.
    pub change: Option<f64>,
}

/// The change of throughput from the first run to the last one: a robust slope over the runs that count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// The change over the whole sequence.
    pub change: f64,
    /// Its 95 % interval, which is infinite if neighbours correlate too much.
    pub interval: [f64; 2],
}

/// A run with the indices of its row and of itself in that.
type Indexed<'r, 'a> = (usize, usize, &'r Run<'a>);

/// The sequences of `rows`, by their hosts' names.
pub(super) fn sequences(rows: &[Row<'_>]) -> Vec<Sequence> {
    let runs = rows
        .iter()
        .enumerate()
        .flat_map(|(row, it)| it.runs.iter().enumerate().map(move |(run, it)| (row, run, it)));
    let runs: Vec<Indexed<'_, '_>> = runs.filter(|(_, _, run)| run.samples_per_s().is_some()).collect();
    let records: Vec<&Record> = runs.iter().filter_map(|(_, _, run)| run.cell.record()).collect();
    let blocks = blocks(&records);
    let machines = by_machine(&records).into_iter();
    let mut found: Vec<Sequence> = machines
        .map(|machine| {
            let members: Vec<(usize, &Record)> =
                machine.iter().map(|placed| (placed.index, placed.record)).collect();
            sequence(rows, &runs, &blocks, &members)
        })
        .collect();
    found.sort_by(|one, other| (&one.host, &one.machine).cmp(&(&other.host, &other.machine)));
    found
}

/// The sequence of one machine: `members` are the places of its runs in `runs`, by time, with their records.
fn sequence(
    rows: &[Row<'_>],
    runs: &[Indexed<'_, '_>],
    blocks: &[usize],
    members: &[(usize, &Record)],
) -> Sequence {
    let mut numbers: HashMap<usize, usize> = HashMap::new();
    let mut placed: Vec<Placed> = Vec::new();
    for (place, (index, _)) in (1..).zip(members) {
        let (row, run, it) = runs[*index];
        let next = numbers.len() + 1;
        let block = *numbers.entry(blocks[*index]).or_insert(next);
        placed.push(Placed { row, run, place, block, change: change(&rows[row], it) });
    }
    let counts = |placed: &&Placed| rows[placed.row].runs[placed.run].counts();
    let mut members_of: BTreeMap<usize, Vec<&Placed>> = BTreeMap::new();
    for run in &placed {
        members_of.entry(run.block).or_default().push(run);
    }
    let block = |of: &Vec<&Placed>| {
        let places = [of[0].place, of[of.len() - 1].place];
        let changes: Vec<f64> = of.iter().copied().filter(counts).filter_map(|run| run.change).collect();
        let change = median(&changes).ok().filter(|_| changes.len() >= LEAST_OF_BLOCK);
        Block { repeat: members[places[0] - 1].1.key.repeat, places, change }
    };
    let hosts = || members.iter().map(|(_, record)| &record.provenance.host);
    Sequence {
        host: hosts().next().map(|host| host.hostname.clone()).unwrap_or_default(),
        machine: hosts().find_map(|host| host.machine_text()).map(str::to_owned),
        blocks: members_of.values().map(block).collect(),
        drift: drift(&placed.iter().filter(counts).filter_map(|run| run.change).collect::<Vec<_>>()),
        runs: placed,
    }
}

fn change(row: &Row<'_>, run: &Run<'_>) -> Option<f64> {
    let statistics = row.statistics.as_ref().ok().filter(|statistics| statistics.n > 1)?;
    Some(run.samples_per_s()? / statistics.geometric_mean - 1.0)
}

fn drift(changes: &[f64]) -> Option<Drift> {
    let parts = medians_of_parts(changes, MOST_OF_SLOPE);
    let stats::Slope { per_step, interval } = correlated_slope(&parts, CONFIDENCE).ok()?;
    let steps = (parts.len() - 1) as f64;
    Some(Drift { change: steps * per_step, interval: [steps * interval.low, steps * interval.high] })
}

#[cfg(test)]
mod tests {
    use crate::analysis::analyse;
    use crate::analysis::fixture::StudyBuilder;

    /// Five blocks of three networks, each of which is `step` faster than the one before.
    fn study(step: f64) -> StudyBuilder {
        (0..5u32).fold(StudyBuilder::new(), |study, block| {
            let grown = 1.0 + step * f64::from(block);
            study
                .block(block + 1, &[("resnet18", 100.0 * grown), ("vgg16", 10.0 * grown), ("alexnet", grown)])
        })
    }

    #[test]
    fn runs_of_all_configs_are_placed_by_time_and_by_block() {
        let study = study(0.01).build();
        let analysis = analyse(&study);
        let [sequence] = &analysis.sequences[..] else { panic!("one machine") };
        assert_eq!((sequence.host.as_str(), sequence.runs.len()), ("bench-1", 15));
        let places: Vec<[usize; 2]> = sequence.blocks.iter().map(|block| block.places).collect();
        assert_eq!(places, [[1, 3], [4, 6], [7, 9], [10, 12], [13, 15]]);
        // The throughput is the geometric mean over the blocks.
        let change = sequence.blocks[4].change.unwrap();
        assert!((change - (1.04 / (1.01f64 * 1.02 * 1.03 * 1.04).powf(0.2) - 1.0)).abs() < 1e-9, "{change}");
        assert!(sequence.runs.windows(2).all(|pair| pair[0].place + 1 == pair[1].place));
    }

    #[test]
    fn a_drift_is_the_change_over_the_whole_sequence() {
        let study = study(0.01).build();
        let drift = analyse(&study).sequences[0].drift.unwrap();
        assert!((0.03..0.05).contains(&drift.change), "{drift:?}");
        assert!(drift.interval[0] <= drift.change && drift.change <= drift.interval[1]);
    }

    #[test]
    fn a_run_alone_in_its_row_has_no_change() {
        let study = StudyBuilder::new().runs("cpu", "resnet18", 4, &[8.0]).build();
        let analysis = analyse(&study);
        assert_eq!(analysis.sequences[0].runs[0].change, None);
        assert_eq!(analysis.sequences[0].drift, None);
    }
}
