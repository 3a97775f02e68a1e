//! The shipped worker: whether it exists, starts, and finds its libtorch.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use crate::host::ask::{PATIENCE, ask_and_wait};
use crate::host::find::is_executable;
use crate::host::{hash_file, shipped_worker};

/// Facts about the shipped worker that need no training.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorkerSurvey {
    /// The path at which it is, or should be.
    pub path: String,
    /// SHA-256 of its bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Whether it can be used.
    pub state: WorkerState,
    /// The versions of the worker and its libraries, from `worker --version`.
    pub versions: BTreeMap<String, String>,
    /// The libtorch that it loads; absent if the system does not report it (macOS).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub libtorch: Option<String>,
    /// Whether the worker can use CUDA: libtorch's CUDA half exists, loads and finds a GPU. Absent if the system does
    /// not report the libtorch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_cuda: Option<bool>,
    /// The worker's message why it cannot. Absent if this libtorch was built without CUDA.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda_problem: Option<String>,
}

/// Whether a worker can be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WorkerState {
    /// It starts.
    #[default]
    Ready,
    /// It does not exist.
    Missing,
    /// This user cannot execute it.
    NotExecutable,
    /// It does not start.
    Broken {
        /// Its error message.
        message: String,
    },
}

impl WorkerSurvey {
    /// Asks the worker that a run would use.
    pub(super) fn probe() -> WorkerSurvey {
        WorkerSurvey::probe_at(&shipped_worker())
    }

    fn probe_at(path: &Path) -> WorkerSurvey {
        let found = WorkerSurvey { path: path.display().to_string(), ..WorkerSurvey::default() };
        if !path.is_file() {
            return WorkerSurvey { state: WorkerState::Missing, ..found };
        }
        let found = WorkerSurvey { sha256: hash_file(path).ok(), ..found };
        if !is_executable(path) {
            return WorkerSurvey { state: WorkerState::NotExecutable, ..found };
        }
        // `--version` needs no device and computes nothing, but has to load libtorch.
        let (state, versions) = match ask_and_wait(path, &["--version"], &[], PATIENCE) {
            Ok(answer) if answer.success => (WorkerState::Ready, parse_versions(&answer.out)),
            Ok(answer) => (WorkerState::Broken { message: reason(&answer.err) }, BTreeMap::new()),
            Err(error) => (WorkerState::Broken { message: error.to_string() }, BTreeMap::new()),
        };
        let libtorch = probe_libtorch(path);
        let cuda = libtorch.as_ref().map(|library| probe_cuda(path, library, CUDA_PATIENCE));
        let (has_cuda, cuda_problem) = cuda.map_or((None, None), |(has, problem)| (Some(has), problem));
        let libtorch = libtorch.map(|library| library.display().to_string());
        WorkerSurvey { state, versions, libtorch, has_cuda, cuda_problem, ..found }
    }
}

/// Enough to load libtorch's CUDA half: some gigabytes, from a network file system perhaps.
const CUDA_PATIENCE: Duration = Duration::from_secs(60);

/// Whether the worker at `path`, which loads `libtorch`, can use CUDA; and if not, why. A libtorch can have its CUDA
/// half without the libraries that this needs, or with a driver that is too old. So the worker tries it in a separate
/// process.
fn probe_cuda(path: &Path, libtorch: &Path, patience: Duration) -> (bool, Option<String>) {
    if !libtorch.with_file_name("libtorch_cuda.so").exists() {
        return (false, None);
    }
    match ask_and_wait(path, &["cuda"], &[], patience) {
        Ok(answer) if answer.success => (true, None),
        Ok(answer) => {
            let reason = reason(&answer.err);
            let problem = reason.strip_prefix("error: cuda is not available: ").unwrap_or(&reason).to_owned();
            (false, Some(problem))
        }
        Err(error) => (false, Some(error.to_string())),
    }
}

/// The libtorch that the loader finds for the worker at `path`. With this variable, the loader of glibc lists the
/// libraries instead of starting the program, like `ldd`. Other loaders start the program, which prints its version.
fn probe_libtorch(path: &Path) -> Option<PathBuf> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let traced = ask_and_wait(path, &["--version"], &[("LD_TRACE_LOADED_OBJECTS", "1")], PATIENCE).ok()?;
    loaded(&traced.out, "libtorch_cpu.so").map(PathBuf::from)
}

