//! Decides what to do with each job of a plan, from the inventory and the facts of the host.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use super::stale::redeclared;
use super::{
    Ceilings, Change, Inventory, Needs, NotDone, Plan, PlannedEnv, Present, Standing, Standings, Wanted,
    changes, changes_text,
};
use crate::job::{Job, JobId, Key};
use crate::matrix::Executor;
use crate::record::{HostFacts, Record};

/// The decision about a job, with its reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Run it: it is not done, or a re-run was interrupted before it left a record.
    Run(NotDone),
    /// Run it again: it is done, but the user requested a re-run.
    Rerun {
        /// Why its record is replaced, as a sentence.
        why: String,
    },
    /// Run it again, after all others: it is done, but marks leave it out, and the matrix requests another run in that
    /// case.
    Replace {
        /// Why its record is replaced, as a sentence.
        why: String,
    },
    /// Run it only if the earlier repeats of its config turn out not to be enough.
    IfNeeded {
        /// The reason, as a sentence.
        why: String,
    },
    /// Skip it: the other repeats of its config are enough.
    NotNeeded {
        /// The reason, as a sentence.
        why: String,
    },
    /// Skip it: it is done.
    Skip,
    /// Skip it: it is done, but its worker or environment has changed, and the user has not accepted that.
    Stale {
        /// The changes since its record; never empty.
        changes: Vec<Change>,
    },
    /// Skip it: a smaller batch of the same config ran out of memory, or another repeat.
    Pruned {
        /// The reason, as a sentence.
        why: String,
    },
    /// Skip it: a newer `orchestrate` wrote files that this version cannot read and must not replace.
    Blocked {
        /// The reason, as a sentence.
        why: String,
    },
    /// Skip it: its env is for another host.
    NotHere {
        /// The reason, as a sentence.
        why: String,
    },
}

impl Decision {
    /// Whether the job certainly runs. False for a job that runs only if needed.
    pub fn runs(&self) -> bool {
        matches!(self, Decision::Run(_) | Decision::Rerun { .. } | Decision::Replace { .. })
    }

    /// Why a job that has no result and is needed does not run, as a sentence.
    pub fn obstacle(&self) -> Option<&str> {
        match self {
            Decision::Pruned { why } | Decision::Blocked { why } | Decision::NotHere { why } => Some(why),
            Decision::Run(_)
            | Decision::Rerun { .. }
            | Decision::Replace { .. }
            | Decision::IfNeeded { .. }
            | Decision::NotNeeded { .. }
            | Decision::Skip
            | Decision::Stale { .. } => None,
        }
    }
}

/// A job of a plan and the decision about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// The job.
    pub job: Job,
    /// The decision.
    pub decision: Decision,
}

/// Decides for every job of `plan`, in its order.
///
/// A job that was done on any host is done. It is stale if it would run with other variables now, or if it was measured
/// here and differs from `present`. Jobs that `needs` does not include and jobs for other hosts are skipped. Among the
/// rest, those that certainly need too much memory are pruned, and the others run.
pub fn decide(
    plan: &Plan,
    inventory: &Inventory,
    host: &HostFacts,
    present: &Present,
    needs: &Needs,
) -> Vec<Decided> {
    let standings = inventory.standings();
    let scene = Scene { inventory, standings, host, present, needs, ceilings: OnceCell::new() };
    plan.jobs()
        .map(|job| {
            let decision = scene.decide_job(&job, plan.env(job.key()));
            Decided { job, decision }
        })
        .collect()
}

/// Turns every stale job of `decided` into a re-run.
pub fn rerun_stale(decided: &mut [Decided]) {
    for decided in decided {
        if let Decision::Stale { changes } = &decided.decision {
            decided.decision = Decision::Rerun { why: format!("it is stale: {}", changes_text(changes)) };
        }
    }
}

/// Turns every done job of `decided` in `marked`, which has the reasons, into a re-run. Jobs for other hosts stay done,
/// since they cannot be repeated on `host`.
pub fn rerun_marked(
    decided: &mut [Decided],
    marked: &BTreeMap<JobId, String>,
    plan: &Plan,
    host: &HostFacts,
) {
    for Decided { job, decision } in decided {
        let is_done = matches!(decision, Decision::Skip | Decision::Stale { .. } | Decision::Replace { .. });
        let env = plan.env(job.key());
        let is_here = !env.executor.is_local() || not_here(job.key(), env, host).is_none();
        if let Some(why) = marked.get(&job.id()).filter(|_| is_done && is_here) {
            *decision = Decision::Rerun { why: left_out_text(why) };
        }
    }
}

