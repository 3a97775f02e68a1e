//! The results of a merge as text: one line per job that was not simply taken, and the number of jobs of each kind.

use super::account::Account;
use crate::plan::{Drift, Existing, Undeclared};
use crate::store::{JobFate, Merged, MergedJob, MergedPlan, PlanFate, Side};
use crate::text::{count_text, jobs_text};

/// The text of `account`.
pub(super) fn text(account: &Account) -> String {
    let mut text = String::new();
    for (path, merged) in &account.stores {
        text += &merged.jobs.iter().map(lines).collect::<String>();
        for plan in &merged.plans {
            let line = |why: String| format!("{}: the plan `{}`: {why}\n", plan.fate.name(), plan.name);
            text += &plan_sentence(plan).map_or(String::new(), line);
        }
        text += &format!("{}: {}\n", path.display(), counts(merged));
    }
    if !account.undeclared.is_empty() {
        text += &undeclared_line(&account.undeclared);
    }
    if account.is_rehearsal {
        text += "nothing was changed, because of --dry-run\n";
    }
    text
}

/// The lines about `job`; empty if it was simply taken or is here already.
fn lines(job: &MergedJob) -> String {
    let MergedJob { directory, what, ours, theirs, left_out, .. } = job;
    let mut text = String::new();
    if let Some(why) = sentence(job) {
        text += &format!("{}: {directory}: {why}\n", what.name());
    }
    if *what == JobFate::Conflict {
        for (name, side) in [("here ", ours), ("there", theirs)] {
            text += &side.as_ref().map_or(String::new(), |side| format!("  {name}  {}\n", side_text(side)));
        }
    }
    for path in left_out {
        text += &format!("not copied: {directory}: {path} is neither a file nor a directory\n");
    }
    text
}

/// The result for `job`, as a sentence without a full stop; `None` if its name is sufficient.
pub(super) fn sentence(job: &MergedJob) -> Option<String> {
    let MergedJob { what, ours, theirs, .. } = job;
    let there = theirs.as_ref().map_or("it has a result".to_owned(), attempt_text);
    match what {
        JobFate::Taken | JobFate::AlreadyHere => None,
        JobFate::Replaced(kept) => {
            let here = ours.as_ref().map_or("it had no result".to_owned(), attempt_text);
            let kept = kept.as_ref().map(|kept| format!("; the replaced result is now {}", kept.display()));
            Some(format!("here {here}, there {there}{}", kept.unwrap_or_default()))
        }
        JobFate::Kept(Existing::Newer) => {
            Some("a newer orchestrate wrote the record in this store; update orchestrate".to_owned())
        }
        JobFate::Kept(_) => {
            let here = ours.as_ref().map_or("it has no result".to_owned(), attempt_text);
            Some(format!("here {here}, there {there}"))
        }
        JobFate::Conflict => Some("it succeeded here and there; this store keeps its own result".to_owned()),
        JobFate::Busy(why) | JobFate::Unfinished(why) | JobFate::Damaged(why) => Some(why.clone()),
    }
}

/// `attempt 1 exited with code 3: …`
fn attempt_text(side: &Side) -> String {
    format!("attempt {} {}", side.attempt, side.outcome)
}

fn side_text(side: &Side) -> String {
    let Side { path, attempt, host, ended_at, .. } = side;
    let ended_at = ended_at.format("%Y-%m-%d %H:%M:%S UTC");
    format!("attempt {attempt} on {host}, ended {ended_at}, {}", path.display())
}

/// The result for a plan, as a sentence without a full stop; `None` if its name is sufficient.
pub(super) fn plan_sentence(plan: &MergedPlan) -> Option<String> {
    match &plan.fate {
        PlanFate::Taken | PlanFate::AlreadyHere => None,
        PlanFate::Damaged(why) => Some(why.clone()),
        PlanFate::Kept(drift) => Some(format!("{}; this store keeps its own", drift_text(drift))),
    }
}

/// The difference between the plan of another store and that of this one.
fn drift_text(drift: &Drift) -> String {
    match drift {
        Drift::Jobs { added, removed } => {
            let sides = [(added, "there alone"), (removed, "here alone")];
            let sides = sides.into_iter().filter(|(number, _)| **number > 0);
            let sides: Vec<String> =
                sides.map(|(number, whose)| format!("{} {whose}", jobs_text(*number))).collect();
            format!("the two differ: {}", sides.join(", "))
        }
        Drift::Settings(keys) => {
            let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
            format!("the two have the same jobs, but not the same {}", keys.join(", "))
        }
    }
}

/// The numbers of jobs and plans, and of their results.
fn counts(merged: &Merged) -> String {
    let jobs: Vec<&str> = merged.jobs.iter().map(|job| job.what.name()).collect();
    let plans: Vec<&str> = merged.plans.iter().map(|plan| plan.fate.name()).collect();
    let all = [(jobs_text(jobs.len()), jobs), (count_text(plans.len(), "saved plan"), plans)];
    let text = |(number, names): (String, Vec<&str>)| match of_each(&names) {
        each if each.is_empty() => number,
        each => format!("{number} ({each})"),
    };
    all.map(text).join(", ")
}

