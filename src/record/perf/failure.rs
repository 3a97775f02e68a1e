//! Why the output of `perf stat` cannot be used, and what to do about it.

/// Why the output of `perf stat` cannot be used. The message says what happened, [`PerfFailure::remedy`] what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PerfFailure {
    /// The kernel does not let this user count.
    #[error("this user is not allowed to count events{}", paranoid_suffix(.paranoid))]
    Permission {
        /// `kernel.perf_event_paranoid`, if `perf` printed it.
        paranoid: Option<i32>,
    },
    /// The system's `perf` is a script that found no `perf` of the running kernel's version.
    #[error("perf is not installed for kernel {kernel}")]
    NotForThisKernel {
        /// The kernel's release.
        kernel: String,
    },
    /// The kernel has no counters: a sandbox such as gVisor.
    #[error("this kernel does not count events (it lacks perf_event_open)")]
    NoCounters,
    /// `perf` does not know an event.
    #[error("perf does not know the event `{0}`")]
    UnknownEvent(String),
    /// None of the events was counted.
    #[error("none of the events was counted")]
    NothingCounted,
    /// The report is empty: `perf` was killed, or never started.
    #[error("perf wrote no report{}", stderr_suffix(.0))]
    Empty(Option<String>),
    /// The report ends in the middle of a line.
    #[error("perf's report is cut off in the line `{0}`")]
    Torn(String),
    /// A requested event has no line.
    #[error("perf's report is cut off: it has no line for `{0}`")]
    Missing(String),
    /// A line has an unknown form.
    #[error("perf's report has an unreadable line: `{0}`")]
    Malformed(String),
    /// No processor has so many events in that time.
    #[error("perf's report has an impossible count: `{0}`")]
    Impossible(String),
    /// A line has numbers with decimal commas, which are indistinguishable from the commas between fields.
    #[error("perf printed numbers with decimal commas: `{0}`")]
    DecimalComma(String),
    /// The report is the table for people, not the CSV of `-x,`.
    #[error("perf printed its table for people instead of CSV")]
    TableForPeople,
}

impl PerfFailure {
    /// What to do about it, as a sentence without its full stop.
    pub fn remedy(&self) -> String {
        match self {
            PerfFailure::Permission { paranoid } => permission_remedy(*paranoid),
            PerfFailure::NotForThisKernel { kernel } => format!(
                "install the package for this kernel (`linux-tools-{kernel}` on Ubuntu); in WSL2 and in containers, \
                 whose kernel is not the distribution's, install any `linux-tools-*-generic` and put its `perf` first \
                 in PATH"
            ),
            PerfFailure::NoCounters | PerfFailure::NothingCounted => {
                "sandboxes and some virtual machines have no counters: run the job on bare metal".to_owned()
            }
            PerfFailure::UnknownEvent(_) => "`perf list` shows the events of this machine".to_owned(),
            PerfFailure::Empty(_) => "run `command.sh` by hand to see what `perf` prints".to_owned(),
            PerfFailure::Torn(_) | PerfFailure::Missing(_) => {
                "the file was truncated or changed (is the disk full?): run the job again".to_owned()
            }
            PerfFailure::Malformed(_) => {
                "this version of `perf` prints an unknown format, or another program writes to its \
                file: compare `perf.csv` of the attempt with what `command.sh` prints"
                    .to_owned()
            }
            PerfFailure::Impossible(_) => {
                "a counter of this machine overflowed or is broken: leave the event out of \
                `events`, or run the job again"
                    .to_owned()
            }
            PerfFailure::DecimalComma(_) => {
                "`perf` needs `LC_ALL=C`: remove `LC_ALL` from `variables` in the matrix".to_owned()
            }
            PerfFailure::TableForPeople => {
                "`perf` ran without `-x,`: if ORCHESTRATE_PERF names a script, make it pass on all arguments"
                    .to_owned()
            }
        }
    }

    /// The failure that `perf`'s own messages report, if any.
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
    let container = "in a container, also add CAP_PERFMON: its seccomp profile may block the system call";
    match paranoid {
        // Up to 2, users can count their own processes, so something else denied it.
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

fn paranoid_suffix(paranoid: &Option<i32>) -> String {
    paranoid.map(|level| format!(" (kernel.perf_event_paranoid is {level})")).unwrap_or_default()
}

fn stderr_suffix(line: &Option<String>) -> String {
    line.as_ref().map(|line| format!(": {line}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A similar message of the worker is not a failure of `perf`.
    #[test]
    fn partial_messages_are_not_failures_of_perf() {
        for text in ["sendfile: Function not implemented", "perf_event_open", "open: Permission denied"] {
            assert_eq!(PerfFailure::of_messages(text), None, "{text}");
        }
    }

    #[test]
    fn failures_quote_messages_of_perf() {
        let text = |failure: PerfFailure| failure.to_string();
        assert!(
            text(PerfFailure::Permission { paranoid: Some(4) })
                .ends_with("(kernel.perf_event_paranoid is 4)")
        );
        assert!(!text(PerfFailure::Permission { paranoid: None }).contains("paranoid"));
        assert!(text(PerfFailure::Empty(Some("no such file".into()))).ends_with(": no such file"));
    }

    #[test]
    fn messages_of_perf_are_recognised() {
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
            (sandbox, PerfFailure::NoCounters, "bare metal"),
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
