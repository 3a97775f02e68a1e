//! Simulated error rates of the marks: how often they are false and how often they are missed. Covers the marks that
//! are computed from clock readings, from the seconds of iterations, from the runs of a row, and from the traces of
//! other processes. `just calibrate-marks` prints the tables in `docs/statistics.md`.

use super::compare::scatters;
use super::repeats::{Counted, of_machine};
use super::sensors::variation;
use super::shift::level_shift;
use super::stalls::stalls;
use super::times::periodic;
use super::*;
use crate::analysis::Study;
use crate::analysis::fixture::{StudyBuilder, key};
use crate::analysis::promise::{self, Promise, Share};
use crate::random::SplitMix64;
use crate::record::Readings;

/// The number of worlds per line in the ordinary tests.
const SHORT: usize = 300;

/// A line of the table.
struct Line {
    name: String,
    /// Draws a world; returns whether it raises a mark.
    is_marked: Box<dyn Fn(&mut SplitMix64) -> bool>,
    promise: Promise,
}

fn lines() -> Vec<Line> {
    let of_windows = periods().into_iter().chain(long_iterations()).chain(levels());
    let of_rows = rows().into_iter().chain(repeats());
    clocks().into_iter().chain(of_windows).chain(of_rows).chain(traces()).chain(loads()).collect()
}

/// A clock that scatters by a share, and is 15 % lower for another share of the window.
fn clocks() -> Vec<Line> {
    let line = |n: usize, scatter: f64, lower: f64, promise| {
        let is_marked = move |random: &mut SplitMix64| {
            let slow = (lower * n as f64).round() as usize;
            let mhz = (0..n).map(|i| {
                let level = if i < slow { 1700.0 } else { 2000.0 };
                level * (1.0 + scatter * random.normal())
            });
            let share = Readings::of(mhz).and_then(|readings| variation(&readings));
            share.is_some_and(|share| share > Threshold::ClockWithin.facts().value)
        };
        let name = format!(
            "`clock-changed`, {n} readings, {:.0} % of scatter{}",
            100.0 * scatter,
            if lower > 0.0 {
                format!(", 15 % lower for {:.0} % of the window", 100.0 * lower)
            } else {
                String::new()
            }
        );
        Line { name, is_marked: Box::new(is_marked), promise }
    };
    let of = |n| {
        [
            line(n, 0.02, 0.0, Promise::AtMost(0.001)),
            line(n, 0.03, 0.0, Promise::None),
            line(n, 0.02, 0.5, Promise::AtLeast(0.95)),
            line(n, 0.02, 0.2, Promise::None),
            line(n, 0.02, 0.05, Promise::None),
        ]
    };
    [6, 20, 120, 600].into_iter().flat_map(of).collect()
}

/// Iterations of which every fourth may take longer. Neighbours resemble each other by a half.
fn periods() -> Vec<Line> {
    let line = |n: usize, slower: f64, promise| {
        let is_marked = move |random: &mut SplitMix64| {
            let mut last = 0.0;
            let seconds = (0..n).map(|place| {
                last = 0.043 * random.normal() + 0.5 * last;
                if place % 4 == 0 { slower * (1.0 + last) } else { 1.0 + last }
            });
            periodic(&seconds.collect::<Vec<f64>>(), None, &Thresholds::default()).is_some()
        };
        let what =
            if slower > 1.0 { format!("every fourth {slower} × as long") } else { "no period".to_owned() };
        let name = format!("`periodic`, {n} iterations, 5 % of scatter, {what}");
        Line { name, is_marked: Box::new(is_marked), promise }
    };
    let of = |n| {
        let found = Promise::AtLeast(0.95);
        [line(n, 1.0, Promise::AtMost(0.001)), line(n, 1.5, found), line(n, 1.25, Promise::None)]
    };
    [60, 300, 2000].into_iter().flat_map(of).collect()
}

/// A series around 1 whose neighbours correlate.
fn series(random: &mut SplitMix64, n: usize, scatter: f64, correlation: f64) -> Vec<f64> {
    let mut last = random.normal();
    let scale = (1.0 - correlation * correlation).sqrt();
    let mut next = || {
        last = correlation * last + scale * random.normal();
        1.0 + scatter * last
    };
    (0..n).map(|_| next()).collect()
}

