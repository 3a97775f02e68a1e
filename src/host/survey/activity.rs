//! Finds the processes that keep the processors busy.
//!
//! On Linux this takes two readings of `/proc`, a moment apart: of the host's processors and of each process. macOS has
//! no such counters, so there it takes the shares that `ps` prints, which are means over up to a minute.
#![expect(clippy::disallowed_methods, reason = "this watches the machine for a moment")]

use std::collections::BTreeMap;
use std::process::{self, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::Serialize;

use crate::host::facts::{probe_counters, ticks_per_second};
use crate::processes::ProcessTable;
use crate::record::HostCounters;

/// Processes that use less than this share of a processor are not listed.
const LEAST_CORES: f64 = 0.05;
/// The maximum number of listed processes.
const MOST: usize = 5;

/// The load of other processes on this host during a short time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Activity {
    /// The length of that time, in seconds.
    pub over_s: f64,
    /// The one-minute load average at its end.
    pub load: Option<f64>,
    /// The number of processors that other processes kept busy.
    pub foreign_cores: Option<f64>,
    /// The number of processors that the hypervisor gave to other guests.
    pub stolen_cores: Option<f64>,
    /// The busiest processes, busiest first.
    pub busiest: Vec<BusyProcess>,
}

/// A process and its load.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BusyProcess {
    /// Its id.
    pub pid: u32,
    /// Its name in the kernel.
    pub name: String,
    /// The number of processors that it kept busy.
    pub cores: f64,
}

impl Activity {
    /// Measures the load during `look`.
    pub fn probe(look: Duration) -> Activity {
        if cfg!(target_os = "macos") {
            let processes = ps().map(|text| parse_ps(&text, process::id())).unwrap_or_default();
            let foreign = processes.iter().map(|process| process.cores).sum();
            return Activity {
                over_s: 60.0,
                load: probe_counters().load,
                foreign_cores: (!processes.is_empty()).then_some(foreign),
                stolen_cores: None,
                busiest: busiest(processes),
            };
        }
        let before = Reading::take();
        // This does not wait for anything: it measures over this time.
        thread::sleep(look);
        Reading::take().since(&before)
    }
}

/// The counters at one moment, which cost nothing to take.
#[derive(Debug)]
pub struct Glance {
    at: Instant,
    host: HostCounters,
    /// Processor seconds of this process and of the programs that it has waited for.
    own_s: f64,
}

impl Glance {
    /// Now.
    pub fn take() -> Glance {
        Glance { at: Instant::now(), host: probe_counters(), own_s: own_seconds() }
    }

    /// Whether more than `limit` processors may have been busy since, by other processes or by other guests of the
    /// hypervisor. Clocks tick only a hundred times per second, so [`Activity::probe`] has to confirm it. Without
    /// counters, `true` if [`Activity::probe`] has another source.
    pub fn is_busy(&self, limit: f64) -> bool {
        let now = Glance::take();
        let over_s = now.at.duration_since(self.at).as_secs_f64();
        let (busy, stolen) = now.host.since(&self.host);
        let Some(busy) = busy else { return cfg!(target_os = "macos") };
        let foreign = busy - (now.own_s - self.own_s);
        foreign.max(stolen.unwrap_or(0.0)) > limit * over_s + 1.0 / ticks_per_second()
    }
}

/// Processor seconds of this process and of the programs that it has waited for.
fn own_seconds() -> f64 {
    let seconds = |who| {
        let usage = getrusage(who).ok()?;
        let [user, system] = [usage.user_time(), usage.system_time()];
        Some((user.num_microseconds() + system.num_microseconds()) as f64 / 1e6)
    };
    [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN].into_iter().filter_map(seconds).sum()
}

/// The counters of Linux at one moment.
struct Reading {
    at: Instant,
    host: HostCounters,
    /// Ticks and name by process.
    processes: BTreeMap<u32, (u64, String)>,
}

impl Reading {
    fn take() -> Reading {
        let processes = times(&ProcessTable::of_system());
        Reading { at: Instant::now(), host: probe_counters(), processes }
    }

    fn since(&self, before: &Reading) -> Activity {
        let over_s = self.at.duration_since(before.at).as_secs_f64();
        let (busy, stolen) = self.host.since(&before.host);
        let used = processes_since(&self.processes, &before.processes, over_s);
        let own: f64 = used.iter().filter(|it| it.pid == process::id()).map(|it| it.cores).sum();
        let others = used.into_iter().filter(|it| it.pid != process::id()).collect();
        Activity {
            over_s,
            load: self.host.load,
            foreign_cores: busy.map(|busy| (busy / over_s - own).max(0.0)),
            stolen_cores: stolen.map(|stolen| stolen / over_s),
            busiest: busiest(others),
        }
    }
}