/// The reason for repeating a job whose run `marks` leave out.
fn left_out_text(marks: &str) -> String {
    format!("its run is left out of the statistics: {marks}")
}

/// The inputs of decisions.
struct Scene<'a> {
    inventory: &'a Inventory,
    standings: Standings<'a>,
    host: &'a HostFacts,
    present: &'a Present,
    needs: &'a Needs,
    /// Computed only if a job is not done.
    ceilings: OnceCell<Ceilings>,
}

impl Scene<'_> {
    fn decide_job(&self, job: &Job, env: &PlannedEnv) -> Decision {
        let not_done = match self.standings.of(job) {
            Standing::Done(record) => return self.decide_done(job, env, &record),
            Standing::NotDone(not_done) => not_done,
        };
        if let Some(why) = self.standings.blocks(job) {
            return Decision::Blocked { why };
        }
        let wanted = self.needs.wants(job, &not_done);
        if let Wanted::No(why) = wanted {
            return Decision::NotNeeded { why };
        }
        if let Some(why) = self.not_here(job.key(), env) {
            return Decision::NotHere { why };
        }
        match (self.prunes(job.key(), env), wanted) {
            (Some(why), _) => Decision::Pruned { why },
            (None, Wanted::IfNeeded(why)) => Decision::IfNeeded { why },
            (None, _) => Decision::Run(not_done),
        }
    }

    /// Continues a re-run that was interrupted: the user requested it, and its worker might still be running. Jobs for
    /// other hosts cannot be repeated here, so they stay done.
    fn decide_done(&self, job: &Job, env: &PlannedEnv, record: &Record) -> Decision {
        if self.not_here(job.key(), env).is_some() {
            return Decision::Skip;
        }
        if let Some(not_done) = self.inventory.reruns.get(&job.id()) {
            return Decision::Run(not_done.clone());
        }
        let mut changes = changes(record, env, self.host, self.present);
        changes.extend(redeclared(record, job.key()));
        let accepted = self.inventory.accepted.get(&job.id());
        if changes.is_empty() || accepted.is_some_and(|accepted| accepted.covers(record, &changes)) {
            let marks = self.needs.replaces(job);
            return marks.map_or(Decision::Skip, |marks| Decision::Replace { why: left_out_text(marks) });
        }
        Decision::Stale { changes }
    }
}

impl Scene<'_> {
    /// Why the job of `key` cannot be started from here, as a sentence; `None` if it can.
    fn not_here(&self, key: &Key, env: &PlannedEnv) -> Option<String> {
        match env.executor {
            Executor::Local => not_here(key, env, self.host),
            // The host of the env is checked on the node that Slurm chooses.
            Executor::Slurm(_) if self.present.slurm => None,
            Executor::Slurm(_) => {
                Some(format!("Slurm starts the jobs of the env `{}`, and its programs are not here", key.env))
            }
            Executor::Ssh(_) if self.present.ssh => None,
            Executor::Ssh(_) => {
                Some(format!("the jobs of the env `{}` are handed over by `ssh`, which is not here", key.env))
            }
        }
    }

    /// Why the job of `key` certainly needs too much memory, as a sentence. For jobs on other hosts, that is decided
    /// there.
    fn prunes(&self, key: &Key, env: &PlannedEnv) -> Option<String> {
        let ceilings = self.ceilings.get_or_init(|| Ceilings::of(self.inventory, self.host));
        if env.executor.is_local() { ceilings.prunes(key) } else { None }
    }
}

