//! Which batches do not fit into the memory of a host, from the records of its jobs.

use std::collections::BTreeMap;

use super::Inventory;
use crate::job::{JobId, Key, Kind};
use crate::record::{HostFacts, Record};

/// The batches of each config that ran out of memory on one host. Larger batches need even more, and profiled jobs need
/// at least as much as the timing jobs of their config.
///
/// They follow the inventory record by record, each in O(log n).
#[derive(Clone, Debug, PartialEq)]
pub struct Ceilings {
    hostname: String,
    /// Each with its number of jobs, by the config without its batch ([`Key::id_of_any_batch`]).
    too_large: BTreeMap<JobId, BTreeMap<u32, usize>>,
    /// The timing configs with jobs that succeeded here, each with the number of these jobs. If another repeat ran out
    /// of memory, other processes were using it.
    fitting: BTreeMap<JobId, usize>,
}

impl Ceilings {
    /// Those in the records of `inventory` for `host`. Jobs that have succeeded since do not count.
    pub fn of(inventory: &Inventory, host: &HostFacts) -> Self {
        let hostname = host.hostname.clone();
        let mut ceilings = Ceilings { hostname, too_large: BTreeMap::new(), fitting: BTreeMap::new() };
        for record in inventory.records() {
            ceilings.count(record, add);
        }
        ceilings
    }

    /// Follows the inventory, where `after` took the place of `before` as the record of one job.
    pub fn replace(&mut self, before: Option<&Record>, after: &Record) {
        if let Some(before) = before {
            self.count(before, remove);
        }
        self.count(after, add);
    }

    fn count(&mut self, record: &Record, count: impl FnOnce(&mut usize)) {
        if record.provenance.host.hostname != self.hostname {
            return;
        }
        let key = &record.key;
        if record.outcome.policy().prunes {
            let config = key.id_of_any_batch();
            let batches = self.too_large.entry(config).or_default();
            change(batches, key.batch, count);
            if batches.is_empty() {
                self.too_large.remove(&config);
            }
        } else if record.outcome.is_success() && key.kind == Kind::Timing {
            change(&mut self.fitting, key.config_id(), count);
        }
    }

    /// Why `key` is not worth a try, as a sentence; `None` if it might fit.
    pub fn prunes(&self, key: &Key) -> Option<String> {
        if self.too_large.is_empty() {
            return None;
        }
        let least = self.least_below(key).or_else(|| self.least_for_profiled(key))?;
        Some(format!("batch {least} of the same config already ran out of memory on this host"))
    }

    /// The smallest batch of the config of `key` that ran out of memory.
    fn least(&self, key: &Key) -> Option<u32> {
        self.too_large.get(&key.id_of_any_batch())?.keys().next().copied()
    }

    fn least_below(&self, key: &Key) -> Option<u32> {
        self.least(key).filter(|least| key.batch > *least)
    }

    /// The batch of the timing jobs that proves that the profiled job `key` does not fit.
    fn least_for_profiled(&self, key: &Key) -> Option<u32> {
        if key.kind == Kind::Timing {
            return None;
        }
        let timing = key.timing_config();
        self.least(&timing).filter(|least| {
            timing.batch > *least || (timing.batch == *least && !self.fitting.contains_key(&timing.id()))
        })
    }
}

fn add(jobs: &mut usize) {
    *jobs += 1;
}

fn remove(jobs: &mut usize) {
    *jobs -= 1;
}

/// Changes the number of jobs at `at`. What no job is left for is removed, so that the order of the records leaves no
/// trace.
fn change<K: Ord + Copy>(jobs: &mut BTreeMap<K, usize>, at: K, count: impl FnOnce(&mut usize)) {
    let number = jobs.entry(at).or_default();
    count(number);
    if *number == 0 {
        jobs.remove(&at);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::job::Profile;
    use crate::plan::{NotDone, Standing};
    use crate::record::{Outcome, testing::record_of};

    /// How an attempt of a job ended: which job, on which host, how.
    type Attempt = (u32, u32, bool, bool, u8);

    fn record((batch, repeat, is_profiled, is_here, ending): Attempt) -> Record {
        let timing = Key { batch, repeat, ..Key::example() };
        let key = if is_profiled { timing.profiled(Kind::Ncu, Profile::default()) } else { timing };
        let oom = || Outcome::OutOfMemory { message: "9 GB".into(), needed_bytes: None, free_bytes: None };
        let outcome = match ending {
            0 | 1 => Outcome::Succeeded,
            2 | 3 => oom(),
            _ => Outcome::Signalled { signal: 9 },
        };
        let mut record = record_of(key, outcome);
        record.provenance.host.hostname = if is_here { "here" } else { "elsewhere" }.into();
        record
    }

    fn standing(record: Record) -> Standing {
        match record.outcome.is_success() {
            true => Standing::Done(Arc::new(record)),
            false => Standing::NotDone(NotDone::Failed(Arc::new(record))),
        }
    }

    proptest! {
        #[test]
        fn they_follow_the_inventory(
            attempts in prop::collection::vec((1..4_u32, 1..3_u32, any::<bool>(), any::<bool>(), 0..5_u8), 0..40),
        ) {
            let host = HostFacts { hostname: "here".into(), ..HostFacts::default() };
            let mut inventory = Inventory::default();
            let mut ceilings = Ceilings::of(&inventory, &host);
            for attempt in attempts {
                let record = record(attempt);
                let before = inventory.jobs.insert(record.id, standing(record.clone()));
                ceilings.replace(before.as_ref().and_then(Standing::record).map(|before| &**before), &record);
                prop_assert_eq!(&ceilings, &Ceilings::of(&inventory, &host));
            }
        }
    }
}
