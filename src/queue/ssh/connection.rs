//! Calls `ssh`, [`Connection`]: OpenSSH with the user's configuration, keys and agent. It never asks for a password.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::words::ANSWER;
use crate::clean::printable;
use crate::host::find::own_program;
use crate::queue::QueueError;

/// How long a host may take to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// How long the transfer of files may take. A dead connection is noticed much earlier.
pub(super) const LONG_PATIENCE: Duration = Duration::from_secs(3600);

/// Options in addition to the user's configuration: there are no prompts, and a dead connection ends automatically. An
/// open connection is shared. But this call never becomes the master that others share, since it would wait for them,
/// and it forwards no ports, since a port that is taken can end it.
const OPTIONS: [&str; 14] = [
    "-T",
    "-o",
    "ControlMaster=no",
    "-o",
    "ClearAllForwardings=yes",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=10",
    "-o",
    "ServerAliveInterval=10",
    "-o",
    "ServerAliveCountMax=3",
    "--",
];

/// The exit code of `ssh` itself.
const OWN: i32 = 255;

/// The most characters of a program's message that are repeated.
const LONGEST: usize = 500;

/// A host that `ssh` reaches.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    program: PathBuf,
    host: String,
}

/// The output of a program on the other host.
pub(super) struct CallOutput {
    /// Its exit code.
    pub(super) code: i32,
    /// Its standard output, unless that was redirected.
    pub(super) out: Vec<u8>,
    err: Vec<u8>,
}

impl Connection {
    /// A connection to `host`; `None` if there is no `ssh`.
    pub(super) fn to(host: &str) -> Option<Connection> {
        Some(Connection { program: own_program("ssh")?, host: host.to_owned() })
    }

    /// The command line that runs `script` on the host, as words.
    pub(super) fn words(&self, script: &str) -> Vec<String> {
        let mut words = vec![self.program.display().to_string()];
        words.extend(OPTIONS.map(str::to_owned));
        words.extend([self.host.clone(), quoted_for_any_shell(script)]);
        words
    }

    /// Runs `script` on the host, with `input`, and waits until it ends.
    ///
    /// # Errors
    /// The host cannot be reached, or does not answer in time.
    pub(super) async fn call(
        &self,
        script: &str,
        input: &[u8],
        patience: Duration,
    ) -> Result<CallOutput, QueueError> {
        self.call_into(script, input, patience, Stdio::piped()).await
    }

    /// As [`Connection::call`], but with its standard output redirected to `out`.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub(super) async fn call_into(
        &self,
        script: &str,
        input: &[u8],
        patience: Duration,
        out: Stdio,
    ) -> Result<CallOutput, QueueError> {
        let said = tokio::time::timeout(patience, self.run(script, input, out)).await;
        let said = match said {
            Err(_) => return Err(self.silent(format!("no answer within {} s", patience.as_secs()))),
            Ok(Err(error)) => return Err(self.silent(error.to_string())),
            Ok(Ok(said)) => said,
        };
        match said.code {
            OWN => Err(self.silent(said.why())),
            _ => Ok(said),
        }
    }

    async fn run(&self, script: &str, input: &[u8], out: Stdio) -> std::io::Result<CallOutput> {
        let words = self.words(script);
        let mut child = Command::new(&self.program)
            .args(&words[1..])
            .env("LC_ALL", "C")
            // Ctrl-C must not end the call: this process decides when to stop it.
            .process_group(0)
            .kill_on_drop(true)
            .stdin(Stdio::piped())
            .stdout(out)
            .stderr(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take();
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A program that ends without reading reports the reason.
                let _ = stdin.write_all(input).await;
                let _ = stdin.shutdown().await;
            }
        };
        let (output, ()) = tokio::join!(child.wait_with_output(), feed);
        let output = output?;
        Ok(CallOutput { code: code(output.status), out: output.stdout, err: output.stderr })
    }

    fn silent(&self, why: String) -> QueueError {
        QueueError::Silent { program: "ssh", why: format!("{}: {why}", self.host) }
    }

    /// The error of a program that failed on the host.
    pub(super) fn refused(&self, said: &CallOutput) -> QueueError {
        QueueError::Refused { program: "ssh", said: format!("{}: {}", self.host, said.why()) }
    }

    /// The last answer in the output of a program on the host, without its prefix.
    ///
    /// # Errors
    /// It failed, or there is no answer.
    pub(super) fn answer(&self, said: &CallOutput) -> Result<String, QueueError> {
        if said.code != 0 {
            return Err(self.refused(said));
        }
        let text = String::from_utf8_lossy(&said.out);
        // The output of a starting shell may lack the newline at its end.
        let answer = text.lines().rev().find_map(|line| line.split_once(ANSWER));
        answer.map(|(_, answer)| answer.to_owned()).ok_or_else(|| {
            let line = text.lines().last().unwrap_or_default().chars().take(LONGEST).collect();
            QueueError::Strange { program: "ssh", line }
        })
    }
}

