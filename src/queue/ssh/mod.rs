//! Hosts reached by `ssh`, [`SshHost`]. Each is a queue that runs its submissions one after another.
//!
//! A host gets a copy of this program, of the worker and of the files that it needs. There, `orchestrate on-host`
//! starts a run of the submission that outlives the connection, reports its state, and sends results. The host needs no
//! other installation. Between two calls, only the run of the jobs is active there.

#![expect(clippy::disallowed_methods, reason = "files of the project are below the current directory")]

mod connection;
mod push;
mod scripts;
mod words;

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nix::sys::utsname::uname;

use self::connection::{CallOutput, Connection, LONG_PATIENCE, PATIENCE};
use self::push::{Programs, project_archive};
use self::scripts::{enter, install, make, need, need_whole, path_word};
use self::words::{NO_DIRECTORY, NO_PROGRAM};
use super::{Queue, QueueError};
use crate::matrix::{Executor, SshRequest};
use crate::plan::{QueueId, QueuedTask, Submission, quote};
use crate::store::SubmissionFiles;

pub use self::push::PushError;
pub use self::words::{ANSWER, HostAnswer, HostQuestion, HostRun};

/// A directory of a host.
#[derive(Clone, Debug)]
pub struct SshHost {
    connection: Connection,
    request: SshRequest,
    /// The directory, relative to the home if it is not absolute.
    directory: String,
    /// A submission for it, to determine the programs that it needs.
    example: Submission,
    /// The hash of these programs, computed on first use.
    key: Arc<OnceLock<String>>,
}

impl SshHost {
    /// The host of `submission`; `None` if there is no `ssh` here, or if the submission is not for a host.
    pub fn of(submission: &Submission) -> Option<SshHost> {
        let (Executor::Ssh(request), QueueId::Ssh { host, directory }) =
            (&submission.executor, submission.queue())
        else {
            return None;
        };
        let connection = Connection::to(&host)?;
        let (request, example) = (request.clone(), submission.clone());
        Some(SshHost { connection, request, directory, example, key: Arc::default() })
    }

    /// The name of the host for `ssh`.
    pub fn name(&self) -> &str {
        &self.request.host
    }

    /// The same directory, with the settings of the env of `submission`.
    fn for_env_of(&self, submission: &Submission) -> SshHost {
        let Executor::Ssh(request) = &submission.executor else { return self.clone() };
        let (request, example) = (request.clone(), submission.clone());
        SshHost { request, example, key: Arc::default(), ..self.clone() }
    }

    /// Queries the state of submissions and the number of results.
    ///
    /// # Errors
    /// [`QueueError`].
    pub async fn look(&self, question: &HostQuestion) -> Result<HostAnswer, QueueError> {
        let input = serde_json::to_vec(question).unwrap_or_default();
        let Some(said) = self.ask("look", &input, PATIENCE, None).await? else {
            return Ok(HostAnswer::default());
        };
        self.read(&said)
    }

    /// Writes an archive of results to `archive`, as [`crate::store::Store::pack`] makes it, with a limited number of
    /// results. It is a file, since one result can be larger than the memory.
    ///
    /// # Errors
    /// [`QueueError`].
    pub async fn fetch(&self, question: &HostQuestion, archive: &File) -> Result<(), QueueError> {
        let input = serde_json::to_vec(question).unwrap_or_default();
        match self.ask("send", &input, LONG_PATIENCE, Some(archive)).await? {
            Some(said) if said.code == 0 => Ok(()),
            Some(said) => Err(self.connection.refused(&said)),
            None => Err(self.gone()),
        }
    }

    /// Stops everything that the host runs for the matrix or the job called `name`, and waits until it has ended.
    /// Returns whether anything was running.
    ///
    /// # Errors
    /// [`QueueError`].
    pub async fn stop(&self, name: &str) -> Result<bool, QueueError> {
        let input = serde_json::to_vec(name).unwrap_or_default();
        match self.ask("stop", &input, LONG_PATIENCE, None).await? {
            Some(said) => self.read(&said),
            None => Ok(false),
        }
    }

    /// Copies the needed files to the host, and checks the host and the needs of the jobs there, as `doctor` does.
    /// Returns the text, and whether jobs can run.
    ///
    /// # Errors
    /// [`QueueError`].
    pub async fn check(&self) -> Result<HostCheck, QueueError> {
        self.prepare().await?;
        let input = serde_json::to_vec(&self.example).unwrap_or_default();
        let script = self.script(&self.program()?, "check", &self.request.setup);
        let said = self.connection.call(&script, &input, LONG_PATIENCE).await?;
        self.read(&said)
    }