/// Iterations of which some may take several times as long.
fn long_iterations() -> Vec<Line> {
    let line = |n: usize, scatter: f64, tail: f64, slow: f64, factor: f64, promise| {
        let is_marked = move |random: &mut SplitMix64| {
            let mut seconds = series(random, n, scatter, 0.0);
            for second in &mut seconds {
                *second -= tail * (1.0 - random.unit()).ln();
                *second *= if random.unit() < slow { factor } else { 1.0 };
            }
            stalls(&seconds, None, &Thresholds::default()).is_some()
        };
        let tail = if tail > 0.0 {
            format!(" and an exponential tail of {:.0} %", 100.0 * tail)
        } else {
            String::new()
        };
        let what = match slow {
            0.0 => "no stall".to_owned(),
            slow => format!("{:.0} % of them {factor} × as long", 100.0 * slow),
        };
        let name = format!("`stalls`, {n} iterations, {:.0} % of scatter{tail}, {what}", 100.0 * scatter);
        Line { name, is_marked: Box::new(is_marked), promise }
    };
    let of = |n| {
        let rare = Promise::AtMost(0.01);
        [
            line(n, 0.05, 0.0, 0.0, 1.0, rare),
            line(n, 0.1, 0.0, 0.0, 1.0, rare),
            // Of 30 iterations, the longest of such a tail may cost as much as a stall.
            line(n, 0.05, 0.2, 0.0, 1.0, if n < 50 { Promise::None } else { rare }),
            line(n, 0.05, 0.0, 0.05, 3.0, Promise::None),
            line(n, 0.05, 0.0, 0.1, 3.0, Promise::AtLeast(0.9)),
        ]
    };
    [30, 50, 200, 2000].into_iter().flat_map(of).collect()
}

/// Iterations that may take longer in the second half of the window.
fn levels() -> Vec<Line> {
    let line = |n: usize, scatter: f64, correlation: f64, slower: f64, promise| {
        let is_marked = move |random: &mut SplitMix64| {
            let mut seconds = series(random, n, scatter, correlation);
            seconds[n / 2..].iter_mut().for_each(|second| *second *= slower);
            level_shift(&seconds, &Thresholds::default()).is_some()
        };
        let what = if slower > 1.0 {
            format!("the second half {:.0} % longer", 100.0 * (slower - 1.0))
        } else {
            "one level".to_owned()
        };
        let name = format!(
            "`level-shift`, {n} iterations, {:.0} % of scatter, correlation {correlation}, {what}",
            100.0 * scatter
        );
        Line { name, is_marked: Box::new(is_marked), promise }
    };
    let of = |n| {
        let rare = Promise::AtMost(0.02);
        [
            line(n, 0.05, 0.0, 1.0, rare),
            line(n, 0.1, 0.0, 1.0, rare),
            line(n, 0.1, 0.5, 1.0, rare),
            line(n, 0.1, 0.8, 1.0, Promise::AtMost(0.03)),
            line(n, 0.03, 0.0, 1.15, Promise::AtLeast(0.9)),
            line(n, 0.05, 0.0, 1.15, Promise::None),
            line(n, 0.1, 0.0, 1.15, Promise::None),
            line(n, 0.05, 0.5, 1.15, Promise::None),
        ]
    };
    [30, 50, 100, 1000].into_iter().flat_map(of).collect()
}

