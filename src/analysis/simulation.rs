//! Simulations of two rates: how often the interval of a row covers the true throughput, and how often a block is
//! reported as slow. `just calibrate-statistics` prints the tables of `docs/statistics.md`.

use super::block_shift::shifts;
use super::group::Statistics;
use super::marks::Threshold;
use crate::random::SplitMix64;
use crate::stats::Cell;

/// The share of throughput that a disturbed run loses, unless a line says otherwise.
const LOST: f64 = 0.08;

/// The number of simulated rows per table.
const ROWS_EACH: usize = 20;

/// The log throughput of a run with the standard deviation `deviation`. With the probability `slow` it is disturbed and
/// loses the share `lost`.
fn log(deviation: f64, slow: f64, lost: f64, random: &mut SplitMix64) -> f64 {
    let disturbed = if random.unit() < slow { (1.0 - lost).ln() } else { 0.0 };
    disturbed + deviation * random.normal()
}

/// A world of rows with `n` runs each.
#[derive(Clone, Copy)]
struct Rows {
    n: usize,
    deviation: f64,
    slow: f64,
    lost: f64,
    /// The shares of intervals that cover the throughput of undisturbed runs, and the geometric mean of all such runs.
    covers: [f64; 2],
}

const NORMAL: Rows = Rows { n: 5, deviation: 0.02, slow: 0.0, lost: LOST, covers: [0.95, 0.95] };
const ONE_IN_TEN: Rows = Rows { deviation: 0.01, slow: 0.1, ..NORMAL };
const ONE_IN_TWENTY: Rows = Rows { slow: 0.05, lost: 0.13, ..NORMAL };

/// Rows with normal logs of several deviations, and rows with disturbed runs.
const ROWS: [Rows; 11] = [
    Rows { n: 3, ..NORMAL },
    NORMAL,
    Rows { n: 10, ..NORMAL },
    Rows { deviation: 0.2, ..NORMAL },
    Rows { n: 3, covers: [0.958, 0.943], ..ONE_IN_TWENTY },
    Rows { covers: [0.961, 0.927], ..ONE_IN_TWENTY },
    Rows { n: 10, covers: [0.966, 0.901], ..ONE_IN_TWENTY },
    Rows { n: 3, covers: [0.963, 0.896], ..ONE_IN_TEN },
    Rows { n: 5, covers: [0.969, 0.825], ..ONE_IN_TEN },
    Rows { n: 10, covers: [0.965, 0.767], ..ONE_IN_TEN },
    Rows { n: 20, covers: [0.867, 0.878], ..ONE_IN_TEN },
];

/// The tolerated difference of a simulated coverage, in addition to chance.
const TOLERANCE: f64 = 0.006;

impl Rows {
    /// The simulated coverages over `rows` rows, in the order of [`Rows::covers`].
    fn coverage(self, rows: usize) -> [f64; 2] {
        let mut random = SplitMix64::of(14, &[self.n as u64]);
        let truths = [1.0, (self.slow * (1.0 - self.lost).ln()).exp()];
        let mut covered = [0; 2];
        for _ in 0..rows {
            let run = |_| log(self.deviation, self.slow, self.lost, &mut random).exp();
            let runs: Vec<f64> = (0..self.n).map(run).collect();
            let interval = Statistics::of(&runs).unwrap().interval.unwrap();
            for (number, truth) in covered.iter_mut().zip(truths) {
                *number += usize::from(interval.low <= truth && truth <= interval.high);
            }
        }
        covered.map(|number| number as f64 / rows as f64)
    }

    fn name(self) -> String {
        let [share, lost] = [self.slow, self.lost].map(|part| 100.0 * part);
        let slow =
            if share > 0.0 { format!(", {share:.0} % of the runs {lost:.0} % slow") } else { String::new() };
        format!("n = {}, CV {} %{slow}", self.n, 100.0 * self.deviation)
    }
}

/// A world of rows in blocks.
#[derive(Clone, Copy)]
struct Blocks {
    rows: usize,
    blocks: usize,
    /// The range of the deviations of rows, which are uniform on a logarithmic scale.
    deviations: (f64, f64),
    slow: f64,
    /// The share that all runs of the first block lose.
    lost: f64,
    threshold: f64,
}

const USUAL: Blocks =
    Blocks { rows: 12, blocks: 5, deviations: (0.01, 0.01), slow: 0.0, lost: 0.0, threshold: 0.01 };

/// The reports of blocks that are counted.
#[derive(Clone, Copy)]
enum Counted {
    /// Reports of a block that does not differ.
    False,
    /// Reports that the first block is slower.
    First,
}

