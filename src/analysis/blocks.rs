//! Blocks: runs that were made together. A temporary slowdown of a host affects all runs of a block, so it cancels in
//! comparisons within a block.
//!
//! A block is defined by time, not by the number of the repeat: a run that is repeated later leaves its block. An
//! interleaved order makes a block of each repeat. Sequential and random orders have no blocks, since the runs of a
//! repeat are then far apart.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};

use crate::record::{Machine, Record};

/// The longest pause within a block. After a longer one, the state of the machine might differ: heat, or other work.
const LONGEST_PAUSE: TimeDelta = TimeDelta::minutes(10);

/// The most runs of other repeats between two runs of a block: one that was repeated just then. In a sequential order
/// of three repeats, there are two.
const STRANGERS: usize = 1;

/// A run in the order of time.
pub(super) struct Placed<'a> {
    /// Its place among the given records.
    pub(super) index: usize,
    pub(super) record: &'a Record,
}

/// The number of the block of each of `records`, which are timing runs.
pub fn blocks(records: &[&Record]) -> Vec<usize> {
    let mut found = vec![0; records.len()];
    let mut numbers = 0..;
    for machine in by_machine(records) {
        let mut open: BTreeMap<u32, Open> = BTreeMap::new();
        for (place, Placed { index, record }) in machine.iter().enumerate() {
            let going_on = open.get(&record.key.repeat).filter(|block| block.takes(record, place));
            let number = going_on
                .map_or_else(|| numbers.next().expect("whole numbers do not end"), |block| block.number);
            let end = going_on.map_or(record.ended_at, |block| block.end.max(record.ended_at));
            open.insert(record.key.repeat, Open { number, place, end });
            found[*index] = number;
        }
    }
    found
}

/// A block that may get further runs.
struct Open {
    number: usize,
    /// The place of its last run among those of its machine.
    place: usize,
    /// The end of its last run.
    end: DateTime<Utc>,
}

impl Open {
    /// Whether the run at `place` still belongs to it.
    fn takes(&self, run: &Record, place: usize) -> bool {
        run.started_at - self.end <= LONGEST_PAUSE && place - self.place - 1 <= STRANGERS
    }
}

/// The records of each machine in the order of time.
pub(super) fn by_machine<'a>(records: &[&'a Record]) -> Vec<Vec<Placed<'a>>> {
    let mut machines: Vec<(Machine<'a>, Vec<Placed<'a>>)> = Vec::new();
    for (index, record) in records.iter().copied().enumerate() {
        let host = &record.provenance.host;
        let placed = Placed { index, record };
        match machines.iter_mut().find_map(|(machine, runs)| machine.admits(host).then_some(runs)) {
            Some(runs) => runs.push(placed),
            None => machines.push((Machine::of(host), vec![placed])),
        }
    }
    let mut runs: Vec<Vec<Placed<'a>>> = machines.into_iter().map(|(_, runs)| runs).collect();
    for machine in &mut runs {
        machine.sort_by_key(|placed| (placed.record.started_at, placed.record.id));
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture::{key, record};

    /// Runs by config and repeat, each `pause_s` seconds after the last one ended.
    fn one_after_another(runs: &[(&str, u32)], pause_s: i64) -> Vec<Record> {
        let mut now = DateTime::UNIX_EPOCH;
        let mut records = Vec::new();
        for (model, repeat) in runs {
            let mut record = record(key("cpu", model, 16, *repeat), 10.0, 0);
            record.started_at = now;
            record.ended_at = now + TimeDelta::seconds(30);
            now = record.ended_at + TimeDelta::seconds(pause_s);
            records.push(record);
        }
        records
    }

    fn found(records: &[Record]) -> Vec<usize> {
        blocks(&records.iter().collect::<Vec<_>>())
    }

    #[test]
    fn an_interleaved_order_has_one_block_per_repeat() {
        let runs = [("a", 1), ("b", 1), ("b", 2), ("a", 2), ("a", 3), ("b", 3)];
        assert_eq!(found(&one_after_another(&runs, 5)), [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn the_order_of_the_records_does_not_matter() {
        let mut records = one_after_another(&[("a", 1), ("b", 1), ("b", 2), ("a", 2)], 5);
        records.swap(1, 3);
        let [a1, a2, b2, b1] = found(&records)[..] else { panic!("four runs") };
        assert!(a1 == b1 && a2 == b2 && a1 != a2);
    }

    #[test]
    fn a_sequential_order_has_no_blocks_of_two() {
        let runs = [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2), ("b", 3)];
        assert_eq!(found(&one_after_another(&runs, 5)), [0, 1, 2, 3, 4, 5]);
    }

    /// A repeated run is between others in time.
    #[test]
    fn a_run_that_is_repeated_later_leaves_its_block_and_breaks_no_other() {
        let runs = [("a", 1), ("b", 1), ("a", 2), ("c", 1), ("b", 2), ("a", 3), ("b", 3)];
        assert_eq!(found(&one_after_another(&runs, 5)), [0, 0, 1, 0, 1, 2, 2]);
        let late = [("a", 1), ("a", 2), ("b", 2), ("a", 3), ("b", 3), ("b", 1)];
        assert_eq!(found(&one_after_another(&late, 5)), [0, 1, 1, 2, 2, 3]);
    }

    #[test]
    fn a_long_pause_ends_a_block() {
        let runs = [("a", 1), ("b", 1)];
        assert_eq!(found(&one_after_another(&runs, 600)), [0, 0]);
        assert_eq!(found(&one_after_another(&runs, 601)), [0, 1]);
    }

    #[test]
    fn machines_do_not_share_blocks() {
        let mut records = one_after_another(&[("a", 1), ("b", 1), ("c", 1)], 5);
        records[1].provenance.host.hostname = "other".into();
        assert_eq!(found(&records), [0, 1, 0]);
    }
}
