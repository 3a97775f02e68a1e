//! Checks the marks from sorted values and indexes against the definition, which compares every run with every other.

use proptest::prelude::*;

use super::*;
use crate::analysis::fixture::{StudyBuilder, key};
use crate::record::{Sensor, Telemetry};

/// A pool, and for each of its members whether it is sound.
struct Defined {
    config: Key,
    circumstances: Circumstances,
    members: Vec<(usize, bool)>,
    /// Those that are only `contended`.
    disturbed: Vec<usize>,
}

fn defined(cells: &[&Cell], own: &[Vec<Mark>], thresholds: &Thresholds) -> Found {
    let mut pools: Vec<Defined> = Vec::new();
    for (index, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.is_timing()) {
        let Some((record, measurement)) = cell.success() else { continue };
        let (config, circumstances) = (cell.job.key().config(), Circumstances::of(record, measurement));
        let known =
            pools.iter().position(|pool| pool.config == config && pool.circumstances == circumstances);
        let place = known.unwrap_or_else(|| {
            pools.push(Defined { config, circumstances, members: Vec::new(), disturbed: Vec::new() });
            pools.len() - 1
        });
        let names: Vec<&str> = own[index].iter().filter(|mark| mark.disqualifies()).map(Mark::name).collect();
        pools[place].members.push((index, names.is_empty()));
        if !names.is_empty() && names.iter().all(|name| *name == "contended") {
            pools[place].disturbed.push(index);
        }
    }
    let mut found = Found::new();
    for pool in &pools {
        found.extend(contended_by_definition(pool, cells, thresholds));
        found.extend(clock_changed_by_definition(pool, cells, thresholds));
    }
    for (index, mark) in &found {
        for member in pools.iter_mut().flat_map(|pool| &mut pool.members) {
            member.1 &= member.0 != *index || !mark.disqualifies();
        }
    }
    found.extend(spilled_by_definition(pools, cells, thresholds));
    found
}

/// The median of the others, or with few sound ones the best value by `better`; and the number of sound ones.
fn others(
    pool: &Defined,
    this: usize,
    cells: &[&Cell],
    value: impl Fn(&Record) -> Option<f64>,
    is_better: impl Fn(f64, f64) -> bool,
) -> Option<(f64, usize)> {
    let value = |index: usize| value(cells[index].success()?.0).filter(|_| index != this);
    let sound = pool.members.iter().filter(|(_, is_sound)| *is_sound).map(|(index, _)| *index);
    let mut values: Vec<f64> = sound.filter_map(value).collect();
    let n = values.len();
    if n >= 2 {
        return Some((stats::median(&values).ok()?, n));
    }
    values.extend(pool.disturbed.iter().copied().filter_map(value));
    let is_best = |one: &&f64| !values.iter().any(|other| is_better(*other, **one));
    values.iter().find(is_best).filter(|_| values.len() >= 2).map(|best| (*best, n))
}

fn contended_by_definition(pool: &Defined, cells: &[&Cell], thresholds: &Thresholds) -> Found {
    let check = |&(index, is_sound): &(usize, bool)| {
        let (record, _) = cells[index].success().filter(|_| is_sound)?;
        let by = TRACES.iter().find_map(|trace| {
            let of = |record: &Record| (trace.of)(record).filter(|_| record.observed.beside.is_empty());
            let (own, (value, n)) = (of(record)?, others(pool, index, cells, of, |one, two| one < two)?);
            let limit = (trace.limit)(value, record, thresholds);
            let few = ["the other runs of the row", "the least disturbed other run of the row"];
            let source = few[usize::from(n < 2)];
            (own > limit).then(|| (trace.sentence)(own, Level { value, source }, limit))
        })?;
        Some((index, Mark::Contended { by }))
    };
    pool.members.iter().filter_map(check).collect()
}

fn clock_changed_by_definition(pool: &Defined, cells: &[&Cell], thresholds: &Thresholds) -> Found {
    let mean = |record: &Record| Some(sensors::clock(record)?.1.mean).filter(|mean| *mean > 0.0);
    let check = |&(index, _): &(usize, bool)| {
        let (record, _) = cells[index].success()?;
        let own = mean(record)?;
        let is_nearer = |one: f64, two: f64| (one - own).abs() < (two - own).abs();
        let (value, n) = others(pool, index, cells, mean, is_nearer)?;
        let threshold = thresholds.of(Threshold::ClockBetween);
        ((own / value - 1.0).abs() > threshold).then(|| {
            let sources = ["the other runs of the row", "the nearest other run of the row"];
            let source = sources[usize::from(n < 2)];
            let by = clock_sentence("GPU", own, Level { value, source }, threshold);
            (index, Mark::ClockChanged { by })
        })
    };
    pool.members.iter().filter_map(check).collect()
}