/// A line of the table: its name, the world, the counted reports, and the least and greatest expected share.
type Line = (&'static str, Blocks, Counted, [f64; 2]);

#[rustfmt::skip]
fn lines() -> Vec<Line> {
    use Counted::{False, First};
    let rare = [0.0, 0.05];
    let unlike = Blocks { deviations: (0.003, 0.03), ..USUAL };
    let slow = Blocks { slow: 0.1, ..USUAL };
    let lost = |lost| Blocks { lost, ..USUAL };
    vec![
        ("no block differs: any is reported", USUAL, False, rare),
        ("the same, threshold 0: chance alone", Blocks { threshold: 0.0, ..USUAL }, False, rare),
        ("the same, 3 rows and 3 blocks", Blocks { rows: 3, blocks: 3, ..USUAL }, False, rare),
        ("the same, 10 blocks", Blocks { blocks: 10, ..USUAL }, False, rare),
        ("the same, scatter from 0.3 % to 3 % by row", unlike, False, rare),
        ("the same, 10 % of the runs 8 % slow", slow, False, rare),
        ("the same, 10 % of the runs 8 % slow, 10 blocks", Blocks { blocks: 10, ..slow }, False, rare),
        ("the same, 10 % of the runs 8 % slow, 3 rows", Blocks { rows: 3, ..slow }, False, rare),
        ("one block is 4 % slower: found", lost(0.04), First, [0.99, 1.0]),
        ("the same: another one is reported", lost(0.04), False, rare),
        ("one block is 2 % slower: found", lost(0.02), First, [0.99, 1.0]),
        ("one block is 4 % slower, 3 rows: found", Blocks { rows: 3, ..lost(0.04) }, First, [0.97, 1.0]),
        ("one block is 4 % slower, 10 % of the runs 8 % slow: found", Blocks { slow: 0.1, ..lost(0.04) }, First, [0.9, 1.0]),
    ]
}

impl Blocks {
    fn cells(self, random: &mut SplitMix64) -> Vec<Cell> {
        let mut cells = Vec::new();
        for row in 0..self.rows {
            let (low, high) = self.deviations;
            let deviation = low * (high / low).powf(random.unit());
            for block in 0..self.blocks {
                let lost = if block == 0 { (1.0 - self.lost).ln() } else { 0.0 };
                cells.push(Cell { row, block, value: 5.0 + lost + log(deviation, self.slow, LOST, random) });
            }
        }
        cells
    }

    /// The share of `tables` tables with a counted report.
    fn share(self, counted: Counted, tables: usize) -> f64 {
        let mut random = SplitMix64::of(14, &[self.rows as u64, self.blocks as u64]);
        let has_report = |_: &usize| {
            let found = shifts(self.cells(&mut random), self.threshold);
            match counted {
                Counted::False => found.iter().any(|shift| self.lost == 0.0 || shift.block != 0),
                Counted::First => found.iter().any(|shift| shift.block == 0 && shift.change < 0.0),
            }
        };
        (0..tables).filter(has_report).count() as f64 / tables as f64
    }
}

/// The tolerated difference of a share of `n` by chance: three standard errors.
fn chance(share: f64, n: usize) -> f64 {
    3.0 * (share * (1.0 - share) / n as f64).sqrt()
}

/// A short version; the seed is fixed, so it has one outcome.
#[test]
fn intervals_of_rows_have_their_stated_coverage() {
    let rows = 4_000;
    for one in ROWS {
        for (coverage, share) in one.coverage(rows).into_iter().zip(one.covers) {
            let tolerance = TOLERANCE + chance(share, rows);
            assert!((coverage - share).abs() < tolerance, "{}: {coverage}", one.name());
        }
    }
}

/// A short version; the seed is fixed, so it has one outcome.
#[test]
fn false_reports_of_blocks_are_rare_and_slow_blocks_are_found() {
    let tables = 300;
    assert_eq!(USUAL.threshold, Threshold::BlockShift.facts().value);
    for (name, world, counted, [least, most]) in lines() {
        let share = world.share(counted, tables);
        let tolerance = chance(share.clamp(0.01, 0.99), tables);
        assert!(least - tolerance < share && share < most + tolerance, "{name}: {share}");
    }
}

#[test]
#[ignore = "takes long unless optimized; `just calibrate-statistics` runs it"]
#[expect(clippy::disallowed_methods, reason = "the recipe sets the number of tables")]
fn calibrate() {
    let tables = std::env::var("SIMULATED_TABLES").map_or(1000, |text| text.parse().expect("a whole number"));
    let rows = ROWS_EACH * tables;
    println!("| simulated, {rows} rows each | covers undisturbed | covers all |\n|---|---|---|");
    for one in ROWS {
        let [undisturbed, all] = one.coverage(rows).map(|share| 100.0 * share);
        println!("| {} | {undisturbed:.1} % | {all:.1} % |", one.name());
    }
    println!("\n| simulated, {tables} machines each | share |\n|---|---|");
    for (name, world, counted, _) in lines() {
        println!("| {name} | {:.1} % |", 100.0 * world.share(counted, tables));
    }
}
