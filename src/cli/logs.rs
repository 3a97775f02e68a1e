//! `orchestrate logs`: the output of a job's worker.
#![expect(clippy::disallowed_methods, reason = "logs of another host are shown by a process")]

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use super::output::{print, print_bytes, print_whole};
use super::pick::{Found, PickArgs};
use super::queue::logs_elsewhere;
use super::{Exit, Failure, Global};
use crate::clean::{lines_of_log, whole_letters};
use crate::files::{AttemptDir, open_regular};
use crate::store::Store;

/// The arguments of `orchestrate logs`.
#[derive(Debug, clap::Args)]
pub(super) struct LogsArgs {
    #[command(flatten)]
    job: PickArgs,
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
    let found = args.job.find(&store)?;
    if found.dir.attempts().is_ok_and(|attempts| attempts.is_empty())
        && let Some(words) = logs_elsewhere(&store, &found.dir)?
    {
        return show_remote(&words);
    }
    let attempt = choose_attempt(&found, args.attempt)?;
    let wanted = [(attempt.stdout(), !args.stderr), (attempt.stderr(), !args.stdout)];
    let mut logs = Vec::new();
    for (path, _) in wanted.into_iter().filter(|(_, is_wanted)| *is_wanted) {
        logs.extend(open_log(&path)?.map(|file| (path, file)));
    }
    let has_headings = logs.len() > 1;
    for (path, file) in logs {
        if has_headings {
            print(&format!("==> {} <==\n", path.display()))?;
        }
        let last = print_log(file, &path)?;
        if has_headings && last != Some(b'\n') {
            print("\n")?;
        }
    }
    Ok(Exit::Done)
}

/// Runs the command `words`, which shows the output on another host.
fn show_remote(words: &[String]) -> Result<Exit, Failure> {
    let status = Command::new(&words[0]).args(&words[1..]).stdin(Stdio::null()).status()?;
    match status.success() {
        true => Ok(Exit::Done),
        false => Err(Failure::new(Exit::NothingSelected, "its host did not show its output")),
    }
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

/// The log at `path`; `None` if it is empty, or if the attempt was cut off before it created the file.
fn open_log(path: &Path) -> Result<Option<File>, ReadError> {
    let opened = open_regular(path).and_then(|file| Ok((file.metadata()?.len(), file)));
    match opened {
        Ok((0, _)) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => {
            other.map(|(_, file)| Some(file)).map_err(|source| ReadError { path: path.to_owned(), source })
        }
    }
}

/// Prints `log`, which can be of any length, piece by piece, and returns its last byte.
///
/// A file or a pipe gets every byte. A terminal gets lines without escape sequences, because it must not execute those
/// of a worker.
fn print_log(mut log: impl Read, path: &Path) -> Result<Option<u8>, Failure> {
    let is_terminal = io::stdout().is_terminal();
    let mut piece = vec![0; PIECE];
    let (mut kept, mut last) = (0, None);
    loop {
        let read = log.read(&mut piece[kept..]);
        let read = read.map_err(|source| ReadError { path: path.to_owned(), source })?;
        let filled = kept + read;
        let end = if is_terminal && read > 0 { whole_letters(&piece[..filled]) } else { filled };
        last = piece[..end].last().copied().or(last);
        if is_terminal {
            print_whole(&lines_of_log(&piece[..end]))?;
        } else {
            print_bytes(&piece[..end])?;
        }
        if read == 0 {
            return Ok(last);
        }
        piece.copy_within(end..filled, 0);
        kept = filled - end;
    }
}

/// The most bytes of a log in memory at a time.
const PIECE: usize = 1 << 16;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make the files they look at")]
mod tests {
    use std::fs;

    use super::*;
    use crate::analysis::fixture;
    use crate::job::Job;

    #[test]
    fn chooses_the_last_attempt_by_default() {
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
        assert!(open_log(&found.dir.attempt(2).stdout()).unwrap().is_none());
    }
}
