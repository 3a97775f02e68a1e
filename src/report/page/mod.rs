//! The data of the templates. Every number is already formatted, so that a template only has to place it.

mod audit;
mod ceilings;
mod complexity;
mod design;
mod digest;
mod facts;
mod fastest;
mod glance;
mod links;
mod markup;
mod operators;
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
use self::design::{DesignRow, design, settings};
use self::digest::{Digest, digest};
use self::facts::{Fact, Section, envs, fact, hosts, overview, provenance};
use self::fastest::{FastestRow, fastest};
use self::glance::{Glance, glances};
use self::operators::{TimeView, times};
use self::price::{PriceRow, prices};
use self::profiles::{Profiles, profiles};
use self::results::{
    AlteredRow, FailureRow, LeftOut, MetricRow, ResultRow, altered, failure, left_out, metrics, not_run,
    results,
};
use super::figure::{Drawing, Drawn, Figure};
use super::figures::{AXES, FASTEST, LIMITS, TIME};
use super::selection;
use super::svg::within_page;
use crate::analysis::axes::Effect;
use crate::analysis::brief::{BriefLine, Question};
use crate::analysis::findings::{Alike, FindingKind, alike};
use crate::analysis::group::unit;
use crate::analysis::table::CSV_FILES;
use crate::analysis::{Analysis, Study};
use crate::clean::{clean_text, markdown_text};
use crate::record::Record;

pub use self::links::RunLinks;

/// A template cannot be rendered.
#[derive(Debug, thiserror::Error)]
#[error("cannot render the template of {name}")]
pub struct PageError {
    name: String,
    #[source]
    source: Box<Error>,
}

/// The variables of both templates.
#[derive(Debug, Serialize)]
pub(super) struct Page {
    matrix: String,
    description: Option<String>,
    /// The answer in one sentence.
    answer: String,
    /// Certainty, runs left out and missing results: a sentence each, with the section that has the rest.
    sure: Vec<Fact>,
    /// The five lines of the summary, each with its heading and sentences.
    brief: Vec<Fact>,
    /// The fastest config of each network and env, and the figures of these.
    fastest: Vec<FastestRow>,
    fastest_figure: Option<FigureSection>,
    limits_figure: Option<FigureSection>,
    /// A summary line for each section.
    digest: Digest,
    /// The throughputs by batch.
    glances: Vec<Glance>,
    overview: Vec<Fact>,
    design: Vec<DesignRow>,
    /// The parameters that all jobs share.
    settings: Vec<Fact>,
    hosts: Vec<Section>,
    envs: Vec<Section>,
    varying: Vec<String>,
    /// Effect of each axis, as sentences.
    axes: Vec<String>,
    /// The figure of the axes.
    axes_figure: Option<FigureSection>,
    /// The figure of the time of iterations.
    time_figure: Option<FigureSection>,
    times: Vec<TimeView>,
    results: Vec<ResultRow>,
    /// The unit of the samples of all results.
    unit: String,
    convention: String,
    /// Whether the convention leaves out a part of the work.
    leaves_out_work: bool,
    left_out: Vec<LeftOut>,
    audit: Option<Audit>,
    failures: Vec<FailureRow>,
    not_run: Vec<Fact>,
    /// Jobs that have a record, but no result because one of their files was changed.
    altered: Vec<AlteredRow>,
    /// All findings.
    findings: Vec<FindingView>,
    /// Findings that are observations.
    observations: Vec<FindingView>,
    /// Findings that are limitations.
    limitations: Vec<FindingView>,
    figures: Vec<FigureSection>,
    ceilings: Vec<CeilingRow>,
    metrics: Vec<MetricRow>,
    prices: Vec<PriceRow>,
    complexity: Vec<ComplexityRow>,
    profiles: Profiles,
    provenance: Vec<Fact>,
    commands: Vec<String>,
    /// The CSV files: name, and the subject of a line.
    csv_files: Vec<Fact>,
    /// Whether `serve` shows the page, without PNG files and `datapackage.json` beside it.
    live: bool,
}

