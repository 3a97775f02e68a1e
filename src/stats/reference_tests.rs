//! The statistics agree with those of SciPy and statsmodels on 200 random data sets.
//! `tests/fixtures/statistics.py` made them, and names the function and method of each.

use serde_json::Value;

use super::*;

/// The greatest relative error of directly computed numbers. Inverses of distributions and Newton's iteration are
/// iterative.
const DIRECT: f64 = 1e-12;
const ITERATIVE: f64 = 1e-9;

fn sets() -> Vec<Value> {
    let text = include_str!("../../tests/fixtures/statistics.json");
    let mut file: Value = serde_json::from_str(text).unwrap();
    assert_eq!(file["margin"], 0.5);
    let sets: Vec<Value> = serde_json::from_value(file["sets"].take()).unwrap();
    assert_eq!(sets.len(), 200);
    sets
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|one| one.as_f64().unwrap_or(f64::INFINITY)).collect()
}

/// Asserts that `ours` and the numbers under `name` differ by at most `tolerance`, relative to the greater of the
/// number and `scale`. A difference of numbers cannot be more exact than these.
#[track_caller]
fn agree(set: &Value, name: &str, ours: &[f64], tolerance: f64, scale: f64) {
    let theirs = match &set[name] {
        Value::Array(_) => numbers(&set[name]),
        one => vec![one.as_f64().unwrap_or_else(|| panic!("{name} is {one}"))],
    };
    assert_eq!(ours.len(), theirs.len(), "{name}");
    for (ours, theirs) in ours.iter().zip(theirs) {
        let within = tolerance * theirs.abs().max(scale);
        assert!(
            *ours == theirs || (ours - theirs).abs() <= within,
            "{name}: {ours} is not {theirs} in {set}"
        );
    }
}

#[test]
fn one_sample() {
    for set in sets() {
        let a = numbers(&set["a"]);
        agree(&set, "median", &[median(&a).unwrap()], DIRECT, 0.0);
        agree(&set, "mad", &[mad(&a).unwrap()], DIRECT, 1.0);
        agree(&set, "sd", &[standard_deviation(&a).unwrap()], DIRECT, 0.0);
        agree(&set, "cv", &[coefficient_of_variation(&a).unwrap()], DIRECT, 0.0);
        let estimate = Estimate::mean(&a).unwrap();
        let interval = mean_interval(&a, 0.95).unwrap();
        let mean = [mean(&a).unwrap(), interval.low, interval.high, estimate.p_equal(0.0)];
        agree(&set, "mean", &mean[..], ITERATIVE, 0.0);
        let interval = variation_interval(&a, 0.95).unwrap();
        agree(&set, "variation", &[interval.low, interval.high], ITERATIVE, 0.0);
        let exp: Vec<f64> = a.iter().map(|value| value.exp()).collect();
        let interval = geometric_mean_interval(&exp, 0.95).unwrap();
        agree(&set, "geometric", &[mean[0].exp(), interval.low, interval.high], ITERATIVE, 0.0);
        match median_interval(&a, 0.95) {
            Ok(ends) => agree(&set, "median_ends", &[ends.low, ends.high, ends.coverage], DIRECT, 0.0),
            Err(_) => assert!(set["median_ends"].is_null()),
        }
    }
}

#[test]
fn p_values_and_standard_errors_are_direct() {
    for set in sets() {
        let a = numbers(&set["a"]);
        let p = Estimate::mean(&a).unwrap().p_equal(0.0);
        let theirs = set["mean"][3].as_f64().unwrap();
        assert!((p / theirs - 1.0).abs() < DIRECT, "{p} {theirs}");
    }
}

#[test]
fn two_samples() {
    for set in sets() {
        let (a, b) = (numbers(&set["a"]), numbers(&set["b"]));
        let pairs: Vec<(f64, f64)> = a.iter().copied().zip(b.iter().copied()).collect();
        let numbers_of = |estimate: &Estimate| {
            let interval = estimate.interval(0.95);
            vec![estimate.value, interval.low, interval.high, estimate.p_equal(0.0)]
        };
        let paired = Estimate::paired(&pairs).unwrap();
        agree(&set, "paired", &numbers_of(&paired), ITERATIVE, 1e-3);
        agree(&set, "paired_tost", &[paired.p_beyond(0.5)], DIRECT, 0.0);
        let welch = Estimate::welch(&a, &b).unwrap();
        agree(&set, "welch", &[numbers_of(&welch), vec![welch.freedom]].concat(), ITERATIVE, 1e-3);
        agree(&set, "welch_tost", &[welch.p_beyond(0.5)], DIRECT, 0.0);
    }
}

#[test]
fn counts_families_and_repeats() {
    for set in sets() {
        let counts: Vec<usize> = serde_json::from_value(set["counts"].clone()).unwrap();
        let chance = chance_of_at_least(counts[0], counts[1], counts[2], counts[3]);
        agree(&set, "fisher", &[chance], DIRECT, 0.0);
        agree(&set, "holm", &holm(&numbers(&set["p_values"])), DIRECT, 0.0);
        let variance = standard_deviation(&numbers(&set["a"])).unwrap().powi(2) / 100.0;
        let design = Design { variance, freedom_each: 1.0, lent: 0.0, error: 0.05, power: 0.8 };
        let ours = [design.repeats_to_find(0.03), design.repeats_to_equate(0.0, 0.02)];
        assert_eq!(serde_json::json!(ours), set["repeats"], "{set}");
    }
}

#[test]
fn tables() {
    let mut seen = 0;
    for set in sets().iter().filter(|set| !set["cells"].is_null()) {
        seen += 1;
        let cells: Vec<(usize, usize, f64)> = serde_json::from_value(set["cells"].clone()).unwrap();
        let cells: Vec<Cell> =
            cells.into_iter().map(|(row, block, value)| Cell { row, block, value }).collect();
        let effects = block_effects(&cells).unwrap();
        for (ours, theirs) in effects.iter().zip(set["effects"].as_array().unwrap()) {
            let theirs = serde_json::json!({ "effect": theirs });
            agree(&theirs, "effect", &[ours.value, ours.standard_error, ours.freedom], DIRECT, 1.0);
        }
        let rows: Vec<Variance> = (0..=cells.last().unwrap().row)
            .map(|row| {
                let own: Vec<f64> =
                    cells.iter().filter(|cell| cell.row == row).map(|cell| cell.value).collect();
                Variance { value: standard_deviation(&own).unwrap().powi(2), freedom: own.len() as f64 - 1.0 }
            })
            .collect();
        let shrunk = shrink(&rows);
        for (ours, theirs) in
            [shrunk.prior.unwrap()].iter().chain(&shrunk.rows).zip(set["shrunk"].as_array().unwrap())
        {
            let theirs = serde_json::json!({ "variance": theirs });
            agree(&theirs, "variance", &[ours.value, ours.freedom], ITERATIVE, 0.0);
        }
        assert_eq!(shrunk.rows.len() + 1, set["shrunk"].as_array().unwrap().len());
    }
    assert_eq!(seen, 40);
}

#[test]
fn series() {
    let mut seen = 0;
    for set in sets().iter().filter(|set| !set["series"].is_null()) {
        seen += 1;
        let series = numbers(&set["series"]);
        agree(set, "autocorrelation", &[autocorrelation(&series).unwrap()], DIRECT, 1.0);
        let slope = theil_sen(&series, 0.95).unwrap();
        agree(set, "slope", &[slope.per_step, slope.interval.low, slope.interval.high], DIRECT, 1e-3);
    }
    assert_eq!(seen, 29);
}
