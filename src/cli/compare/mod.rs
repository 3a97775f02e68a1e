//! `orchestrate compare`: compares two sides config by config, with verdicts whose error rates are known.

mod judgement;
mod share;
mod side;
mod superseded;
mod view;

use std::path::PathBuf;

use super::exit::leave;
use super::output::{Layout, print, print_json, print_line, say, table, table_text, write_files};
use super::study::Reading;
use super::{Exit, Failure, Global};
use crate::analysis::compare::Settings;
use crate::analysis::cost::FlopsConvention;
use crate::analysis::versus::{Refused, Side, Versus, versus};
use crate::analysis::{Study, judge};
use crate::files::write_atomic;
use crate::report::{
    RenderError, apart_text, comparison_files, differences_text, geometric_mean_text, legend, outcome_text,
    table_header, table_rows,
};
use judgement::{Judgement, judgement};
use share::parse_share;
use side::{Place, Spec, resolve};
use view::View;

/// The arguments of `orchestrate compare`.
#[derive(Debug, clap::Args)]
pub(super) struct CompareArgs {
    /// The baseline: an env, a value of an axis (`fp32`), or conditions (`'env=gpu compile=true'`).
    /// The name or file of a matrix, a store, and `before` the last change of the worker are sides, too.
    #[arg(value_name = "FROM")]
    from: String,
    /// The side that is compared, named in the same way; `after` for the runs after the last change of the worker.
    #[arg(value_name = "TO")]
    to: String,
    /// The matrix of sides without one, by name or file [default: the last one].
    #[arg(long, value_name = "NAME|FILE")]
    matrix: Option<String>,
    /// The loss of throughput that makes no difference, such as `2%` or `0.02`.
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = parse_share)]
    margin: f64,
    /// Fail if a config is significantly slower than this, such as `5%`; another exit code if one might be.
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    fail_slower: Option<f64>,
    /// Also write comparison.csv, comparison.md and a forest plot into this directory.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Include runs that their marks leave out, such as contended ones.
    #[arg(long)]
    include_marked: bool,
    /// Directory of the peaks.
    #[arg(long, value_name = "DIR", default_value = "peaks")]
    peaks_dir: PathBuf,
}

/// The most reasons for which configs are not compared that are printed, and the most configs named for each.
const MOST_REASONS: usize = 5;
const NAMED: usize = 3;

/// Prints the comparison, writes its files, and judges it by `--fail-slower`.
pub(super) fn run(args: CompareArgs, global: &Global) -> Result<Exit, Failure> {
    let specs = [&args.from, &args.to].map(|text| resolve(text, args.matrix.as_deref(), global));
    let [from, to] = specs;
    let specs = [from?, to?];
    let studies = load(&specs, &args, global)?;
    let judged: Vec<_> = studies.iter().map(judge).collect();
    // Both sides of one matrix share its study.
    let rows = [&judged[0].rows, &judged[judged.len() - 1].rows];
    let [from, to] = [0, 1].map(|place| side(&specs[place], rows[place]));
    let settings = Settings { margin: args.margin, ..Settings::default() };
    let found = versus(&from?, &to?, settings).map_err(refused)?;
    let judgement = args.fail_slower.map(|limit| judgement(&found, limit));
    if args.json {
        print_json(&View::of(&found, [&args.from, &args.to], judgement.as_ref()))?;
    } else {
        print_text(&found)?;
    }
    if let Some(directory) = &args.out {
        write(&found, directory)?;
        say(&format!("comparison: {}", directory.join("comparison.md").display()));
    }
    let exit = conclude(&found, judgement.as_ref());
    leave(judged);
    leave(studies);
    exit
}

/// The studies of both sides; one, if they are of the same matrix and store.
fn load(specs: &[Spec; 2], args: &CompareArgs, global: &Global) -> Result<Vec<Study>, Failure> {
    let reading = Reading {
        peaks_dir: &args.peaks_dir,
        convention: FlopsConvention::default(),
        include_marked: args.include_marked,
    };
    let asks_history = specs.iter().any(Spec::asks_history);
    let load = |Place { store, matrix }: &Place| {
        let mut study = reading.load(store, matrix.as_deref(), global)?;
        if asks_history {
            superseded::add(&mut study, store, global)?;
        }
        Ok::<Study, Failure>(study)
    };
    let [from, to] = [&specs[0].place, &specs[1].place];
    let first = load(from)?;
    Ok(if from.is_same(to) { vec![first] } else { vec![first, load(to)?] })
}

fn side<'r, 'a>(spec: &Spec, rows: &'r [crate::analysis::group::Row<'a>]) -> Result<Side<'r, 'a>, Failure> {
    Ok(Side { name: spec.heading.clone(), rows: spec.select(rows)? })
}

fn refused(error: Refused) -> Failure {
    let hint = match &error {
        Refused::Networks { .. } => "name sides that share networks, such as two envs or `fp32` and `bf16`",
        Refused::SameRuns { .. } => {
            "name two sides that exclude each other, such as `compile=false` and `compile=true`"
        }
    };
    Failure::new(Exit::Usage, error).hint(hint)
}

fn print_text(found: &Versus) -> Result<(), Failure> {
    for line in differences_text(found) {
        print_line(&format!("differs: {line}"))?;
    }
    let mut shown = table(table_header(found), Layout::of_stdout());
    shown.add_rows(table_rows(found));
    if !shown.is_empty() {
        print(&table_text(&shown))?;
    }
    let apart = apart_text(found, NAMED);
    for line in apart.iter().take(MOST_REASONS) {
        print_line(line)?;
    }
    if apart.len() > MOST_REASONS {
        print_line(&format!("… and {} more reasons: `--json` has them all", apart.len() - MOST_REASONS))?;
    }
    for line in found.lines.iter().filter(|line| line.differs()) {
        if let Some(operators) = &line.operators {
            print_line(&format!("{}: {operators}", line.config))?;
        }
    }
    print_line(&format!("verdicts: {}", outcome_text(found)))?;
    if let Some(mean) = geometric_mean_text(found) {
        print_line(&mean)?;
    }
    print_line(&legend(found))
}

fn write(found: &Versus, directory: &std::path::Path) -> Result<(), Failure> {
    let files =
        comparison_files(found).map_err(|error: RenderError| Failure::new(Exit::Unexpected, error))?;
    let none: [(&str, String); 0] = [];
    write_files(directory, &none)?;
    write_files(&directory.join("figures"), &none)?;
    for file in files {
        write_atomic(&directory.join(&file.path), &file.contents)?;
    }
    Ok(())
}

fn conclude(found: &Versus, judgement: Option<&Judgement>) -> Result<Exit, Failure> {
    match judgement {
        Some(Judgement { exit: Exit::Done, sentence }) => {
            say(sentence);
            Ok(Exit::Done)
        }
        Some(Judgement { exit, sentence }) => {
            let failure = Failure::new(*exit, sentence.clone());
            Err(match exit {
                Exit::CannotTell => failure.hint("more repeats decide; the table shows about how many"),
                _ => failure,
            })
        }
        None if found.lines.iter().all(|line| line.result.is_err()) => {
            Err(Failure::new(Exit::NothingSelected, "no config of both sides can be compared")
                .hint("name sides that share configs; `orchestrate status` shows which ones have results"))
        }
        None => Ok(Exit::Done),
    }
}
