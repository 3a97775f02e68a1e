//! `orchestrate check`: reports the number of configs and jobs of a matrix, or its mistakes.

use std::path::PathBuf;

use serde::Serialize;

use super::load::{LoadMatrixError, load_matrix};
use super::output::{print, print_json};
use super::{Exit, Failure, Global};
use crate::matrix::{Env, Matrix, Note};
use crate::text::{count_text, jobs_text};

/// The arguments of `orchestrate check`.
#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
    /// The matrix file.
    #[arg(value_name = "FILE")]
    matrix: PathBuf,
    /// Print the results or the mistakes as JSON.
    #[arg(long)]
    json: bool,
}

/// The results, as `--json` prints them.
#[derive(Debug, Serialize)]
struct Checked {
    /// The file as given.
    file: String,
    /// Whether the file is a matrix without mistakes.
    valid: bool,
    /// The matrix's name; absent if there are mistakes.
    name: Option<String>,
    /// The number of configs and jobs of each env.
    envs: Vec<CheckedEnv>,
    /// The number of configs in all envs.
    configs: usize,
    /// The number of jobs in all envs, at most.
    jobs: usize,
    /// The number of jobs if adaptive repeats stop as early as possible.
    jobs_at_least: usize,
    /// All mistakes, in the order of the file.
    mistakes: Vec<Note>,
}

#[derive(Debug, Serialize)]
struct CheckedEnv {
    name: String,
    device: String,
    configs: usize,
    jobs: usize,
    jobs_at_least: usize,
}

/// Prints the number of configs and jobs, or fails with all mistakes.
pub(super) fn run(args: CheckArgs, _global: &Global) -> Result<Exit, Failure> {
    let file = args.matrix.display().to_string();
    match load_matrix(&args.matrix) {
        Ok((matrix, _)) => {
            let checked = summary(&file, &matrix);
            if args.json {
                print_json(&checked)?
            } else {
                print(&table(&checked))?
            }
            Ok(Exit::Done)
        }
        Err(LoadMatrixError::Invalid(invalid)) if args.json => {
            print_json(&Checked {
                file,
                valid: false,
                name: None,
                envs: Vec::new(),
                configs: 0,
                jobs: 0,
                jobs_at_least: 0,
                mistakes: invalid.notes,
            })?;
            Ok(Exit::MatrixInvalid)
        }
        Err(error) => Err(error.failure()),
    }
}

fn summary(file: &str, matrix: &Matrix) -> Checked {
    let empty = |env: &Env| CheckedEnv {
        name: env.name.to_string(),
        device: env.device.to_string(),
        configs: 0,
        jobs: 0,
        jobs_at_least: 0,
    };
    let mut envs: Vec<CheckedEnv> = matrix.envs.iter().map(empty).collect();
    for config in matrix.configs() {
        for (env, counts) in matrix.envs.iter().zip(&mut envs).filter(|(env, _)| config.key.env == env.name) {
            let profiled = env.profiled_jobs();
            counts.configs += 1;
            counts.jobs += config.repeats.max as usize + profiled;
            counts.jobs_at_least += config.repeats.min as usize + profiled;
        }
    }
    Checked {
        file: file.to_owned(),
        valid: true,
        name: Some(matrix.name.to_string()),
        configs: envs.iter().map(|env| env.configs).sum(),
        jobs: envs.iter().map(|env| env.jobs).sum(),
        jobs_at_least: envs.iter().map(|env| env.jobs_at_least).sum(),
        envs,
        mistakes: Vec::new(),
    }
}

/// `noun`, in the plural unless there is one.
fn noun(count: usize, noun: &str) -> String {
    if count == 1 { noun.to_owned() } else { format!("{noun}s") }
}

/// `24 to 60 jobs` if results determine the number of repeats.
fn range_text(least: usize, most: usize) -> String {
    if least < most { format!("{least} to {}", jobs_text(most)) } else { jobs_text(most) }
}

/// One line for the matrix, then one aligned line per env.
fn table(checked: &Checked) -> String {
    let Checked { file, envs, configs, jobs, jobs_at_least, .. } = checked;
    let mut text = format!(
        "{file} is valid: {}, {}, {}\n",
        count_text(envs.len(), "env"),
        count_text(*configs, "config"),
        range_text(*jobs_at_least, *jobs)
    );
    let name = envs.iter().map(|env| env.name.len()).max().unwrap_or(0);
    let device = envs.iter().map(|env| env.device.len()).max().unwrap_or(0);
    for env in envs {
        text += &format!(
            "  {:name$}  {:device$}  {:>4} {:7}  {:>5} {}{}\n",
            env.name,
            env.device,
            env.configs,
            noun(env.configs, "config"),
            env.jobs,
            noun(env.jobs, "job"),
            if env.jobs_at_least < env.jobs { " at most" } else { "" }
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output for a matrix of two configs with `more` keys.
    fn text(repeats: &str, more: &str) -> String {
        let yaml = format!(
            "name: m\nmodels: [resnet18]\nbatches: [4, 8]\nrepeats: {repeats}\nenvs: {{ e: {{ device: cpu }} }}\n{more}\n"
        );
        table(&summary("m.yaml", &crate::matrix::check(&yaml).unwrap()))
    }

    #[test]
    fn counts_profiling_jobs_that_do_not_depend_on_results() {
        for (more, jobs) in [
            ("", " 8 jobs\n"),
            ("profile: { perf: {} }", " 10 jobs\n"),
            ("worker: { command: [x] }", " 6 jobs\n"),
            ("worker: { command: [x] }\nprofile: { ops: {} }", " 8 jobs\n"),
        ] {
            assert!(text("3", more).ends_with(jobs), "{more}: {}", text("3", more));
        }
    }

    #[test]
    fn adaptive_repeats_give_a_range_of_jobs() {
        let text = |repeats: &str| text(repeats, "profile: { ops: false }");
        let range = text("{ min: 8, max: 20, until: 2% }");
        assert!(range.starts_with("m.yaml is valid: 1 env, 2 configs, 16 to 40 jobs\n"), "{range}");
        assert!(range.ends_with("40 jobs at most\n"), "{range}");
        assert!(text("3").ends_with(" 6 jobs\n"), "{}", text("3"));
    }
}
