//! Calls of `ssh`: OpenSSH with the user's own configuration, keys and agent. It is never asked for a password.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::words::ANSWER;
use crate::clean::printable;
use crate::host::find::own_program;
use crate::queue::QueueError;

/// How long a host may take to answer a question.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// How long files may take on their way. A dead connection is noticed much earlier.
pub(super) const LONG_PATIENCE: Duration = Duration::from_secs(3600);

/// What our calls add to the user's configuration: nobody is asked anything, and a dead connection ends by itself. A
/// connection that is open is shared. But ours is never the one that others share, since it would end after them, and
/// it forwards nothing, since a port that is taken can end it.
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

/// The most letters of what a program said that are repeated.
const LONGEST: usize = 500;

/// A host that `ssh` reaches.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    program: PathBuf,
    host: String,
}

/// What a program on the other host printed.
pub(super) struct Said {
    /// Its exit code.
    pub(super) code: i32,
    /// What it printed, unless that went elsewhere.
    pub(super) out: Vec<u8>,
    err: Vec<u8>,
}

impl Connection {
    /// To `host`; `None` if there is no `ssh`.
    pub(super) fn to(host: &str) -> Option<Connection> {
        Some(Connection { program: own_program("ssh")?, host: host.to_owned() })
    }

    /// The call of `ssh` that runs `script` there, as words.
    pub(super) fn words(&self, script: &str) -> Vec<String> {
        let mut words = vec![self.program.display().to_string()];
        words.extend(OPTIONS.map(str::to_owned));
        words.extend([self.host.clone(), for_any_shell(script)]);
        words
    }

    /// Runs `script` there, with `input`, and waits until it ends.
    ///
    /// # Errors
    /// The host cannot be reached, or does not answer in time.
    pub(super) async fn call(
        &self,
        script: &str,
        input: &[u8],
        patience: Duration,
    ) -> Result<Said, QueueError> {
        self.call_into(script, input, patience, Stdio::piped()).await
    }

    /// The same, but what it prints goes to `out`.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub(super) async fn call_into(
        &self,
        script: &str,
        input: &[u8],
        patience: Duration,
        out: Stdio,
    ) -> Result<Said, QueueError> {
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

    async fn run(&self, script: &str, input: &[u8], out: Stdio) -> std::io::Result<Said> {
        let words = self.words(script);
        let mut child = Command::new(&self.program)
            .args(&words[1..])
            .env("LC_ALL", "C")
            // Ctrl-C is for us: what happens to the call is decided here.
            .process_group(0)
            .kill_on_drop(true)
            .stdin(Stdio::piped())
            .stdout(out)
            .stderr(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take();
        let feed = async {
            if let Some(mut stdin) = stdin {
                // Whoever ends without reading says why.
                let _ = stdin.write_all(input).await;
                let _ = stdin.shutdown().await;
            }
        };
        let (output, ()) = tokio::join!(child.wait_with_output(), feed);
        let output = output?;
        Ok(Said { code: code(output.status), out: output.stdout, err: output.stderr })
    }

    fn silent(&self, why: String) -> QueueError {
        QueueError::Silent { program: "ssh", why: format!("{}: {why}", self.host) }
    }

    /// Why a program there did not do what it was asked for.
    pub(super) fn refused(&self, said: &Said) -> QueueError {
        QueueError::Refused { program: "ssh", said: format!("{}: {}", self.host, said.why()) }
    }

    /// The last answer in what a program there printed, without its beginning.
    ///
    /// # Errors
    /// It failed, or there is none.
    pub(super) fn answer(&self, said: &Said) -> Result<String, QueueError> {
        if said.code != 0 {
            return Err(self.refused(said));
        }
        let text = String::from_utf8_lossy(&said.out);
        // What a shell prints when it starts may lack its end of line.
        let answer = text.lines().rev().find_map(|line| line.split_once(ANSWER));
        answer.map(|(_, answer)| answer.to_owned()).ok_or_else(|| {
            let line = text.lines().last().unwrap_or_default().chars().take(LONGEST).collect();
            QueueError::Strange { program: "ssh", line }
        })
    }
}

impl Said {
    /// What it said on standard error, without the noise before its last words.
    fn why(&self) -> String {
        let text = String::from_utf8_lossy(&self.err);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        // Our own errors begin like this, and are followed by their causes.
        let from = lines.iter().position(|line| line.starts_with("error: "));
        let from = from.unwrap_or(lines.len().saturating_sub(1));
        let words = lines[from..].join("; ");
        let words: String = printable(&words).chars().take(LONGEST).collect();
        if words.is_empty() { format!("it ended with code {} and said nothing", self.code) } else { words }
    }
}

/// A line that runs `script`, whatever shell it is given to. Within quotes, csh knows no end of line and obeys `!`, and
/// fish obeys some backslashes. So these are written as numbers, and `sh` puts them back.
fn for_any_shell(script: &str) -> String {
    let plain = |byte: u8| byte == b' ' || byte.is_ascii_graphic() && !b"'\\!".contains(&byte);
    let letter = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("\\0{byte:03o}") };
    let script: String = script.bytes().map(letter).collect();
    format!("exec sh -c 'eval \"$(printf %b \"$1\")\"' sh '{script}'")
}

/// An exit code, as a shell counts them.
fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: i32, out: &str, err: &str) -> Said {
        Said { code, out: out.into(), err: err.into() }
    }

    fn connection() -> Connection {
        Connection { program: "ssh".into(), host: "gpu-7".into() }
    }

    /// In csh, a word has no end of line, and `!` means something within quotes. In fish, a backslash does. Those that
    /// are here are asked.
    #[test]
    fn a_script_means_the_same_to_any_login_shell() {
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
    fn what_the_user_told_ssh_disturbs_no_call() {
        let words = connection().words("true");
        // A call that others share would wait for their end, and a port that is taken would end it.
        for option in ["BatchMode=yes", "ControlMaster=no", "ClearAllForwardings=yes"] {
            assert!(words.contains(&option.to_owned()), "{words:?}");
        }
    }

    #[test]
    fn an_answer_is_found_behind_what_a_shell_prints() {
        let told = said(0, "Welcome!\norchestrate: {\"a\":1}\n", "");
        assert_eq!(connection().answer(&told).unwrap(), "{\"a\":1}");
        let told =
            said(0, "stopped t\nWelcome without an end of lineorchestrate: {\"b\":\"orchestrate: 2\"}\n", "");
        assert_eq!(connection().answer(&told).unwrap(), "{\"b\":\"orchestrate: 2\"}");
        let strange = connection().answer(&said(0, "Welcome!\n", "")).unwrap_err();
        assert!(strange.to_string().contains("Welcome!"), "{strange}");
        let failed = said(3, "", "motd\nerror: no space\n  caused by: full\n");
        let error = connection().answer(&failed).unwrap_err().to_string();
        assert_eq!(error, "`ssh` failed: gpu-7: error: no space; caused by: full");
        let silent = connection().refused(&said(9, "", "")).to_string();
        assert!(silent.ends_with("gpu-7: it ended with code 9 and said nothing"), "{silent}");
    }
}
