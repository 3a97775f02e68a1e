//! Why `perf stat` gave nothing that may be used, and what helps.

/// Why `perf stat` gave nothing that may be used. The message says what happened, [`PerfFailure::remedy`] what helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PerfFailure {
    /// The kernel does not let this user count.
    #[error("this user may not count events{}", paranoid_words(.paranoid))]
    Permission {
        /// `kernel.perf_event_paranoid`, where `perf` tells.
        paranoid: Option<i32>,
    },
    /// The system's `perf` is a script that looks for the one of the running kernel.
    #[error("there is no perf for kernel {kernel}")]
    NotForThisKernel {
        /// The kernel's release.
        kernel: String,
    },
    /// The kernel has no counters: a sandbox such as gVisor.
    #[error("this kernel counts no events (perf_event_open is not implemented)")]
    NoCounters,
    /// `perf` does not know an event.
    #[error("perf knows no event `{0}`")]
    UnknownEvent(String),
    /// None of the events was counted.
    #[error("none of the events was counted")]
    NothingCounted,
    /// The report is empty: `perf` was killed, or never began.
    #[error("perf wrote no report{}", said(.0))]
    Empty(Option<String>),
    /// The report breaks off within a line.
    #[error("the report of perf breaks off in `{0}`")]
    Torn(String),
    /// An event that was asked for has no line.
    #[error("the report of perf breaks off: no `{0}`")]
    Missing(String),
    /// A line is of no form that we know.
    #[error("the report of perf has the line `{0}`")]
    Malformed(String),
    /// A line has numbers with a decimal comma, which cannot be told from the comma between fields.
    #[error("perf printed numbers with a decimal comma: `{0}`")]
    DecimalComma(String),
    /// The report is the table for people, not the CSV that `-x,` asks for.
    #[error("perf printed its table for people instead of CSV")]
    TableForPeople,
}

impl PerfFailure {
    /// What helps, in a sentence.
    pub fn remedy(&self) -> String {
        match self {
            PerfFailure::Permission { paranoid } => permission_remedy(*paranoid),
            PerfFailure::NotForThisKernel { kernel } => {
                format!(
                    "install the package of this kernel, `linux-tools-{kernel}` on Ubuntu; in WSL2 and in \
                    containers, where the kernel is not the distribution's, install any `linux-tools-*-generic` and \
                    put its `perf` first in the PATH"
                )
            }
            PerfFailure::NoCounters | PerfFailure::NothingCounted => {
                "sandboxes and some virtual machines offer no counters: count on the machine itself"
                    .to_owned()
            }
            PerfFailure::UnknownEvent(_) => "`perf list` shows the events of this machine".to_owned(),
            PerfFailure::Empty(_) => {
                "run the command in `command.sh` by hand and see what `perf` says".to_owned()
            }
            PerfFailure::Torn(_) | PerfFailure::Missing(_) | PerfFailure::Malformed(_) => {
                "the file was cut or changed (is the disk full?): run the job again".to_owned()
            }
            PerfFailure::DecimalComma(_) => {
                "`perf` needs `LC_ALL=C`: remove `LC_ALL` from the `variables` of the matrix".to_owned()
            }
            PerfFailure::TableForPeople => {
                "`perf` was run without `-x,`: if ORCHESTRATE_PERF names a script, let it pass on all of its \
                 arguments"
                    .to_owned()
            }
        }
    }

    /// The failure that `perf` itself tells of, in what it wrote to stderr.
    pub(super) fn of_messages(text: &str) -> Option<PerfFailure> {
        let has = |words: &str| text.contains(words);
        if let Some((_, rest)) = text.split_once("perf not found for kernel ") {
            let kernel = rest.split_whitespace().next().unwrap_or("?").to_owned();
            return Some(PerfFailure::NotForThisKernel { kernel });
        }
        if has("Function not implemented") && has("perf_event_open") {
            return Some(PerfFailure::NoCounters);
        }
        let denied = ["observability operations is limited", "may not have permission to collect stats"];
        let is_denied_call =
            has("perf_event_open") && (has("Operation not permitted") || has("Permission denied"));
        if denied.iter().any(|words| has(words)) || has("No permission to enable ") || is_denied_call {
            return Some(PerfFailure::Permission { paranoid: paranoid(text) });
        }
        let (_, rest) = text.split_once("event syntax error: '")?;
        let event = rest.split('\'').next().unwrap_or(rest);
        Some(PerfFailure::UnknownEvent(event.to_owned()))
    }
}

fn permission_remedy(paranoid: Option<i32>) -> String {
    let container = "in a container also give it CAP_PERFMON, for its seccomp profile may forbid the call";
    match paranoid {
        // Up to 2, a user may count their own processes: something else forbids it.
        Some(level) if level <= 2 => format!("run as root or with CAP_PERFMON; {container}"),
        _ => format!(
            "`sudo sysctl kernel.perf_event_paranoid=2` lets users count their own processes; {container}"
        ),
    }
}

/// The setting in `perf_event_paranoid setting is 4:`.
fn paranoid(text: &str) -> Option<i32> {
    let (_, rest) = text.split_once("perf_event_paranoid setting is ")?;
    rest.split([':', '\n']).next()?.trim().parse().ok()
}

fn paranoid_words(paranoid: &Option<i32>) -> String {
    paranoid.map(|level| format!(" (kernel.perf_event_paranoid is {level})")).unwrap_or_default()
}

fn said(line: &Option<String>) -> String {
    line.as_ref().map(|line| format!(": {line}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_perf_says_is_understood() {
        let limited = "Error:\nAccess to performance monitoring and observability operations is limited.\n\
            Consider adjusting /proc/sys/kernel/perf_event_paranoid setting to open\n\
            perf_event_paranoid setting is 4:\n  -1: Allow use of (almost) all events by all users\n";
        let older = "Error:\nYou may not have permission to collect stats.\n\nConsider tweaking \
            /proc/sys/kernel/perf_event_paranoid,\n";
        let seccomp = "Error:\nThe sys_perf_event_open() syscall returned with 1 (Operation not permitted) for \
            event (cycles).\n";
        let sandbox = "Error:\nThe sys_perf_event_open() syscall returned with 38 (Function not implemented) for \
            event (cycles).\n";
        let kernel = "WARNING: perf not found for kernel 5.15.0-91\n\n  You may need to install the following \
            packages for this specific kernel:\n    linux-tools-5.15.0-91-generic\n";
        let event = "event syntax error: 'cycels'\n                     \\___ parser error\nRun 'perf list' for a \
            list of valid events\n";
        for (text, failure, remedy) in [
            (limited, PerfFailure::Permission { paranoid: Some(4) }, "perf_event_paranoid=2"),
            (older, PerfFailure::Permission { paranoid: None }, "perf_event_paranoid=2"),
            (seccomp, PerfFailure::Permission { paranoid: None }, "CAP_PERFMON"),
            (sandbox, PerfFailure::NoCounters, "machine itself"),
            (
                kernel,
                PerfFailure::NotForThisKernel { kernel: "5.15.0-91".to_owned() },
                "linux-tools-5.15.0-91",
            ),
            (event, PerfFailure::UnknownEvent("cycels".to_owned()), "perf list"),
        ] {
            let found = PerfFailure::of_messages(text).unwrap();
            assert_eq!(found, failure);
            assert!(found.remedy().contains(remedy), "{}", found.remedy());
        }
        let already_open = PerfFailure::Permission { paranoid: Some(1) };
        assert!(!already_open.remedy().contains("sysctl"), "{}", already_open.remedy());
        assert_eq!(PerfFailure::of_messages("Traceback (most recent call last):\n"), None);
    }
}
