use proptest::prelude::*;

use super::*;

const MULTIPLEXED: &str = include_str!("../../../tests/records/perf_multiplexed.csv");
const HYBRID: &str = include_str!("../../../tests/records/perf_hybrid.csv");
const REPEATED: &str = include_str!("../../../tests/records/perf_virtual_machine_repeated.csv");
const PER_THREAD: &str = include_str!("../../../tests/records/perf_per_thread.csv");
const FOR_PEOPLE: &str = include_str!("../../../tests/records/perf_for_people.txt");

const HYBRID_EVENTS: [&str; 4] = ["cycles", "instructions", "cache-references", "task-clock"];
const THREAD_EVENTS: [&str; 3] = ["cycles", "instructions", "task-clock"];

#[test]
fn the_events_of_the_seed_reports() {
    let counters = parse_perf(MULTIPLEXED, "", &PERF_EVENTS).unwrap();
    assert_eq!(counters.events.len(), 10);
    assert_eq!(counters.total("cycles"), Some(48_120_345_678.0));
    assert_eq!(counters.total("page-faults"), Some(203_456.0));
    // Milliseconds in the file.
    assert_eq!(counters.total("task-clock"), Some(15.04691));
    // 96 240 691 356 ÷ 48 120 345 678, 203 086 400 ÷ 812 345 600, 35 000 000 ÷ 7 000 000 000.
    assert_eq!(counters.ipc(), Some(2.0));
    assert_eq!(counters.cache_miss_rate(), Some(0.25));
    assert_eq!(counters.branch_miss_rate(), Some(0.005));
    let cycles = &counters.events[0];
    assert_eq!(cycles.count, Count::Counted { value: 48_120_345_678.0, share: 0.8331 });
    assert_eq!(cycles.modifiers.as_deref(), Some("u"));
    assert_eq!(counters.events[9].count, Count::Counted { value: 15.04691, share: 1.0 });
    assert_eq!(counters.events[9].unit.as_deref(), Some("s"));
}

#[test]
fn types_of_core_are_kept_apart() {
    let counters = parse_perf(HYBRID, "", &HYBRID_EVENTS).unwrap();
    assert_eq!(counters.total("cycles"), Some(9e9));
    assert_eq!(counters.total("instructions"), Some(24.9e9));
    assert_eq!(counters.ipc(), None);
    // The small cores do not count it, so the total is unknown.
    assert_eq!(counters.total("cache-references"), None);
    assert_eq!(counters.total("task-clock"), Some(2000.0));
}

/// `perf` prints a line per type of core, so one line alone is half an event.
#[test]
fn an_event_without_all_types_of_core_is_missing() {
    let line = "900000000,,cpu_atom/instructions/,400000000,40.00,0.90,insn per cycle\n";
    let failure = parse_perf(&HYBRID.replace(line, ""), "", &HYBRID_EVENTS).unwrap_err();
    assert_eq!(failure, PerfFailure::Missing("instructions".to_owned()));
}

/// A line without a thread is a total already.
#[test]
fn a_total_is_not_added_to_a_thread() {
    let (count, name) = (Count::Counted { value: 1.0, share: 1.0 }, "cycles".to_owned());
    let event = PerfEvent {
        name,
        pmu: None,
        modifiers: None,
        unit: None,
        count,
        deviation_percent: None,
        threads: None,
    };
    for first in [None, Some("a-1".to_owned())] {
        let second = first.is_none().then(|| "a-1".to_owned());
        let rows = [first, second].map(|thread| Row { event: event.clone(), thread, running_ns: 1.0 });
        assert_eq!(merge_threads(rows.into()).len(), 2);
    }
}

/// The program ran on the small cores, since other events were counted there. So their part is missing.
#[test]
fn a_count_that_one_type_of_core_lacks_makes_the_total_unknown() {
    let report = HYBRID
        .replace("900000000,,cpu_atom/instructions/,400000000", "<not counted>,,cpu_atom/instructions/,0");
    let counters = parse_perf(&report, "", &HYBRID_EVENTS).unwrap();
    assert_eq!((counters.total("cycles"), counters.total("instructions")), (Some(9e9), None));
}

/// A count without a type of core does not say where the program ran.
#[test]
fn a_plain_count_beside_a_type_of_core_is_not_a_total() {
    let report = "<not counted>,,cpu_atom/cycles/,0,100.00,,\n7,,cycles,1,100.00,,\n";
    assert_eq!(parse_perf(report, "", &["cycles"]).unwrap().total("cycles"), None);
}

#[test]
fn a_share_of_zero_is_absent() {
    let counters = |part: u64| {
        let lines =
            ["cycles", "branches", "cache-references"].map(|name| format!("0,,{name},9,100.00,,\n")).concat();
        let parts = ["instructions", "branch-misses", "cache-misses"];
        let parts = parts.map(|name| format!("{part},,{name},9,100.00,,\n")).concat();
        parse_perf(&(lines + &parts), "", &["cycles"]).unwrap()
    };
    for counters in [counters(0), counters(5)] {
        assert_eq!(
            (counters.ipc(), counters.branch_miss_rate(), counters.cache_miss_rate()),
            (None, None, None)
        );
    }
}

#[test]
fn a_virtual_machine_counts_only_some_events() {
    let counters = parse_perf(REPEATED, "", &["cycles", "instructions", "branches", "page-faults"]).unwrap();
    assert_eq!(counters.events[0].count, Count::NotSupported);
    assert_eq!(counters.events[2].count, Count::NotCounted);
    assert_eq!((counters.total("cycles"), counters.ipc()), (None, None));
    assert_eq!(counters.total("page-faults"), Some(47.0));
    assert_eq!(counters.events[3].deviation_percent, Some(1.88));
    assert_eq!(counters.total("duration_time"), Some(0.001_085_528));
}

