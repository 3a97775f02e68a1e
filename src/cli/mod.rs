//! The command line: one file per verb, and code shared by verbs.
//! Only `main` calls it, and it is the only room that uses every other.
//! It never decides what runs or what counts, and keeps no state: it parses, calls, prints and chooses the exit code.
//!
//! A verb is a `clap::Args` struct and a function `run(args, &Global) -> Result<Exit, Failure>`. Results go to standard
//! output, progress and diagnostics to standard error.

mod accept;
mod aggregate;
mod altered;
mod audit;
mod bars;
mod busy;
mod calibrate;
mod catalogue;
mod cell;
mod check;
mod check_worker;
mod clouds;
mod columns;
mod compare;
mod complete;
mod completions;
mod complexity;
mod dataset;
mod doctor;
mod drift;
mod ended;
mod env;
mod exit;
mod explain;
mod failure;
mod find;
mod global;
mod groups;
mod history;
mod hosts;
mod import;
mod load;
mod logs;
mod man;
mod marked;
mod merge;
mod misread;
mod narrow;
mod needs;
mod on_host;
mod others;
mod output;
mod peaks;
mod pick;
mod plan;
mod problem;
mod progress;
mod queue;
mod refusal;
mod remarks;
mod remedy;
mod report;
mod resume;
mod run;
mod run_links;
mod run_task;
mod runtime;
mod schema;
mod secrets;
mod select;
mod serve;
mod show;
mod stale;
mod start;
mod status;
mod stop;
mod study;
mod summary;
mod usage;
mod verify;
mod words;
mod wrap;

use std::io::ErrorKind;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::stop::restore_signals;

pub use exit::Exit;
pub use failure::Failure;
pub use global::Global;
use output::{say, unprintable};

/// Runs a declared matrix of deep-learning training bursts and turns the records into evidence.
#[derive(Debug, Parser)]
#[command(name = "orchestrate", version, about, long_about = None, after_help = exit::help())]
pub struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run the jobs of a matrix that are not done yet.
    Run(run::RunArgs),
    /// Continue a plan that `run` saved.
    Resume(resume::ResumeArgs),
    /// Stop running jobs of the store.
    ///
    /// It stops everything, the run of a matrix, or one job.
    Stop(stop::StopArgs),
    /// Show the progress of a plan: done, failed, running, waiting.
    Status(status::StatusArgs),
    /// Show the decision of `run` about each job, and its reason.
    Plan(plan::PlanArgs),
    /// Check a matrix and report all its mistakes.
    Check(check::CheckArgs),
    /// Run a worker once on a small job, and list its mistakes.
    ///
    /// It also lists optional data that the worker does not provide.
    CheckWorker(check_worker::CheckWorkerArgs),
    /// Print the JSON Schema of a matrix, or of a worker's measurement.
    Schema(schema::SchemaArgs),
    /// Show a summary or all details of one job.
    Show(show::ShowArgs),
    /// Explain the state of a job, and the changes since it ran.
    Explain(explain::ExplainArgs),
    /// Keep the results of stale jobs.
    Accept(accept::AcceptArgs),
    /// Print the output of a job's worker.
    Logs(logs::LogsArgs),
    /// Check that records and their files are unaltered.
    Verify(verify::VerifyArgs),
    /// Merge the results of other stores into this one.
    Merge(merge::MergeArgs),
    /// Write the tables of a plan as CSV files.
    ///
    /// Metrics, summary, roofline points, counters, kernels and failures.
    Aggregate(aggregate::AggregateArgs),
    /// Write the tables, the figures, report.md and report.html.
    Report(report::ReportArgs),
    /// Show the plans, reports and logs as live pages in a browser.
    ///
    /// It serves them on this machine until Ctrl-C, and writes nothing.
    Serve(serve::ServeArgs),
    /// Find errors and doubts in ledgers that other scripts wrote.
    ///
    /// The numbers of a ledger are compared with each other.
    Audit(audit::AuditArgs),
    /// Import ledgers of other scripts into the store.
    ///
    /// They become records without jobs.
    Import(import::ImportArgs),
    /// Compare two sides config by config.
    ///
    /// Envs, values of an axis, matrices, stores, or workers.
    Compare(compare::CompareArgs),
    /// Show the throughput of each config in each version.
    ///
    /// Versions are commits of the matrix, or workers.
    History(history::HistoryArgs),
    /// Measure or list the ceilings of devices.
    Peaks(peaks::PeaksArgs),
    /// Measure how much equal runs of this machine differ.
    ///
    /// It also shows which differences repeats can resolve.
    Calibrate(calibrate::CalibrateArgs),
    /// Count parameters, FLOPs and bytes of networks.
    ///
    /// They are not run.
    Complexity(complexity::ComplexityArgs),
    /// Generate or download a data set.
    Dataset(dataset::DatasetArgs),
    /// Describe this host, and problems that would spoil measurements.
    Doctor(doctor::DoctorArgs),
    /// Check the hosts of a matrix that ssh reaches.
    Hosts(hosts::HostsArgs),
    /// Write env_info.md and system.json, which describe this host.
    Env(env::EnvArgs),
    /// Run the jobs of one task of a submission; called by Slurm.
    #[command(hide = true)]
    RunTask(run_task::RunTaskArgs),
    /// Answer another orchestrate over ssh.
    #[command(hide = true)]
    OnHost(on_host::OnHostArgs),
    /// Print the completion script of a shell.
    Completions(completions::CompletionsArgs),
    /// Write the man pages.
    Man(man::ManArgs),
}

