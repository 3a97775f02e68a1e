//! Why a job has no result, for reports: [`Absences`]. Computed from the plan and its records alone, so that every
//! machine gives the same reasons for a store. [`decide`](super::decide) decides what this machine does next.

use std::cell::OnceCell;

use super::decide::not_here;
use super::{Ceilings, Inventory, Needs, NotDone, Plan, PlannedEnv, Standings, Wanted};
use crate::job::{Device, Job, Key};
use crate::record::HostFacts;

/// Explains jobs without a result.
#[derive(Debug)]
pub struct Absences<'a> {
    plan: &'a Plan,
    inventory: &'a Inventory,
    standings: Standings<'a>,
    needs: &'a Needs,
    machines: OnceCell<Vec<Machine<'a>>>,
}

/// A machine with records: its facts in the last of them, and the batches that do not fit into its memory.
#[derive(Debug)]
struct Machine<'a> {
    host: &'a HostFacts,
    ceilings: Ceilings,
}

impl<'a> Absences<'a> {
    /// The absences of `plan`, from the records of `inventory` and the `needs` of its configs.
    pub fn new(plan: &'a Plan, inventory: &'a Inventory, needs: &'a Needs) -> Self {
        Absences { plan, inventory, standings: inventory.standings(), needs, machines: OnceCell::new() }
    }

    /// Why `job`, which is `not_done`, has no result, as a sentence; `None` if its config is complete without it.
    pub fn why(&self, job: &Job, not_done: &NotDone) -> Option<String> {
        if let Some(why) = self.standings.blocks(job) {
            return Some(why);
        }
        let wanted = self.needs.wants(job, not_done);
        if let Wanted::No(_) = wanted {
            return None;
        }
        let (key, env) = (job.key(), self.plan.env(job.key()));
        // A queue decides where the jobs of other envs run.
        let able: Vec<&Machine<'_>> = if env.executor.is_local() {
            self.machines().iter().filter(|machine| not_here(key, env, machine.host).is_none()).collect()
        } else {
            Vec::new()
        };
        if let Some(why) = able.iter().find_map(|machine| machine.ceilings.prunes(key)) {
            return Some(why);
        }
        if let Wanted::IfNeeded(_) = wanted {
            return None;
        }
        let is_nowhere = env.executor.is_local() && able.is_empty() && matches!(not_done, NotDone::NeverRan);
        Some(is_nowhere.then(|| nowhere(key, env)).flatten().unwrap_or_else(|| not_done.to_string()))
    }

    fn machines(&self) -> &[Machine<'a>] {
        self.machines.get_or_init(|| {
            let mut records: Vec<_> = self.inventory.records().collect();
            records.sort_by_key(|record| std::cmp::Reverse((record.ended_at, record.id)));
            let mut machines: Vec<Machine<'_>> = Vec::new();
            for record in records {
                let host = &record.provenance.host;
                if !machines.iter().any(|machine| host.is_machine_of(machine.host)) {
                    machines.push(Machine { host, ceilings: Ceilings::of(self.inventory, host) });
                }
            }
            machines.sort_by(|one, other| one.host.hostname.cmp(&other.host.hostname));
            machines
        })
    }
}