#[test]
fn lines_of_threads_are_added_up() {
    let counters = parse_perf(PER_THREAD, "", &THREAD_EVENTS).unwrap();
    assert_eq!((counters.total("cycles"), counters.total("instructions")), (Some(8e9), Some(12e9)));
    assert_eq!(counters.ipc(), Some(1.5));
    assert_eq!(counters.events[0].count, Count::Counted { value: 8e9, share: 0.75 });
    let threads: Vec<_> = counters.events.iter().map(|event| event.threads).collect();
    assert_eq!(threads, [Some(2), Some(2), Some(1)]);
}

/// The meaning of `(46,54%)` and `1,257` depends on the locale.
#[test]
fn a_table_for_people_is_refused() {
    let comma = FOR_PEOPLE.replace("95.79%", "95,79%");
    for report in [FOR_PEOPLE, &comma] {
        let failure = parse_perf(report, "", &["cycles", "instructions"]).unwrap_err();
        assert_eq!(failure, PerfFailure::TableForPeople);
        assert!(failure.remedy().contains("`-x,`"), "{}", failure.remedy());
    }
}

#[test]
fn failures_are_recognised() {
    let limited = "Error:\nAccess to performance monitoring and observability operations is limited.\n\
        perf_event_paranoid setting is 3:\n";
    let header = "# started on Tue Nov 18 09:12:44 2026\n\n";
    for (report, stderr, failure) in [
        ("", limited, PerfFailure::Permission { paranoid: Some(3) }),
        (
            header,
            "Workload failed: No such file\n\n",
            PerfFailure::Empty(Some("Workload failed: No such file".to_owned())),
        ),
        (header, "", PerfFailure::Empty(None)),
        ("<not supported>,,cycles,0,100.00,,\n", "", PerfFailure::NothingCounted),
        ("7,,cycles,614065,100.00,,\n", "", PerfFailure::Missing("branches".to_owned())),
        ("7,,cycles,614065,100.", "", PerfFailure::Torn("7,,cycles,614065,100.".to_owned())),
        ("what?\n", "", PerfFailure::Malformed("what?".to_owned())),
        (
            "what-ever,7,,cycles,614065,100.00,,\n",
            "",
            PerfFailure::Malformed("what-ever,7,,cycles,614065,100.00,,".to_owned()),
        ),
        (
            "what-,7,,cycles,614065,100.00,,\n",
            "",
            PerfFailure::Malformed("what-,7,,cycles,614065,100.00,,".to_owned()),
        ),
        ("7,,cycles,614065,46,54,,\n", "", PerfFailure::DecimalComma("7,,cycles,614065,46,54,,".to_owned())),
        (FOR_PEOPLE, limited, PerfFailure::Permission { paranoid: Some(3) }),
        ("what?\n", limited, PerfFailure::Permission { paranoid: Some(3) }),
    ] {
        let requested: &[&str] =
            if report.starts_with('7') { &["cycles:u", "branches"] } else { &["cycles"] };
        let found = parse_perf(report, stderr, requested).unwrap_err();
        assert_eq!(found, failure);
        assert!(!found.remedy().is_empty() && !found.to_string().is_empty());
    }
}

#[test]
fn counters_read_back_from_a_record() {
    for (text, requested) in [(HYBRID, &HYBRID_EVENTS[..]), (PER_THREAD, &THREAD_EVENTS[..])] {
        let counters = parse_perf(text, "", requested).unwrap();
        let json = serde_json::to_string(&crate::record::Counters::Perf(counters.clone())).unwrap();
        assert!(json.starts_with(r#"{"profiler":"perf","events":"#), "{json}");
        let back: crate::record::Counters = serde_json::from_str(&json).unwrap();
        assert_eq!(back, crate::record::Counters::Perf(counters));
    }
}

/// The totals of all events, with their numbers of threads.
fn totals(counters: &PerfCounters) -> Vec<(String, Option<f64>, Option<u32>)> {
    counters
        .events
        .iter()
        .map(|event| (event.name.clone(), counters.total(&event.name), event.threads))
        .collect()
}

proptest! {
    #[test]
    fn a_truncated_report_has_no_wrong_totals(
        (text, requested) in prop::sample::select(vec![
            (MULTIPLEXED, &PERF_EVENTS[..]),
            (HYBRID, &HYBRID_EVENTS[..]),
            (REPEATED, &["cycles", "page-faults", "task-clock", "duration_time"]),
            (PER_THREAD, &THREAD_EVENTS[..]),
        ]),
        cut in any::<prop::sample::Index>(),
    ) {
        let whole = totals(&parse_perf(text, "", requested).unwrap());
        let cut = text.floor_char_boundary(cut.index(text.len()));
        if let Ok(counters) = parse_perf(&text[..cut], "", requested) {
            prop_assert_eq!(totals(&counters), whole);
        }
    }

    #[test]
    fn a_garbled_report_does_not_panic(
        text in prop::sample::select(vec![MULTIPLEXED, HYBRID, REPEATED, PER_THREAD, FOR_PEOPLE]),
        edits in crate::record::garble::edits(),
    ) {
        let text = crate::record::garble::garble(text, &edits);
        if let Ok(counters) = parse_perf(&text, &text, &PERF_EVENTS[..2]) {
            let rates = [counters.ipc(), counters.cache_miss_rate(), counters.branch_miss_rate()];
            prop_assert!(rates.into_iter().flatten().all(|rate| rate.is_finite() && rate >= 0.0));
        }
    }
}
