//! `orchestrate report`: the tables, figures, `report.md` and `report.html` of a plan.
#![expect(clippy::disallowed_methods, reason = "the command line reads the templates that the user names")]

use std::path::{Path, PathBuf};

use super::calibrate::add_noise;
use super::exit::leave;
use super::output::print_line;
use super::run_links::run_links;
use super::study::{StudyArgs, results_text, write_files};
use super::{Exit, Failure, Global};
use crate::analysis::analyse;
use crate::report::{RenderError, Templates, render};
use crate::threads;

/// The arguments of `orchestrate report`.
#[derive(Debug, clap::Args)]
pub(super) struct ReportArgs {
    #[command(flatten)]
    study: StudyArgs,
    /// Directory with `report.md.j2` and `report.html.j2`, to use instead of the built-in templates.
    #[arg(long, value_name = "DIR")]
    templates: Option<PathBuf>,
}

/// A template that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the template {}", path.display())]
struct TemplateError {
    path: PathBuf,
    source: std::io::Error,
}

/// Writes all files, and prints the results and the report's path.
pub(super) fn run(args: ReportArgs, global: &Global) -> Result<Exit, Failure> {
    let templates = args.templates.as_deref().map_or_else(|| Ok(Templates::default()), load_templates)?;
    let mut study = args.study.load(global)?;
    add_noise(&mut study, global)?;
    let analysis = analyse(&study);
    let links = run_links(&global.store, &args.study.directory(&study.matrix.name), &study.cells);
    let commands = args.study.commands(&study);
    // The tables take a while to be written, and need nothing of the rest.
    let (tables, files) = threads::both(
        || args.study.write_tables(&analysis, &study.matrix.name),
        || render(&study, &analysis, &templates, &links, &commands).map_err(render_failure),
    );
    let (directory, files) = (tables?, files?);
    let (written, results) =
        threads::both(|| write_files(&directory, &files), || results_text(&study, &analysis));
    written?;
    for effect in &analysis.axes {
        print_line(&effect.text())?;
    }
    print_line(&results)?;
    for finding in &analysis.findings {
        print_line(&format!("- {}", finding.text))?;
    }
    print_line(&format!("report: {} and report.html", directory.join("report.md").display()))?;
    leave(analysis);
    leave(study);
    Ok(Exit::Done)
}

fn load_templates(directory: &Path) -> Result<Templates, TemplateError> {
    let load = |name: &str| {
        let path = directory.join(name);
        std::fs::read_to_string(&path).map_err(|source| TemplateError { path, source })
    };
    Ok(Templates { markdown: load("report.md.j2")?, html: load("report.html.j2")? })
}

fn render_failure(error: RenderError) -> Failure {
    let is_page = matches!(error, RenderError::Page(_));
    let failure = Failure::new(Exit::Unexpected, error);
    if is_page { failure.hint("leave out `--templates` to use the built-in templates") } else { failure }
}
