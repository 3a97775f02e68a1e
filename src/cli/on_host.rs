//! `orchestrate on-host`: answers questions of another `orchestrate` over `ssh`. Not for users.
//!
//! | question | standard input | action |
//! |---|---|---|
//! | `take` | an archive | puts files of the project in their places |
//! | `check` | a submission | describes this host, and the unmet needs of the jobs |
//! | `start` | a sealed submission | begins a run that outlives the connection |
//! | `look` | a question | returns the states of runs, and the number of new results |
//! | `send` | a question | writes an archive of results |
//! | `stop` | a name of a matrix or a job | ends its runs, waits for their end, and returns whether there were any |
//!
//! An answer is a line of JSON after [`ANSWER`].
#![expect(clippy::disallowed_methods, reason = "starts a process and records its time")]

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use chrono::{SecondsFormat, Utc};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::doctor::needs_of;
use super::output::{print_whole, unprintable};
use super::run_task::{TaskEnd, run_submission};
use super::stop::stop_named;
use super::{Exit, Failure, Global};
use crate::files::from_sealed_json;
use crate::host::hostname;
use crate::lock::Identity;
use crate::plan::{Leftovers, Submission};
use crate::queue::{ANSWER, HostAnswer, HostCheck, HostQuestion, HostRun};
use crate::store::{RunBegin, RunEnd, Store, StoreError, unpack};
use crate::text::with_causes;

/// The arguments of `orchestrate on-host`.
#[derive(Debug, clap::Args)]
pub(super) struct OnHostArgs {
    /// The question.
    #[arg(value_enum)]
    what: What,
    /// The name of the submission to run.
    name: Option<String>,
}

/// The questions.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum What {
    /// To take files of the project.
    Take,
    /// The unmet needs of its jobs.
    Check,
    /// To begin a run.
    Start,
    /// To be such a run.
    Run,
    /// The states of runs.
    Look,
    /// Results.
    Send,
    /// To end a matrix's runs.
    Stop,
}

/// Answers one question.
pub(super) fn run(args: &OnHostArgs, global: &Global) -> Result<Exit, Failure> {
    match (args.what, &args.name) {
        (What::Take, _) => {
            unpack(io::stdin().lock(), Path::new("."))?;
            answer(&true)
        }
        (What::Check, _) => check(&read()?, global),
        (What::Start, _) => start(global),
        (What::Run, Some(name)) => execute_run(name, global),
        (What::Run, None) => Err(Failure::new(Exit::Usage, "`on-host run` needs the name of a submission")),
        (What::Look, _) => look(&read()?, &store(global)?),
        (What::Send, _) => send(&read()?, &store(global)?),
        (What::Stop, _) => {
            let name: String = read()?;
            answer(&stop_named(&name, global)?)
        }
    }
}

fn store(global: &Global) -> Result<Store, Failure> {
    Store::create(&global.store).map_err(Failure::store)
}

/// The JSON in standard input.
fn read<T: DeserializeOwned>() -> Result<T, Failure> {
    let bytes = all_of_stdin()?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Failure::new(Exit::Usage, format!("invalid question: {error}")))
}

/// The longest question: the digests of a hundred thousand results.
const LONGEST: u64 = 1 << 30;