/// Rows of a machine whose repeats correlate, in blocks that differ by 2 %. The event is that any row is marked.
fn repeats() -> Vec<Line> {
    let line = |rows: usize, n: usize, correlation: f64, promise| {
        let is_marked = move |random: &mut SplitMix64| {
            let blocks: Vec<f64> = (0..n).map(|_| 0.02 * random.normal()).collect();
            let mut runs = Vec::new();
            for row in 0..rows {
                let rates = series(random, n, 0.02, correlation);
                let rates: Vec<f64> =
                    rates.iter().zip(&blocks).map(|(rate, block)| rate.ln() + block).collect();
                let mean = rates.iter().sum::<f64>() / n as f64;
                runs.extend((0..n).map(|block| Counted { row, block, distance: rates[block] - mean }));
            }
            runs.sort_by_key(|run| run.block);
            !of_machine(&runs, Threshold::Autocorrelated.facts().value).is_empty()
        };
        let name = format!(
            "`autocorrelated`, {rows} rows, n = {n}, correlation {correlation} from repeat to repeat"
        );
        Line { name, is_marked: Box::new(is_marked), promise }
    };
    let of = |(rows, n)| {
        [
            line(rows, n, 0.0, Promise::AtMost(0.015)),
            line(rows, n, 0.4, Promise::None),
            line(rows, n, 0.7, Promise::None),
        ]
    };
    [(10, 3), (10, 5), (10, 10), (40, 3), (40, 5), (100, 3)].into_iter().flat_map(of).collect()
}

/// How many processors an idle system keeps busy: more than 0.03 in half of the runs, more than 0.11 in one of 200.
fn idle_cores(random: &mut SplitMix64) -> f64 {
    0.03 * (0.5 * random.normal()).exp()
}

/// A run on a machine of two processors, calibrated by twenty runs. Other work may take a steady share of one of them.
fn loads() -> Vec<Line> {
    let line = |others: f64, is_calibrated: bool, promise| {
        let is_marked = move |random: &mut SplitMix64| {
            let run = |builder: StudyBuilder, repeat: u32, matrix: &str, cores: f64| {
                builder.run_with(key("cpu", "resnet18", 16, repeat), 10.0, |record| {
                    record.provenance.matrix.name = matrix.into();
                    record.observed.host_busy_s = Some((1.9 + cores) * record.wall_s());
                })
            };
            let calibration = (1..=20).fold(StudyBuilder::new(), |builder, repeat| {
                run(builder, repeat, "calibration-cpu", idle_cores(random))
            });
            let calibration = calibration.build();
            let records =
                calibration.cells.iter().filter_map(Cell::record).take(if is_calibrated { 20 } else { 0 });
            let cores = idle_cores(random) + others * (1.0 + 0.05 * random.normal());
            let study = Study { idle: Idle::of(records), ..run(StudyBuilder::new(), 1, "m", cores).build() };
            let cells: Vec<&Cell> = study.cells.iter().collect();
            let found = marks(&cells, &study.spans, &study.idle, &study.thresholds);
            found[0].iter().any(|mark| matches!(mark, Mark::Contended { .. }))
        };
        let name = format!(
            "`contended` by its load, {} machine, {}",
            if is_calibrated { "calibrated" } else { "any" },
            if others > 0.0 {
                format!("others take a steady {others} of a processor")
            } else {
                "idle".to_owned()
            }
        );
        Line { name, is_marked: Box::new(is_marked), promise }
    };
    let of = |is_calibrated| {
        [
            line(0.0, is_calibrated, Promise::AtMost(0.005)),
            line(0.25, is_calibrated, Promise::AtLeast(0.95)),
            line(0.15, is_calibrated, Promise::None),
        ]
    };
    [true, false].into_iter().flat_map(of).collect()
}

/// Rows whose runs scatter by a true coefficient of variation.
fn rows() -> Vec<Line> {
    let line = |n: usize, cv: f64, promise| {
        let is_marked = move |random: &mut SplitMix64| {
            let rates: Vec<f64> = (0..n).map(|_| 100.0 * (1.0 + cv * random.normal())).collect();
            scatters(&rates, &Thresholds::default()).is_some()
        };
        let name = format!("`high-variation`, n = {n}, true CV {:.0} %", 100.0 * cv);
        Line { name, is_marked: Box::new(is_marked), promise }
    };
    let of = |n| {
        [
            line(n, 0.03, Promise::AtMost(0.001)),
            line(n, 0.05, Promise::AtMost(0.055)),
            line(n, 0.10, Promise::None),
            line(n, 0.20, Promise::None),
        ]
    };
    [3, 5, 10].into_iter().flat_map(of).collect()
}