impl CallOutput {
    /// Its last message on standard error, without the output of a starting shell.
    fn why(&self) -> String {
        let text = String::from_utf8_lossy(&self.err);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        // Errors of `orchestrate` begin like this, and are followed by their causes.
        let from = lines.iter().position(|line| line.starts_with("error: "));
        let from = from.unwrap_or(lines.len().saturating_sub(1));
        let words = lines[from..].join("; ");
        let words: String = printable(&words).chars().take(LONGEST).collect();
        if words.is_empty() { format!("it ended with code {} and printed nothing", self.code) } else { words }
    }
}

/// A line that runs `script` in `sh` from any login shell. Within quotes, csh does not support newlines and expands
/// `!`, and fish interprets some backslashes. So these are written as octal escapes, which `printf` decodes.
fn quoted_for_any_shell(script: &str) -> String {
    let plain = |byte: u8| byte == b' ' || byte.is_ascii_graphic() && !b"'\\!".contains(&byte);
    let letter = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("\\0{byte:03o}") };
    let script: String = script.bytes().map(letter).collect();
    format!("exec sh -c 'eval \"$(printf %b \"$1\")\"' sh '{script}'")
}

/// The exit code as in a shell: 128 + signal for a killed process.
fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: i32, out: &str, err: &str) -> CallOutput {
        CallOutput { code, out: out.into(), err: err.into() }
    }

    fn connection() -> Connection {
        Connection { program: "ssh".into(), host: "gpu-7".into() }
    }

    /// In csh, newlines and `!` are special within quotes; in fish, backslashes are. Tries all installed shells.
    #[test]
    fn a_script_runs_equally_from_any_login_shell() {
        let script =
            "cd '/' || exit 9\nprintf '%s\\n' \"$(pwd)\" 'it'\\''s \\ ü!' `echo 7` '\\\\' && echo $((1 + 2))";
        let words = connection().words(script);
        assert_eq!(words[words.len() - 2], "gpu-7");
        let line = words.last().unwrap();
        let (_, script) = line.split_once(" sh '").unwrap();
        let script = script.strip_suffix('\'').unwrap();
        assert!(script.starts_with("cd \\0047/\\0047 || exit 9\\0012printf"), "{line}");
        assert!(script.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic() && !b"'!".contains(&byte)));
        assert!(script.split('\\').skip(1).all(|after| after.starts_with('0')), "{line}");
        let mut asked = 0;
        for shell in ["sh", "dash", "bash", "zsh", "ksh", "ksh93", "csh", "tcsh", "fish"] {
            let said = std::process::Command::new(shell).args(["-c", line]).output();
            let Ok(said) = said else { continue };
            let text = String::from_utf8_lossy(&said.stdout);
            assert_eq!(text, "/\nit's \\ ü!\n7\n\\\\\n3\n", "{shell}: {said:?}");
            asked += 1;
        }
        assert!(asked > 0, "there is a shell");
    }

    #[test]
    fn calls_override_disturbing_options_of_the_user() {
        let words = connection().words("true");
        // A call that others share would wait for their end, and a port that is taken would end it.
        for option in ["BatchMode=yes", "ControlMaster=no", "ClearAllForwardings=yes"] {
            assert!(words.contains(&option.to_owned()), "{words:?}");
        }
    }

    #[test]
    fn an_answer_is_found_after_the_output_of_a_shell() {
        let output = said(0, "Welcome!\norchestrate: {\"a\":1}\n", "");
        assert_eq!(connection().answer(&output).unwrap(), "{\"a\":1}");
        let output =
            said(0, "stopped t\nWelcome without an end of lineorchestrate: {\"b\":\"orchestrate: 2\"}\n", "");
        assert_eq!(connection().answer(&output).unwrap(), "{\"b\":\"orchestrate: 2\"}");
        let strange = connection().answer(&said(0, "Welcome!\n", "")).unwrap_err();
        assert!(strange.to_string().contains("Welcome!"), "{strange}");
        let failed = said(3, "", "motd\nerror: no space\n  caused by: full\n");
        let error = connection().answer(&failed).unwrap_err().to_string();
        assert_eq!(error, "`ssh` failed: gpu-7: error: no space; caused by: full");
        let silent = connection().refused(&said(9, "", "")).to_string();
        assert!(silent.ends_with("gpu-7: it ended with code 9 and printed nothing"), "{silent}");
    }
}
