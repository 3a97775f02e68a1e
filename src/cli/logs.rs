//! `orchestrate logs`: the output of a job's worker.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::find::{Found, find_job};
use super::output::{print, print_bytes};
use super::{Exit, Failure, Global};
use crate::files::{AttemptDir, open_regular};
use crate::store::Store;

/// The arguments of `orchestrate logs`.
#[derive(Debug, clap::Args)]
pub(super) struct LogsArgs {
    /// The job, by its label, its directory or at least four digits of its id.
    job: String,
    /// Number of the attempt, from 1 [default: the last one].
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Print only standard output.
    #[arg(long, conflicts_with = "stderr")]
    stdout: bool,
    /// Print only standard error.
    #[arg(long)]
    stderr: bool,
}

/// Prints both outputs of an attempt. Each has a heading, unless only one was written.
pub(super) fn run(args: LogsArgs, global: &Global) -> Result<Exit, Failure> {
    let store = Store::at(&global.store).map_err(Failure::store)?;
    let found = find_job(&store, &args.job)?;
    let attempt = choose_attempt(&found, args.attempt)?;
    let out = if args.stderr { Vec::new() } else { read_log(&attempt.stdout())? };
    let err = if args.stdout { Vec::new() } else { read_log(&attempt.stderr())? };
    let both = !out.is_empty() && !err.is_empty();
    for (path, bytes) in [(attempt.stdout(), out), (attempt.stderr(), err)] {
        if both {
            print(&format!("==> {} <==\n", path.display()))?;
        }
        print_bytes(&bytes)?;
        if both && !bytes.ends_with(b"\n") {
            print("\n")?;
        }
    }
    Ok(Exit::Done)
}

fn choose_attempt(found: &Found, wanted: Option<u32>) -> Result<AttemptDir, Failure> {
    let name = found.dir.name();
    let path = found.dir.path().to_owned();
    let attempts = found.dir.attempts().map_err(|source| ReadError { path, source })?;
    let Some(last) = attempts.last() else {
        let message = format!("the job {name} was never started, so it has no output");
        return Err(Failure::new(Exit::NothingSelected, message)
            .hint(format!("`orchestrate show {name}` shows its state")));
    };
    let Some(number) = wanted else { return Ok(last.clone()) };
    attempts.iter().find(|attempt| attempt.number() == number).cloned().ok_or_else(|| {
        let numbers: Vec<String> = attempts.iter().map(|attempt| attempt.number().to_string()).collect();
        Failure::new(Exit::NothingSelected, format!("the job {name} has no attempt {number}"))
            .hint(format!("its attempts are: {}", numbers.join(", ")))
    })
}

/// A log that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}", path.display())]
struct ReadError {
    path: std::path::PathBuf,
    #[source]
    source: io::Error,
}

fn read_all(mut file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The bytes of a log; empty if the attempt was cut off before it created the file.
fn read_log(path: &Path) -> Result<Vec<u8>, ReadError> {
    match open_regular(path).and_then(read_all) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.map_err(|source| ReadError { path: path.to_owned(), source }),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make the files they look at")]
mod tests {
    use std::fs;

    use super::*;
    use crate::analysis::fixture;
    use crate::job::Job;

    #[test]
    fn the_last_attempt_unless_another_is_asked_for() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::create(&root.path().join("runs")).unwrap();
        let job = Job::new(fixture::key("cpu", "resnet18", 16, 1));
        let found = Found { dir: store.job_dir(&job), job: Some(job) };
        let failure = choose_attempt(&found, None).unwrap_err();
        assert_eq!(failure.exit, Exit::NothingSelected);
        assert!(failure.error.to_string().contains("was never started"));
        for number in [1, 2, 10] {
            fs::create_dir_all(found.dir.attempt(number).path()).unwrap();
        }
        assert_eq!(choose_attempt(&found, None).unwrap().number(), 10);
        assert_eq!(choose_attempt(&found, Some(2)).unwrap().number(), 2);
        let failure = choose_attempt(&found, Some(3)).unwrap_err();
        assert_eq!(failure.hint.as_deref(), Some("its attempts are: 1, 2, 10"));
        assert_eq!(read_log(&found.dir.attempt(2).stdout()).unwrap(), b"");
    }
}
