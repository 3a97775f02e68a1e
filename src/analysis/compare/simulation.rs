//! Simulated error rates and power of the verdicts. `just calibrate-statistics` prints the table in
//! `docs/statistics.md`.

use super::*;
use crate::analysis::promise::{self, Promise, Share};
use crate::random::SplitMix64;
use crate::stats::Interval;

/// The number of tables per scenario in the ordinary tests.
const SHORT: usize = 60;

/// The simulated model: log of throughput = block + side + scatter.
#[derive(Clone, Copy)]
struct World {
    configs: usize,
    repeats: usize,
    /// Standard deviations of the logs.
    block: f64,
    within: Within,
    /// That of a disturbance of one side of a block, in all configs.
    one_sided: f64,
    /// The share of runs that lose 8 %.
    slow: f64,
    /// Whether the blocks of the sides are the same.
    paired: bool,
    /// The loss of a config on the second side, as a share.
    loss: fn(usize) -> f64,
}

/// The scatter of the runs of a config.
#[derive(Clone, Copy)]
enum Within {
    /// This standard deviation.
    Alike(f64),
    /// One between these, drawn for each config on a logarithmic scale.
    Between(f64, f64),
}

/// 60 configs, 5 repeats, blocks of 3 % and scatter of 1 %, paired, and no difference.
const USUAL: World = World {
    configs: 60,
    repeats: 5,
    block: 0.03,
    within: Within::Alike(0.01),
    one_sided: 0.0,
    slow: 0.0,
    paired: true,
    loss: |_| 0.0,
};

/// The counted event of a table.
#[derive(Clone, Copy)]
enum Event {
    /// Any false verdict.
    Any,
    /// *Same*, of a config that reaches the margin.
    FalseSame,
    /// The verdict of the first config is *slower*.
    FirstSlower,
    /// The share of configs with the verdict *same*.
    ShareSame,
    /// The share of 95 % intervals that do not cover the true ratio.
    Uncovered,
    /// The 95 % interval of the geometric mean does not cover the true one.
    MeanUncovered,
    /// The gate at a limit of 5 % fails the table.
    Fails,
    /// The configs are reported to disagree.
    Disagrees,
}

/// A line of the table.
struct Scenario {
    name: &'static str,
    world: World,
    event: Event,
    promise: Promise,
}

