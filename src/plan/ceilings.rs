//! The batches that do not fit into the memory of a host, from the records of its jobs: [`Ceilings`].

use std::collections::BTreeMap;

use super::Inventory;
use crate::job::{Device, JobId, Key, Kind};
use crate::record::{HostFacts, Record};
use crate::text::size_text;

/// A batch that did not fit is tried again if memory has grown by more than this factor. The kernel and the driver
/// reserve some memory, which differs a little between versions.
const GROWTH: f64 = 1.01;

/// The batches of each config that ran out of memory on one host. Larger batches need even more, other repeats need as
/// much, and profiled jobs need at least as much as the timing jobs of their config.
///
/// They are updated record by record, each in O(log n).
#[derive(Clone, Debug, PartialEq)]
pub struct Ceilings {
    host: HostFacts,
    /// The batches, each with its jobs and the memory that was available to them (in bytes, if known), by the config
    /// without its batch ([`Key::id_of_any_batch`]).
    too_large: BTreeMap<JobId, BTreeMap<u32, BTreeMap<JobId, Option<u64>>>>,
    /// The timing configs with jobs that succeeded here, each with the number of these jobs. If another repeat ran out
    /// of memory, other processes were using it.
    fitting: BTreeMap<JobId, usize>,
}

/// A batch that ran out of memory, and the most memory with which it did, in bytes, if known.
type TooLarge = (u32, Option<u64>);

/// The change of a record in the inventory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Came,
    Went,
}

impl Ceilings {
    /// The ceilings of `host`, from the records of `inventory`. Jobs that have succeeded since do not count, and
    /// neither do jobs that had less memory available than there is now.
    pub fn of(inventory: &Inventory, host: &HostFacts) -> Self {
        let mut ceilings =
            Ceilings { host: host.clone(), too_large: BTreeMap::new(), fitting: BTreeMap::new() };
        for record in inventory.records() {
            ceilings.count(record, Change::Came);
        }
        ceilings
    }

    /// Updates the ceilings after `after` replaced `before` as the record of a job.
    pub fn replace(&mut self, before: Option<&Record>, after: &Record) {
        if let Some(before) = before {
            self.count(before, Change::Went);
        }
        self.count(after, Change::Came);
    }

    fn count(&mut self, record: &Record, change: Change) {
        let (then, key) = (&record.provenance.host, &record.key);
        if !then.is_machine_of(&self.host) {
            return;
        }
        if record.outcome.policy().prunes {
            if !has_grown(then, &self.host, key.device) {
                self.count_too_large(record, change);
            }
        } else if record.outcome.is_success() && key.kind == Kind::Timing {
            self.count_fitting(key.config_id(), change);
        }
    }

    /// Entries without jobs are removed, here and below, so that the order of the records does not matter.
    fn count_too_large(&mut self, record: &Record, change: Change) {
        let (config, batch) = (record.key.id_of_any_batch(), record.key.batch);
        let batches = self.too_large.entry(config).or_default();
        let jobs = batches.entry(batch).or_default();
        match change {
            Change::Came => {
                jobs.insert(record.id, memory(&record.provenance.host, record.key.device));
            }
            Change::Went => drop(jobs.remove(&record.id)),
        }
        if jobs.is_empty() {
            batches.remove(&batch);
        }
        if batches.is_empty() {
            self.too_large.remove(&config);
        }
    }

    fn count_fitting(&mut self, config: JobId, change: Change) {
        let jobs = self.fitting.entry(config).or_default();
        match change {
            Change::Came => *jobs += 1,
            Change::Went => *jobs -= 1,
        }
        if *jobs == 0 {
            self.fitting.remove(&config);
        }
    }

    /// Why the job of `key` is not tried, as a sentence; `None` if it might fit.
    pub fn prunes(&self, key: &Key) -> Option<String> {
        if self.too_large.is_empty() {
            return None;
        }
        let (batch, memory_bytes) =
            self.least_below(key).or_else(|| self.repeat(key)).or_else(|| self.least_for_profiled(key))?;
        let memory =
            memory_bytes.map(|bytes| format!(", with {} of memory", size_text(bytes))).unwrap_or_default();
        Some(format!(
            "batch {batch} of the same config already ran out of memory on {}{memory}",
            self.host.hostname
        ))
    }

    /// The smallest batch of the config of `key` that ran out of memory.
    fn least(&self, key: &Key) -> Option<TooLarge> {
        let (batch, jobs) = self.too_large.get(&key.id_of_any_batch())?.first_key_value()?;
        Some((*batch, jobs.values().max().copied()?))
    }

    fn least_below(&self, key: &Key) -> Option<TooLarge> {
        self.least(key).filter(|(least, _)| key.batch > *least)
    }

