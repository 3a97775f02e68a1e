//! `where` of an env: the executor that starts its jobs.
//!
//! An [`Executor`] is part of no job's key, so changing it repeats no job.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::keys::{self, PACK, RETRIES, SHORTEST_TASK, THROTTLE};
use super::note::{Notes, Span, Spanned};
use super::reader::{check_keys, count, duration, entries, get, mismatch, text, word};
use super::sbatch::check_option;
use super::shell::{shell_line, texts};
use super::ssh::{SshRequest, read_ssh};
use super::tree::{Entry, Node, Value};
use crate::job::Device;
use crate::record::contains_password;

/// The system that starts the jobs of an env.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Executor {
    /// The `orchestrate` that runs the matrix, on its own host.
    #[default]
    Local,
    /// Slurm, on its nodes.
    Slurm(SlurmRequest),
    /// A host that OpenSSH reaches.
    Ssh(SshRequest),
}

impl Executor {
    /// Whether jobs start on the host of the `orchestrate` that runs the matrix.
    pub fn is_local(&self) -> bool {
        matches!(self, Executor::Local)
    }

    /// Its name in messages: `Slurm`, or the host.
    pub fn name(&self) -> &str {
        match self {
            Executor::Local => "this host",
            Executor::Slurm(_) => "Slurm",
            Executor::Ssh(request) => &request.host,
        }
    }

    /// How often jobs that it lost are handed over again.
    pub fn retries(&self) -> u32 {
        match self {
            Executor::Local => 0,
            Executor::Slurm(request) => request.retries,
            Executor::Ssh(request) => request.retries,
        }
    }

    /// The number of jobs per task, at least 1. A host reached by `ssh` gets all jobs of its env as one task.
    pub fn pack(&self) -> usize {
        match self {
            Executor::Slurm(request) => usize::try_from(request.pack).unwrap_or(usize::MAX).max(1),
            Executor::Local | Executor::Ssh(_) => usize::MAX,
        }
    }
}

/// The request to Slurm for the jobs of an env. A task runs one or more jobs, one after another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlurmRequest {
    /// The partition.
    pub partition: Option<String>,
    /// The account that is charged.
    pub account: Option<String>,
    /// The quality of service.
    pub qos: Option<String>,
    /// The generic resources of a task, such as `gpu:1`.
    pub gres: Option<String>,
    /// The features that a node must have.
    pub constraint: Option<String>,
    /// Whether a task has its node to itself.
    pub exclusive: bool,
    /// Slurm's time limit of a task, in whole seconds, and no shorter than the time limit of a job.
    pub time: Option<Duration>,
    /// The number of jobs per task, at least 1.
    pub pack: u32,
    /// The most tasks that run at a time, at least 1.
    pub throttle: Option<u32>,
    /// How often a task that Slurm lost is submitted again.
    pub retries: u32,
    /// The lines of shell before the first job of a task. None has a line break.
    pub setup: Vec<String>,
    /// Further options of `sbatch`, each with its value. None has a line break.
    pub options: Vec<String>,
    /// The image of an Apptainer container in which tasks run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
}

impl Default for SlurmRequest {
    fn default() -> Self {
        SlurmRequest {
            partition: None,
            account: None,
            qos: None,
            gres: None,
            constraint: None,
            exclusive: true,
            time: None,
            pack: 1,
            throttle: None,
            retries: 3,
            setup: Vec::new(),
            options: Vec::new(),
            container: None,
        }
    }
}

/// The declared `where`.
#[derive(Debug, Default)]
pub(super) struct ExecutorFile {
    pub(super) declared: Executor,
    span: Span,
    /// Slurm's time limit as the file has it.
    time: Option<Spanned<String>>,
}

impl ExecutorFile {
    /// Notes a device or an operating system of the env that contradicts its `where`.
    pub(super) fn check_system(&self, device: Option<Device>, os: Option<&str>, notes: &mut Notes) {
        if !matches!(self.declared, Executor::Slurm(_)) {
            return;
        }
        if device == Some(Device::Mps) {
            notes.add(self.span, "slurm", "runs on Linux, but this env's device is `mps`");
        }
        if os == Some("macos") {
            notes.add(self.span, "slurm", "runs on Linux, but this env's `os` is `macos`");
        }
    }

    /// Notes a time limit of Slurm that is shorter than `timeout`, the time limit of a job.
    pub(super) fn check_time(&self, timeout: Duration, notes: &mut Notes) {
        let (Executor::Slurm(request), Some(word)) = (&self.declared, &self.time) else { return };
        if request.time.is_some_and(|time| time < timeout) {
            let timeout = humantime::format_duration(timeout);
            let message = format!(
                "is less than `timeout` in `limits`, which is {timeout}: Slurm would end a job before its own limit, \
                 and the job would count as lost"
            );
            let hint = format!("raise `time` to at least `{timeout}`, or shorten `timeout`");
            notes.add_with_hint(word.span, &word.value, message, Some(hint));
        }
    }
}