#[rustfmt::skip]
fn scenarios() -> Vec<Scenario> {
    use Event::*;
    use Promise::{AtLeast, AtMost};
    let line = |name, world, event, promise| Scenario { name, world, event, promise };
    let five = World { loss: |config| if config == 0 { 0.05 } else { 0.0 }, ..USUAL };
    let three = World { loss: |config| if config == 0 { 0.03 } else { 0.0 }, repeats: 10, ..USUAL };
    let slow = World { slow: 0.1, ..USUAL };
    let unlike = World { within: Within::Between(0.003, 0.03), ..USUAL };
    let margin = World { loss: |_| 0.02, ..USUAL };
    let mixed = World { loss: |config| if config % 2 == 0 { 0.02 } else { 0.0 }, repeats: 10, ..USUAL };
    let apart = World { loss: |config| if config % 2 == 0 { 0.1 } else { 0.0 }, repeats: 3, ..USUAL };
    let one_sided = World { one_sided: 0.01, ..USUAL };
    let unpaired = World { paired: false, block: 0.0, within: Within::Alike(0.02), configs: 1, ..USUAL };
    let nights = World { paired: false, ..USUAL };
    let lost = |world: World| World { loss: |config| if config == 0 { 0.15 } else { 0.0 }, ..world };
    let slow_ten = World { slow: 0.1, repeats: 10, ..five };
    let many = World { configs: 60, ..unpaired };
    vec![
        line("A/A, blocks 3 %, within 1 %, n = 5: any false verdict", USUAL, Any, AtMost(0.05)),
        line("the same with 10 % of the runs 8 % slow", slow, Any, AtMost(0.07)),
        line("the same, 3 repeats", World { repeats: 3, ..slow }, Any, AtMost(0.07)),
        line("the same, 10 repeats", World { repeats: 10, ..slow }, Any, AtMost(0.07)),
        line("A/A, scatter from 0.3 % to 3 % by config", unlike, Any, Promise::None),
        line("the same, 10 configs, n = 5", World { configs: 10, ..unlike }, Any, Promise::None),
        line("the same, 20 configs, n = 3", World { configs: 20, repeats: 3, ..unlike }, Any, Promise::None),
        line("A/A, 3 configs", World { configs: 3, ..USUAL }, Any, AtMost(0.05)),
        line("A/A, 5 configs, n = 3", World { configs: 5, repeats: 3, ..USUAL }, Any, AtMost(0.05)),
        line("A/A, 5 configs, n = 5", World { configs: 5, ..USUAL }, Any, AtMost(0.05)),
        line("A/A, 5 configs, n = 10", World { configs: 5, repeats: 10, ..USUAL }, Any, AtMost(0.05)),
        line("A/A, 8 configs, n = 5", World { configs: 8, ..USUAL }, Any, AtMost(0.05)),
        line("A/A, 8 configs, n = 6", World { configs: 8, repeats: 6, ..USUAL }, Any, AtMost(0.05)),
        line("A/A, 10 configs, n = 3", World { configs: 10, repeats: 3, ..USUAL }, Any, AtMost(0.05)),
        line("A/A, 10 configs, n = 5", World { configs: 10, ..USUAL }, Any, AtMost(0.05)),
        line("A/A, 20 configs, n = 3", World { configs: 20, repeats: 3, ..USUAL }, Any, AtMost(0.05)),
        line("A/A, 20 configs, n = 5", World { configs: 20, ..USUAL }, Any, AtMost(0.05)),
        line("A/A, 60 configs, n = 3", World { repeats: 3, ..USUAL }, Any, AtMost(0.05)),
        line("A/A, a disturbance of 1 % hits one side of a block in all configs", one_sided, Any, Promise::None),
        line("A/A, sides on two nights (blocks not shared)", nights, Any, AtMost(0.05)),
        line("one config of 60 is 5 % slower, n = 5: found", five, FirstSlower, AtLeast(0.90)),
        line("one config of 60 is 3 % slower, n = 10: found", three, FirstSlower, AtLeast(0.95)),
        line("one is 5 % slower, 10 % of the runs 8 % slow, n = 10: found", slow_ten, FirstSlower, Promise::None),
        line("all 60 configs at the margin, n = 5: any is called same", margin, FalseSame, AtMost(0.05)),
        line("one config at the margin, n = 5: called same", World { configs: 1, ..margin }, FalseSame, AtMost(0.05)),
        line("half of 60 configs at the margin, n = 10: any false verdict", mixed, Any, Promise::None),
        line("60 configs of one ratio, n = 5: said to disagree", USUAL, Disagrees, AtMost(0.01)),
        line("the same, n = 3, scatter of 10 %", World { repeats: 3, within: Within::Alike(0.1), ..USUAL }, Disagrees, AtMost(0.01)),
        line("the same, 5 configs, unpaired", World { repeats: 3, within: Within::Alike(0.1), configs: 5, ..nights }, Disagrees, AtMost(0.01)),
        line("half of 60 configs 10 % slower, n = 3: said to disagree", apart, Disagrees, AtLeast(0.95)),
        line("A/A, n = 5: share of configs called same", USUAL, ShareSame, Promise::None),
        line("A/A, n = 10: share of configs called same", World { repeats: 10, ..USUAL }, ShareSame, AtLeast(0.9)),
        line("A/A, n = 5: intervals of ratios that do not cover", USUAL, Uncovered, AtMost(0.055)),
        line("A/A, scatter from 0.3 % to 3 %: intervals that do not cover", unlike, Uncovered, AtMost(0.06)),
        line("A/A, n = 5: geometric mean not covered", USUAL, MeanUncovered, AtMost(0.055)),
        line("A/A, one-sided disturbance of 1 %: geometric mean not covered", one_sided, MeanUncovered, AtMost(0.055)),
        line("A/A, two nights: geometric mean not covered", nights, MeanUncovered, AtMost(0.055)),
        line("unpaired, CV 2 %, n = 5, 15 % slower: fails a limit of 5 %", lost(unpaired), Fails, AtLeast(0.90)),
        line("unpaired, 60 configs, one 15 % slower: fails a limit of 5 %", lost(many), Fails, AtLeast(0.90)),
        line("unpaired, no change: fails a limit of 5 %", unpaired, Fails, AtMost(0.001)),
        line("unpaired, 60 configs, no change: fails a limit of 5 %", many, Fails, AtMost(0.001)),
        line("paired, 60 configs, one 5 % slower: fails a limit of 5 %", five, Fails, AtMost(0.025)),
    ]
}

