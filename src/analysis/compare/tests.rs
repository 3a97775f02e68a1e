//! The rules of a comparison on small tables.

use proptest::prelude::*;

use super::*;

fn rates(logs: &[f64], block: impl Fn(usize) -> Option<usize>) -> Vec<Rate> {
    logs.iter().enumerate().map(|(index, log)| Rate { per_s: log.exp(), block: block(index) }).collect()
}

/// A config whose sides share their blocks.
fn paired(from: &[f64], to: &[f64]) -> Sides {
    Sides { from: rates(from, Some), to: rates(to, Some) }
}

fn unpaired(from: &[f64], to: &[f64]) -> Sides {
    Sides { from: rates(from, |_| None), to: rates(to, |_| None) }
}

fn one(sides: Sides) -> Compared {
    compare(&[sides], Settings::default()).configs[0].unwrap()
}

const SLOW_BLOCKS: [f64; 5] = [5.0, 5.3, 4.8, 5.1, 4.9];

fn moved(by: [f64; 5]) -> Vec<f64> {
    SLOW_BLOCKS.iter().zip(by).map(|(log, by)| log + by).collect()
}

#[test]
fn slow_blocks_cancel_if_they_contain_both_sides() {
    let to = moved([-0.05, -0.051, -0.049, -0.05, -0.05]);
    let config = one(paired(&SLOW_BLOCKS, &to));
    assert_eq!((config.pairing, config.verdict), (Pairing::ByBlock(5), Verdict::Slower));
    assert!((config.ratio() - (-0.05f64).exp()).abs() < 1e-12);
    assert!(
        config.interval.low < config.ratio()
            && config.ratio() < config.interval.high
            && config.interval.high < 0.96
    );
    let config = one(unpaired(&SLOW_BLOCKS, &to));
    assert_eq!((config.pairing, config.verdict), (Pairing::Unpaired { from: 5, to: 5 }, Verdict::CannotTell));
}

#[test]
fn significant_differences_within_the_margin_are_same() {
    let config = one(paired(&SLOW_BLOCKS, &moved([0.010, 0.011, 0.009, 0.010, 0.010])));
    assert!(config.p_equal < 0.001 && config.interval.low > 1.0);
    assert_eq!(config.verdict, Verdict::Same);
    let strict = Settings { margin: 0.005, ..Settings::default() };
    let sides = paired(&SLOW_BLOCKS, &moved([0.010, 0.011, 0.009, 0.010, 0.010]));
    assert_eq!(compare(&[sides], strict).configs[0].unwrap().verdict, Verdict::Faster);
}

#[test]
fn two_runs_decide_nothing() {
    let table = [unpaired(&[5.0, 5.0], &[1.0, 1.0, 1.0]), paired(&[5.0, 5.1], &[1.0, 1.1]), Sides::default()];
    let comparison = compare(&table, Settings::default());
    let few: Vec<usize> = comparison.configs.iter().map(|config| config.unwrap_err().n).collect();
    assert_eq!(few, [2, 2, 0]);
    assert!(comparison.geometric_mean.is_err());
    assert_eq!(gate(&comparison, 0.05), Gate::CannotTell(vec![0, 1, 2]));
    assert_eq!(comparison.would_decide(0), None);
}

/// Runs without any scatter come from a counter or a mistake, not from a clock.
#[test]
fn no_scatter_decides_nothing() {
    let config = one(paired(&[1.0; 3], &[0.5; 3]));
    assert_eq!(config.verdict, Verdict::CannotTell);
    assert_eq!(
        gate(&compare(&[paired(&[1.0; 3], &[0.5; 3])], Settings::default()), 0.05),
        Gate::CannotTell(vec![0])
    );
}

#[test]
fn runs_that_left_their_block_are_not_paired() {
    // Side two was measured again in separate blocks: two pairs are left of five runs.
    let mut sides = paired(&SLOW_BLOCKS, &SLOW_BLOCKS);
    for rate in &mut sides.to[2..] {
        rate.block = rate.block.map(|block| block + 10);
    }
    assert_eq!(one(sides).pairing, Pairing::Unpaired { from: 5, to: 5 });
    // Two runs of a block count as their mean, not as two pairs.
    let mut sides = paired(&[5.0, 5.1, 5.2, 5.0], &[5.0, 5.11, 5.21, 5.04]);
    sides.to[3].block = Some(0);
    sides.from.pop();
    let config = one(sides);
    assert_eq!(config.pairing, Pairing::ByBlock(3));
    assert!((config.log_ratio.value - (0.02 + 0.01 + 0.01) / 3.0).abs() < 1e-12);
}

#[test]
fn few_pairs_among_many_runs_are_not_enough() {
    // Three common blocks, of eight runs per side; then two, of four.
    for (runs, common) in [(8, 3), (4, 2)] {
        let logs: Vec<f64> = (0..runs).map(|run| 5.0 + 0.01 * (run % 3) as f64).collect();
        let other = |run: usize| Some(if run < common { run } else { run + 100 });
        let config = one(Sides { from: rates(&logs, Some), to: rates(&logs, other) });
        assert_eq!(config.pairing, Pairing::Unpaired { from: runs, to: runs });
    }
}