/// A library's path in the loader's list, whose lines read `libx.so => /path/libx.so (0x…)` or `libx.so => not found`.
fn loaded<'a>(list: &'a str, library: &str) -> Option<&'a str> {
    let mut lines = list.lines().filter_map(|line| line.trim().split_once(" => "));
    let (_, place) = lines.find(|(name, _)| *name == library)?;
    let path = place.rsplit_once(" (").map_or(place, |(path, _)| path).trim();
    path.starts_with('/').then_some(path)
}

/// Parses lines `name version`.
fn parse_versions(text: &str) -> BTreeMap<String, String> {
    let pair =
        |line: &str| line.trim().split_once(' ').map(|(name, version)| (name.to_owned(), version.to_owned()));
    text.lines().filter_map(pair).collect()
}

/// The line with the reason why a program did not start: the loader's line about a library, otherwise the last line.
fn reason(err: &str) -> String {
    let said = || err.lines().map(str::trim).filter(|line| !line.is_empty());
    let about_library = |line: &&str| line.contains("shared librar") || line.contains("Library not loaded");
    said()
        .find(about_library)
        .or_else(|| said().next_back())
        .unwrap_or("it fails without a message")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::ask::testing::write_program;

    fn worker(script: &str, mode: &str) -> WorkerSurvey {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("worker");
        write_program(&path, script, mode);
        WorkerSurvey::probe_at(&path)
    }

    #[test]
    fn a_worker_that_starts_reports_its_versions() {
        let found = worker("echo worker 0.1.0; echo libtorch 2.11.0", "755");
        assert_eq!(found.state, WorkerState::Ready);
        assert_eq!(found.versions["libtorch"], "2.11.0");
        assert_eq!(found.sha256.map(|hash| hash.len()), Some(64));
    }

    #[test]
    fn cuda_is_available_only_if_the_worker_can_use_it() {
        let directory = tempfile::tempdir().unwrap();
        let [worker, libtorch] = ["worker", "libtorch_cpu.so"].map(|name| directory.path().join(name));
        let ask = |script: &str, patience| {
            write_program(&worker, script, "755");
            probe_cuda(&worker, &libtorch, patience)
        };
        assert_eq!(ask("exit 0", PATIENCE), (false, None), "this libtorch was built without CUDA");
        write_program(&libtorch.with_file_name("libtorch_cuda.so"), "", "644");
        assert_eq!(ask("[ \"$*\" = cuda ] && echo GPU", PATIENCE), (true, None));
        let refusal = "echo 'error: cuda is not available: cuInit returns 100' >&2; exit 69";
        assert_eq!(ask(refusal, PATIENCE), (false, Some("cuInit returns 100".into())));
        assert_eq!(ask("echo 'no such word' >&2; exit 2", PATIENCE), (false, Some("no such word".into())));
        let (has_cuda, problem) = ask("sleep 100 & wait", Duration::from_millis(1));
        assert!(!has_cuda && problem.as_ref().unwrap().contains("did not answer"), "{problem:?}");
    }

    #[test]
    fn a_worker_that_does_not_start_is_reported_with_the_reason() {
        let line =
            "worker: error while loading shared libraries: libtorch_cpu.so: cannot open shared object file";
        let found = worker(&format!("echo '{line}' >&2; echo more >&2; exit 127"), "755");
        assert_eq!(found.state, WorkerState::Broken { message: line.into() });
        assert_eq!(reason("\n"), "it fails without a message");
    }

    #[test]
    fn a_worker_that_is_missing_or_not_executable() {
        assert_eq!(worker("true", "644").state, WorkerState::NotExecutable);
        assert_eq!(WorkerSurvey::probe_at(Path::new("/nowhere/worker")).state, WorkerState::Missing);
    }

    #[test]
    fn the_list_of_the_loader_is_parsed() {
        let list = "\tlinux-vdso.so.1 (0x00007fff)\n\tlibc10.so => not found\n\
                    \tlibtorch_cpu.so => /opt/torch (2)/lib/libtorch_cpu.so (0x00007f01)\n";
        assert_eq!(loaded(list, "libtorch_cpu.so"), Some("/opt/torch (2)/lib/libtorch_cpu.so"));
        assert_eq!((loaded(list, "libc10.so"), loaded(list, "libm.so.6")), (None, None));
    }
}