/// A figure of the table, drawn or not.
#[derive(Debug, Serialize)]
struct FigureSection {
    /// The section of the page that contains it.
    section: &'static str,
    heading: &'static str,
    explanation: &'static str,
    needs: &'static str,
    /// The drawings on the page.
    drawings: Vec<FigureView>,
    /// The drawings in `figures/` only, because the page is full.
    beside: Vec<Beside>,
}

/// A drawing that is not on the page.
#[derive(Debug, Serialize)]
struct Beside {
    name: String,
    title: String,
}

#[derive(Debug, Serialize)]
struct FigureView {
    name: String,
    title: String,
    svg: String,
}

/// Renders the template `text` of the page `name` with the data of [`page`]. The extension of the name determines how
/// values are escaped.
///
/// # Errors
/// [`PageError`]: the template is invalid, or uses a name that does not exist.
pub(super) fn render(name: &str, text: &str, page: &Value) -> Result<String, PageError> {
    let wrong = |source| PageError { name: name.to_owned(), source: Box::new(source) };
    let mut environment = environment().map_err(wrong)?;
    environment.add_filter("html", |text: &str| Value::from_safe_string(markup::html(text)));
    // Findings quote words of other programs.
    environment
        .add_filter("inline_html", |text: &str| Value::from_safe_string(markup::inline(&clean_text(text))));
    environment.add_template(name, text).map_err(wrong)?;
    let template = environment.get_template(name).map_err(wrong)?;
    template.render(page.clone()).map_err(wrong)
}

/// The template environment: values are cleaned, and escaped by the extension of the page's name. A name that does not
/// exist is an error.
///
/// # Errors
/// Never in fact: the syntax is a constant.
pub fn environment<'t>() -> Result<Environment<'t>, Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    environment.set_syntax(syntax.build()?);
    environment.set_auto_escape_callback(|name| {
        if name.ends_with(".html") { AutoEscape::Html } else { AutoEscape::Custom("markdown".into()) }
    });
    environment.set_formatter(write_value);
    // Templates of earlier versions name it. Every value is escaped anyway.
    environment.add_filter("cell", |value: Value| value);
    Ok(environment)
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

/// Collects the data of the pages about `analysis`, with the `commands` that reproduce it. A page that is `live` has no
/// PNG beside it.
pub(super) fn page(
    study: &Study,
    analysis: &Analysis<'_>,
    figures: &[Drawn],
    links: &RunLinks,
    commands: &[String],
    live: bool,
) -> Page {
    let records: Vec<&Record> = analysis.runs.iter().filter_map(|run| run.cell.record()).collect();
    let mut sections = figure_sections(figures);
    let mut take = |figure: &Figure| {
        let place = sections.iter().position(|section| section.heading == figure.heading)?;
        Some(sections.remove(place))
    };
    let [fastest_figure, limits_figure, axes_figure, time_figure] =
        [&FASTEST, &LIMITS, &AXES, &TIME].map(&mut take);
    let observations = findings(analysis, |kind| !kind.is_limitation());
    let limitations = findings(analysis, FindingKind::is_limitation);
    Page {
        matrix: study.matrix.name.to_string(),
        description: study.description.clone(),
        answer: first_sentence(analysis, Question::Answer),
        sure: SURE
            .iter()
            .map(|(question, section)| fact(section, first_sentence(analysis, *question)))
            .collect(),
        brief: analysis.brief.iter().map(brief_line).collect(),
        fastest: fastest(analysis),
        fastest_figure,
        limits_figure,
        digest: digest(study, analysis, [observations.len(), limitations.len()]),
        glances: glances(analysis),
        overview: overview(study, analysis, &records),
        design: design(analysis),
        settings: settings(analysis),
        hosts: hosts(&records),
        envs: envs(analysis),
        varying: analysis.varying.clone(),
        axes: analysis.axes.iter().map(Effect::text).collect(),
        axes_figure,
        time_figure,
        times: times(analysis),
        results: results(analysis, links),
        unit: unit(&analysis.rows).to_string(),
        convention: complexity::convention_text(analysis, study.convention),
        leaves_out_work: study.convention.leaves_out_work(),
        left_out: analysis.runs.iter().filter_map(|run| left_out(run, &analysis.varying, links)).collect(),
        audit: exclusion_audit(analysis),
        failures: analysis.runs.iter().filter_map(|run| failure(run, links)).collect(),
        not_run: not_run(analysis),
        altered: analysis.runs.iter().filter_map(|run| altered(run, links)).collect(),
        findings: findings(analysis, |_| true),
        observations,
        limitations,
        figures: sections,
        ceilings: ceilings(analysis),
        metrics: metrics(analysis),
        prices: prices(analysis),
        complexity: complexity(analysis),
        profiles: profiles(analysis),
        provenance: provenance(study, &records),
        commands: commands.iter().map(|command| clean_text(command).into_owned()).collect(),
        csv_files: CSV_FILES.iter().map(|file| fact(file.name, file.line)).collect(),
        live,
    }
}