#[test]
fn variances_are_shrunk_only_with_enough_configs() {
    let config = paired(&[5.0, 5.1, 5.2], &[5.0, 5.11, 5.21]);
    assert_eq!(compare(&vec![config.clone(); 9], Settings::default()).prior, None);
    let enough = compare(&vec![config; 10], Settings::default());
    assert_eq!(enough.prior.unwrap().freedom, f64::INFINITY);
    assert_eq!(enough.configs[0].unwrap().log_ratio.freedom, 20.0);
}

#[test]
fn a_share_lost_is_a_distance_of_logs() {
    assert!((distance(0.02) + 0.98f64.ln()).abs() < 1e-15);
}

/// A config that fails a limit in a table of one can pass in a longer table.
#[test]
fn a_gate_corrects_for_the_length_of_the_table() {
    let near = paired(&SLOW_BLOCKS, &moved([-0.053, -0.093, -0.063, -0.083, -0.073]));
    let others = vec![paired(&SLOW_BLOCKS, &moved([-0.01, 0.01, 0.02, -0.02, 0.0])); 2];
    let table = [vec![near.clone()], others].concat();
    assert_eq!(gate(&compare(&[near], Settings::default()), 0.05), Gate::Slower(vec![0]));
    assert_eq!(gate(&compare(&table, Settings::default()), 0.05), Gate::CannotTell(vec![0]));
}

#[test]
fn a_gate_distinguishes_slower_from_cannot_tell() {
    let gate_of =
        |by: [f64; 5]| gate(&compare(&[paired(&SLOW_BLOCKS, &moved(by))], Settings::default()), 0.05);
    assert_eq!(gate_of([-0.10, -0.11, -0.10, -0.09, -0.10]), Gate::Slower(vec![0]));
    assert_eq!(gate_of([-0.01, 0.0, 0.01, 0.0, 0.0]), Gate::Passed);
    assert_eq!(gate_of([-0.06, -0.04, -0.08, -0.02, -0.07]), Gate::CannotTell(vec![0]));
}

#[test]
fn suggests_more_repeats_until_there_is_a_verdict() {
    let table = [paired(&SLOW_BLOCKS, &moved([-0.03, 0.0, -0.05, 0.01, -0.02]))];
    let comparison = compare(&table, Settings::default());
    let needed = comparison.would_decide(0).unwrap();
    assert_eq!(needed.verdict, Verdict::Slower);
    assert!((6..200).contains(&needed.repeats), "{needed:?}");
    // In a longer table, each config needs more.
    let long = compare(&vec![table[0].clone(); 4], Settings::default());
    assert!(long.would_decide(0).unwrap().repeats > needed.repeats);
    let near =
        compare(&[paired(&SLOW_BLOCKS, &moved([0.03, -0.03, 0.02, -0.02, 0.001]))], Settings::default());
    assert_eq!(near.would_decide(0).unwrap().verdict, Verdict::Same);
}

fn tables() -> impl Strategy<Value = Vec<Sides>> {
    let rate = (4.0..6.0f64, prop::option::weighted(0.8, 0..6usize));
    let side = prop::collection::vec(rate, 0..7).prop_map(|rates| {
        rates.into_iter().map(|(log, block)| Rate { per_s: log.exp(), block }).collect::<Vec<_>>()
    });
    prop::collection::vec((side.clone(), side).prop_map(|(from, to)| Sides { from, to }), 0..8)
}

proptest! {
    #[test]
    fn swapped_sides_swap_the_verdicts(table in tables()) {
        let swapped: Vec<Sides> =
            table.iter().map(|Sides { from, to }| Sides { from: to.clone(), to: from.clone() }).collect();
        let [there, back] = [table, swapped].map(|table| compare(&table, Settings::default()));
        for (there, back) in there.configs.iter().zip(&back.configs) {
            let (Ok(there), Ok(back)) = (there, back) else { prop_assert_eq!(there.is_ok(), back.is_ok()); continue };
            prop_assert!((there.ratio() * back.ratio() - 1.0).abs() < 1e-9);
            let swapped = match there.verdict {
                Verdict::Faster => Verdict::Slower,
                Verdict::Slower => Verdict::Faster,
                other => other,
            };
            prop_assert_eq!(back.verdict, swapped);
        }
    }

    /// A verdict follows from the numbers of its config.
    #[test]
    fn verdicts_follow_from_the_intervals(table in tables()) {
        let comparison = compare(&table, Settings::default());
        prop_assert_eq!(comparison.configs.len(), table.len());
        for (index, config) in comparison.configs.iter().enumerate() {
            let Ok(config) = config else { continue };
            match config.verdict {
                Verdict::Faster => prop_assert!(config.interval.low > 1.0),
                Verdict::Slower => prop_assert!(config.interval.high < 1.0),
                Verdict::Same => prop_assert!(config.ratio() > 0.98 && config.ratio() < 1.0 / 0.98),
                Verdict::CannotTell => {}
            }
            if let Some(needed) = comparison.would_decide(index) {
                prop_assert!(config.verdict == Verdict::CannotTell);
                prop_assert!(needed.repeats > 3);
            }
        }
        if let Gate::Slower(slower) = gate(&comparison, 0.05) {
            prop_assert!(slower.iter().all(|&index| comparison.configs[index].unwrap().interval.high < 0.95));
        }
    }
}