/// Reads `where`.
pub(super) fn read_executor(node: &Node, notes: &mut Notes) -> ExecutorFile {
    let local = ExecutorFile { span: node.span, ..ExecutorFile::default() };
    match &node.value {
        Value::Text(_) => match word(node, keys::EXECUTORS, notes) {
            Some("slurm") => ExecutorFile { declared: Executor::Slurm(SlurmRequest::default()), ..local },
            Some("ssh") => {
                let hint = "write `where: { ssh: { host: NAME } }`".to_owned();
                notes.add_with_hint(node.span, "ssh", "needs a host", Some(hint));
                local
            }
            _ => local,
        },
        Value::Map(map) if !map.is_empty() => {
            check_keys(map, &[keys::WHERE], "`where`", notes);
            read_map(map, node.span, notes).unwrap_or(local)
        }
        _ => {
            mismatch(
                node,
                "`local`, `slurm`, `{ slurm: { partition: gpu } }` or `{ ssh: { host: NAME } }`",
                notes,
            );
            local
        }
    }
}

/// Reads a `where` that is a map; `None` if nothing in it can be used.
fn read_map(map: &[Entry], span: Span, notes: &mut Notes) -> Option<ExecutorFile> {
    match (get(map, "slurm"), get(map, "ssh")) {
        (Some(_), Some(_)) => {
            notes.add(span, "where", "names both `slurm` and `ssh`: the jobs of an env run in one place");
            None
        }
        (Some(node), None) => Some(read_slurm(node, notes)),
        (None, Some(node)) => {
            let declared = Executor::Ssh(read_ssh(node, notes)?);
            Some(ExecutorFile { declared, span: node.span, time: None })
        }
        (None, None) => None,
    }
}

fn read_slurm(node: &Node, notes: &mut Notes) -> ExecutorFile {
    let map = entries(node, "what to ask Slurm for, such as `{ partition: gpu, time: 2h }`", notes);
    check_keys(map, &[keys::SLURM], "`slurm`", notes);
    let default = SlurmRequest::default();
    let request = SlurmRequest {
        partition: name(map, "partition", "a partition's name", notes),
        account: name(map, "account", "an account's name", notes),
        qos: name(map, "qos", "the name of a quality of service", notes),
        gres: name(map, "gres", "generic resources, such as `gpu:1`", notes),
        constraint: name(map, "constraint", "features of a node, such as `a100`", notes),
        exclusive: get(map, "exclusive").and_then(|node| switch(node, notes)).unwrap_or(default.exclusive),
        time: get(map, "time").and_then(|node| time(node, notes)),
        pack: number(map, "pack", PACK, notes).unwrap_or(default.pack),
        throttle: number(map, "throttle", THROTTLE, notes),
        retries: number(map, "retries", RETRIES, notes).unwrap_or(default.retries),
        setup: texts(get(map, "setup"), "a list of lines of shell", notes, shell_line),
        options: texts(get(map, "options"), "a list of options of `sbatch`", notes, option),
        container: get(map, "container").and_then(|node| image(node, notes)),
    };
    let time = get(map, "time").map(|node| Spanned { value: node.value.word(), span: node.span });
    ExecutorFile { declared: Executor::Slurm(request), span: node.span, time }
}

/// A word that becomes the value of an option of `sbatch`.
fn name(map: &[Entry], key: &str, what: &str, notes: &mut Notes) -> Option<String> {
    let name = text(get(map, key)?, what, notes)?;
    if name.value.starts_with('-') || name.value.contains(char::is_whitespace) {
        notes.add(
            name.span,
            &name.value,
            format!("expected {what}: one word without spaces, not beginning with `-`"),
        );
        return None;
    }
    Some(name.value)
}

/// The path of a container's image.
fn image(node: &Node, notes: &mut Notes) -> Option<String> {
    let image = text(node, "the path of a container's image, such as `orchestrate.sif`", notes)?;
    if image.value.starts_with('-') {
        notes.add(
            image.span,
            &image.value,
            "expected the path of a container's image, not beginning with `-`",
        );
        return None;
    }
    Some(image.value)
}

fn number(map: &[Entry], key: &str, range: RangeInclusive<i64>, notes: &mut Notes) -> Option<u32> {
    count(get(map, key)?, range, notes).map(|number| number.value)
}

fn switch(node: &Node, notes: &mut Notes) -> Option<bool> {
    let Value::Bool(on) = node.value else {
        mismatch(node, "`true` or `false`", notes);
        return None;
    };
    Some(on)
}

