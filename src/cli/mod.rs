//! The command line: one file a verb, and what verbs have in common.
//! `main` alone calls it; it is the only room that sees every other.
//! It never decides what runs or what counts, and keeps no state: it parses, calls, prints and chooses the exit code.
//!
//! A verb is a `clap::Args` struct and a function `run(args, &Global) -> Result<Exit, Failure>`. Standard output is the
//! result, standard error the progress and the diagnostics.

mod accept;
mod aggregate;
mod check;
mod completions;
mod complexity;
mod dataset;
mod doctor;
mod env;
mod exit;
mod explain;
mod failure;
mod find;
mod global;
mod load;
mod logs;
mod man;
mod marked;
mod misread;
mod output;
mod peaks;
mod plan;
mod problem;
mod progress;
mod report;
mod resume;
mod run;
mod schema;
mod select;
mod show;
mod stale;
mod status;
mod study;
mod words;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

pub use exit::Exit;
pub use failure::Failure;
pub use global::Global;

/// Runs a declared matrix of deep-learning training bursts and turns the runs into evidence.
#[derive(Debug, Parser)]
#[command(name = "orchestrate", version, about, long_about = None, after_help = exit::help())]
pub struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run what a matrix declares and the store does not have yet.
    Run(run::RunArgs),
    /// Go on with the plan that `run` saved.
    Resume(resume::ResumeArgs),
    /// Show how far a plan is: done, failed, running, waiting.
    Status(status::StatusArgs),
    /// Show job by job what `run` would do, and why.
    Plan(plan::PlanArgs),
    /// Check a matrix and report all of its mistakes.
    Check(check::CheckArgs),
    /// Print the JSON Schema of a matrix file.
    Schema(schema::SchemaArgs),
    /// Show everything about one job.
    Show(show::ShowArgs),
    /// Say why a job stands as it does, and what changed since it ran.
    Explain(explain::ExplainArgs),
    /// Keep stale jobs as they are.
    Accept(accept::AcceptArgs),
    /// Print what a job's worker wrote.
    Logs(logs::LogsArgs),
    /// Turn records into metrics.csv, summary.csv, roofline_points.csv, counters.csv, kernels.csv and failures.csv.
    Aggregate(aggregate::AggregateArgs),
    /// Aggregate, draw the figures and write report.md and report.html.
    Report(report::ReportArgs),
    /// Measure the ceilings of a device.
    Peaks(peaks::PeaksArgs),
    /// Count parameters, FLOPs and bytes of networks without running them.
    Complexity(complexity::ComplexityArgs),
    /// Make or fetch a data set.
    Dataset(dataset::DatasetArgs),
    /// Show what this host is, and what would spoil a measurement on it.
    Doctor(doctor::DoctorArgs),
    /// Write env_info.md and system.json: what this host is, for a report.
    Env(env::EnvArgs),
    /// Print a shell's completions.
    Completions(completions::CompletionsArgs),
    /// Write the man pages.
    Man(man::ManArgs),
}

/// Parses the command line, does what it says, and tells the exit code.
pub fn main() -> ExitCode {
    let Cli { global, verb } = Cli::parse();
    let result = match verb {
        Verb::Run(args) => run::run(args, &global),
        Verb::Resume(args) => resume::run(args, &global),
        Verb::Status(args) => status::run(args, &global),
        Verb::Plan(args) => plan::run(args, &global),
        Verb::Check(args) => check::run(args, &global),
        Verb::Schema(args) => schema::run(args, &global),
        Verb::Show(args) => show::run(args, &global),
        Verb::Explain(args) => explain::run(args, &global),
        Verb::Accept(args) => accept::run(args, &global),
        Verb::Logs(args) => logs::run(args, &global),
        Verb::Aggregate(args) => aggregate::run(args, &global),
        Verb::Report(args) => report::run(args, &global),
        Verb::Peaks(args) => peaks::run(args, &global),
        Verb::Complexity(args) => complexity::run(args, &global),
        Verb::Dataset(args) => dataset::run(args, &global),
        Verb::Doctor(args) => doctor::run(args, &global),
        Verb::Env(args) => env::run(args, &global),
        Verb::Completions(args) => completions::run(args, Cli::command()),
        Verb::Man(args) => man::run(args, Cli::command()),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(failure) => {
            // Nobody may be reading any more; the exit code still tells.
            let _ = writeln!(std::io::stderr(), "{failure}");
            failure.exit.into()
        }
    }
}
