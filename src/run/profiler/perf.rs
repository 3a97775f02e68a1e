//! Prepares `perf stat`: its path, its permission to count, and the events that this host does not count.

use std::ffi::OsStr;
use std::path::Path;

use super::ready::{PATIENCE, Purpose, Ready, not_found};
use crate::host::ask::ask;
use crate::host::find::PERF;
use crate::plan::Profiler;
use crate::record::perf::{Count, PERF_EVENTS, PerfCounters, PerfEvent, PerfFailure, parse_perf};
use crate::record::{HostFacts, NotProfiled};

/// The cause in a record for an event that `perf` does not know.
const UNKNOWN_EVENT: &str = "unknown_event";

/// Finds `perf` and tries it on a program that does nothing.
pub(super) async fn probe(purpose: &Purpose, host: &HostFacts) -> Result<Ready, NotProfiled> {
    let path = OsStr::new(&purpose.path);
    let program = PERF.find(path).map_err(|error| not_found(&PERF, &error, &install(host)))?;
    let events: Vec<String> = match &purpose.counters[..] {
        [] => PERF_EVENTS.map(str::to_owned).into(),
        named => named.to_vec(),
    };
    let counted = match try_out(&program, &events).await {
        Err(refused) if refused.cause == UNKNOWN_EVENT => {
            return Err(name_unknown(&program, &events, refused).await);
        }
        other => other?,
    };
    let sentences = Vec::from_iter(not_offered(&counted, host));
    let program = program.display().to_string();
    Ok(Ready { profiler: Profiler::Perf { program, events }, sentences })
}

fn install(host: &HostFacts) -> String {
    match host.os.name.as_str() {
        "macos" => {
            "perf exists on Linux only: turn it off for this env with `profile: { perf: false }`".to_owned()
        }
        _ => format!(
            "install it (`linux-perf` on Debian, `linux-tools-$(uname -r)` on Ubuntu), or set {} to its path",
            PERF.variable
        ),
    }
}

/// Runs `perf` on a program that does nothing. Every event that the host offers has a count, which may be zero.
async fn try_out(program: &Path, events: &[String]) -> Result<PerfCounters, NotProfiled> {
    let list = events.join(",");
    let said = ask(program, &["stat", "-x,", "-e", &list, "--", "true"], &[], PATIENCE).await;
    let said = said.map_err(|error| NotProfiled {
        cause: "unusable".to_owned(),
        message: format!("{} does not work: {error}", program.display()),
        remedy: format!("run `{} stat true` to see what is wrong", program.display()),
    })?;
    let text = said.text();
    let requested: Vec<&str> = events.iter().map(String::as_str).collect();
    parse_perf(&text, &text, &requested).map_err(NotProfiled::from)
}

/// If a list of events has a mistake, the part that `perf` quotes starts anywhere and extends to the list's end. So
/// each event is tried separately, and the error names those that fail. If none fails, returns `refused` unchanged.
async fn name_unknown(program: &Path, events: &[String], refused: NotProfiled) -> NotProfiled {
    let mut unknown = Vec::new();
    for event in events {
        match try_out(program, std::slice::from_ref(event)).await {
            Err(alone) if alone.cause == UNKNOWN_EVENT => unknown.push(event.clone()),
            _ => {}
        }
    }
    match unknown.is_empty() {
        true => refused,
        false => PerfFailure::UnknownEvent(unknown.join("`, `")).into(),
    }
}

/// A sentence that names the events that will be missing from the results.
fn not_offered(counted: &PerfCounters, host: &HostFacts) -> Option<String> {
    let is_missing = |event: &&PerfEvent| event.count == Count::NotSupported;
    // On hybrid processors one type of core can lack an event that the other counts.
    let name = |event: &PerfEvent| match &event.pmu {
        Some(pmu) => format!("{} on {pmu}", event.name),
        None => event.name.clone(),
    };
    let names: Vec<String> = counted.events.iter().filter(is_missing).map(name).collect();
    if names.is_empty() {
        return None;
    }
    let why = host.virtualisation.as_ref().map_or_else(
        || "its processor or kernel does not offer them".to_owned(),
        |layer| format!("a virtual machine or container ({layer}) often has no hardware counters"),
    );
    Some(format!(
        "perf does not count {} on this host: {why}; the other events are counted",
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_missing_in_a_virtual_machine_are_named() {
        let report = "<not supported>,,cycles,0,100.00,,\n7,,page-faults,1000,100.00,,\n";
        let counted = parse_perf(report, "", &["cycles", "page-faults"]).unwrap();
        let host = HostFacts { virtualisation: Some("kvm".to_owned()), ..HostFacts::default() };
        let sentence = not_offered(&counted, &host).unwrap();
        assert!(sentence.contains("cycles") && sentence.contains("kvm") && !sentence.contains("page-faults"));
        let hybrid = "<not supported>,,cpu_atom/cycles/,0,100.00,,\n7,,cpu_core/cycles/,1000,100.00,,\n";
        let sentence = not_offered(&parse_perf(hybrid, "", &["cycles"]).unwrap(), &host).unwrap();
        assert!(sentence.starts_with("perf does not count cycles on cpu_atom on this host"), "{sentence}");
        let all = parse_perf("7,,page-faults,1000,100.00,,\n", "", &["page-faults"]).unwrap();
        assert_eq!(not_offered(&all, &host), None);
    }
}