/// Parses the command line, runs the verb and returns its exit code.
pub fn main() -> ExitCode {
    restore_signals();
    if complete::answer(Cli::command) {
        return Exit::Done.into();
    }
    let parsed = groups::grouped(Cli::command()).try_get_matches();
    let Cli { global, verb } = match parsed.and_then(|found| Cli::from_arg_matches(&found)) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let result = verb.map_or_else(|| start::run(&global), |verb| verb.run(&global));
    result.map_or_else(|failure| report_failure(&failure), Exit::into)
}

impl Verb {
    fn run(self, global: &Global) -> Result<Exit, Failure> {
        match self {
            Verb::Run(args) => run::run(args, global),
            Verb::Resume(args) => resume::run(args, global),
            Verb::Stop(args) => stop::run(&args, global),
            Verb::Status(args) => status::run(args, global),
            Verb::Plan(args) => plan::run(args, global),
            Verb::Check(args) => check::run(args, global),
            Verb::CheckWorker(args) => check_worker::run(args, global),
            Verb::Schema(args) => schema::run(args, global),
            Verb::Show(args) => show::run(args, global),
            Verb::Explain(args) => explain::run(args, global),
            Verb::Accept(args) => accept::run(args, global),
            Verb::Logs(args) => logs::run(args, global),
            Verb::Verify(args) => verify::run(args, global),
            Verb::Merge(args) => merge::run(args, global),
            Verb::Aggregate(args) => aggregate::run(args, global),
            Verb::Report(args) => report::run(args, global),
            Verb::Serve(args) => serve::run(&args, global),
            Verb::Audit(args) => audit::run(&args, global),
            Verb::Import(args) => import::run(&args, global),
            Verb::Compare(args) => compare::run(args, global),
            Verb::History(args) => history::run(args, global),
            Verb::Peaks(args) => peaks::run(args, global),
            Verb::Calibrate(args) => calibrate::run(args, global),
            Verb::Complexity(args) => complexity::run(args, global),
            Verb::Dataset(args) => dataset::run(args, global),
            Verb::Doctor(args) => doctor::run(args, global),
            Verb::Hosts(args) => hosts::run(args, global),
            Verb::Env(args) => env::run(args, global),
            Verb::RunTask(args) => run_task::run(&args, global),
            Verb::OnHost(args) => on_host::run(&args, global),
            Verb::Completions(args) => completions::run(args),
            Verb::Man(args) => man::run(args, Cli::command()),
        }
    }
}

/// Prints the error of the command line, or the requested help.
fn refuse(error: &clap::Error) -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    match usage::explain(error, Cli::command(), &arguments) {
        Some(failure) => report_failure(&failure),
        None => match error.print() {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => report_failure(&unprintable(error)),
            _ => Exit::Done.into(),
        },
    }
}

fn report_failure(failure: &Failure) -> ExitCode {
    // If standard error is closed, the exit code still reports the failure.
    say(&failure.to_string());
    failure.exit.into()
}