/// Further lines of the first screen, each with the section that has the rest.
const SURE: [(Question, &str); 3] = [
    (Question::Certainty, "measurement"),
    (Question::LeftOut, "measurement"),
    (Question::Missing, "limitations"),
];

fn first_sentence(analysis: &Analysis<'_>, question: Question) -> String {
    let line = analysis.brief.iter().find(|line| line.question == question);
    line.and_then(|line| line.sentences.first()).cloned().unwrap_or_default()
}

fn brief_line(line: &BriefLine) -> Fact {
    fact(line.question.heading(), line.sentences.join(" "))
}

/// A finding, or several similar ones.
#[derive(Debug, Serialize)]
struct FindingView {
    /// One sentence for all of them.
    text: String,
    /// The sentence of each, if there are several.
    each: Vec<String>,
}

/// The findings of the kinds that `is_wanted` accepts; similar ones are combined.
fn findings(analysis: &Analysis<'_>, is_wanted: fn(FindingKind) -> bool) -> Vec<FindingView> {
    let groups = alike(&analysis.findings).into_iter().filter(|group| is_wanted(group.kind()));
    let view = |group: Alike<'_>| FindingView {
        text: group.text(),
        each: match &*group.findings {
            [_] => Vec::new(),
            all => all.iter().map(|finding| finding.text.clone()).collect(),
        },
    };
    groups.map(view).collect()
}

/// The sections of all figures. Those of the axes and of the time are at the top of the page.
fn figure_sections(figures: &[Drawn]) -> Vec<FigureSection> {
    let drawings: Vec<usize> = figures.iter().map(|(_, drawings)| drawings.len()).collect();
    let shown = selection::on_page(&drawings);
    figures.iter().zip(shown).map(|(drawn, shown)| figure_section(drawn, shown)).collect()
}

/// The section of a figure whose first `shown` drawings are on the page.
fn figure_section((figure, drawings): &Drawn, shown: usize) -> FigureSection {
    let (on_page, beside) = drawings.split_at(shown);
    let view = |drawing: &Drawing| FigureView {
        name: figure.file_name(drawing),
        title: drawing.title.clone(),
        svg: within_page(&drawing.svg),
    };
    let named = |drawing: &Drawing| Beside { name: figure.file_name(drawing), title: drawing.title.clone() };
    FigureSection {
        section: section_of(figure.name),
        heading: figure.heading,
        explanation: figure.explanation,
        needs: figure.needs,
        drawings: on_page.iter().map(view).collect(),
        beside: beside.iter().map(named).collect(),
    }
}

/// The section of the pages that contains the figure `name`.
fn section_of(name: &str) -> &'static str {
    match name {
        "roofline" | "rooflines" | "operators" | "kernels" => "roofline",
        "throughput" | "scaling" | "scatter" | "order" | "iterations" => "measurement",
        _ => "analysis",
    }
}
