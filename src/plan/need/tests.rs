//! Tests of a config's needs, against a definition that considers each job separately.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::job::Key;
use crate::protocol::Report;
use crate::record::testing::record_of;
use crate::record::{Outcome, Record};
use crate::stats::mean_interval;

const RULE: RepeatRule = RepeatRule { min: 3, max: 20, until: Some(0.02), replace_marked: 0 };

/// A repeat in the store: without a run, or with a run and its throughput.
#[derive(Clone, Copy, Debug)]
struct Held {
    per_s: Option<f64>,
    is_left_out: bool,
    attempt: u32,
    row: usize,
}

const NOTHING: Held = Held { per_s: None, is_left_out: false, attempt: 1, row: 0 };

fn ran(per_s: f64) -> Held {
    Held { per_s: Some(per_s), ..NOTHING }
}

fn marked(attempt: u32) -> Held {
    Held { is_left_out: true, attempt, ..ran(90.0) }
}

/// The jobs of one config with `rule`, whose repeats are `held` in the store, and its needs.
fn needs(rule: RepeatRule, held: &[Held]) -> (Vec<Job>, Needs) {
    let keys: Vec<Key> = (1..=rule.max).map(|repeat| Key { repeat, ..Key::example() }).collect();
    let config = keys[0].config_id();
    let plan = Plan { rules: BTreeMap::from([(config, rule)]), ..Plan::example(keys) };
    let (mut inventory, mut worths) = (Inventory::default(), BTreeMap::new());
    for (job, held) in plan.jobs.iter().zip(held) {
        let Some(per_s) = held.per_s else { continue };
        let started_at =
            chrono::DateTime::UNIX_EPOCH + chrono::TimeDelta::seconds(i64::from(job.key().repeat));
        let succeeded = record_of(job.key().clone(), Outcome::Succeeded);
        let record = Record { attempt: held.attempt, started_at, ended_at: started_at, ..succeeded };
        inventory.jobs.insert(job.id(), Standing::Done(Arc::new(record)));
        let left_out = held.is_left_out.then(|| "contended: by others".to_owned());
        worths.insert(job.id(), Worth { row: held.row, per_s: Some(per_s), left_out });
    }
    let needs = Needs::of(&plan, &inventory, &worths);
    (plan.jobs, needs)
}

/// The need for each repeat as one character: `+`, `?` or `-`; `.` if it is done.
fn wanted(rule: RepeatRule, held: &[Held]) -> String {
    let (jobs, needs) = needs(rule, held);
    let word = |(index, job): (usize, &Job)| match held.get(index).and_then(|held| held.per_s) {
        Some(_) => '.',
        None => match needs.wants(job, &NotDone::NeverRan) {
            Wanted::Yes => '+',
            Wanted::IfNeeded(_) => '?',
            Wanted::No(_) => '-',
        },
    };
    jobs.iter().enumerate().map(word).collect()
}

/// Runs around 100 per second that scatter by 0.1 %.
fn steady(n: usize) -> Vec<Held> {
    (0..n).map(|index| ran(100.0 + 0.1 * (index % 2) as f64)).collect()
}

#[test]
fn a_steady_config_needs_eight_repeats() {
    assert_eq!(wanted(RULE, &[]), "++++++++????????????");
    assert_eq!(wanted(RULE, &steady(3)), "...+++++????????????");
    assert_eq!(wanted(RULE, &steady(8)), "........------------");
    assert_eq!(wanted(RepeatRule { min: 10, ..RULE }, &steady(8)), "........++??????????");
    assert_eq!(wanted(RepeatRule { min: 9, ..RULE }, &steady(9)), ".........-----------");
}

#[test]
fn runs_that_do_not_count_do_not_narrow_the_interval() {
    let mut held = steady(8);
    held[4].is_left_out = true;
    assert_eq!(wanted(RULE, &held), "........+???????????");
    held[4] = NOTHING;
    assert_eq!(wanted(RULE, &held), "....+...????????????", "a gap is filled first");
}

#[test]
fn the_row_of_the_last_run_decides() {
    let other = |held: Held| Held { row: 1, ..held };
    let moved: Vec<Held> = steady(9)
        .into_iter()
        .enumerate()
        .map(|(index, held)| if index < 8 { held } else { other(held) })
        .collect();
    assert_eq!(wanted(RULE, &moved), ".........+++++++????", "a new row has one run");
    let before: Vec<Held> = steady(9)
        .into_iter()
        .enumerate()
        .map(|(index, held)| if index > 0 { held } else { other(held) })
        .collect();
    assert_eq!(wanted(RULE, &before), ".........-----------");
}

