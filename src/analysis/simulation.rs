//! How often the interval of a row covers, and how often a block is told to be slow, by simulation. The tables in
//! `docs/statistics.md` are what `just calibrate-statistics` prints.

use super::block_shift::shifts;
use super::group::Statistics;
use super::marks::Threshold;
use crate::random::SplitMix64;
use crate::stats::Cell;

/// What a disturbed run loses, unless a line says otherwise.
const LOST: f64 = 0.08;

/// How many rows are simulated for each table.
const ROWS_EACH: usize = 20;

/// The log of a run that scatters by `deviation`. With the probability `slow` it is disturbed and loses `lost`.
fn log(deviation: f64, slow: f64, lost: f64, random: &mut SplitMix64) -> f64 {
    let disturbed = if random.unit() < slow { (1.0 - lost).ln() } else { 0.0 };
    disturbed + deviation * random.normal()
}

/// Rows of `n` runs.
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

/// Normal logs, whatever they scatter by, and logs with disturbed runs.
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

/// What a simulated coverage may differ by, beside chance.
const OFF: f64 = 0.006;

impl Rows {
    /// The shares of `rows` rows whose interval covers, as in [`Rows::covers`].
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

/// Rows in blocks.
#[derive(Clone, Copy)]
struct Blocks {
    rows: usize,
    blocks: usize,
    /// The deviations of rows lie between these, on a logarithmic scale.
    deviations: (f64, f64),
    slow: f64,
    /// What all runs of the first block lose.
    lost: f64,
    threshold: f64,
}

const USUAL: Blocks =
    Blocks { rows: 12, blocks: 5, deviations: (0.01, 0.01), slow: 0.0, lost: 0.0, threshold: 0.01 };

/// What is counted.
#[derive(Clone, Copy)]
enum Told {
    /// Any block that does not differ.
    Falsely,
    /// The first block, and that it is slower.
    First,
}

/// A line of the table: its name, the world, what is counted, and the least and greatest share.
type Line = (&'static str, Blocks, Told, [f64; 2]);

#[rustfmt::skip]
fn lines() -> Vec<Line> {
    use Told::{Falsely, First};
    let rare = [0.0, 0.05];
    let unlike = Blocks { deviations: (0.003, 0.03), ..USUAL };
    let slow = Blocks { slow: 0.1, ..USUAL };
    let lost = |lost| Blocks { lost, ..USUAL };
    vec![
        ("no block differs: any is told", USUAL, Falsely, rare),
        ("the same, threshold 0: chance alone is held", Blocks { threshold: 0.0, ..USUAL }, Falsely, rare),
        ("the same, 3 rows and 3 blocks", Blocks { rows: 3, blocks: 3, ..USUAL }, Falsely, rare),
        ("the same, 10 blocks", Blocks { blocks: 10, ..USUAL }, Falsely, rare),
        ("the same, scatter from 0.3 % to 3 % by row", unlike, Falsely, rare),
        ("the same, 10 % of the runs 8 % slow", slow, Falsely, rare),
        ("the same, 10 % of the runs 8 % slow, 10 blocks", Blocks { blocks: 10, ..slow }, Falsely, rare),
        ("the same, 10 % of the runs 8 % slow, 3 rows", Blocks { rows: 3, ..slow }, Falsely, rare),
        ("one block is 4 % slower: found", lost(0.04), First, [0.99, 1.0]),
        ("the same: another one is told", lost(0.04), Falsely, rare),
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

    /// The share of `tables` tables in which it is so.
    fn share(self, told: Told, tables: usize) -> f64 {
        let mut random = SplitMix64::of(14, &[self.rows as u64, self.blocks as u64]);
        let is_so = |_: &usize| {
            let found = shifts(self.cells(&mut random), self.threshold);
            match told {
                Told::Falsely => found.iter().any(|shift| self.lost == 0.0 || shift.block != 0),
                Told::First => found.iter().any(|shift| shift.block == 0 && shift.change < 0.0),
            }
        };
        (0..tables).filter(is_so).count() as f64 / tables as f64
    }
}

/// How far a share of `n` may be off by chance: three standard errors.
fn chance(share: f64, n: usize) -> f64 {
    3.0 * (share * (1.0 - share) / n as f64).sqrt()
}

/// A short version; the seed is fixed, so it has one outcome.
#[test]
fn an_interval_of_a_row_covers_as_often_as_it_says() {
    let rows = 4_000;
    for one in ROWS {
        for (coverage, share) in one.coverage(rows).into_iter().zip(one.covers) {
            assert!((coverage - share).abs() < OFF + chance(share, rows), "{}: {coverage}", one.name());
        }
    }
}

/// A short version; the seed is fixed, so it has one outcome.
#[test]
fn a_block_is_told_rarely_without_a_cause_and_mostly_with_one() {
    let tables = 300;
    assert_eq!(USUAL.threshold, Threshold::BlockShift.facts().value);
    for (name, world, told, [least, most]) in lines() {
        let share = world.share(told, tables);
        let off = chance(share.clamp(0.01, 0.99), tables);
        assert!(least - off < share && share < most + off, "{name}: {share}");
    }
}

/// `just calibrate-statistics` runs this.
#[test]
#[ignore = "takes long unless optimized; `just calibrate-statistics` runs it"]
#[expect(clippy::disallowed_methods, reason = "how many tables is told by the recipe")]
fn calibrate() {
    let tables = std::env::var("SIMULATED_TABLES").map_or(1000, |text| text.parse().expect("a whole number"));
    let rows = ROWS_EACH * tables;
    println!("| simulated, {rows} rows each | covers undisturbed | covers all |\n|---|---|---|");
    for one in ROWS {
        let [undisturbed, all] = one.coverage(rows).map(|share| 100.0 * share);
        println!("| {} | {undisturbed:.1} % | {all:.1} % |", one.name());
    }
    println!("\n| simulated, {tables} machines each | share |\n|---|---|");
    for (name, world, told, _) in lines() {
        println!("| {name} | {:.1} % |", 100.0 * world.share(told, tables));
    }
}
