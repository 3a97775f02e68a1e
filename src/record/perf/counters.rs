//! Counts of `perf stat`, and the ratios between them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The events to count if a matrix names none: those of the seed reports, and others that explain a slow job.
pub const PERF_EVENTS: [&str; 10] = [
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "context-switches",
    "cpu-migrations",
    "page-faults",
    "task-clock",
];

/// The counts of `perf stat` over the whole life of a worker, including its threads and children.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PerfCounters {
    /// In the order of the report. On hybrid processors, one entry per event and type of core.
    pub events: Vec<PerfEvent>,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PerfEvent {
    /// Its name, without the type of core and without modifiers: `cycles`.
    pub name: String,
    /// The PMU that counted it, if the report names one. On hybrid processors a type of core: `cpu_core`, `cpu_atom`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pmu: Option<String>,
    /// Modifiers: `u` if only user mode was counted, the most that unprivileged users are allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modifiers: Option<String>,
    /// The unit of the value, unless it is a number of events: `s`, `Joules`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The value, or why it was not measured.
    pub count: Count,
    /// The standard deviation over repeated executions (`-r`), in percent; `count` is then their mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation_percent: Option<f64>,
    /// The number of threads summed up, if the report has one line per thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
}

/// The value of an event, or why it was not measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Count {
    /// It was counted.
    Counted {
        /// The number of events, or the value in the event's unit.
        value: f64,
        /// The share of the time in which it was counted, 0 to 1. Below 1, events took turns on too few hardware
        /// counters, and `perf` scaled the value up.
        share: f64,
    },
    /// The processor or the virtual machine cannot count it.
    NotSupported,
    /// It never got a hardware counter, or the program never ran on this type of core.
    NotCounted,
}

impl Count {
    /// The value, if it was counted.
    pub fn value(self) -> Option<f64> {
        match self {
            Count::Counted { value, .. } => Some(value),
            Count::NotSupported | Count::NotCounted => None,
        }
    }
}

impl PerfCounters {
    /// The value of an event, summed over all types of core; `None` if it was not measured.
    pub fn total(&self, name: &str) -> Option<f64> {
        let parts: Vec<&PerfEvent> = self.counting(name).collect();
        if parts.is_empty() || !agree(parts.iter().copied()) {
            return None;
        }
        parts.iter().try_fold(0.0, |sum, event| Some(sum + event.count.value()?))
    }

    /// Instructions per cycle. On hybrid processors only if the program ran on one type of core: cycles of different
    /// types are not comparable.
    pub fn ipc(&self) -> Option<f64> {
        self.same_unit_ratio("instructions", "cycles")
    }

    /// The share of cache references that missed, 0 to 1, over all types of core.
    pub fn cache_miss_rate(&self) -> Option<f64> {
        self.rate("cache-misses", "cache-references")
    }

    /// The share of branches that were mispredicted, 0 to 1, over all types of core.
    pub fn branch_miss_rate(&self) -> Option<f64> {
        self.rate("branch-misses", "branches")
    }

    fn named(&self, name: &str) -> impl Iterator<Item = &PerfEvent> {
        self.events.iter().filter(move |event| canonical(&event.name) == name)
    }

    /// The entries that make up the total of an event: one per type of core that the program ran on.
    fn counting(&self, name: &str) -> impl Iterator<Item = &PerfEvent> {
        let mut seen = BTreeSet::new();
        self.named(name)
            .filter(move |event| seen.insert(event.pmu.clone()))
            .filter(|event| !(event.count == Count::NotCounted && self.is_idle(event.pmu.as_deref())))
    }

    /// Whether the program never ran on a type of core: all counts are on other types.
    fn is_idle(&self, pmu: Option<&str>) -> bool {
        let is_of = |event: &&PerfEvent| event.pmu.as_deref() == pmu;
        let is_counted = |event: &PerfEvent| event.count.value().is_some();
        pmu.is_some()
            && self.events.iter().filter(is_of).all(|event| !is_counted(event))
            && self.events.iter().any(|event| event.pmu.is_some() && is_counted(event))
    }

    fn same_unit_ratio(&self, part: &str, whole: &str) -> Option<f64> {
        let only = |name: &str| {
            let mut counting = self.counting(name);
            counting.next().filter(|_| counting.next().is_none())
        };
        let (part, whole) = (only(part)?, only(whole)?);
        if part.pmu == whole.pmu { ratio(part, whole) } else { None }
    }

