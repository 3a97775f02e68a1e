//! Runs other programs for a short answer, such as their version: [`ask`]. A call is bounded in time and never delays a
//! signal. If the caller stops waiting, the program and all processes it started are killed.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg, raise};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

use super::interrupt::Interrupts;

/// The usual time limit, enough for a version: profilers take a second to answer, and a worker on a network file system
/// takes some seconds to load.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A program's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Whether it exited with 0.
    pub(crate) success: bool,
    /// Its standard output.
    pub(crate) out: String,
    /// Its standard error.
    pub(crate) err: String,
}

impl Answer {
    /// Standard output, then standard error.
    pub(crate) fn text(&self) -> String {
        format!("{}{}", self.out, self.err)
    }
}

/// Why a program did not answer, as a sentence about it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// It is not a program, or not one that this machine and user can execute.
    #[error("it cannot be started: {0}")]
    Start(io::Error),
    /// Its output cannot be read.
    #[error("its output cannot be read: {0}")]
    Listen(io::Error),
    /// It did not end in time and was killed.
    #[error("it did not answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// It was killed because `orchestrate` received a signal to stop.
    #[error("it was stopped before it answered, because of {0}")]
    Stopped(Signal),
}

/// Calls `program` and waits until it ends, for at most `patience`.
///
/// It runs in its own process group. The group is killed when the program has ended, because remaining processes could
/// keep its output open forever. It is also killed when `patience` is over, and when the future is dropped because the
/// user wants to stop.
///
/// # Errors
/// [`AskError`].
pub(crate) async fn ask(
    program: &Path,
    arguments: &[&str],
    variables: &[(&str, &str)],
    patience: Duration,
) -> Result<Answer, AskError> {
    ask_without(&[], program, arguments, variables, patience).await
}

/// [`ask`], without the variables of our environment whose names begin with one of `dropped`.
///
/// # Errors
/// [`AskError`].
pub(crate) async fn ask_without(
    dropped: &[&str],
    program: &Path,
    arguments: &[&str],
    variables: &[(&str, &str)],
    patience: Duration,
) -> Result<Answer, AskError> {
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C").envs(variables.iter().copied()).current_dir(directory());
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| dropped.iter().any(|beginning| name.starts_with(beginning))) {
            command.env_remove(name);
        }
    }
    answer(command, patience).await
}

/// The answer of `command` within `patience`. See [`ask`].
async fn answer(mut command: Command, patience: Duration) -> Result<Answer, AskError> {
    let mut child = command
        .process_group(0)
        .kill_on_drop(true)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(AskError::Start)?;
    // Dropped before the child. The child's number is not reused until it has been waited for.
    let group = Group::of(&child);
    let answer = tokio::time::timeout(patience, listen(&mut child, group)).await;
    answer.map_err(|_| AskError::Silent(patience))?.map_err(AskError::Listen)
}

/// [`ask`] for callers outside of an async runtime. A signal that stops `orchestrate` takes effect once the program is
/// killed.
///
/// # Errors
/// [`AskError`].
pub(crate) fn ask_and_wait(
    program: &Path,
    arguments: &[&str],
    variables: &[(&str, &str)],
    patience: Duration,
) -> Result<Answer, AskError> {
    let answer = wait(ask(program, arguments, variables, patience));
    if let Err(AskError::Stopped(signal)) = answer {
        // By default, this ends `orchestrate`.
        let _ = raise(signal);
    }
    answer
}

/// The answer of a `command` whose environment and directory are set by the caller, outside of an async runtime. If a
/// signal came, the caller has to exit.
///
/// # Errors
/// [`AskError`].
pub(crate) fn answer_and_wait(command: Command, patience: Duration) -> Result<Answer, AskError> {
    wait(answer(command, patience))
}

fn wait(question: impl Future<Output = Result<Answer, AskError>>) -> Result<Answer, AskError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let interrupts = Interrupts::catch();
    let answer = runtime.map_err(AskError::Start)?.block_on(async {
        tokio::select! {
            answer = question => Some(answer),
            () = interrupts.next() => None,
        }
    });
    match interrupts.end() {
        Some(signal) => Err(AskError::Stopped(signal)),
        None => answer.expect("only a signal ends the wait without an answer"),
    }
}

/// The directory in which programs run: files that they write by mistake should not end up in the user's project.
fn directory() -> PathBuf {
    Some(env::temp_dir()).filter(|directory| directory.is_dir()).unwrap_or_else(|| PathBuf::from("/"))
}

/// Reads the output of `child` until it ends. Its output remains in the pipes after its group was killed.
async fn listen(child: &mut Child, group: Group) -> io::Result<Answer> {
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let end = async {
        let status = child.wait().await;
        drop(group);
        status
    };
    let (status, out, err): (io::Result<ExitStatus>, _, _) = tokio::join!(end, read(out), read(err));
    Ok(Answer { success: status?.success(), out: out?, err: err? })
}