impl World {
    fn table(&self, random: &mut SplitMix64) -> Vec<Sides> {
        let blocks: [Vec<f64>; 2] =
            [0, 1].map(|_| (0..self.repeats).map(|_| self.block * random.normal()).collect());
        let hit: Vec<f64> = (0..self.repeats).map(|_| self.one_sided * random.normal()).collect();
        let config = |config: usize, random: &mut SplitMix64| {
            let within = match self.within {
                Within::Alike(within) => within,
                Within::Between(low, high) => low * (high / low).powf(random.unit()),
            };
            let mut side = |second: bool| {
                let own = usize::from(second && !self.paired);
                let run = |repeat: usize| {
                    let mut log = 5.0 + blocks[own][repeat] + within * random.normal();
                    if second {
                        log += hit[repeat] + (1.0 - (self.loss)(config)).ln();
                    }
                    if random.unit() < self.slow {
                        log += 0.92f64.ln();
                    }
                    Rate { per_s: log.exp(), block: Some(repeat + own * self.repeats) }
                };
                (0..self.repeats).map(run).collect()
            };
            Sides { from: side(false), to: side(true) }
        };
        (0..self.configs).map(|index| config(index, random)).collect()
    }
}

impl Event {
    /// Its count in `comparison`: 0 or 1, or a share of the configs.
    fn count(self, world: &World, comparison: &Comparison) -> f64 {
        let configs = || comparison.configs.iter().enumerate().map(|(index, one)| (index, one.unwrap()));
        let any = |wrong: &dyn Fn(usize, Compared) -> bool| {
            f64::from(u8::from(configs().any(|(index, one)| wrong(index, one))))
        };
        let reaches_margin = |index| (world.loss)(index) >= comparison.settings.margin;
        let holds = |interval: Interval, ratio: f64| interval.low <= ratio && ratio <= interval.high;
        let covers = |index: usize, one: Compared| holds(one.interval, 1.0 - (world.loss)(index));
        let n = comparison.configs.len() as f64;
        match self {
            Event::Any => any(&|index, one| match one.verdict {
                Verdict::Faster => true,
                Verdict::Slower => (world.loss)(index) == 0.0,
                Verdict::Same => reaches_margin(index),
                Verdict::CannotTell => false,
            }),
            Event::FalseSame => any(&|index, one| one.verdict == Verdict::Same && reaches_margin(index)),
            Event::FirstSlower => any(&|index, one| index == 0 && one.verdict == Verdict::Slower),
            Event::ShareSame => configs().filter(|(_, one)| one.verdict == Verdict::Same).count() as f64 / n,
            Event::Uncovered => configs().filter(|(index, one)| !covers(*index, *one)).count() as f64 / n,
            Event::MeanUncovered => {
                let interval = comparison.geometric_mean.unwrap().interval(0.95);
                f64::from(u8::from(!holds(interval, 0.0)))
            }
            Event::Fails => f64::from(u8::from(matches!(gate(comparison, 0.05), Gate::Slower(_)))),
            Event::Disagrees => f64::from(u8::from(comparison.disagrees())),
        }
    }
}

impl Scenario {
    /// The share over `tables` tables.
    fn share(&self, tables: usize) -> f64 {
        let mut random = SplitMix64::new(14);
        let one = |_| {
            let table = self.world.table(&mut random);
            self.event.count(&self.world, &compare(&table, Settings::default()))
        };
        (0..tables).map(one).sum::<f64>() / tables as f64
    }
}

/// A short version; the seed is fixed, so it has one outcome.
#[test]
fn promises_are_kept() {
    for scenario in scenarios() {
        let share = scenario.share(SHORT);
        assert!(scenario.promise.is_kept(share, SHORT, 3.0), "{}: {:.1} %", scenario.name, 100.0 * share);
    }
}

/// `just calibrate-statistics` runs this.
#[test]
#[ignore = "takes long unless optimized; `just calibrate-statistics` runs it"]
#[expect(clippy::disallowed_methods, reason = "the recipe sets the number of tables")]
fn calibrate() {
    let tables = std::env::var("SIMULATED_TABLES").map_or(1000, |text| text.parse().expect("a whole number"));
    let shares = scenarios().into_iter().map(|scenario| Share {
        share: scenario.share(tables),
        name: scenario.name.to_owned(),
        promise: scenario.promise,
    });
    promise::print(&format!("simulated, {tables} tables each | share"), shares, tables);
}