/// Why the job of `key` cannot run on `host`, as a sentence; `None` if it can.
pub(super) fn not_here(key: &Key, env: &PlannedEnv, host: &HostFacts) -> Option<String> {
    let wants = |what: &str, wanted: &Option<String>, found: &str| {
        let wanted = wanted.as_deref().filter(|wanted| *wanted != found)?;
        Some(format!("the env `{}` belongs on the {what} {wanted}, but this is {found}", key.env))
    };
    let device = key.device.to_string();
    wants("host", &env.place.host, &host.hostname)
        .or_else(|| wants("system", &env.place.os, &host.os.name))
        .or_else(|| host.no_gpu(key.device))
        .or_else(|| {
            (!host.devices.contains(&device))
                .then(|| format!("this host has no device `{device}`, only {}", host.devices.join(", ")))
        })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::job::{Device, Kind, Profile};
    use crate::matrix::{Place, RepeatRule};
    use crate::plan::{ACCEPTANCE_SCHEMA, Acceptance, Problem, Worth};
    use crate::record::testing::record_of;
    use crate::record::{OsFacts, Outcome, Record, WorkerFacts};

    fn key(env: &str, device: Device, batch: u32, repeat: u32) -> Key {
        Key { env: env.into(), device, model: "resnet18".into(), batch, repeat, ..Key::example() }
    }

    fn host(name: &str) -> HostFacts {
        HostFacts {
            hostname: name.into(),
            os: OsFacts { name: "linux".into(), ..OsFacts::default() },
            devices: vec!["cpu".into(), "cuda".into()],
            ..HostFacts::default()
        }
    }

    fn record(key: &Key, outcome: Outcome, hostname: &str) -> Record {
        let mut record = record_of(key.clone(), outcome);
        record.provenance.host = host(hostname).into();
        record
    }

    fn plan(jobs: Vec<Key>) -> Plan {
        let env = |place| PlannedEnv { place, ..PlannedEnv::example() };
        let elsewhere = Place { host: Some("elsewhere".into()), os: None };
        let macos = Place { host: None, os: Some("macos".into()) };
        let envs = [("here", Place::default()), ("elsewhere", elsewhere), ("mac", macos)];
        Plan { envs: envs.map(|(name, place)| (name.into(), env(place))).into(), ..Plan::example(jobs) }
    }

    fn oom() -> Outcome {
        Outcome::OutOfMemory { message: "no more".into(), needed_bytes: None, free_bytes: None }
    }

    #[test]
    fn jobs_for_other_hosts_have_a_reason() {
        let jobs = vec![
            key("elsewhere", Device::Cpu, 1, 1),
            key("mac", Device::Cpu, 1, 1),
            key("here", Device::Mps, 1, 1),
            key("here", Device::Cuda(1), 1, 1),
            key("here", Device::Cuda(0), 1, 1),
        ];
        let whys: Vec<_> =
            decide(&plan(jobs), &Inventory::default(), &host("box"), &Present::default(), &Needs::default())
                .into_iter()
                .map(|decided| match decided.decision {
                    Decision::NotHere { why } => why,
                    other => format!("{other:?}"),
                })
                .collect();
        assert_eq!(
            whys,
            [
                "the env `elsewhere` belongs on the host elsewhere, but this is box",
                "the env `mac` belongs on the system macos, but this is linux",
                "this host has no device `mps`, only cpu, cuda",
                "this host has no device `cuda:1`, only cpu, cuda",
                "Run(NeverRan)",
            ]
        );
    }

    #[test]
    fn a_done_job_is_settled_unless_a_rerun_is_pending() {
        let key = key("here", Device::Cpu, 1, 1);
        let job = Job::new(key.clone());
        let mut inventory = Inventory::default();
        assert!(!inventory.is_settled(&job));
        let failed = NotDone::Failed(Arc::new(record(&key, oom(), "box")));
        inventory.jobs.insert(job.id(), Standing::NotDone(failed));
        assert!(!inventory.is_settled(&job));
        inventory.jobs.insert(job.id(), Standing::Done(Arc::new(record(&key, Outcome::Succeeded, "box"))));
        assert!(inventory.is_settled(&job));
        inventory.reruns.insert(job.id(), NotDone::Running);
        assert!(!inventory.is_settled(&job));
    }

    #[test]
    fn jobs_with_newer_files_are_blocked_and_torn_ones_run() {
        let jobs = vec![
            key("here", Device::Cpu, 1, 1),
            key("here", Device::Cpu, 2, 1),
            key("here", Device::Cpu, 3, 1),
        ];
        let problem = |key: &Key, newer| Problem {
            remedy: None,
            path: format!("runs/{}", Job::new(key.clone()).dir_name()).into(),
            message: "it has schema 7".into(),
            newer,
        };
        let problems = vec![problem(&jobs[0], true), problem(&jobs[1], false)];
        let inventory = Inventory { problems, ..Inventory::default() };
        let decided = decide(&plan(jobs), &inventory, &host("box"), &Present::default(), &Needs::default());
        let Decision::Blocked { why } = &decided[0].decision else { panic!("{decided:?}") };
        assert!(why.starts_with("it has schema 7; update orchestrate, or delete runs/here_"), "{why}");
        let corrupt = NotDone::Corrupt { message: "it has schema 7".into() };
        assert_eq!(decided[1].decision, Decision::Run(corrupt));
        assert_eq!(decided[2].decision, Decision::Run(NotDone::NeverRan));
    }

    /// Whether the `ncu` jobs of batch 8, 16 and 32 are pruned if the timing jobs of batch 16 ended as `sixteen`.
    fn profiled_jobs_pruned_after(sixteen: [Held; 2]) -> [bool; 3] {
        let timing = |batch, repeat| key("here", Device::Cuda(0), batch, repeat);
        let held = vec![(timing(16, 1), sixteen[0]), (timing(16, 2), sixteen[1])];
        let ceilings = Ceilings::of(&inventory(&held), &host("box"));
        [8, 16, 32].map(|batch| {
            let profile = Profile { iters: Some(3), ..Profile::default() };
            ceilings.prunes(&timing(batch, 1).profiled(Kind::Ncu, profile)).is_some()
        })
    }

    #[test]
    fn a_profiled_job_is_pruned_with_the_timing_jobs_of_its_config() {
        assert_eq!(profiled_jobs_pruned_after([Held::OutOfMemory; 2]), [false, true, true]);
        assert_eq!(profiled_jobs_pruned_after([Held::OutOfMemory, Held::Nothing]), [false, true, true]);
        let one_fitted = profiled_jobs_pruned_after([Held::OutOfMemory, Held::Success]);
        assert_eq!(one_fitted, [false, false, true], "the failed repeat lacked memory, not the config");
        assert_eq!(profiled_jobs_pruned_after([Held::OutOfMemoryElsewhere; 2]), [false; 3]);
    }

    #[test]
    fn marked_jobs_are_repeated_on_their_own_host() {
        let held = [("here", Held::Success), ("here", Held::Stale), ("elsewhere", Held::Success)];
        let jobs: Vec<(Key, Held)> = held
            .iter()
            .zip(1..)
            .map(|((env, held), repeat)| (key(env, Device::Cpu, 8, repeat), *held))
            .chain([(key("here", Device::Cpu, 16, 1), Held::Nothing)])
            .collect();
        let plan = plan(jobs.iter().map(|(key, _)| key.clone()).collect());
        let decided = decide(&plan, &inventory(&jobs), &host("box"), &present(&jobs), &Needs::default());
        let repeat = |marked: &[usize]| {
            let marked = marked.iter().map(|index| (jobs[*index].0.id(), "contended: by others".to_owned()));
            let mut decided = decided.clone();
            rerun_marked(&mut decided, &marked.collect(), &plan, &host("box"));
            decided.iter().map(|decided| word(&decided.decision)).collect::<Vec<_>>()
        };
        assert_eq!(repeat(&[]), ["skip", "stale", "skip", "run"]);
        assert_eq!(repeat(&[0, 1, 2, 3]), ["rerun", "rerun", "skip", "run"]);
    }

    /// The decisions about twelve repeats in `env`, of which `done` have run with the same throughput, under `rule`.
    /// The repeats in `marked` are left out.
    fn decided_by_results(env: &str, rule: RepeatRule, done: u32, marked: &[u32]) -> Vec<&'static str> {
        let jobs: Vec<(Key, Held)> = (1..=rule.max)
            .map(|repeat| {
                (key(env, Device::Cpu, 8, repeat), if repeat <= done { Held::Success } else { Held::Nothing })
            })
            .collect();
        let rules = BTreeMap::from([(jobs[0].0.config_id(), rule)]);
        let plan = Plan { rules, ..plan(jobs.iter().map(|(key, _)| key.clone()).collect()) };
        let inventory = inventory(&jobs);
        let worth = |repeat: u32| Worth {
            row: 0,
            per_s: Some(100.0),
            left_out: marked.contains(&repeat).then(|| "contended: by others".to_owned()),
        };
        let worths = jobs.iter().take(done as usize).map(|(key, _)| (key.id(), worth(key.repeat))).collect();
        let needs = Needs::of(&plan, &inventory, &worths);
        let decided = decide(&plan, &inventory, &host("box"), &present(&jobs), &needs);
        decided.iter().map(|decided| word(&decided.decision)).collect()
    }

    #[test]
    fn results_decide_which_repeats_run() {
        let until = RepeatRule { min: 3, max: 9, until: Some(0.02), replace_marked: 1 };
        let after = |done, marked: &[u32]| decided_by_results("here", until, done, marked);
        assert_eq!(after(8, &[])[6..], ["skip", "skip", "not needed"]);
        assert_eq!(after(7, &[])[6..], ["skip", "run", "if needed"]);
        assert_eq!(after(7, &[2])[..3], ["skip", "replace", "skip"]);
        assert_eq!(decided_by_results("elsewhere", until, 8, &[])[8], "not needed", "nowhere");
        assert_eq!(decided_by_results("elsewhere", until, 7, &[2])[1..8], {
            let mut found = ["skip"; 7];
            found[6] = "not here";
            found
        });
        let fixed = RepeatRule { replace_marked: 1, ..RepeatRule::fixed(3) };
        assert_eq!(decided_by_results("here", fixed, 2, &[1]), ["replace", "skip", "run"]);
    }

    /// The standings of a job in the store.
    #[derive(Clone, Copy, Debug)]
    enum Held {
        Nothing,
        Success,
        /// Measured with a worker other than the current one.
        Stale,
        Accepted,
        /// The user accepted a change other than the current one.
        AcceptedBefore,
        StaleElsewhere,
        RerunCutOff,
        Failure,
        OutOfMemory,
        OutOfMemoryElsewhere,
        Unfinished,
    }

    fn held() -> impl Strategy<Value = Held> {
        prop_oneof![
            Just(Held::Nothing),
            Just(Held::Success),
            Just(Held::Stale),
            Just(Held::Accepted),
            Just(Held::AcceptedBefore),
            Just(Held::StaleElsewhere),
            Just(Held::RerunCutOff),
            Just(Held::Failure),
            Just(Held::OutOfMemory),
            Just(Held::OutOfMemoryElsewhere),
            Just(Held::Unfinished),
        ]
    }

    fn standing(key: &Key, held: Held) -> Option<Standing> {
        let failed =
            |outcome, host| Some(Standing::NotDone(NotDone::Failed(Arc::new(record(key, outcome, host)))));
        let done = |worker: &str, host| {
            let mut record = record(key, Outcome::Succeeded, host);
            record.provenance.worker.sha256 = Some(worker.to_owned());
            Some(Standing::Done(Arc::new(record)))
        };
        match held {
            Held::Nothing => None,
            Held::Success => done("new", "box"),
            Held::Stale | Held::Accepted | Held::AcceptedBefore | Held::RerunCutOff => done("old", "box"),
            Held::StaleElsewhere => done("old", "other"),
            Held::Failure => failed(Outcome::Signalled { signal: 11 }, "box"),
            Held::OutOfMemory => failed(oom(), "box"),
            Held::OutOfMemoryElsewhere => failed(oom(), "other"),
            Held::Unfinished => Some(Standing::NotDone(NotDone::Unfinished { attempts: 1 })),
        }
    }

    /// The expected decision about `jobs[index]`, found by checking every pair of jobs.
    fn oracle(jobs: &[(Key, Held)], index: usize) -> &'static str {
        let (key, held) = &jobs[index];
        let is_here = key.env != "elsewhere" && ["cpu", "cuda"].contains(&key.device.to_string().as_str());
        match held {
            Held::Success | Held::Accepted | Held::StaleElsewhere => return "skip",
            Held::Stale | Held::AcceptedBefore => return if is_here { "stale" } else { "skip" },
            Held::RerunCutOff => return if is_here { "run" } else { "skip" },
            _ if !is_here => return "not here",
            _ => {}
        }
        let smaller_failed = jobs.iter().any(|(other, held)| {
            matches!(held, Held::OutOfMemory)
                && other.batch < key.batch
                && (&other.env, other.device) == (&key.env, key.device)
        });
        let of_batch = |is_held: fn(&Held) -> bool| {
            jobs.iter().any(|(other, held)| {
                is_held(held)
                    && other.batch == key.batch
                    && (&other.env, other.device) == (&key.env, key.device)
            })
        };
        let repeat_failed = of_batch(|held| matches!(held, Held::OutOfMemory))
            && !matches!(held, Held::OutOfMemory)
            && !of_batch(|held| {
                matches!(
                    held,
                    Held::Success | Held::Stale | Held::Accepted | Held::AcceptedBefore | Held::RerunCutOff
                )
            });
        if smaller_failed || repeat_failed { "pruned" } else { "run" }
    }

    fn word(decision: &Decision) -> &'static str {
        match decision {
            Decision::Skip => "skip",
            Decision::Stale { .. } => "stale",
            Decision::Rerun { .. } => "rerun",
            Decision::Replace { .. } => "replace",
            Decision::IfNeeded { .. } => "if needed",
            Decision::NotNeeded { .. } => "not needed",
            Decision::NotHere { .. } => "not here",
            Decision::Blocked { .. } => "blocked",
            Decision::Pruned { .. } => "pruned",
            Decision::Run(_) => "run",
        }
    }

    fn inventory(jobs: &[(Key, Held)]) -> Inventory {
        let mut inventory = Inventory::default();
        for (key, held) in jobs {
            let id = key.id();
            inventory.jobs.extend(standing(key, *held).map(|standing| (id, standing)));
            let accepted = |from: &str| Acceptance {
                schema: ACCEPTANCE_SCHEMA,
                attempt: 1,
                accepted_at: Default::default(),
                changes: vec![Change { what: "worker".into(), from: from.into(), to: "new".into() }],
            };
            match held {
                Held::Accepted => drop(inventory.accepted.insert(id, accepted("old"))),
                Held::AcceptedBefore => drop(inventory.accepted.insert(id, accepted("older"))),
                Held::RerunCutOff => drop(inventory.reruns.insert(id, NotDone::Unfinished { attempts: 2 })),
                _ => {}
            }
        }
        inventory
    }

    /// Every job would run with the worker called `new`.
    fn present(jobs: &[(Key, Held)]) -> Present {
        let worker = Arc::new(WorkerFacts { sha256: Some("new".into()), ..WorkerFacts::default() });
        let workers = jobs.iter().map(|(key, _)| (key.id(), worker.clone())).collect();
        Present { workers, ..Present::default() }
    }

    proptest! {
        #[test]
        fn decides_as_the_oracle_does(
            drawn in proptest::collection::btree_map(
                (prop_oneof![Just("here"), Just("elsewhere")], 0..3u8, 1..4u32, 1..3u32),
                held(),
                0..24,
            ),
        ) {
            let devices = [Device::Cpu, Device::Cuda(0), Device::Mps];
            let jobs: Vec<(Key, Held)> = drawn
                .into_iter()
                .map(|((env, device, batch, repeat), held)| {
                    (key(env, devices[usize::from(device)], batch * 8, repeat), held)
                })
                .collect();
            let inventory = inventory(&jobs);
            let present = present(&jobs);
            let plan = plan(jobs.iter().map(|(key, _)| key.clone()).collect());
            let mut decided = decide(&plan, &inventory, &host("box"), &present, &Needs::default());
            let again = decide(&plan, &inventory, &host("box"), &present, &Needs::default());
            prop_assert_eq!(&decided, &again, "deciding twice changes nothing");
            prop_assert_eq!(decided.len(), jobs.len());
            for (index, decided) in decided.iter().enumerate() {
                prop_assert_eq!(decided.job.key(), &jobs[index].0);
                prop_assert_eq!(word(&decided.decision), oracle(&jobs, index), "job {}", index);
            }
            let before = decided.clone();
            rerun_stale(&mut decided);
            for (before, after) in before.iter().zip(&decided) {
                let expected = if word(&before.decision) == "stale" { "rerun" } else { word(&before.decision) };
                prop_assert_eq!(word(&after.decision), expected);
            }
        }
    }
}
