//! `perf stat`: where it is, whether it may count, and what this host does not count.

use std::ffi::OsStr;
use std::path::Path;

use super::ready::{PATIENCE, Purpose, Ready, not_found};
use crate::host::ask::ask;
use crate::host::find::PERF;
use crate::plan::Profiler;
use crate::record::perf::{Count, PERF_EVENTS, PerfCounters, PerfEvent, PerfFailure, parse_perf};
use crate::record::{HostFacts, NotProfiled};

/// How a record calls an event that `perf` does not know.
const UNKNOWN_EVENT: &str = "unknown_event";

/// Finds `perf` and lets it count a program that does nothing.
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
            "it counts events on Linux alone: leave `perf` out for this env by `profile: { perf: false }`"
                .to_owned()
        }
        _ => format!(
            "install it (`linux-perf` on Debian, `linux-tools-$(uname -r)` on Ubuntu), or name the program by {}",
            PERF.variable
        ),
    }
}

/// What `perf` counts of a program that does nothing: zero or not, an event that is offered has a number.
async fn try_out(program: &Path, events: &[String]) -> Result<PerfCounters, NotProfiled> {
    let list = events.join(",");
    let said = ask(program, &["stat", "-x,", "-e", &list, "--", "true"], &[], PATIENCE).await;
    let said = said.map_err(|error| NotProfiled {
        cause: "unusable".to_owned(),
        message: format!("{} cannot be asked anything: {error}", program.display()),
        remedy: format!("`{} stat true` shows what is wrong", program.display()),
    })?;
    let text = said.text();
    let requested: Vec<&str> = events.iter().map(String::as_str).collect();
    parse_perf(&text, &text, &requested).map_err(NotProfiled::from)
}

/// What perf prints of a list with a mistake in it may begin anywhere, and goes on to the list's end. So each event is
/// asked for alone, and the refusal names those that are refused then; it is `refused` itself if none is.
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

/// The events that nobody need look for in the results, said once.
fn not_offered(counted: &PerfCounters, host: &HostFacts) -> Option<String> {
    let is_missing = |event: &&PerfEvent| event.count == Count::NotSupported;
    let names: Vec<&str> =
        counted.events.iter().filter(is_missing).map(|event| event.name.as_str()).collect();
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
    fn what_a_virtual_machine_lacks_is_said_once() {
        let report = "<not supported>,,cycles,0,100.00,,\n7,,page-faults,1000,100.00,,\n";
        let counted = parse_perf(report, "", &["cycles", "page-faults"]).unwrap();
        let host = HostFacts { virtualisation: Some("kvm".to_owned()), ..HostFacts::default() };
        let sentence = not_offered(&counted, &host).unwrap();
        assert!(sentence.contains("cycles") && sentence.contains("kvm") && !sentence.contains("page-faults"));
        let all = parse_perf("7,,page-faults,1000,100.00,,\n", "", &["page-faults"]).unwrap();
        assert_eq!(not_offered(&all, &host), None);
    }
}