/// The number of each of `names`, in a fixed order: `9 taken, 1 already here`.
fn of_each(names: &[&str]) -> String {
    const ORDER: [&str; 8] =
        ["taken", "replaced", "already here", "kept", "conflict", "busy", "unfinished", "damaged"];
    let count = |name: &&str| names.iter().filter(|found| *found == name).count();
    let found = ORDER.iter().map(|name| (count(name), name)).filter(|(number, _)| *number > 0);
    found.map(|(number, name)| format!("{number} {name}")).collect::<Vec<_>>().join(", ")
}

/// `3 results belong to no matrix of this store: env `gpu_a` (2), other configs of env `cpu` (1)`
fn undeclared_line(undeclared: &[Undeclared]) -> String {
    let number: usize = undeclared.iter().map(|of_env| of_env.jobs).sum();
    let envs: Vec<String> = undeclared
        .iter()
        .map(|Undeclared { env, jobs, env_is_declared }| {
            let other = if *env_is_declared { "other configs of " } else { "" };
            format!("{other}env `{env}` ({jobs})")
        })
        .collect();
    let belong = if number == 1 { "belongs" } else { "belong" };
    format!("{} {belong} to no matrix of this store: {}\n", count_text(number, "result"), envs.join(", "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use chrono::DateTime;

    use super::*;
    use crate::record::Outcome;

    fn side(path: &str, attempt: u32, host: &str, outcome: Outcome) -> Side {
        let ended_at = DateTime::from_timestamp(1_763_900_000, 0).unwrap();
        Side { path: path.into(), attempt, outcome, host: host.to_owned(), ended_at }
    }

    fn job(directory: &str, what: JobFate, ours: Option<Side>, theirs: Option<Side>) -> MergedJob {
        MergedJob { directory: directory.to_owned(), what, job: None, ours, theirs, left_out: Vec::new() }
    }

    fn plan(name: &str, fate: PlanFate) -> MergedPlan {
        MergedPlan { name: name.to_owned(), fate }
    }

    fn merged() -> Merged {
        let good = |path, attempt, host| Some(side(path, attempt, host, Outcome::Succeeded));
        let bad = |path, host| Some(side(path, 2, host, Outcome::Signalled { signal: 11 }));
        let pipe = MergedJob {
            left_out: vec!["attempts/01/pipe".to_owned()],
            ..job("b", JobFate::Taken, None, None)
        };
        Merged {
            jobs: vec![
                job("a", JobFate::Taken, None, good("there/a", 1, "beta")),
                pipe,
                job(
                    "c",
                    JobFate::Replaced(Some("runs/.replaced/1/c".into())),
                    bad("runs/c", "alpha"),
                    good("c", 1, "beta"),
                ),
                job("d", JobFate::Replaced(None), None, good("there/d", 3, "beta")),
                job("e", JobFate::AlreadyHere, good("runs/e", 1, "beta"), good("there/e", 1, "beta")),
                job(
                    "f",
                    JobFate::Kept(Existing::Success),
                    good("runs/f", 1, "alpha"),
                    bad("there/f", "beta"),
                ),
                job("g", JobFate::Kept(Existing::NoResult), None, bad("there/g", "beta")),
                job("h", JobFate::Kept(Existing::Newer), None, good("there/h", 1, "beta")),
                job("i", JobFate::Conflict, good("runs/i", 1, "alpha"), good("there/i", 2, "beta")),
                job("j", JobFate::Busy("j is busy: pid 7".into()), None, good("there/j", 1, "beta")),
                job("k", JobFate::Unfinished("it is running over there".into()), None, None),
                job("l", JobFate::Damaged("record.json is torn".into()), None, None),
            ],
            plans: vec![
                plan("m", PlanFate::Taken),
                plan("n", PlanFate::AlreadyHere),
                plan("o", PlanFate::Kept(Drift::Jobs { added: 2, removed: 1 })),
                plan("p", PlanFate::Kept(Drift::Settings(BTreeSet::from(["limits", "order"])))),
                plan("q", PlanFate::Damaged("it was changed".into())),
            ],
        }
    }

    #[test]
    fn every_fate_has_its_reason() {
        let undeclared =
            |env: &str, jobs, env_is_declared| Undeclared { env: env.into(), jobs, env_is_declared };
        let account = Account {
            is_rehearsal: true,
            stores: vec![
                ("there".into(), merged()),
                ("empty".into(), Merged { jobs: vec![], plans: vec![] }),
            ],
            undeclared: vec![undeclared("gpu_a", 2, false), undeclared("cpu", 1, true)],
        };
        insta::assert_snapshot!(text(&account));
    }

    #[test]
    fn every_fate_of_a_job_is_counted() {
        let merged = merged();
        let counted = counts(&merged);
        for job in &merged.jobs {
            assert!(counted.contains(job.what.name()), "{} is not in {counted}", job.what.name());
        }
    }
}