/// The host that the job of `key` requires, as a sentence; `None` if any host can run it.
fn nowhere(key: &Key, env: &PlannedEnv) -> Option<String> {
    let belongs = |what: &str, wanted: &Option<String>| {
        let wanted = wanted.as_deref()?;
        Some(format!("it never ran: the env `{}` belongs on the {what} {wanted}", key.env))
    };
    belongs("host", &env.place.host).or_else(|| belongs("system", &env.place.os)).or_else(|| {
        (key.device != Device::Cpu).then(|| format!("it never ran: it needs a device `{}`", key.device))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::job::Device;
    use crate::matrix::{Executor, Place, SlurmRequest};
    use crate::plan::Standing;
    use crate::record::testing::record_of;
    use crate::record::{OsFacts, Outcome, Record};

    fn key(env: &str, device: Device, batch: u32) -> Key {
        Key { env: env.into(), device, batch, ..Key::example() }
    }

    fn record(key: &Key, outcome: Outcome, host: &str) -> Record {
        let mut record = record_of(key.clone(), outcome);
        record.provenance.host.hostname = host.into();
        record.provenance.host.os = OsFacts { name: "linux".into(), ..OsFacts::default() };
        record.provenance.host.devices = vec!["cpu".into()];
        record
    }

    fn inventory(records: Vec<Record>) -> Inventory {
        let mut inventory = Inventory::default();
        for record in records {
            let standing = if record.outcome.is_success() {
                Standing::Done(Arc::new(record.clone()))
            } else {
                Standing::NotDone(NotDone::Failed(Arc::new(record.clone())))
            };
            inventory.jobs.insert(record.id, standing);
        }
        inventory
    }

    /// Why each job has no result. Jobs without a record never ran.
    fn whys(keys: &[Key], records: Vec<Record>) -> Vec<Option<String>> {
        let place = |host: Option<&str>, os: Option<&str>| PlannedEnv {
            place: Place { host: host.map(str::to_owned), os: os.map(str::to_owned) },
            ..PlannedEnv::example()
        };
        let envs = [
            ("any", place(None, None)),
            ("box", place(Some("box"), None)),
            ("mac", place(None, Some("macos"))),
            (
                "queue",
                PlannedEnv { executor: Executor::Slurm(SlurmRequest::default()), ..PlannedEnv::example() },
            ),
        ];
        let envs = envs.map(|(name, env)| (name.into(), env)).into();
        let plan = Plan { envs, ..Plan::example(keys.to_vec()) };
        let (inventory, needs) = (inventory(records), Needs::default());
        let absences = Absences::new(&plan, &inventory, &needs);
        plan.jobs().map(|job| absences.why(&job, &NotDone::NeverRan)).collect()
    }

    #[test]
    fn jobs_that_no_machine_of_the_store_can_run_name_their_host() {
        let done = || record(&key("any", Device::Cpu, 1), Outcome::Succeeded, "other");
        let jobs = [
            key("box", Device::Cpu, 1),
            key("mac", Device::Cpu, 1),
            key("any", Device::Cuda(1), 1),
            key("any", Device::Cpu, 2),
        ];
        let expected = [
            Some("it never ran: the env `box` belongs on the host box".to_owned()),
            Some("it never ran: the env `mac` belongs on the system macos".to_owned()),
            Some("it never ran: it needs a device `cuda:1`".to_owned()),
            Some("it never ran".to_owned()),
        ];
        assert_eq!(whys(&jobs, vec![done()]), expected);
        assert_eq!(whys(&jobs, Vec::new()), expected);
        // The store has records of its machine, which could have run it.
        let there = record(&key("box", Device::Cpu, 4), Outcome::Succeeded, "box");
        assert_eq!(whys(&jobs[..1], vec![there]), [Some("it never ran".to_owned())]);
    }

    #[test]
    fn jobs_that_ran_out_of_memory_name_their_machine() {
        let oom = Outcome::OutOfMemory { message: "no more".into(), needed_bytes: None, free_bytes: None };
        let tried = record(&key("any", Device::Cpu, 8), oom, "box");
        let why = "batch 8 of the same config already ran out of memory on box";
        assert_eq!(whys(&[key("any", Device::Cpu, 16)], vec![tried]), [Some(why.to_owned())]);
    }

    /// Slurm decides where its jobs run, so they are not bound to a machine of the store.
    #[test]
    fn jobs_of_a_queue_are_not_bound_to_a_machine() {
        let done = record(&key("any", Device::Cpu, 1), Outcome::Succeeded, "box");
        assert_eq!(whys(&[key("queue", Device::Cuda(0), 1)], vec![done]), [Some("it never ran".to_owned())]);
    }
}
