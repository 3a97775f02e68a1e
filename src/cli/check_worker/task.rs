//! The small job for the check of a worker, made from a command or taken from a matrix.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::cli::load::{LoadMatrixError, load_matrix};
use crate::cli::select::SelectArgs;
use crate::cli::{Exit, Failure};
use crate::job::{Device, Job, Key, Kind, ParamValue, Precision, placeholders};
use crate::matrix::{Matrix, Note, check};
use crate::plan::{Plan, expand};
use crate::record::MatrixFacts;

/// The iterations and the warm-up of a small job, for a worker that takes them as arguments.
const SMALL: [(&str, i64); 2] = [("iters", 10), ("warmup", 2)];

/// The network that a command with `{model}` trains, unless the user names one.
const MODEL: &str = "resnet18";

/// The model of a job whose command has no `{model}`.
const NO_MODEL: &str = "worker";

/// The batch, unless the user names one.
const BATCH: u32 = 4;

/// The default time limit of the command.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Which worker is checked, with which job.
#[derive(Debug, clap::Args)]
pub(super) struct TaskArgs {
    /// The worker's command, with placeholders such as `{batch}`, as in `worker.command` of a matrix.
    #[arg(last = true, value_name = "CMD", required_unless_present = "matrix", conflicts_with = "matrix")]
    command: Vec<String>,
    /// Check the worker of this matrix, by its smallest job, instead of CMD.
    #[arg(long, value_name = "FILE")]
    matrix: Option<PathBuf>,
    #[command(flatten)]
    select: SelectArgs,
    /// The value of `{batch}`; 4 by default.
    #[arg(long, value_name = "N", conflicts_with = "matrix")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    batch: Option<u32>,
    /// The value of `{precision}`; fp32 by default.
    #[arg(long, conflicts_with = "matrix")]
    precision: Option<Precision>,
    /// The value of `{device}`: cpu, mps, cuda or cuda:<index>; cpu by default.
    #[arg(long, conflicts_with = "matrix")]
    device: Option<Device>,
    /// The value of a parameter, such as `lr=0.1`; can be repeated. `{iters}` is 10 and `{warmup}` is 2 by default.
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = pair, conflicts_with = "matrix")]
    params: Vec<(String, String)>,
    /// Let the worker inherit this environment variable, or all that begin with a name before `*`; can be repeated.
    #[arg(long, value_name = "NAME", conflicts_with = "matrix")]
    pass: Vec<String>,
    /// Set an environment variable of the worker; can be repeated.
    #[arg(long = "variable", value_name = "NAME=VALUE", value_parser = pair, conflicts_with = "matrix")]
    variables: Vec<(String, String)>,
    /// Stop the worker after this time; 5 minutes by default, or the limit of the matrix.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    timeout: Option<Duration>,
}