/// The traces of others in a run: switches per second around 75,000, the share of the system around 19 %.
#[derive(Clone, Copy)]
struct Disturbance {
    switches: f64,
    system_share: f64,
}

/// As on a laptop that runs two matrices simultaneously.
const DISTURBED: Disturbance = Disturbance { switches: 6.5, system_share: 0.36 };

const QUIET: Disturbance = Disturbance { switches: 1.0, system_share: 0.0 };

/// Rows whose first run is left out as contended. The event is that another run is marked.
fn traces() -> Vec<Line> {
    let line = |name: &str, runs: &'static [Disturbance], promise| Line {
        name: format!("`contended` by its row, {name}"),
        is_marked: Box::new(move |random| is_any_other_marked(runs, random)),
        promise,
    };
    vec![
        line("one of three left out, the others quiet", &[DISTURBED, QUIET, QUIET], Promise::AtMost(0.005)),
        line(
            "one of three left out, which shows no trace, the others quiet",
            &[QUIET; 3],
            Promise::AtMost(0.005),
        ),
        line(
            "one of three left out, another one disturbed",
            &[DISTURBED, QUIET, DISTURBED],
            Promise::AtLeast(0.95),
        ),
        line(
            "one of five left out, the others quiet",
            &[DISTURBED, QUIET, QUIET, QUIET, QUIET],
            Promise::AtMost(0.005),
        ),
        line(
            "one of five left out, another one disturbed",
            &[DISTURBED, QUIET, QUIET, QUIET, DISTURBED],
            Promise::AtLeast(0.95),
        ),
    ]
}

/// Switches scatter by a factor of e^0.2, the share of the system by 2 points.
fn is_any_other_marked(runs: &[Disturbance], random: &mut SplitMix64) -> bool {
    let builder = runs.iter().zip(1..).fold(StudyBuilder::new(), |builder, (disturbance, repeat)| {
        let per_s = 75_000.0 * disturbance.switches * (0.2 * random.normal()).exp();
        let system_share = (0.19 + disturbance.system_share + 0.02 * random.normal()).clamp(0.0, 1.0);
        builder.run_with(key("mac", "mobilenet_v2", 16, repeat), 10.0, |record| {
            let wall = record.wall_s();
            let process = record.process.as_mut().unwrap();
            process.involuntary_switches = Some((per_s * wall) as u64);
            process.user_s = Some(1.9 * wall * (1.0 - system_share));
            process.system_s = Some(1.9 * wall * system_share);
            record.observed.host_busy_s = Some(1.92 * wall);
        })
    });
    let study = builder.build();
    let cells: Vec<&Cell> = study.cells.iter().collect();
    let mut own = vec![Vec::new(); cells.len()];
    own[0].push(Mark::Contended { by: "others were at work".into() });
    !pools::marks(&cells, &own, &Thresholds::default()).is_empty()
}

impl Line {
    fn share(&self, worlds: usize) -> f64 {
        let mut random = SplitMix64::new(14);
        (0..worlds).filter(|_| (self.is_marked)(&mut random)).count() as f64 / worlds as f64
    }
}

/// A short version; the seed is fixed, so it has one outcome.
#[test]
fn promises_are_kept() {
    for line in lines() {
        let share = line.share(SHORT);
        assert!(line.promise.is_kept(share, SHORT, 3.0), "{}: {:.1} %", line.name, 100.0 * share);
    }
}

/// `just calibrate-marks` runs this.
#[test]
#[ignore = "takes long unless optimized; `just calibrate-marks` runs it"]
#[expect(clippy::disallowed_methods, reason = "the recipe sets the number of worlds")]
fn calibrate() {
    let worlds = std::env::var("SIMULATED_WORLDS").map_or(1000, |text| text.parse().expect("a whole number"));
    let shares = lines().into_iter().map(|line| Share {
        share: line.share(worlds),
        name: line.name.clone(),
        promise: line.promise,
    });
    promise::print(&format!("simulated, {worlds} times each | marked"), shares, worlds);
}