async fn read(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes).await?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A process group that is killed when this is dropped.
struct Group(Option<Pid>);

impl Group {
    /// The group that `child` leads.
    fn of(child: &Child) -> Group {
        Group(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // This happens at the latest right after the leader was waited for, so the number is not reused yet: the kernel
        // reuses a number only after all others. An error means that the group is gone already, which is fine.
        let _ = self.0.map(|group| killpg(group, Signal::SIGKILL));
    }
}

/// Programs made by tests.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Writes a shell script with these permissions, in octal. A child process writes it: if we had the file open for
    /// writing while a concurrent test forks, it could not be executed (`ETXTBSY`).
    #[expect(clippy::disallowed_methods, reason = "a shell writes it")]
    pub(crate) fn write_program(path: &Path, script: &str, mode: &str) {
        let write = r#"printf '#!/bin/sh\n%s\n' "$2" > "$1" && chmod "$3" "$1""#;
        let mut shell = std::process::Command::new("/bin/sh");
        let status = shell.args(["-c", write, "sh"]).arg(path).args([script, mode]).status().unwrap();
        assert!(status.success(), "{}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::sync::mpsc;
    use std::thread;

    use nix::sys::stat::Mode;
    use tokio::sync::oneshot;

    use super::*;

    /// Longer than any passing test waits.
    const BOUND: Duration = Duration::from_secs(60);

    fn shell(script: &str, patience: Duration) -> Result<Answer, AskError> {
        ask_and_wait(Path::new("/bin/sh"), &["-c", script], &[("GREETING", "hello")], patience)
    }

    /// A FIFO that reports when a program has written to it, and when no process has it open any more.
    struct Held {
        directory: tempfile::TempDir,
        written: Option<oneshot::Receiver<()>>,
        closed: mpsc::Receiver<()>,
    }

    impl Held {
        fn new() -> Held {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("held");
            nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
            let (send_written, written) = oneshot::channel();
            let (send_closed, closed) = mpsc::channel();
            thread::spawn(move || {
                let mut file = File::options().read(true).open(path).unwrap();
                file.read_exact(&mut [0]).unwrap();
                send_written.send(()).ok();
                file.read_to_end(&mut Vec::new()).unwrap();
                send_closed.send(()).ok();
            });
            Held { directory, written: Some(written), closed }
        }

        /// A program that starts a child, writes to the FIFO and ends with the commands `last`. The child keeps the
        /// FIFO and the program's output open until it is killed.
        fn program(&self, last: &str) -> PathBuf {
            let path = self.directory.path().join("program");
            let held = self.directory.path().join("held");
            let script = format!("exec 9>'{}'\nsleep 100 &\necho hi\necho x >&9\n{last}", held.display());
            testing::write_program(&path, &script, "755");
            path
        }

        #[track_caller]
        fn assert_released(&self) {
            assert_eq!(self.closed.recv_timeout(BOUND), Ok(()), "a process is left");
        }
    }

    #[test]
    fn an_answer_has_the_output_and_the_success() {
        let answer = shell("echo $GREETING; echo oh >&2; exit 3", PATIENCE).unwrap();
        assert_eq!(answer, Answer { success: false, out: "hello\n".into(), err: "oh\n".into() });
        assert_eq!(answer.text(), "hello\noh\n");
        assert!(shell("true", PATIENCE).unwrap().success);
    }

    #[test]
    fn a_program_that_never_answers_is_not_waited_for() {
        let error = shell("sleep 100 & wait", Duration::from_millis(1)).unwrap_err().to_string();
        assert!(error.contains("did not answer"), "{error}");
    }

    #[test]
    fn processes_left_behind_neither_delay_the_answer_nor_survive() {
        let held = Held::new();
        let answer = ask_and_wait(&held.program("exit 0"), &[], &[], BOUND).unwrap();
        assert_eq!((answer.success, answer.out.as_str()), (true, "hi\n"));
        held.assert_released();
    }

    #[test]
    fn dropping_a_question_kills_all_of_its_processes() {
        let mut held = Held::new();
        let program = held.program("wait");
        let written = held.written.take().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            tokio::select! {
                answer = ask(&program, &[], &[], BOUND) => panic!("{answer:?}"),
                written = written => written.unwrap(),
            }
        });
        held.assert_released();
    }

    #[test]
    fn a_program_that_cannot_be_started_is_an_error() {
        let error = ask_and_wait(Path::new("/nowhere/x"), &[], &[], PATIENCE).unwrap_err().to_string();
        assert!(error.contains("cannot be started"), "{error}");
    }
}
