//! What to do with each job of a plan, given what the store holds and what the host is.

use std::collections::BTreeMap;

use super::{Inventory, NotDone, Plan, PlannedEnv, Standing};
use crate::job::{Job, Key};
use crate::record::{HostFacts, Outcome};

/// What is to be done with one job, and why.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Run it: it is not done.
    Run(NotDone),
    /// Leave it: it is done.
    Skip,
    /// Leave it: a smaller batch of the same config ran out of memory.
    Pruned {
        /// Why, as a sentence.
        why: String,
    },
    /// Leave it: a newer `orchestrate` has left something of it that we do not understand, and must not replace.
    Blocked {
        /// Why, as a sentence.
        why: String,
    },
    /// Leave it: it does not belong on this host.
    NotHere {
        /// Why, as a sentence.
        why: String,
    },
}

/// One job of a plan and what is to be done with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// The job.
    pub job: Job,
    /// What is to be done with it.
    pub decision: Decision,
}

/// Decides for every job of `plan`, in its order.
///
/// What is done is done, wherever it was measured. What does not belong here is not asked for more. Of the rest, what
/// is certain to need more memory than there is is pruned, and everything else runs.
pub fn decide(plan: &Plan, inventory: &Inventory, host: &HostFacts) -> Vec<Decided> {
    let ceilings = Ceilings::of(inventory, host);
    plan.jobs()
        .map(|job| {
            let decision = decide_job(&job, plan.env(job.key()), inventory, host, &ceilings);
            Decided { job, decision }
        })
        .collect()
}

fn decide_job(
    job: &Job,
    env: &PlannedEnv,
    inventory: &Inventory,
    host: &HostFacts,
    ceilings: &Ceilings,
) -> Decision {
    let not_done = match inventory.standing(job) {
        Standing::Done(_) => return Decision::Skip,
        Standing::NotDone(not_done) => not_done,
    };
    if let Some(why) = inventory.blocks(job) {
        return Decision::Blocked { why };
    }
    if let Some(why) = not_here(job.key(), env, host) {
        return Decision::NotHere { why };
    }
    match ceilings.prunes(job.key()) {
        Some(why) => Decision::Pruned { why },
        None => Decision::Run(not_done),
    }
}

/// Why a job of `env` cannot run on `host`, as a sentence; `None` if it can.
fn not_here(key: &Key, env: &PlannedEnv, host: &HostFacts) -> Option<String> {
    let wants = |what: &str, wanted: &Option<String>, found: &str| {
        let wanted = wanted.as_deref().filter(|wanted| *wanted != found)?;
        Some(format!("the env `{}` belongs on the {what} {wanted}, this is {found}", key.env))
    };
    let device = key.device.to_string();
    wants("host", &env.place.host, &host.hostname)
        .or_else(|| wants("system", &env.place.os, &host.os.name))
        .or_else(|| {
            (!host.devices.contains(&device))
                .then(|| format!("this host has no device `{device}`, only {}", host.devices.join(", ")))
        })
}

/// The smallest batch of each config that ran out of memory on this host. A larger one needs more still.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ceilings {
    /// By the config without its batch.
    smallest: BTreeMap<String, u32>,
}

impl Ceilings {
    /// Those that the records of `inventory` show for `host`. A job that has succeeded since shows none.
    pub fn of(inventory: &Inventory, host: &HostFacts) -> Self {
        let mut smallest = BTreeMap::new();
        for standing in inventory.jobs.values() {
            let Standing::NotDone(NotDone::Failed(record)) = standing else { continue };
            let here = record.provenance.host.hostname == host.hostname;
            if here && matches!(record.outcome, Outcome::OutOfMemory { .. }) {
                let batch = record.key.batch;
                smallest
                    .entry(without_batch(&record.key))
                    .and_modify(|least: &mut u32| *least = batch.min(*least))
                    .or_insert(batch);
            }
        }
        Ceilings { smallest }
    }

    /// Why `key` need not be tried, as a sentence; `None` if it may fit.
    pub fn prunes(&self, key: &Key) -> Option<String> {
        if self.smallest.is_empty() {
            return None;
        }
        let least = self.smallest.get(&without_batch(key)).filter(|least| key.batch > **least)?;
        Some(format!("batch {least} of the same config already ran out of memory on this host"))
    }
}

