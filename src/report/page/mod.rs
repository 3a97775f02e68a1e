//! The data of the templates. Every number is already formatted, so that a template only has to place it.

mod audit;
mod ceilings;
mod complexity;
mod facts;
mod markup;
mod price;
mod profiles;
mod results;

use minijinja::{
    AutoEscape, Environment, Error, Output, State, UndefinedBehavior, Value, escape_formatter,
    syntax::SyntaxConfig,
};
use serde::Serialize;

use self::audit::{Audit, exclusion_audit};
use self::ceilings::{CeilingRow, ceilings};
use self::complexity::{ComplexityRow, complexity};
use self::facts::{Fact, Section, envs, fact, hosts, overview, provenance};
use self::price::{PriceRow, prices};
use self::profiles::{Profiles, profiles};
use self::results::{FailureRow, LeftOut, MetricRow, ResultRow, failure, left_out, metrics, not_run, result};
use super::figure::{Drawing, Drawn};
use super::figures::AXES;
use crate::analysis::axes::Effect;
use crate::analysis::group::unit;
use crate::analysis::table::CSV_FILES;
use crate::analysis::{Analysis, Study};
use crate::clean::{clean_text, markdown_text};
use crate::record::Record;

/// A template cannot be rendered.
#[derive(Debug, thiserror::Error)]
#[error("cannot render the template of {name}")]
pub struct PageError {
    name: String,
    #[source]
    source: Box<Error>,
}

/// What both templates can use.
#[derive(Debug, Serialize)]
pub(super) struct Page {
    matrix: String,
    description: Option<String>,
    overview: Vec<Fact>,
    hosts: Vec<Section>,
    envs: Vec<Section>,
    varying: Vec<String>,
    /// What each axis brings, as sentences.
    axes: Vec<String>,
    /// The figure of these.
    axes_figure: Option<FigureSection>,
    results: Vec<ResultRow>,
    /// What the samples of all results are.
    unit: String,
    convention: String,
    /// Whether the convention leaves out a part of the work.
    leaves_out_work: bool,
    left_out: Vec<LeftOut>,
    audit: Option<Audit>,
    failures: Vec<FailureRow>,
    not_run: Vec<Fact>,
    findings: Vec<String>,
    figures: Vec<FigureSection>,
    ceilings: Vec<CeilingRow>,
    metrics: Vec<MetricRow>,
    prices: Vec<PriceRow>,
    complexity: Vec<ComplexityRow>,
    profiles: Profiles,
    provenance: Vec<Fact>,
    commands: Vec<String>,
    /// The CSV files: name, and what each line is about.
    csv_files: Vec<Fact>,
}

/// A figure of the table, drawn or not.
#[derive(Debug, Serialize)]
struct FigureSection {
    heading: &'static str,
    explanation: &'static str,
    needs: &'static str,
    drawings: Vec<FigureView>,
}

#[derive(Debug, Serialize)]
struct FigureView {
    name: String,
    title: String,
    svg: String,
}

/// Renders the template `text` of the page `name`. The extension of the name determines how values are escaped.
///
/// # Errors
/// [`PageError`]: the template is invalid, or uses a name that does not exist.
pub(super) fn render(name: &str, text: &str, page: &Page) -> Result<String, PageError> {
    let wrong = |source| PageError { name: name.to_owned(), source: Box::new(source) };
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    environment.set_syntax(syntax.build().map_err(wrong)?);
    environment.set_auto_escape_callback(|name| {
        if name.ends_with(".html") { AutoEscape::Html } else { AutoEscape::Custom("markdown".into()) }
    });
    environment.set_formatter(write_value);
    // Templates of earlier versions name it. Every value is escaped anyway.
    environment.add_filter("cell", |value: Value| value);
    environment.add_filter("html", |text: &str| Value::from_safe_string(markup::html(text)));
    environment.add_filter("inline_html", |text: &str| Value::from_safe_string(markup::inline(text)));
    environment.add_template(name, text).map_err(wrong)?;
    let template = environment.get_template(name).map_err(wrong)?;
    template.render(minijinja::value::Serde(page)).map_err(wrong)
}

/// Writes a value to a page. Texts are cleaned and escaped, unless the template declares them `safe`.
fn write_value(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let Some(text) = value.as_str().filter(|_| !value.is_safe()) else {
        return match state.auto_escape() {
            AutoEscape::Html => escape_formatter(out, state, value),
            _ => Ok(write!(out, "{value}")?),
        };
    };
    match state.auto_escape() {
        AutoEscape::Html => escape_formatter(out, state, &Value::from(&*clean_text(text))),
        _ => Ok(out.write_str(&markdown_text(text))?),
    }
}

/// Collects what the pages say about `analysis`.
pub(super) fn page(study: &Study, analysis: &Analysis<'_>, figures: &[Drawn]) -> Page {
    let records: Vec<&Record> = analysis.runs.iter().filter_map(|run| run.cell.record()).collect();
    let name = &study.matrix.name;
    let include_marked = if study.include_marked { " --include-marked" } else { "" };
    Page {
        matrix: name.to_string(),
        description: study.description.clone(),
        overview: overview(study, analysis, &records),
        hosts: hosts(&records),
        envs: envs(analysis),
        varying: analysis.varying.clone(),
        axes: analysis.axes.iter().map(Effect::text).collect(),
        axes_figure: figures.iter().find(|drawn| is_of_axes(drawn)).map(figure_section),
        results: analysis.rows.iter().map(|row| result(row, &analysis.varying)).collect(),
        unit: unit(&analysis.rows).to_string(),
        convention: complexity::convention_text(analysis, study.convention),
        leaves_out_work: study.convention.leaves_out_work(),
        left_out: analysis.runs.iter().filter_map(|run| left_out(run, &analysis.varying)).collect(),
        audit: exclusion_audit(analysis),
        failures: analysis.runs.iter().filter_map(failure).collect(),
        not_run: not_run(analysis),
        findings: analysis.findings.iter().map(|finding| finding.text.clone()).collect(),
        figures: figures.iter().filter(|drawn| !is_of_axes(drawn)).map(figure_section).collect(),
        ceilings: ceilings(analysis),
        metrics: metrics(analysis),
        prices: prices(analysis),
        complexity: complexity(analysis),
        profiles: profiles(analysis),
        provenance: provenance(study, &records),
        commands: vec![
            format!("orchestrate run {}", clean_text(&study.matrix.path)),
            format!("orchestrate report {name}{include_marked}"),
        ],
        csv_files: CSV_FILES.iter().map(|file| fact(file.name, file.line)).collect(),
    }
}

/// The figure of the axes stands at the top, beside their sentences.
fn is_of_axes((figure, _): &Drawn) -> bool {
    figure.name == AXES.name
}

fn figure_section((figure, drawings): &Drawn) -> FigureSection {
    let view = |drawing: &Drawing| FigureView {
        name: figure.file_name(drawing),
        title: drawing.title.clone(),
        svg: drawing.svg.clone(),
    };
    FigureSection {
        heading: figure.heading,
        explanation: figure.explanation,
        needs: figure.needs,
        drawings: drawings.iter().map(view).collect(),
    }
}
