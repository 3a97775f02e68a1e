//! `orchestrate hosts`: the hosts of a matrix that `ssh` reaches.
#![expect(clippy::disallowed_methods, reason = "a submission has a time, even if it is discarded")]

use std::path::PathBuf;

use chrono::Utc;
use clap::Subcommand;
use serde::Serialize;

use super::load::load_matrix_plan;
use super::output::{hint, print, print_json, say};
use super::{Exit, Failure, Global};
use crate::matrix::Executor;
use crate::plan::{
    Decided, Decision, Inventory, NotDone, Origin, Plan, QueueId, SharedPaths, Submission, submissions,
};
use crate::queue::{HostCheck, QueueError, SshHost};
use crate::text::jobs_text;

/// The arguments of `orchestrate hosts`.
#[derive(Debug, clap::Args)]
pub(super) struct HostsArgs {
    #[command(subcommand)]
    what: What,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
enum What {
    /// Show what is missing on each host of a matrix. Copies the files that jobs need, and runs none.
    Check(CheckArgs),
}

/// The arguments of `orchestrate hosts check`.
#[derive(Debug, clap::Args)]
struct CheckArgs {
    /// The matrix file.
    matrix: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The result of the check of an env's host.
#[derive(Debug, Serialize)]
struct HostReport {
    env: String,
    host: String,
    directory: String,
    jobs: usize,
    /// Whether its jobs can run.
    can_run: bool,
    /// Why it could not be checked, as a sentence; `None` if it could.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
    /// The output of `doctor` there.
    #[serde(skip_serializing_if = "Option::is_none")]
    doctor: Option<String>,
    /// The next thing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// Checks the hosts of a matrix.
pub(super) fn run(args: HostsArgs, global: &Global) -> Result<Exit, Failure> {
    let What::Check(args) = args.what;
    let plan = load_matrix_plan(&args.matrix)?;
    let submissions = of_hosts(&plan);
    if submissions.is_empty() {
        let what = format!("no env of {} runs on a host that `ssh` reaches", args.matrix.display());
        return Err(Failure::new(Exit::NothingSelected, what)
            .hint("an env names one by `where: { ssh: { host: NAME } }`"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut reports = Vec::new();
    for submission in &submissions {
        if !global.quiet && !args.json {
            say(&format!("checking {}", submission.queue().name()));
        }
        let report = runtime.block_on(report(submission));
        if !args.json {
            print(&text(&report))?;
            report.hint.iter().for_each(|next| hint(global.quiet, next));
        }
        reports.push(report);
    }
    if args.json {
        print_json(&reports)?;
    }
    Ok(if reports.iter().all(|report| report.can_run) { Exit::Done } else { Exit::Unexpected })
}

/// One submission per env that runs on a host, with all of its jobs.
fn of_hosts(plan: &Plan) -> Vec<Submission> {
    let of_host = |job: &crate::job::Job| matches!(plan.env(job.key()).executor, Executor::Ssh(_));
    let jobs = plan.certain_jobs().filter(|job| of_host(job)).cloned();
    let all: Vec<Decided> =
        jobs.map(|job| Decided { job, decision: Decision::Run(NotDone::NeverRan) }).collect();
    // The submissions are not saved.
    let origin = Origin {
        now: Utc::now(),
        paths: SharedPaths { directory: String::new(), store: String::new(), program: String::new() },
        salt: String::new(),
        keep_going: false,
    };
    submissions(plan, &all, &Inventory::default(), usize::MAX, &origin)
}

async fn report(submission: &Submission) -> HostReport {
    let QueueId::Ssh { host, directory } = submission.queue() else {
        unreachable!("only submissions to hosts are made")
    };
    let (checked, next) = match SshHost::of(submission) {
        Some(there) => match there.check().await {
            Ok(checked) => (Ok(checked), None),
            Err(error) => {
                let next = remedy(&error, &host);
                (Err(error.to_string()), next)
            }
        },
        None => (Err("`ssh` is not installed here".to_owned()), Some("install OpenSSH's client".to_owned())),
    };
    let (trouble, found) = match checked {
        Ok(found) => (None, Some(found)),
        Err(why) => (Some(why), None),
    };
    HostReport {
        env: submission.env.to_string(),
        host,
        directory,
        jobs: submission.plan.jobs.len(),
        can_run: found.as_ref().is_some_and(|found| found.can_run),
        trouble,
        doctor: found.map(|HostCheck { text, .. }| text),
        hint: next,
    }
}

/// The remedy for a host that could not be checked.
fn remedy(error: &QueueError, host: &str) -> Option<String> {
    match error {
        QueueError::Silent { .. } => Some(format!(
            "`ssh {host} true` must work without a password: configure it in `~/.ssh/config`, or load a key with `ssh-add`"
        )),
        QueueError::Refused { said, .. } if said.contains("GLIBC_") => Some(
            "its C library is older than that of this build: use the one of `just dist`, or name one there with \
             `program`"
                .to_owned(),
        ),
        QueueError::Refused { .. } | QueueError::Strange { .. } => None,
    }
}

fn text(report: &HostReport) -> String {
    let HostReport { env, host, directory, jobs, trouble, doctor, .. } = report;
    let mut text = format!("{host}: {} of {env}, in {directory}\n", jobs_text(*jobs));
    if let Some(why) = trouble {
        text += &format!("  cannot run: {why}\n");
    }
    for line in doctor.iter().flat_map(|doctor| doctor.lines()) {
        text += &if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") };
    }
    text + "\n"
}