    /// The command that prints the output of the worker of a job on the host, as words.
    ///
    /// # Errors
    /// [`QueueError`].
    pub fn logs_command(&self, job: &str) -> Result<Vec<String>, QueueError> {
        let words = format!("logs {} --store runs", quote(job));
        Ok(self.connection.words(&self.in_directory(&self.program()?, &[], &words)))
    }

    /// Calls `orchestrate on-host` on the host, with its output redirected to `out`, if given. `None` if the directory
    /// does not exist.
    async fn ask(
        &self,
        what: &str,
        input: &[u8],
        patience: Duration,
        out: Option<&File>,
    ) -> Result<Option<CallOutput>, QueueError> {
        let program = self.program()?;
        // `nice`, so that it does not disturb a job. Without `.hosted`, the host never got a submission.
        let script = format!(
            "{}\n[ -d runs/.hosted ] || exit {NO_DIRECTORY}\n{}\nexec nice -n 19 {program} on-host {what} --store runs",
            enter(&self.directory),
            need(&program)
        );
        let unwritable = |error: io::Error| QueueError::Silent { program: "ssh", why: error.to_string() };
        let out = || out.map_or(Ok(Stdio::piped()), |file| Ok(file.try_clone().map_err(unwritable)?.into()));
        let said = self.connection.call_into(&script, input, patience, out()?).await?;
        match said.code {
            NO_DIRECTORY => Ok(None),
            // Another build of this program handed the jobs over.
            NO_PROGRAM => {
                self.install_program().await?;
                self.connection.call_into(&script, input, patience, out()?).await.map(Some)
            }
            _ => Ok(Some(said)),
        }
    }

    fn read<T: for<'de> serde::Deserialize<'de>>(&self, said: &CallOutput) -> Result<T, QueueError> {
        let answer = self.connection.answer(said)?;
        serde_json::from_str(&answer).map_err(|_| QueueError::Strange { program: "ssh", line: answer })
    }

    fn gone(&self) -> QueueError {
        let said = format!("{}: the directory {} does not exist", self.request.host, self.directory);
        QueueError::Refused { program: "ssh", said }
    }

    /// The path of `orchestrate` on the host, quoted for its shell, relative to the directory.
    fn program(&self) -> Result<String, QueueError> {
        match &self.request.program {
            Some(program) => Ok(path_word(program)),
            None => {
                if let Some(key) = self.key.get() {
                    return Ok(format!("{}/orchestrate", place(key)));
                }
                let programs = Programs::of(&self.example).map_err(|error| unreadable(&error))?;
                Ok(format!("{}/orchestrate", place(self.key.get_or_init(|| programs.key))))
            }
        }
    }

    fn script(&self, program: &str, what: &str, setup: &[String]) -> String {
        self.in_directory(program, setup, &format!("on-host {what} --store runs"))
    }

    /// A script that enters the directory, runs `setup`, and executes `program` with these `words`.
    fn in_directory(&self, program: &str, setup: &[String], words: &str) -> String {
        let setup: String = setup.iter().map(|line| format!("{line}\n")).collect();
        format!("{}\n{}\n{setup}exec {program} {words}", enter(&self.directory), need(program))
    }

    /// Creates the directory, and copies the program that is needed to query it. Files that jobs use are unchanged.
    async fn install_program(&self) -> Result<(), QueueError> {
        let script = format!("{} && printf '{ANSWER}\"%s\"\\n' \"$(uname -sm)\"", make(&self.directory));
        let said = self.connection.call(&script, &[], PATIENCE).await?;
        let kind: String = self.read(&said)?;
        match self.request.program {
            Some(_) => self.compare_versions().await,
            None => self.push_programs(&kind).await,
        }
    }

    /// Creates the directory, and copies the programs and the files that are needed there.
    async fn prepare(&self) -> Result<(), QueueError> {
        self.install_program().await?;
        let root = std::env::current_dir().map_err(|error| QueueError::Silent {
            program: "ssh",
            why: format!("the current directory cannot be read: {error}"),
        })?;
        self.push_files(&root).await
    }

    /// Returns an error for another version, whose answers could differ.
    async fn compare_versions(&self) -> Result<(), QueueError> {
        let program = self.program()?;
        let said = self.connection.call(&format!("exec {program} --version"), &[], PATIENCE).await?;
        if said.code != 0 {
            return Err(self.connection.refused(&said));
        }
        let there = String::from_utf8_lossy(&said.out).trim().to_owned();
        let ours = format!("orchestrate {}", env!("CARGO_PKG_VERSION"));
        if !there.lines().last().is_some_and(|line| line.ends_with(&ours)) {
            let said = format!(
                "{}: it has {there:?}, but this is {ours:?}: install this one there",
                self.request.host
            );
            return Err(QueueError::Refused { program: "ssh", said });
        }
        Ok(())
    }