fn without_batch(key: &Key) -> String {
    Key { batch: 0, ..key.config() }.canonical_json()
}

/// Whether a job that ended so is worth another attempt in the same run. What follows from the job itself and the host
/// (too little memory, a device that is not there, a program that cannot be started, settings the worker does not
/// honour) would only be seen again.
pub fn may_retry(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Exited { .. }
        | Outcome::Signalled { .. }
        | Outcome::TimedOut { .. }
        | Outcome::BadOutput { .. } => true,
        Outcome::Succeeded
        | Outcome::OutOfMemory { .. }
        | Outcome::FailedToSpawn { .. }
        | Outcome::SettingMismatch { .. }
        | Outcome::Interrupted { .. }
        | Outcome::Unsupported { .. }
        | Outcome::NotProfiled(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job::{Device, KEY_SCHEMA, Kind, Precision};
    use crate::matrix::{Limits, Order, Place, Share};
    use crate::plan::{PLAN_SCHEMA, Problem};
    use crate::record::{MatrixFacts, Observed, OsFacts, Provenance, Record, WorkerFacts};

    fn key(env: &str, device: Device, batch: u32, repeat: u32) -> Key {
        Key {
            schema: KEY_SCHEMA,
            kind: Kind::Timing,
            env: env.into(),
            device,
            model: "resnet18".into(),
            batch,
            precision: Precision::Fp32,
            repeat,
            params: Default::default(),
            worker: Default::default(),
            profile: Default::default(),
        }
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
        Record {
            schema: 1,
            id: key.id(),
            label: key.label(),
            key: key.clone(),
            attempt: 1,
            started_at: Default::default(),
            ended_at: Default::default(),
            outcome,
            measurement: None,
            process: None,
            counters: None,
            observed: Observed::default(),
            provenance: Provenance {
                orchestrate: String::new(),
                host: host(hostname),
                worker: WorkerFacts::default(),
                matrix: MatrixFacts::default(),
                git: None,
                cloud: None,
                command: Vec::new(),
                environment: Default::default(),
            },
        }
    }

    fn env(place: Place) -> PlannedEnv {
        PlannedEnv {
            place,
            share: Share::Nothing,
            peaks: None,
            usd_per_hour: None,
            cloud: None,
            variables: Default::default(),
            limits: Limits::default(),
        }
    }

    fn plan(jobs: Vec<Key>) -> Plan {
        let elsewhere = Place { host: Some("elsewhere".into()), os: None };
        let macos = Place { host: None, os: Some("macos".into()) };
        Plan {
            schema: PLAN_SCHEMA,
            matrix: MatrixFacts::default(),
            description: None,
            order: Order::Sequential,
            order_seed: 0,
            envs: BTreeMap::from([
                ("here".to_owned(), env(Place::default())),
                ("elsewhere".to_owned(), env(elsewhere)),
                ("mac".to_owned(), env(macos)),
            ]),
            jobs,
        }
    }

    fn oom() -> Outcome {
        Outcome::OutOfMemory { message: "no more".into(), needed_bytes: None, free_bytes: None }
    }

    #[test]
    fn says_why_a_job_is_not_for_this_host() {
        let jobs = vec![
            key("elsewhere", Device::Cpu, 1, 1),
            key("mac", Device::Cpu, 1, 1),
            key("here", Device::Mps, 1, 1),
            key("here", Device::Cuda(1), 1, 1),
            key("here", Device::Cuda(0), 1, 1),
        ];
        let whys: Vec<_> = decide(&plan(jobs), &Inventory::default(), &host("box"))
            .into_iter()
            .map(|decided| match decided.decision {
                Decision::NotHere { why } => why,
                other => format!("{other:?}"),
            })
            .collect();
        assert_eq!(
            whys,
            [
                "the env `elsewhere` belongs on the host elsewhere, this is box",
                "the env `mac` belongs on the system macos, this is linux",
                "this host has no device `mps`, only cpu, cuda",
                "this host has no device `cuda:1`, only cpu, cuda",
                "Run(NeverRan)",
            ]
        );
    }

    #[test]
    fn what_a_newer_orchestrate_left_is_blocked_and_what_is_torn_runs() {
        let jobs = vec![
            key("here", Device::Cpu, 1, 1),
            key("here", Device::Cpu, 2, 1),
            key("here", Device::Cpu, 3, 1),
        ];
        let problem = |key: &Key, newer| Problem {
            path: format!("runs/{}", Job::new(key.clone()).dir_name()).into(),
            message: "it has schema 7".into(),
            newer,
        };
        let problems = vec![problem(&jobs[0], true), problem(&jobs[1], false)];
        let inventory = Inventory { problems, ..Inventory::default() };
        let decided = decide(&plan(jobs), &inventory, &host("box"));
        let Decision::Blocked { why } = &decided[0].decision else { panic!("{decided:?}") };
        assert!(why.starts_with("it has schema 7; update orchestrate, or delete runs/here_"), "{why}");
        let corrupt = NotDone::Corrupt { message: "it has schema 7".into() };
        assert_eq!(decided[1].decision, Decision::Run(corrupt));
        assert_eq!(decided[2].decision, Decision::Run(NotDone::NeverRan));
    }

    /// What the store may hold of a job.
    #[derive(Clone, Copy, Debug)]
    enum Held {
        Nothing,
        Success,
        Failure,
        OutOfMemory,
        OutOfMemoryElsewhere,
        Unfinished,
    }

    fn held() -> impl Strategy<Value = Held> {
        prop_oneof![
            Just(Held::Nothing),
            Just(Held::Success),
            Just(Held::Failure),
            Just(Held::OutOfMemory),
            Just(Held::OutOfMemoryElsewhere),
            Just(Held::Unfinished),
        ]
    }

    fn standing(key: &Key, held: Held) -> Option<Standing> {
        let failed =
            |outcome, host| Some(Standing::NotDone(NotDone::Failed(Box::new(record(key, outcome, host)))));
        match held {
            Held::Nothing => None,
            Held::Success => Some(Standing::Done(Box::new(record(key, Outcome::Succeeded, "box")))),
            Held::Failure => failed(Outcome::Signalled { signal: 11 }, "box"),
            Held::OutOfMemory => failed(oom(), "box"),
            Held::OutOfMemoryElsewhere => failed(oom(), "other"),
            Held::Unfinished => Some(Standing::NotDone(NotDone::Unfinished { attempts: 1 })),
        }
    }

    /// The word for what should happen to `jobs[index]`, found by looking at every pair of jobs and at nothing else.
    fn oracle(jobs: &[(Key, Held)], index: usize) -> &'static str {
        let (key, held) = &jobs[index];
        if matches!(held, Held::Success) {
            return "skip";
        }
        if key.env == "elsewhere" || !["cpu", "cuda"].contains(&key.device.to_string().as_str()) {
            return "not here";
        }
        let smaller_failed = jobs.iter().any(|(other, held)| {
            matches!(held, Held::OutOfMemory)
                && other.batch < key.batch
                && (&other.env, other.device) == (&key.env, key.device)
        });
        if smaller_failed { "pruned" } else { "run" }
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
            let inventory = Inventory {
                jobs: jobs
                    .iter()
                    .filter_map(|(key, held)| Some((key.id(), standing(key, *held)?)))
                    .collect(),
                problems: Vec::new(),
            };
            let plan = plan(jobs.iter().map(|(key, _)| key.clone()).collect());
            let decided = decide(&plan, &inventory, &host("box"));
            prop_assert_eq!(&decided, &decide(&plan, &inventory, &host("box")), "deciding twice changes nothing");
            prop_assert_eq!(decided.len(), jobs.len());
            for (index, decided) in decided.iter().enumerate() {
                prop_assert_eq!(decided.job.key(), &jobs[index].0);
                let word = match &decided.decision {
                    Decision::Skip => "skip",
                    Decision::NotHere { .. } => "not here",
                    Decision::Blocked { .. } => "blocked",
                    Decision::Pruned { .. } => "pruned",
                    Decision::Run(_) => "run",
                };
                prop_assert_eq!(word, oracle(&jobs, index), "job {}", index);
            }
        }
    }
}
