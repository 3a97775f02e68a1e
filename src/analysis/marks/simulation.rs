//! How often marks are false and how often they are missed, by simulation. These are the marks that go by readings of a
//! clock, by the runs of a row, or by the traces of others. The tables in `docs/marks.md` are from
//! `just calibrate-marks`.

use super::compare::scatters;
use super::sensors::variation;
use super::*;
use crate::analysis::fixture::{StudyBuilder, key};
use crate::random::SplitMix64;
use crate::record::Readings;

/// The worlds of a line in the ordinary tests.
const SHORT: usize = 300;

/// A line of the table.
struct Line {
    name: String,
    /// Whether a mark is raised in a world that is drawn.
    is_marked: Box<dyn Fn(&mut Normal) -> bool>,
    promise: Promise,
}

/// What is promised of the share of marked worlds.
#[derive(Clone, Copy)]
enum Promise {
    AtMost(f64),
    AtLeast(f64),
    /// Nothing; it is told all the same.
    None,
}

/// Standard normal numbers, by Box and Muller (1958).
struct Normal(SplitMix64);

impl Normal {
    fn draw(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.0.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.0.unit()).cos()
    }
}

fn lines() -> Vec<Line> {
    clocks().into_iter().chain(rows()).chain(traces()).collect()
}

/// A clock that scatters by a share, and is 15 % lower for another share of the window.
fn clocks() -> Vec<Line> {
    let line = |n: usize, scatter: f64, lower: f64, promise| {
        let is_marked = move |random: &mut Normal| {
            let slow = (lower * n as f64).round() as usize;
            let mhz = (0..n).map(|i| {
                let level = if i < slow { 1700.0 } else { 2000.0 };
                level * (1.0 + scatter * random.draw())
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

/// Rows whose runs scatter by a true coefficient of variation.
fn rows() -> Vec<Line> {
    let line = |n: usize, cv: f64, promise| {
        let is_marked = move |random: &mut Normal| {
            let rates: Vec<f64> = (0..n).map(|_| 100.0 * (1.0 + cv * random.draw())).collect();
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

/// As two matrices at once on a laptop.
const DISTURBED: Disturbance = Disturbance { switches: 6.5, system_share: 0.36 };

const QUIET: Disturbance = Disturbance { switches: 1.0, system_share: 0.0 };

/// Rows of which the first run is left out, for others were at work. What is asked is whether another one is marked.
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
fn is_any_other_marked(runs: &[Disturbance], random: &mut Normal) -> bool {
    let builder = runs.iter().zip(1..).fold(StudyBuilder::new(), |builder, (disturbance, repeat)| {
        let per_s = 75_000.0 * disturbance.switches * (0.2 * random.draw()).exp();
        let system_share = (0.19 + disturbance.system_share + 0.02 * random.draw()).clamp(0.0, 1.0);
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
    own[0].push(Mark::Contended { by: "others were at work".to_owned() });
    !pools::marks(&cells, &own, &Thresholds::default()).is_empty()
}

impl Line {
    fn share(&self, worlds: usize) -> f64 {
        let mut random = Normal(SplitMix64::new(14));
        (0..worlds).filter(|_| (self.is_marked)(&mut random)).count() as f64 / worlds as f64
    }

    /// Whether `share` keeps the promise, but for `slack` standard errors of so many worlds.
    fn is_kept(&self, share: f64, worlds: usize, slack: f64) -> bool {
        let error = |promised: f64| slack * (promised * (1.0 - promised) / worlds as f64).sqrt();
        match self.promise {
            Promise::AtMost(promised) => share <= promised + error(promised),
            Promise::AtLeast(promised) => share >= promised - error(promised),
            Promise::None => true,
        }
    }
}

/// A short version; the seed is fixed, so it has one outcome.
#[test]
fn promises_are_kept() {
    for line in lines() {
        let share = line.share(SHORT);
        assert!(line.is_kept(share, SHORT, 3.0), "{}: {:.1} %", line.name, 100.0 * share);
    }
}

/// `just calibrate-marks` runs this.
#[test]
#[ignore = "takes long unless optimized; `just calibrate-marks` runs it"]
#[expect(clippy::disallowed_methods, reason = "how many worlds is told by the recipe")]
fn calibrate() {
    let worlds = std::env::var("SIMULATED_WORLDS").map_or(1000, |text| text.parse().expect("a whole number"));
    println!("| simulated, {worlds} times each | marked | promised |\n|---|---|---|");
    let mut broken = Vec::new();
    for line in lines() {
        let share = line.share(worlds);
        let promised = match line.promise {
            Promise::AtMost(promised) => format!("≤ {:.1} %", 100.0 * promised),
            Promise::AtLeast(promised) => format!("≥ {:.1} %", 100.0 * promised),
            Promise::None => "–".to_owned(),
        };
        println!("| {} | {:.1} % | {promised} |", line.name, 100.0 * share);
        if !line.is_kept(share, worlds, 2.0) {
            broken.push(line.name);
        }
    }
    assert!(broken.is_empty(), "not kept: {broken:#?}");
}