    async fn push_programs(&self, kind: &str) -> Result<(), QueueError> {
        let programs = Programs::of(&self.example).map_err(|error| unreadable(&error))?;
        let place = place(&programs.key);
        let all = [("orchestrate", Some(&programs.orchestrate)), ("worker", programs.worker.as_ref())];
        let sizes = all.map(|(name, bytes)| (format!("{place}/{name}"), bytes.map(Vec::len)));
        let needed = sizes.iter().filter_map(|(path, size)| Some((path.as_str(), (*size)?)));
        let said = self.connection.call(&need_whole(&self.directory, needed), &[], PATIENCE).await?;
        match said.code {
            0 => return Ok(()),
            NO_PROGRAM => {}
            _ => return Err(self.connection.refused(&said)),
        }
        let ours = own_platform();
        if kind != ours {
            let said = format!(
                "{}: it is {kind}, but this orchestrate is for {ours}: install one there, and set `program` to its path",
                self.request.host
            );
            return Err(QueueError::Refused { program: "ssh", said });
        }
        // The program is copied last: if it exists, everything does.
        if let Some(worker) = &programs.worker {
            self.push(&place, "worker", worker, None).await?;
        }
        self.push(&place, "orchestrate", &programs.orchestrate, Some("--version")).await
    }

    /// Copies a program. It gets its final name only when it is complete and was tried.
    async fn push(
        &self,
        place: &str,
        name: &str,
        bytes: &[u8],
        trial: Option<&str>,
    ) -> Result<(), QueueError> {
        let script = install(&self.directory, place, name, bytes.len(), trial);
        let said = self.connection.call(&script, bytes, LONG_PATIENCE).await?;
        if said.code == 0 { Ok(()) } else { Err(self.connection.refused(&said)) }
    }

    async fn push_files(&self, root: &Path) -> Result<(), QueueError> {
        let archive =
            project_archive(&self.example, &self.request, root).map_err(|error| unreadable(&error))?;
        let Some(archive) = archive else { return Ok(()) };
        let script = self.script(&self.program()?, "take", &[]);
        let said = self.connection.call(&script, &archive, LONG_PATIENCE).await?;
        self.read::<serde_json::Value>(&said).map(drop)
    }
}

/// The result of checking a host and the needs of its jobs.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct HostCheck {
    /// The findings, as text.
    pub text: String,
    /// Whether jobs can run.
    pub can_run: bool,
}

/// The path of programs below the directory.
fn place(key: &str) -> String {
    format!(".orchestrate/bin/{key}")
}

/// The system and the processor architecture of this program, as printed by `uname -sm`.
fn own_platform() -> String {
    uname().map_or_else(
        |_| String::new(),
        |name| format!("{} {}", name.sysname().to_string_lossy(), name.machine().to_string_lossy()),
    )
}

fn unreadable(error: &PushError) -> QueueError {
    let why = std::error::Error::source(error).map_or_else(String::new, |source| format!(": {source}"));
    QueueError::Silent { program: "ssh", why: format!("{error}{why}") }
}

impl Queue for SshHost {
    async fn submit(&mut self, submission: &Submission, files: &SubmissionFiles) -> Result<u64, QueueError> {
        // Envs that share a directory can need different files and setups.
        let own = self.for_env_of(submission);
        own.prepare().await?;
        let frozen = files.read_frozen().map_err(|error| QueueError::Silent {
            program: "ssh",
            why: format!("the submission cannot be read: {error}"),
        })?;
        let script = own.script(&own.program()?, "start", &own.request.setup);
        let said = own.connection.call(&script, &frozen, PATIENCE).await?;
        let run: HostRun = own.read(&said)?;
        match run.name == submission.name {
            true => Ok(run.process),
            false => Err(QueueError::Strange { program: "ssh", line: run.name }),
        }
    }

    async fn poll(&mut self, names: &[&str]) -> Result<Vec<QueuedTask>, QueueError> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let answer = self.look(&HostQuestion { names, ..HostQuestion::default() }).await?;
        Ok(answer.tasks())
    }

    async fn cancel(&mut self, _names: &[&str]) -> Result<(), QueueError> {
        let matrix = self.example.plan.matrix.name.to_string();
        self.stop(&matrix).await.map(drop)
    }

    async fn cancel_task(&mut self, _task: &str) -> Result<(), QueueError> {
        self.cancel(&[]).await
    }
}

impl HostAnswer {
    /// The runs, as a queue lists tasks.
    pub fn tasks(&self) -> Vec<QueuedTask> {
        self.runs.iter().map(|run| run.task(&self.host)).collect()
    }
}