/// The ticks and the name of each process.
fn times(table: &ProcessTable) -> BTreeMap<u32, (u64, String)> {
    let of_process = |pid| table.stat(pid).map(|stat| (pid, (stat.ticks, stat.name)));
    table.pids().into_iter().filter_map(of_process).collect()
}

/// The load of each process between two readings `over_s` seconds apart. For a process that is new in the second
/// reading, all of its time counts.
fn processes_since(
    after: &BTreeMap<u32, (u64, String)>,
    before: &BTreeMap<u32, (u64, String)>,
    over_s: f64,
) -> Vec<BusyProcess> {
    let used = |(pid, (ticks, name)): (&u32, &(u64, String))| {
        let earlier = before.get(pid).map_or(0, |(ticks, _)| *ticks);
        let seconds = ticks.saturating_sub(earlier) as f64 / ticks_per_second();
        BusyProcess { pid: *pid, name: name.clone(), cores: seconds / over_s }
    };
    after.iter().map(used).collect()
}

/// The busiest of `processes`, without those that are almost idle.
fn busiest(mut processes: Vec<BusyProcess>) -> Vec<BusyProcess> {
    processes.retain(|process| process.cores >= LEAST_CORES);
    processes.sort_by(|left, right| right.cores.total_cmp(&left.cores).then(left.pid.cmp(&right.pid)));
    processes.truncate(MOST);
    processes
}

fn ps() -> Option<String> {
    let output = Command::new("/bin/ps")
        .args(["-Aceo", "pid=,pcpu=,comm="])
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Parses lines `pid percent name`, without the process `own`.
fn parse_ps(text: &str, own: u32) -> Vec<BusyProcess> {
    let line = |line: &str| {
        let (pid, rest) = line.trim_start().split_once(' ')?;
        let (percent, name) = rest.trim_start().split_once(' ')?;
        let cores = percent.parse::<f64>().ok()? / 100.0;
        Some(BusyProcess { pid: pid.parse().ok()?, name: name.trim().to_owned(), cores })
    };
    text.lines().filter_map(line).filter(|process| process.pid != own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::testing::FakeProc;

    /// Two seconds of work of another process, regardless of the machine's load.
    #[test]
    fn a_glance_excludes_our_own_time() {
        let now = Glance::take();
        let (Some(busy_s), at) = (now.host.busy_s, now.at) else { return };
        let past = |busy_s: f64, own_s: f64| Glance {
            at: at.checked_sub(Duration::from_secs(1)).unwrap(),
            host: HostCounters { busy_s: Some(busy_s), steal_s: now.host.steal_s, ..HostCounters::default() },
            own_s: now.own_s - own_s,
        };
        assert!(past(busy_s - 200.0, 0.0).is_busy(1.0));
        assert!(!past(busy_s - 200.0, 200.0).is_busy(100.0), "the time was ours");
    }

    #[test]
    fn the_times_of_all_processes_are_read() {
        let proc = FakeProc::new();
        proc.process(7, b"tmux: (server)", 'S', 1, 7).process(9, b"torn", 'S', 1, 9).file(
            9,
            "stat",
            b"9 (torn) S 1",
        );
        assert_eq!(times(&proc.table()), BTreeMap::from([(7, (150, "tmux: (server)".into()))]));
    }

    #[test]
    fn a_process_used_the_difference_of_two_readings() {
        let second = ticks_per_second() as u64;
        let before = BTreeMap::from([(1, (50, "old".into())), (2, (9 * second, "reused".into()))]);
        let after = BTreeMap::from([
            (1, (50 + second, "old".into())),
            (2, (0, "reused".into())),
            (3, (3 * second, "new".into())),
        ]);
        let used = processes_since(&after, &before, 2.0);
        assert_eq!(
            used.iter().map(|it| (it.pid, it.cores)).collect::<Vec<_>>(),
            [(1, 0.5), (2, 0.0), (3, 1.5)]
        );
        let named: Vec<u32> = busiest(used).iter().map(|it| it.pid).collect();
        assert_eq!(named, [3, 1], "the idle one is not listed");
    }

    #[test]
    fn only_the_busiest_are_listed() {
        let process = |pid: u32| BusyProcess { pid, name: "x".into(), cores: f64::from(pid) };
        let pids: Vec<u32> = busiest((1..10).map(process).collect()).iter().map(|it| it.pid).collect();
        assert_eq!(pids, [9, 8, 7, 6, 5]);
    }

    #[test]
    fn the_output_of_ps_is_parsed() {
        let text = "    1   0.0 launchd\n  352 123.4 Google Chrome He\n  999   5.0 orchestrate\nbroken\n";
        let processes = parse_ps(text, 999);
        assert_eq!(processes.len(), 2);
        assert_eq!((processes[1].pid, processes[1].name.as_str()), (352, "Google Chrome He"));
        assert!((processes[1].cores - 1.234).abs() < 1e-9);
    }
}