#[test]
fn reasons_contain_numbers() {
    let (jobs, enough) = needs(RULE, &steady(8));
    let never = NotDone::NeverRan;
    assert_eq!(enough.wants(&jobs[8], &never), Wanted::No("interval ± 0.04 % at n = 8".into()));
    let wide: Vec<Held> = [96.0, 100.0, 104.0].map(ran).into();
    let (jobs, open) = needs(RULE, &wide);
    assert_eq!(open.wants(&jobs[3], &never), Wanted::Yes);
    let text = "interval ± 10.5 % at n = 3, and 20 repeats should make it ± 2.0 %";
    let tight = RepeatRule { max: 40, ..RULE };
    let (jobs, open) = (needs(tight, &wide).0, needs(tight, &wide).1);
    let spare = jobs.iter().find_map(|job| match open.wants(job, &never) {
        Wanted::IfNeeded(why) => Some(why),
        _ => None,
    });
    assert!(spare.as_ref().is_some_and(|why| why.starts_with(&text[..30])), "{spare:?}");
}

#[test]
fn started_and_failed_jobs_run_regardless_of_the_interval() {
    let (jobs, enough) = needs(RULE, &steady(8));
    let failed = |outcome| NotDone::Failed(Arc::new(record_of(jobs[8].key().clone(), outcome)));
    for (not_done, wanted) in [
        (NotDone::Unfinished { attempts: 1 }, Wanted::Yes),
        (NotDone::Running, Wanted::Yes),
        (failed(Outcome::Signalled { signal: 9 }), Wanted::Yes),
        (
            failed(Outcome::Interrupted { message: "SIGINT".into() }),
            enough.wants(&jobs[8], &NotDone::NeverRan),
        ),
    ] {
        assert_eq!(enough.wants(&jobs[8], &not_done), wanted, "{not_done:?}");
    }
    let other = Job::new(Key { batch: 77, ..jobs[8].key().clone() });
    assert_eq!(enough.wants(&other, &NotDone::NeverRan), Wanted::Yes, "it has no rule");
}

#[test]
fn a_config_without_any_success_is_given_up() {
    let wanted = |failed: usize, succeeded: usize| {
        let (jobs, _) = needs(RULE, &[]);
        let plan = Plan::example(jobs.iter().map(|job| job.key().clone()).collect());
        let plan = Plan { rules: BTreeMap::from([(jobs[0].key().config_id(), RULE)]), ..plan };
        let mut inventory = Inventory::default();
        for (place, job) in jobs.iter().take(failed + succeeded).enumerate() {
            let record = |outcome| Arc::new(record_of(job.key().clone(), outcome));
            let standing = match place < failed {
                true => Standing::NotDone(NotDone::Failed(record(Outcome::Signalled { signal: 11 }))),
                false => Standing::Done(record(Outcome::Succeeded)),
            };
            inventory.jobs.insert(job.id(), standing);
        }
        Needs::of(&plan, &inventory, &BTreeMap::new()).wants(&jobs[5], &NotDone::NeverRan)
    };
    assert_eq!(wanted(2, 0), Wanted::Yes);
    assert_eq!(wanted(3, 0), Wanted::No("no repeat has a result, and 3 failed".into()));
    assert_eq!(wanted(3, 1), Wanted::Yes, "some succeed");
}

#[test]
fn a_marked_run_is_repeated_up_to_the_limit_of_the_rule() {
    let rule = RepeatRule { replace_marked: 2, ..RepeatRule::fixed(4) };
    let replaced = |rule, held: &[Held]| -> Vec<u32> {
        let (jobs, needs) = needs(rule, held);
        let marked = jobs.iter().filter(|job| needs.replaces(job) == Some("contended: by others"));
        marked.map(|job| job.key().repeat).collect()
    };
    let held = [ran(100.0), marked(1), marked(2), marked(3)];
    assert_eq!(replaced(rule, &held), [2, 3], "the fourth was repeated twice already");
    assert_eq!(replaced(RepeatRule { replace_marked: 0, ..rule }, &held), [0; 0]);
    let mut satisfied = steady(9);
    satisfied[2].is_left_out = true;
    assert_eq!(
        replaced(RepeatRule { replace_marked: 2, ..RULE }, &satisfied),
        [0; 0],
        "it is narrow without"
    );
    satisfied[3].is_left_out = true;
    assert_eq!(replaced(RepeatRule { replace_marked: 2, ..RULE }, &satisfied), [3, 4]);
}