fn all_of_stdin() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::stdin().lock().take(LONGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn answer(what: &impl Serialize) -> Result<Exit, Failure> {
    let json = serde_json::to_string(what).map_err(io::Error::from)?;
    print_whole(&format!("{ANSWER}{json}\n"))?;
    Ok(Exit::Done)
}

fn check(submission: &Submission, global: &Global) -> Result<Exit, Failure> {
    let (text, can_run) = needs_of(&submission.plan, global)?;
    answer(&HostCheck { text, can_run })
}

/// How long a run may take to begin: a program on a network file system takes some seconds to load.
const PATIENCE: Duration = Duration::from_secs(45);

/// The interval of checks whether it has begun.
const LOOK: Duration = Duration::from_millis(20);

/// Begins the run of a submission, unless it began before.
fn start(global: &Global) -> Result<Exit, Failure> {
    let bytes = all_of_stdin()?;
    let submission: Submission =
        from_sealed_json(&bytes).map_err(|error| Failure::new(Exit::Usage, error))?;
    let store = store(global)?;
    let files = store.hosted_files(&submission.name);
    if !files.frozen().exists() {
        store.save_plan(&submission.plan).map_err(Failure::store)?;
        match store.receive(&submission) {
            // Another process hands over the same submission.
            Err(error) if error.source.kind() == io::ErrorKind::AlreadyExists => {}
            other => drop(other.map_err(|error| Failure::store(StoreError::Write(error)))?),
        }
    }
    if let Some(run) = load_run(&store, &submission.name)? {
        return answer(&run);
    }
    let output = files.printed().join(&submission.name);
    let mut child = spawn(&submission.name, &store, &output)?;
    let began = Instant::now();
    loop {
        // This run may have been started by another process.
        if let Some(run) = load_run(&store, &submission.name)? {
            return answer(&run);
        }
        let ended = child.try_wait()?;
        if ended.is_some() && load_run(&store, &submission.name)?.is_none() || began.elapsed() >= PATIENCE {
            let printed = fs::read_to_string(&output).unwrap_or_default();
            let last_line = printed.lines().last().unwrap_or("it printed nothing").to_owned();
            return Err(Failure::new(Exit::Unexpected, format!("the run did not begin: {last_line}")));
        }
        thread::sleep(LOOK);
    }
}

/// Starts `on-host run`. It outlives this process and the connection, because it shares no open files with them.
fn spawn(name: &str, store: &Store, output: &Path) -> io::Result<Child> {
    let out = OpenOptions::new().create(true).append(true).open(output)?;
    Command::new(std::env::current_exe()?)
        .args(["on-host", "run", name, "--store"])
        .arg(store.root())
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out)
        .spawn()
}

/// Runs the jobs of a submission, in a new session.
fn execute_run(name: &str, global: &Global) -> Result<Exit, Failure> {
    // This fails only if the process already leads a group, and then no terminal can be taken away from it.
    let _ = nix::unistd::setsid();
    let store = store(global)?;
    let files = store.hosted_files(name);
    let begin = RunBegin {
        process: u64::from(std::process::id()),
        at: Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true),
        who: Some(Identity::of_this_process(name)),
    };
    let write = |error| Failure::store(StoreError::Write(error));
    let Some(held) = files.begin_run(&begin).map_err(write)? else { return Ok(Exit::Done) };
    let (end, ended) = match run_submission(&files, 0, global) {
        Ok(TaskEnd { exit, stopped_by }) => (RunEnd { code: exit.code(), stopped_by }, Ok(exit)),
        Err(failure) => (RunEnd { code: failure.exit.code(), stopped_by: None }, Err(failure)),
    };
    files.end_run(&held, &end).map_err(write)?;
    ended
}

/// The run of the submission called `name`, if one began.
fn load_run(store: &Store, name: &str) -> Result<Option<HostRun>, Failure> {
    let files = store.hosted_files(name);
    let Some((begin, state)) = files.run_state()? else { return Ok(None) };
    let left = files.load_leftovers(0).map_err(|error| Failure::new(Exit::StoreUnusable, error))?;
    Ok(Some(HostRun {
        name: name.to_owned(),
        process: begin.process,
        began: begin.at,
        state,
        left: left.map(|Leftovers { jobs, .. }| jobs).unwrap_or_default(),
    }))
}

fn look(question: &HostQuestion, store: &Store) -> Result<Exit, Failure> {
    let mut found = HostAnswer { host: hostname(), ..HostAnswer::default() };
    // Results are counted after the states are read, because a run that is over makes no more results.
    for name in &question.names {
        found.runs.extend(load_run(store, name)?);
    }
    for submission in submissions(question, store)? {
        found.results += store.new_results(submission.plan.jobs.iter(), &question.had);
    }
    answer(&found)
}

/// The most bytes of results in one answer. The other side asks again for the rest.
const PARCEL: u64 = 64 << 20;

fn send(question: &HostQuestion, store: &Store) -> Result<Exit, Failure> {
    let submissions = submissions(question, store)?;
    let jobs = submissions.iter().flat_map(|it| &it.plan.jobs);
    let mut out = io::BufWriter::new(io::stdout().lock());
    store.pack(jobs, &question.had, PARCEL, &mut out).and_then(|_| out.flush()).map_err(unprintable)?;
    Ok(Exit::Done)
}

/// The submissions of `question` that have arrived here.
fn submissions(question: &HostQuestion, store: &Store) -> Result<Vec<Submission>, Failure> {
    let mut found = Vec::new();
    for name in &question.names {
        let files = store.hosted_files(name);
        if files.frozen().exists() {
            found.push(files.load().map_err(|error| Failure::new(Exit::StoreUnusable, with_causes(&error)))?);
        }
    }
    Ok(found)
}
