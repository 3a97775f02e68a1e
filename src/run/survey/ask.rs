//! Asks a program for its version, for a bounded time: a program that hangs must not keep `doctor` from its findings.
#![expect(clippy::disallowed_methods, reason = "this asks other programs")]

use std::env;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Profilers take a second to say their version; a worker on a network file system takes some to be loaded.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// What a program said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// It ended with 0.
    pub(super) success: bool,
    /// What it wrote to standard output.
    pub(super) out: String,
    /// What it wrote to standard error.
    pub(super) err: String,
}

/// Calls `program` and waits for its end, at most as long as `patience`; then it and what it started are killed.
///
/// # Errors
/// Why there is no answer, as a sentence.
pub(super) fn ask(
    program: &Path,
    arguments: &[&str],
    variables: &[(&str, &str)],
    patience: Duration,
) -> Result<Answer, String> {
    let child = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .envs(variables.iter().map(|(name, value)| (OsStr::new(name), OsStr::new(value))))
        // Whatever it may write by mistake is better there than in the user's project.
        .current_dir(env::temp_dir())
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("it cannot be started: {error}"))?;
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(patience) {
        Ok(Ok(output)) => Ok(Answer {
            success: output.status.success(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }),
        Ok(Err(error)) => Err(format!("it cannot be listened to: {error}")),
        Err(_) => {
            // Nobody else has its number yet: the kernel gives numbers anew only after all others were used.
            let _ = killpg(group, Signal::SIGKILL);
            Err(format!("it did not answer within {} s", patience.as_secs()))
        }
    }
}

/// The first executable called `name` on `PATH`, else in `elsewhere`.
pub(super) fn find_program(name: &str, elsewhere: &[PathBuf]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = env::split_paths(&path).collect::<Vec<_>>();
    let found = directories.iter().chain(elsewhere).map(|directory| directory.join(name));
    found.into_iter().find(|path| is_executable(path))
}

/// Whether `path` is a file that this user may execute.
pub(super) fn is_executable(path: &Path) -> bool {
    path.is_file() && nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok()
}

/// Programs made by tests.
#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// Writes a shell script with these permissions, in octal. A child writes it: a test beside this one that forks while
    /// we had it open for writing would keep everybody from executing it.
    pub(in super::super) fn write_program(path: &Path, script: &str, mode: &str) {
        let write = r#"printf '#!/bin/sh\n%s\n' "$2" > "$1" && chmod "$3" "$1""#;
        let mut shell = Command::new("/bin/sh");
        let status = shell.args(["-c", write, "sh"]).arg(path).args([script, mode]).status().unwrap();
        assert!(status.success(), "{}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, patience: Duration) -> Result<Answer, String> {
        ask(Path::new("/bin/sh"), &["-c", script], &[("GREETING", "hello")], patience)
    }

    #[test]
    fn an_answer_is_what_was_said_and_how_it_ended() {
        let answer = shell("echo $GREETING; echo oh >&2; exit 3", PATIENCE).unwrap();
        assert_eq!(answer, Answer { success: false, out: "hello\n".into(), err: "oh\n".into() });
        assert!(shell("true", PATIENCE).unwrap().success);
    }

    #[test]
    fn who_never_answers_is_not_waited_for() {
        let error = shell("sleep 1000 & wait", Duration::from_millis(1)).unwrap_err();
        assert!(error.contains("did not answer"), "{error}");
    }

    #[test]
    fn what_cannot_be_started_is_said() {
        let error = ask(Path::new("/nowhere/x"), &[], &[], PATIENCE).unwrap_err();
        assert!(error.contains("cannot be started"), "{error}");
    }

    #[test]
    fn programs_are_found_on_the_path_and_elsewhere() {
        assert!(find_program("sh", &[]).is_some());
        let directory = tempfile::tempdir().unwrap();
        let elsewhere = [directory.path().to_owned()];
        let name = "a-program-of-this-test";
        assert_eq!(find_program(name, &elsewhere), None);
        let file = directory.path().join(name);
        testing::write_program(&file, "true", "755");
        assert_eq!(find_program(name, &elsewhere), Some(file));
    }
}