/// A record of the timing job `key`, whose worker reports these `profiles`.
fn reporting(key: &Key, profiles: &[&str], outcome: Outcome) -> Record {
    let text = format!(
        r#"{{ "schema": 1, "samples": {batch}, "elapsed_s": 1, "synchronized": true,
              "effective": {{ "device": "cpu", "precision": "fp32", "batch": {batch} }},
              "details": {{ "profiles": {profiles:?} }} }}"#,
        batch = key.batch
    );
    let Ok(Report::Measured(measurement)) = Report::parse(&text) else { panic!("{text} is sound") };
    Record { measurement: Some(*measurement), ..record_of(key.clone(), outcome) }
}

/// Whether the job that profiles the operators of a config is wanted after a timing job left `record`.
/// `ops_if_reported`: whether that depends on `record`; otherwise the matrix declares it.
fn profiles_wanted(record: Option<Record>, ops_if_reported: bool) -> bool {
    let ops = Key::example().profiled(Kind::Ops, Default::default());
    let mut plan = Plan::example(vec![Key::example(), ops.clone()]);
    plan.envs.values_mut().for_each(|env| env.ops_if_reported = ops_if_reported);
    let mut needs = Needs::of(&plan, &Inventory::default(), &BTreeMap::new());
    let mut inventory = Inventory::default();
    if let Some(record) = record {
        needs.learn(&record);
        inventory.jobs.insert(record.id, Standing::Done(Arc::new(record)));
    }
    assert_eq!(needs, Needs::of(&plan, &inventory, &BTreeMap::new()), "learning equals reading again");
    assert_eq!(needs.wants(&plan.jobs[0], &NotDone::NeverRan), Wanted::Yes, "a timing job always is");
    let wanted = needs.wants(&Job::new(ops), &NotDone::NeverRan);
    assert!(matches!(wanted, Wanted::Yes | Wanted::No(_)), "{wanted:?}");
    wanted == Wanted::Yes
}

#[test]
fn operators_are_profiled_if_a_run_of_the_config_reports_support() {
    let key = Key::example();
    let other = Key { batch: 77, ..key.clone() };
    let repeat = Key { repeat: 3, ..key.clone() };
    let failed = || Outcome::Signalled { signal: 9 };
    assert!(!profiles_wanted(None, true));
    assert!(!profiles_wanted(Some(reporting(&key, &[], Outcome::Succeeded)), true));
    assert!(!profiles_wanted(Some(reporting(&key, &["energy"], Outcome::Succeeded)), true));
    assert!(!profiles_wanted(Some(reporting(&key, &["ops"], failed())), true));
    assert!(!profiles_wanted(Some(reporting(&other, &["ops"], Outcome::Succeeded)), true));
    assert!(profiles_wanted(Some(reporting(&key, &["energy", "ops"], Outcome::Succeeded)), true));
    assert!(profiles_wanted(Some(reporting(&repeat, &["ops"], Outcome::Succeeded)), true));
    assert!(profiles_wanted(None, false), "it is declared");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn intervals_decide_when_a_config_has_enough_repeats(
        rates in prop::collection::vec((97.0..103.0, prop::bool::weighted(0.1)), 0..20),
        until in 0.005..0.05,
    ) {
        let rule = RepeatRule { until: Some(until), ..RULE };
        let held: Vec<Held> =
            rates.iter().map(|(rate, is_left_out)| Held { is_left_out: *is_left_out, ..ran(*rate) }).collect();
        let logs: Vec<f64> = rates.iter().filter(|(_, is_left_out)| !is_left_out).map(|(rate, _)| rate.ln()).collect();
        let narrow = |n: usize| mean_interval(&logs[..n], CONFIDENCE).is_ok_and(|interval| {
            ((interval.high - interval.low) / 2.0).exp() - 1.0 <= until
        });
        let first = (0..=logs.len()).find(|n| narrow(*n));
        let is_enough = narrow(logs.len()) && first.is_some_and(|first| first + 5 <= logs.len());
        let wanted = wanted(rule, &held);
        let open: String = wanted.chars().filter(|word| *word != '.').collect();
        prop_assert_eq!(open.contains('-'), is_enough && held.len() < 20, "{}", wanted);
        prop_assert!(is_enough || held.len() == 20 || open.starts_with('+'), "{}: the next one runs", wanted);
        prop_assert!(!open.contains("?+"), "{}", wanted);
    }
}
