//! Simulates how often the interval covers the true throughput if `until` decided the number of repeats. `just
//! calibrate-statistics` prints the table in `docs/statistics.md`.

use super::course_of;
use crate::matrix::RepeatRule;
use crate::random::SplitMix64;
use crate::stats::{CONFIDENCE, Course, mean_interval};

/// The matrices of a scenario in the ordinary tests.
const SHORT: usize = 100;

/// The configs of a matrix. They share the effects of blocks.
const CONFIGS: usize = 7;

/// The simulated model: log of throughput = block + scatter.
#[derive(Clone, Copy)]
struct World {
    /// Standard deviations of the logs.
    block: f64,
    within: f64,
    rule: RepeatRule,
}

/// The result of a scenario.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// The share of intervals that cover.
    covered: f64,
    /// The mean number of repeats.
    repeats: f64,
    /// The share of configs that ended with a wider interval, at `max`.
    wide: f64,
}

fn worlds() -> Vec<World> {
    let rule = |max, until| RepeatRule { min: 3, max, until: Some(until), replace_marked: 0 };
    let mut worlds = Vec::new();
    for block in [0.0, 0.02] {
        for within in [0.01, 0.02, 0.05] {
            worlds.push(World { block, within, rule: rule(20, 0.02) });
        }
    }
    // In between, where the rule performs worst.
    worlds.extend([0.03, 0.04].map(|within| World { block: 0.0, within, rule: rule(20, 0.02) }));
    worlds.extend([0.02, 0.05].map(|within| World { block: 0.0, within, rule: rule(100, 0.02) }));
    worlds
}

impl World {
    /// Runs every config of one matrix block by block, each until it has enough.
    fn matrix(&self, random: &mut SplitMix64) -> Vec<[f64; 3]> {
        let mut configs = vec![(course_of(&self.rule, &[]), Vec::new()); CONFIGS];
        for _ in 0..self.rule.max {
            let block = self.block * random.normal();
            for (course, logs) in configs.iter_mut().filter(|(course, _)| !course.is_enough()) {
                logs.push(block + self.within * random.normal());
                course.add(logs[logs.len() - 1]);
            }
        }
        configs.iter().map(|(course, logs)| ended(course, logs)).collect()
    }

    fn simulate(&self, matrices: usize) -> Found {
        let mut random = SplitMix64::new(14);
        let mut sums = [0.0; 3];
        for ended in (0..matrices).flat_map(|_| self.matrix(&mut random)) {
            sums.iter_mut().zip(ended).for_each(|(sum, one)| *sum += one);
        }
        let [covered, repeats, wide] = sums.map(|sum| sum / (matrices * CONFIGS) as f64);
        Found { covered, repeats, wide }
    }

    fn name(&self) -> String {
        let RepeatRule { max, until, .. } = self.rule;
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let blocks =
            if self.block > 0.0 { format!("blocks {}, ", percent(self.block)) } else { String::new() };
        format!(
            "{blocks}CV {}, until {}, max {max}",
            percent(self.within),
            percent(until.unwrap_or_default())
        )
    }
}

/// Whether the interval covers 0, the number of repeats, and whether they are not enough.
fn ended(course: &Course, logs: &[f64]) -> [f64; 3] {
    let interval = mean_interval(logs, CONFIDENCE).expect("eight repeats");
    let covers = interval.low <= 0.0 && 0.0 <= interval.high;
    [f64::from(u8::from(covers)), logs.len() as f64, f64::from(u8::from(!course.is_enough()))]
}

/// A short version; the seed is fixed, so it has one outcome. With blocks, the configs of a matrix err together.
#[test]
fn the_interval_has_its_nominal_coverage() {
    for world in worlds() {
        let found = world.simulate(SHORT);
        let independent = if world.block > 0.0 { SHORT } else { SHORT * CONFIGS } as f64;
        let slack = 3.0 * (0.94 * 0.06 / independent).sqrt();
        assert!(found.covered >= 0.94 - slack, "{}: {found:?}", world.name());
    }
}

/// `just calibrate-statistics` runs this.
#[test]
#[ignore = "takes long unless optimized; `just calibrate-statistics` runs it"]
#[expect(clippy::disallowed_methods, reason = "the recipe sets the number of matrices")]
fn calibrate() {
    let matrices =
        std::env::var("SIMULATED_TABLES").map_or(1000, |text| text.parse().expect("a whole number"));
    println!(
        "| simulated, {matrices} matrices of {CONFIGS} configs each | covered | repeats | wider at `max` |"
    );
    println!("|---|---|---|---|");
    let mut broken = Vec::new();
    for world in worlds() {
        let Found { covered, repeats, wide } = world.simulate(matrices);
        println!("| {} | {:.1} % | {repeats:.1} | {:.0} % |", world.name(), 100.0 * covered, 100.0 * wide);
        let slack = 2.0 * (0.94 * 0.06 / matrices as f64).sqrt();
        if covered < 0.94 - slack {
            broken.push(world.name());
        }
    }
    assert!(broken.is_empty(), "not kept: {broken:#?}");
}