    /// The batch of `key` itself, if another repeat ran out of memory and none has succeeded. The job that ran out of
    /// memory is not pruned: it can be tried again, and then shows whether the others fit.
    fn repeat(&self, key: &Key) -> Option<TooLarge> {
        if key.kind != Kind::Timing || self.fitting.contains_key(&key.config_id()) {
            return None;
        }
        let jobs = self.too_large.get(&key.id_of_any_batch())?.get(&key.batch)?;
        if jobs.contains_key(&key.id()) { None } else { Some((key.batch, jobs.values().max().copied()?)) }
    }

    /// The batch of the timing jobs that proves that the profiled job `key` does not fit.
    fn least_for_profiled(&self, key: &Key) -> Option<TooLarge> {
        if key.kind == Kind::Timing {
            return None;
        }
        let timing = key.timing_config();
        self.least(&timing).filter(|(least, _)| {
            timing.batch > *least || (timing.batch == *least && !self.fitting.contains_key(&timing.id()))
        })
    }
}

/// The memory available to a job on `device` of `host`, in bytes.
fn memory(host: &HostFacts, device: Device) -> Option<u64> {
    host.gpu_memory_bytes(device).or_else(|| host.usable_memory_bytes())
}

/// Whether a host has more memory `now` than `then`, for a job on `device`. One on a GPU can run out of either memory.
fn has_grown(then: &HostFacts, now: &HostFacts, device: Device) -> bool {
    let has_grown = |then: Option<u64>, now: Option<u64>| {
        then.zip(now).is_some_and(|(then, now)| now as f64 > GROWTH * then as f64)
    };
    has_grown(then.usable_memory_bytes(), now.usable_memory_bytes())
        || has_grown(then.gpu_memory_bytes(device), now.gpu_memory_bytes(device))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::job::Profile;
    use crate::plan::{NotDone, Standing};
    use crate::record::{CgroupLimits, GpuFacts, Outcome, testing::record_of};

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

    /// A host with this memory, of which its control group allows this, and with a GPU with this.
    fn host(memory: u64, limit: Option<u64>, gpu: u64) -> HostFacts {
        HostFacts {
            hostname: "here".into(),
            memory_bytes: Some(memory << 30),
            cgroup: limit
                .map(|bytes| CgroupLimits { memory_bytes: Some(bytes << 30), ..CgroupLimits::default() }),
            gpus: vec![GpuFacts { memory_bytes: Some(gpu << 30), ..GpuFacts::default() }],
            ..HostFacts::default()
        }
    }

    /// Why batch 2 is pruned on the host `now` after batch 1 ran out of memory on the host `then`.
    fn pruned(device: Device, then: &HostFacts, now: &HostFacts) -> Option<String> {
        let mut inventory = Inventory::default();
        let mut record = record((1, 1, false, true, 2));
        record.provenance.host = then.clone().into();
        record.key.device = device;
        inventory.jobs.insert(record.id, standing(record));
        Ceilings::of(&inventory, now).prunes(&Key { batch: 2, device, ..Key::example() })
    }

    #[test]
    fn a_batch_is_tried_again_after_the_memory_has_grown() {
        let then = host(16, Some(8), 24);
        let why = "batch 1 of the same config already ran out of memory on here, with \
                   8.0 GiB of memory";
        for (device, now, expected) in [
            (Device::Cpu, host(16, Some(8), 24), Some(why)),
            (Device::Cpu, host(64, Some(8), 80), Some(why)),
            (Device::Cpu, host(16, Some(4), 24), Some(why)),
            (Device::Cpu, host(16, Some(9), 24), None),
            (Device::Cpu, host(16, None, 24), None),
        ] {
            assert_eq!(pruned(device, &then, &now).as_deref(), expected, "{now:?}");
        }
        let on_gpu = |now| pruned(Device::Cuda(0), &then, &now);
        assert!(on_gpu(host(16, Some(8), 24)).unwrap().ends_with(", with 24.0 GiB of memory"));
        assert_eq!(on_gpu(host(16, Some(8), 80)), None);
        let mut older = then.clone();
        older.memory_bytes = Some((8 << 30) - 1000);
        assert!(pruned(Device::Cpu, &older, &then).is_some(), "another kernel reserves a little less");
        let unknown = HostFacts { hostname: "here".into(), ..HostFacts::default() };
        assert!(pruned(Device::Cpu, &unknown, &then).is_some(), "unknown memory has not grown");
    }

    /// Of three repeats, only the one that ran out of memory is tried again. Once one fits, all are tried.
    #[test]
    fn other_repeats_of_a_job_that_ran_out_of_memory_are_not_tried() {
        let host = HostFacts { hostname: "here".into(), ..HostFacts::default() };
        let mut inventory = Inventory::default();
        let mut add = |attempt| {
            let record = record(attempt);
            inventory.jobs.insert(record.id, standing(record));
            let ceilings = Ceilings::of(&inventory, &host);
            [1, 2, 3].map(|repeat| ceilings.prunes(&Key { batch: 2, repeat, ..Key::example() }).is_some())
        };
        assert_eq!(add((2, 1, false, true, 2)), [false, true, true]);
        assert_eq!(add((2, 2, false, true, 0)), [false, false, false]);
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
