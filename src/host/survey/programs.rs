//! The programs around a worker: `time`, `perf`, `ncu`.

use std::path::Path;

use serde::Serialize;

use crate::host::ask::{PATIENCE, ask_and_wait};
use crate::host::find::{FindError, NCU, PERF, Tool, own_path};
use crate::host::probe_time_tool;
use crate::record::TimeFlavour;

/// A program that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProgramFacts {
    /// Its path.
    pub path: String,
    /// Its version, in its own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Why it cannot be used, if it does not even print its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The `time` that a run would use.
pub(super) fn probe_time() -> Option<ProgramFacts> {
    let tool = probe_time_tool()?;
    let version = match tool.flavour {
        TimeFlavour::Bsd => Some("BSD".to_owned()),
        TimeFlavour::Gnu => ask_and_wait(&tool.path, &["--version"], &[], PATIENCE)
            .ok()
            .and_then(|answer| gnu_version(&answer.text())),
    };
    Some(ProgramFacts { path: tool.path.display().to_string(), version, problem: None })
}

/// `perf` as a run would find it. Distributions install a script that calls the `perf` of the running kernel, and fails
/// if that is not installed.
pub(super) fn probe_perf() -> Option<ProgramFacts> {
    probe(&PERF)
}

/// `ncu`, as a run would find it.
pub(super) fn probe_ncu() -> Option<ProgramFacts> {
    probe(&NCU)
}

/// `None` if it is not found; with its problem if the user's variable does not name a program.
fn probe(tool: &Tool) -> Option<ProgramFacts> {
    match tool.find(&own_path()) {
        Ok(path) => Some(version_of(&path)),
        Err(FindError::Nowhere(_)) => None,
        Err(FindError::Named { variable, program, problem }) => Some(ProgramFacts {
            path: program.display().to_string(),
            version: None,
            problem: Some(format!("{variable} names it, but it {problem}")),
        }),
    }
}

fn version_of(path: &Path) -> ProgramFacts {
    let (version, problem) = match ask_and_wait(path, &["--version"], &[], PATIENCE) {
        Ok(answer) if answer.success => (version_in(&answer.out), None),
        Ok(answer) => {
            (None, Some(first_line(&answer.err).unwrap_or_else(|| "it fails without a message".to_owned())))
        }
        Err(error) => (None, Some(error.to_string())),
    };
    ProgramFacts { path: path.display().to_string(), version, problem }
}

/// The word after `version`: perf prints `perf version 6.8.12`, ncu `Version 2024.3.2.0 (build …) (public-release)`.
fn version_in(text: &str) -> Option<String> {
    let mut words = text.split_whitespace();
    words.find(|word| word.eq_ignore_ascii_case("version"))?;
    words.next().map(str::to_owned)
}

/// `time (GNU Time) 1.9`. Debian's build prints `UNKNOWN` instead of its version.
fn gnu_version(text: &str) -> Option<String> {
    first_line(text).map(|line| line.trim_end_matches("UNKNOWN").trim_end().to_owned())
}

/// The first line that is not blank.
fn first_line(text: &str) -> Option<String> {
    text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::ask::testing::write_program;

    #[test]
    fn versions_as_the_programs_print_them() {
        let ncu = "NVIDIA (R) Nsight Compute Command Line Profiler\nCopyright (c) 2018-2024 NVIDIA Corporation\n\
                   Version 2024.3.2.0 (build 34861637) (public-release)\n";
        assert_eq!(version_in(ncu).as_deref(), Some("2024.3.2.0"));
        assert_eq!(version_in("perf version 6.8.12\n").as_deref(), Some("6.8.12"));
        assert_eq!(version_in("hello\n"), None);
        assert_eq!(
            gnu_version("\n time (GNU Time) 1.9\nCopyright\n").as_deref(),
            Some("time (GNU Time) 1.9")
        );
        assert_eq!(gnu_version("time (GNU Time) UNKNOWN\n").as_deref(), Some("time (GNU Time)"));
    }

    #[test]
    fn a_program_that_fails_is_reported_with_its_problem() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("perf");
        let write = |script: &str| write_program(&path, script, "755");
        write("echo perf version 6.8.12");
        let facts = version_of(&path);
        assert_eq!((facts.version.as_deref(), facts.problem), (Some("6.8.12"), None));
        write("echo 'WARNING: perf not found for kernel 6.8.0-45' >&2; exit 2");
        let facts = version_of(&path);
        assert_eq!(
            (facts.version, facts.problem.as_deref()),
            (None, Some("WARNING: perf not found for kernel 6.8.0-45"))
        );
    }
}