/// A time limit of Slurm, which knows no parts of a second.
fn time(node: &Node, notes: &mut Notes) -> Option<Duration> {
    let time = duration(node, SHORTEST_TASK, notes)?;
    if time.subsec_nanos() != 0 {
        mismatch(node, "a duration in whole seconds", notes);
        return None;
    }
    Some(time)
}

fn option(node: &Node, notes: &mut Notes) -> Option<String> {
    let option = text(node, "an option of `sbatch` with its value, such as `--mem=0`", notes)?;
    if contains_password("", &option.value) {
        notes.add(
            option.span,
            &option.value,
            "contains a secret, but options of `sbatch` are saved as clear text",
        );
        return None;
    }
    check_option(&option, notes).then_some(option.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Matrix, Note, check};

    fn matrix(env: &str) -> Result<Matrix, Vec<Note>> {
        check(&format!(
            "name: t\nmodels: [resnet18]\nbatches: [4]\nlimits: {{ timeout: 10m }}\n\
             envs: {{ e: {{ device: cpu{env} }} }}\n"
        ))
    }

    fn executor(env: &str) -> Executor {
        matrix(env).unwrap().envs[0].executor.clone()
    }

    fn request(slurm: &str) -> SlurmRequest {
        match executor(&format!(", where: {{ slurm: {slurm} }}")) {
            Executor::Slurm(request) => request,
            other => panic!("expected a request to Slurm for {slurm}, not {other:?}"),
        }
    }

    /// The only mistake in `env`.
    fn mistake(env: &str) -> String {
        let notes = matrix(env).unwrap_err();
        assert_eq!(notes.len(), 1, "{env}: {notes:?}");
        notes[0].sentence()
    }

    #[test]
    fn an_env_without_where_is_local() {
        assert!(executor("").is_local());
        assert!(executor(", where: local").is_local());
    }

    #[test]
    fn empty_requests_to_slurm_have_three_spellings() {
        let default = Executor::Slurm(SlurmRequest::default());
        for env in [", where: slurm", ", where: { slurm: {} }", ", where: { slurm: null }"] {
            assert_eq!(executor(env), default, "{env}");
        }
        let asked = request("{ setup: null, options: ~ }");
        assert_eq!(asked, SlurmRequest::default());
        assert_eq!((asked.exclusive, asked.pack, asked.retries), (true, 1, 3));
    }

    #[test]
    fn every_key_is_read() {
        let asked = request(
            "{ partition: gpu, account: proj1, qos: high, gres: \"gpu:1\", constraint: \"a100&nvlink\", \
             exclusive: false, time: 1h 30m, pack: 10, throttle: 4, retries: 0, \
             setup: [module load cuda/12, \"export A_TOKEN=$(cat x)\"], options: [\"--mem=0\", -c8, \"--nice\"], \
             container: images/a.sif }",
        );
        let text = |word: &str| Some(word.to_owned());
        let expected = SlurmRequest {
            partition: text("gpu"),
            account: text("proj1"),
            qos: text("high"),
            gres: text("gpu:1"),
            constraint: text("a100&nvlink"),
            exclusive: false,
            time: Some(Duration::from_secs(5400)),
            pack: 10,
            throttle: Some(4),
            retries: 0,
            setup: vec!["module load cuda/12".to_owned(), "export A_TOKEN=$(cat x)".to_owned()],
            options: ["--mem=0", "-c8", "--nice"].map(str::to_owned).into(),
            container: text("images/a.sif"),
        };
        assert_eq!(asked, expected);
    }

    #[test]
    fn each_mistake_is_reported_once() {
        for (env, message) in [
            ("where: slrum", "did you mean `slurm`?"),
            ("where: ~", "expected `local`, `slurm`, `{ slurm:"),
            ("where: {}", "expected `local`, `slurm`, `{ slurm:"),
            ("where: [slurm]", "expected `local`, `slurm`, `{ slurm:"),
            ("where: { slrum: {} }", "is not a key of `where` (did you mean `slurm`?)"),
            ("where: ssh", "needs a host (write `where: { ssh: { host: NAME } }`)"),
            ("where: { slurm: {}, ssh: { host: a } }", "names both `slurm` and `ssh`"),
            ("where: { slurm: { container: -x } }", "expected the path of a container's image"),
            ("where: { slurm: gpu }", "expected what to ask Slurm for"),
            ("where: { slurm: { partitoin: a } }", "is not a key of `slurm` (did you mean `partition`?)"),
            ("where: { slurm: { partition: ~ } }", "expected a partition's name"),
            ("where: { slurm: { account: 17 } }", "if you mean text, put it in quotes: \"17\""),
            ("where: { slurm: { qos: a b } }", "one word without spaces"),
            ("where: { slurm: { gres: -x } }", "not beginning with `-`"),
            ("where: { slurm: { constraint: \"a\\tb\" } }", "expected features of a node"),
            ("where: { slurm: { exclusive: user } }", "expected `true` or `false`"),
            ("where: { slurm: { time: 59s } }", "a duration from 1m to 30 days"),
            ("where: { slurm: { time: 600500ms } }", "a duration in whole seconds"),
            ("where: { slurm: { time: 7200 } }", "did you mean `7200s`?"),
            ("where: { slurm: { pack: 0 } }", "from 1 to 10000"),
            ("where: { slurm: { throttle: 100001 } }", "from 1 to 100000"),
            ("where: { slurm: { retries: -1 } }", "from 0 to 100"),
            ("where: { slurm: { setup: module load a } }", "write `[module load a]`"),
            ("where: { slurm: { setup: [] } }", "expected a list of lines of shell"),
            ("where: { slurm: { setup: [\"a\\nb\"] } }", "expected one line of shell"),
            ("where: { slurm: { setup: [\"#SBATCH --mem=0\"] } }", "write it under `options`"),
            ("where: { slurm: { options: [\"--mem=0\", 0] } }", "expected an option of `sbatch`"),
            ("where: { slurm: { options: [--mem, x] } }", "which begins with `-`"),
            ("where: { slurm: { options: [-pgpu] } }", "has its own key: write `partition:`"),
            ("device: mps, where: slurm", "this env's device is `mps`"),
            ("os: macos, where: slurm", "this env's `os` is `macos`"),
        ] {
            let env = if env.starts_with("device") { env.to_owned() } else { format!("device: cpu, {env}") };
            let text = format!("name: t\nmodels: [resnet18]\nbatches: [4]\nenvs: {{ e: {{ {env} }} }}\n");
            let notes = check(&text).unwrap_err();
            assert_eq!(notes.len(), 1, "{env}: {notes:?}");
            let sentence = notes[0].sentence();
            assert!(sentence.contains(message), "{env}: {sentence}");
        }
    }

    #[test]
    fn slurm_must_not_end_a_job_before_its_own_limit() {
        assert_eq!(request("{ time: 10m }").time, Some(Duration::from_secs(600)));
        let message = mistake(", where: { slurm: { time: 599s } }");
        assert!(message.starts_with("`599s` is less than `timeout` in `limits`, which is 10m"), "{message}");
        assert!(message.ends_with("(raise `time` to at least `10m`, or shorten `timeout`)"), "{message}");
        assert!(matrix(", where: { slurm: { time: 2m } }, limits: { timeout: 2m }").is_ok());
        assert!(mistake(", where: { slurm: { time: 2m } }, limits: { timeout: 121s }").contains("2m 1s"));
        // The intended limit is unknown.
        let message = mistake(", where: { slurm: { time: 2m } }, limits: { timeout: 1 }");
        assert!(message.contains("did you mean `1s`?"), "{message}");
    }

    #[test]
    fn a_secret_is_refused_and_not_shown() {
        for wish in [
            "setup: [export HF_TOKEN=hush]",
            "setup: [\"cd x; WANDB_API_KEY='hush' DB_PASS=hush y\"]",
            "setup: [curl https://me:hush@host/x]",
            "options: [\"--wckey=https://me:hush@host\"]",
        ] {
            let message = mistake(&format!(", where: {{ slurm: {{ {wish} }} }}"));
            assert!(message.contains("contains a secret") && !message.contains("hush"), "{wish}: {message}");
        }
        for line in [
            "export HF_TOKEN=$(cat ~/.token)",
            "export HF_TOKEN=\"$OTHER_TOKEN\"",
            "export HF_TOKEN=`cat x`",
            "unset HF_TOKEN; HF_TOKEN= x",
            "sort --key=2 x > y",
            "export SORT_BY=label",
            "git clone ssh://git@host/x",
        ] {
            let line = line.replace('"', "\\\"");
            assert_eq!(request(&format!("{{ setup: [\"{line}\"] }}")).setup.len(), 1, "{line}");
        }
    }

    #[test]
    fn a_saved_request_is_read_back_and_an_older_one_has_the_defaults() {
        let asked = Executor::Slurm(request("{ partition: gpu, time: 2h, options: [\"--mem=0\"] }"));
        for executor in [Executor::Local, asked] {
            let json = serde_json::to_string(&executor).unwrap();
            assert_eq!(serde_json::from_str::<Executor>(&json).unwrap(), executor);
        }
        assert_eq!(serde_json::to_string(&Executor::Local).unwrap(), "\"local\"");
        let bare: Executor = serde_json::from_str("{\"slurm\":{}}").unwrap();
        assert_eq!(bare, Executor::Slurm(SlurmRequest::default()));
    }
}
