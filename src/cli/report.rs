//! `orchestrate report`: the tables, figures, `report.md` and `report.html` of a plan.
#![expect(clippy::disallowed_methods, reason = "the command line reads the templates that the user names")]

use std::path::{Path, PathBuf};

use super::calibrate::add_noise;
use super::exit::leave;
use super::output::{Layout, hint, print, print_line};
use super::run_links::run_links;
use super::study::{StudyArgs, notes, results_text, write_files};
use super::summary::{rest, summary_text};
use super::{Exit, Failure, Global};
use crate::analysis::findings::alike;
use crate::analysis::{Analysis, Study, analyse};
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
    /// Print the whole table of results, the effect of each axis, and all findings.
    #[arg(long)]
    tables: bool,
}

/// A template that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the template {}", path.display())]
struct TemplateError {
    path: PathBuf,
    source: std::io::Error,
}

/// Writes all files, and prints a summary and the report's path.
pub(super) fn run(args: ReportArgs, global: &Global) -> Result<Exit, Failure> {
    let templates = args.templates.as_deref().map_or_else(|| Ok(Templates::default()), load_templates)?;
    let mut study = args.study.load(global)?;
    add_noise(&mut study, global)?;
    let analysis = analyse(&study);
    let links = run_links(&global.store, &args.study.directory(&study.matrix.name), &study.cells);
    let commands = args.study.commands(&study);
    // Writing the tables takes a while and is independent of the rest.
    let (tables, files) = threads::both(
        || args.study.write_tables(&analysis, &study.matrix.name),
        || render(&study, &analysis, &templates, &links, &commands).map_err(render_failure),
    );
    let (directory, files) = (tables?, files?);
    let (written, text) = threads::both(
        || write_files(&directory, &files),
        || if args.tables { tables_text(&study, &analysis) } else { summary(&study, &analysis) },
    );
    written?;
    print(&text)?;
    let [page, markdown] = ["report.html", "report.md"].map(|name| directory.join(name));
    print_line(&format!("report: {} and {}", page.display(), markdown.display()))?;
    if !args.tables {
        hint(global.quiet, &format!("`--tables` prints all {}", rest(&analysis)));
    }
    leave(analysis);
    leave(study);
    Ok(Exit::Done)
}

/// The fastest rows and their certainty, with the notes on the statistics.
fn summary(study: &Study, analysis: &Analysis<'_>) -> String {
    format!("{}{}", summary_text(analysis, Layout::lines()), notes(study))
}

/// The effects of the axes, all rows, and all findings.
fn tables_text(study: &Study, analysis: &Analysis<'_>) -> String {
    let effects: String = analysis.axes.iter().map(|effect| format!("{}\n", effect.text())).collect();
    let findings = alike(&analysis.findings);
    let findings: String = findings.iter().map(|group| format!("- {}\n", group.text())).collect();
    format!("{effects}{}\n{findings}", results_text(study, analysis))
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