    /// The ratio of two totals; `None` unless both were counted in the same way.
    fn rate(&self, part: &str, whole: &str) -> Option<f64> {
        let units = |name| self.counting(name).map(|event| event.pmu.clone()).collect::<BTreeSet<_>>();
        let comparable =
            agree(self.counting(part).chain(self.counting(whole))) && units(part) == units(whole);
        let rate = self.total(part)? / self.total(whole)?;
        // `perf` scales the two values up separately, so a part can seem to exceed its whole. A ratio to 0 fails too.
        (comparable && rate <= 1.0).then_some(rate)
    }
}

/// The ratio of `part` to `whole`; `None` unless both were counted in the same way.
fn ratio(part: &PerfEvent, whole: &PerfEvent) -> Option<f64> {
    let whole_value = whole.count.value().filter(|value| *value > 0.0)?;
    agree([part, whole].into_iter()).then_some(part.count.value()? / whole_value)
}

/// Whether all events have the same modifiers and the same number of threads.
fn agree<'a>(mut events: impl Iterator<Item = &'a PerfEvent>) -> bool {
    let Some(first) = events.next() else { return true };
    events.all(|event| event.modifiers == first.modifiers && event.threads == first.threads)
}

/// Resolves the aliases of an event to one name.
pub(super) fn canonical(name: &str) -> &str {
    match name {
        "cpu-cycles" => "cycles",
        "branch-instructions" => "branches",
        "cs" => "context-switches",
        "migrations" => "cpu-migrations",
        "faults" => "page-faults",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, pmu: Option<&str>, count: Count) -> PerfEvent {
        let pmu = pmu.map(str::to_owned);
        PerfEvent {
            name: name.to_owned(),
            pmu,
            modifiers: None,
            unit: None,
            count,
            deviation_percent: None,
            threads: None,
        }
    }

    fn counted(value: f64) -> Count {
        Count::Counted { value, share: 1.0 }
    }

    fn hybrid(core: [Count; 2], atom: [Count; 2]) -> PerfCounters {
        let of = |pmu, [instructions, cycles]: [Count; 2]| {
            [event("instructions", Some(pmu), instructions), event("cpu-cycles", Some(pmu), cycles)]
        };
        PerfCounters { events: [of("cpu_core", core), of("cpu_atom", atom)].concat() }
    }

    #[test]
    fn instructions_per_cycle_need_one_type_of_core() {
        let both = hybrid([counted(40.0), counted(10.0)], [counted(10.0), counted(10.0)]);
        assert_eq!(both.ipc(), None);
        assert_eq!((both.total("instructions"), both.total("cycles")), (Some(50.0), Some(20.0)));
        let idle = hybrid([counted(40.0), counted(10.0)], [Count::NotCounted; 2]);
        assert_eq!((idle.ipc(), idle.total("instructions")), (Some(4.0), Some(40.0)));
    }

    #[test]
    fn an_unmeasured_part_leaves_no_total() {
        let gap = hybrid([counted(40.0), counted(10.0)], [counted(10.0), Count::NotCounted]);
        assert_eq!((gap.total("instructions"), gap.total("cycles"), gap.ipc()), (Some(50.0), None, None));
        let nothing = hybrid([Count::NotCounted; 2], [Count::NotCounted; 2]);
        assert_eq!((nothing.total("cycles"), nothing.ipc()), (None, None));
        let unsupported = hybrid([counted(40.0), counted(10.0)], [Count::NotSupported; 2]);
        assert_eq!((unsupported.total("cycles"), unsupported.ipc()), (None, None));
        assert_eq!(unsupported.total("branches"), None);
    }

    #[test]
    fn rates_need_events_counted_in_the_same_way() {
        let mut counters = PerfCounters {
            events: vec![
                event("cache-references", None, counted(200.0)),
                event("cache-misses", None, counted(50.0)),
                event("branches", None, counted(0.0)),
                event("branch-misses", None, counted(0.0)),
            ],
        };
        assert_eq!((counters.cache_miss_rate(), counters.branch_miss_rate()), (Some(0.25), None));
        counters.events[1].modifiers = Some("u".to_owned());
        assert_eq!(counters.cache_miss_rate(), None);
        counters.events[1] = event("cache-misses", None, Count::Counted { value: 201.0, share: 0.4 });
        assert_eq!(counters.cache_miss_rate(), None);
    }
}