fn spilled_by_definition(mut pools: Vec<Defined>, cells: &[&Cell], thresholds: &Thresholds) -> Found {
    pools.retain(|pool| pool.config.device != Device::Cpu);
    pools.sort_by_key(|pool| pool.config.batch);
    let mut found = Found::new();
    for position in 0..pools.len() {
        let (smaller, rest) = pools.split_at_mut(position);
        let pool = &mut rest[0];
        let is_smaller = |other: &&Defined| {
            other.config.batch < pool.config.batch
                && Key { batch: pool.config.batch, ..other.config.clone() } == pool.config
                && other.circumstances.of_any_batch() == pool.circumstances.of_any_batch()
        };
        let level = smaller.iter().rev().filter(is_smaller).find_map(|other| {
            let sound = other.members.iter().filter(|(_, is_sound)| *is_sound);
            let rates: Vec<f64> = sound.filter_map(|(index, _)| rate(cells[*index])).collect();
            Some((other.config.batch, stats::median(&rates).ok()?))
        });
        let Some((batch, level)) = level else { continue };
        for (index, is_sound) in &mut pool.members {
            if let Some(mark) = spill(cells[*index], batch, level, thresholds) {
                *is_sound = false;
                found.push((*index, mark));
            }
        }
    }
    found
}

/// A run: its batch, circumstances, clock, disturbance and throughput.
type Drawn = (u32, u8, u8, u8, u8);

/// The runs on a GPU that were `drawn`, each a separate repeat.
fn cells_of(drawn: &[Drawn]) -> Vec<Cell> {
    let builder = drawn.iter().zip(1..).fold(StudyBuilder::new(), |builder, (drawn, repeat)| {
        let (batch, circumstance, clock, disturbed, rate) = *drawn;
        let key = Key { device: Device::Cuda(0), ..key("gpu", "resnet18", batch, repeat) };
        builder.run_with(key, [200.0, 10.0, 9.0][usize::from(rate)], |record| {
            let settings = &mut record.measurement.as_mut().unwrap().effective.settings;
            match circumstance {
                0 => {}
                1 => settings.set("algorithm", "winograd"),
                2 => settings.set("channels_last", true),
                _ => record.provenance.host.hostname = "elsewhere".into(),
            }
            let telemetry = Telemetry { samples: 2, of_window: true, ..Telemetry::default() };
            let mhz = [0.0, 1000.0, 1030.0, 1100.0][usize::from(clock)];
            record.observed.telemetry =
                Some(telemetry.with(Sensor::GpuSmClock, Readings::of([mhz, mhz]).unwrap()));
            let wall = record.wall_s();
            let process = record.process.as_mut().unwrap();
            (process.user_s, process.system_s) = (Some(0.4 * wall), Some(0.6 * wall));
            process.involuntary_switches = Some(if disturbed == 1 { 1_000_000 } else { 10 });
            record.observed.host_busy_s = Some(if disturbed == 2 { 5.0 * wall } else { wall });
            record.observed.beside = if disturbed == 3 { vec!["other".into()] } else { Vec::new() };
        })
    });
    builder.build().cells
}

proptest! {
    #[test]
    fn the_marks_are_those_of_the_definition(
        drawn in prop::collection::vec((1..5_u32, 0..4_u8, 0..4_u8, 0..5_u8, 0..3_u8), 0..30),
        doubted in prop::collection::vec(prop_oneof![4 => Just(0), 2 => Just(1), 1 => Just(2), 1 => Just(3)], 30),
    ) {
        let study = cells_of(&drawn);
        let cells: Vec<&Cell> = study.iter().collect();
        let contended = || Mark::Contended { by: "own".into() };
        let marks_of = |doubt: i32| match doubt {
            0 => vec![Mark::OnBattery],
            1 => vec![contended(), Mark::OnBattery],
            2 => vec![Mark::Unsettled { by: "own".into() }],
            _ => vec![contended(), Mark::Suspended { by: "own".into() }],
        };
        let own: Vec<Vec<Mark>> = doubted.into_iter().take(cells.len()).map(marks_of).collect();
        let by_cell = |mut found: Found| {
            found.sort_by_key(|(index, _)| *index);
            found
        };
        let thresholds = Thresholds::default();
        prop_assert_eq!(by_cell(marks(&cells, &own, &thresholds)), by_cell(defined(&cells, &own, &thresholds)));
    }

    #[test]
    fn circumstances_are_recognised_without_copies(
        drawn in prop::collection::vec((1..3_u32, 0..4_u8, 0..1_u8, 0..1_u8, 0..1_u8), 2),
    ) {
        let cells = cells_of(&drawn);
        let [one, other] = [&cells[0], &cells[1]].map(|cell| cell.success().unwrap());
        let known = Circumstances::of(one.0, one.1);
        prop_assert!(known.are_of(one.0, one.1));
        prop_assert_eq!(known.are_of(other.0, other.1), known == Circumstances::of(other.0, other.1));
    }
}