/// Splits `NAME=VALUE`.
fn pair(word: &str) -> Result<(String, String), String> {
    let split = word.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = split.ok_or("expected NAME=VALUE, such as `lr=0.1`")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Jobs that can check a worker, and their matrix.
#[derive(Debug)]
pub(super) struct Task {
    /// The jobs, the smallest first.
    pub(super) plan: Plan,
    /// Their matrix, which may contain secrets.
    pub(super) matrix: Matrix,
}

impl TaskArgs {
    /// The jobs that can check the worker.
    ///
    /// # Errors
    /// Exit 2 with all mistakes of the options and the command, 3 with those of the matrix, 4 if the options leave no
    /// job of it.
    pub(super) fn task(&self) -> Result<Task, Failure> {
        let (matrix, facts) = match &self.matrix {
            Some(file) => load_matrix(file).map_err(LoadMatrixError::failure)?,
            None => self.matrix_of_command()?,
        };
        let mut plan = expand(&matrix, facts);
        let selection = self.select.apply(&plan)?;
        let keys = plan.keys().filter(|key| key.kind == Kind::Timing && selection.contains(key));
        let mut keys: Vec<Key> = keys.map(small).collect();
        keys.sort_by_key(|key| (key.batch, key.repeat));
        let mut seen = BTreeSet::new();
        plan.jobs = keys.into_iter().map(Job::new).filter(|job| seen.insert(job.id())).collect();
        for env in plan.envs.values_mut() {
            env.limits.retries = 0;
            env.limits.timeout = self.timeout.unwrap_or(env.limits.timeout);
            // A check measures nothing, so the machine need be neither quiet nor cool.
            env.limits.cool_down = Duration::ZERO;
            env.limits.quiet = None;
            env.limits.max_temperature = None;
        }
        Ok(Task { plan, matrix })
    }

    /// The settings that neither the user nor the command names; they have values because every job needs them.
    pub(super) fn assumed(&self) -> Vec<&'static str> {
        let named = [
            ("model", !self.select.models.is_empty()),
            ("batch", self.batch.is_some()),
            ("precision", self.precision.is_some()),
            ("device", self.device.is_some()),
        ];
        let assumed = named.into_iter().filter(|(name, is_named)| !is_named && !self.asks_for(name));
        assumed.map(|(name, _)| name).filter(|_| self.matrix.is_none()).collect()
    }

    /// Whether the command contains `{name}`.
    fn asks_for(&self, name: &str) -> bool {
        self.command.iter().any(|word| placeholders(word).any(|it| it == name))
    }

    /// A matrix equivalent to the options.
    fn matrix_of_command(&self) -> Result<(Matrix, MatrixFacts), Failure> {
        let only_with_matrix = [("--env", self.select.envs.len()), ("--only", self.select.only.len())];
        if let Some((option, _)) = only_with_matrix.iter().find(|(_, number)| *number > 0) {
            let text = format!("`{option}` selects a job of a matrix, but no matrix is given");
            return Err(
                Failure::new(Exit::Usage, text).hint("leave it out, or name a matrix with `--matrix FILE`")
            );
        }
        let text = self.yaml()?;
        let matrix = check(&text).map_err(|notes| mistakes_failure(&notes))?;
        let facts = MatrixFacts {
            name: matrix.name.clone(),
            path: "check-worker".to_owned(),
            sha256: hex::encode(Sha256::digest(&text)),
        };
        Ok((matrix, facts))
    }

    /// The matrix, in JSON, which is YAML too.
    fn yaml(&self) -> Result<String, Failure> {
        let model = match &self.select.models[..] {
            [] if self.asks_for("model") => MODEL,
            [] => NO_MODEL,
            [model] => model,
            _ => return Err(Failure::new(Exit::Usage, "`--model` is given twice").hint("give it once")),
        };
        let small = SMALL.iter().filter(|(name, _)| self.asks_for(name));
        let mut params: Map<String, Value> =
            small.map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        params.extend(self.params.iter().map(|(name, value)| (name.clone(), scalar(value))));
        let variables: Map<String, Value> =
            self.variables.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        let mut env = json!({
            "device": self.device.unwrap_or(Device::Cpu).to_string(),
            "variables": variables,
        });
        if !self.pass.is_empty() {
            env["pass"] = self.pass.as_slice().into();
        }
        let matrix = json!({
            "name": "check-worker",
            "models": [model],
            "batches": [self.batch.unwrap_or(BATCH)],
            "precisions": [self.precision.unwrap_or(Precision::Fp32).as_str()],
            "repeats": 1,
            "params": params,
            "limits": { "timeout": format!("{}s", TIMEOUT.as_secs()) },
            "worker": { "command": self.command },
            "envs": { "here": env },
        });
        Ok(matrix.to_string())
    }
}

/// The value of a parameter: a number, a switch or a source of images if it is JSON, otherwise a text.
fn scalar(value: &str) -> Value {
    serde_json::from_str(value).unwrap_or_else(|_| value.into())
}

/// The same job with few iterations, if its worker takes their number as an argument.
fn small(key: &Key) -> Key {
    let mut key = key.clone();
    for (name, most) in SMALL {
        let is_passed = key.worker.is_shipped() || key.worker.asks_for(name);
        if let Some(ParamValue::Int(number)) = key.param(name).filter(|_| is_passed)
            && number > most
        {
            key.params.insert(name.into(), ParamValue::Int(most));
        }
    }
    key
}

/// The options and the command have mistakes.
fn mistakes_failure(notes: &[Note]) -> Failure {
    let lines: Vec<String> = notes.iter().map(Note::sentence).collect();
    let text = match &lines[..] {
        [line] => line.clone(),
        lines => {
            format!("the options and the command have {} mistakes\n  {}", lines.len(), lines.join("\n  "))
        }
    };
    Failure::new(Exit::Usage, text).hint("`orchestrate check-worker --help` describes the options")
}
