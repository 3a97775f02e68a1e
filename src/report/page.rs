//! What the templates are given: every number already a text, so that a template only places it.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::{Environment, UndefinedBehavior, syntax::SyntaxConfig};
use serde::Serialize;

use super::figure::{Figure, Figures};
use super::number::{duration, gibibytes, grouped, significant};
use super::profiles::{Profiles, profiles};
use crate::analysis::group::{Row, Statistics};
use crate::analysis::peaks::Peaks;
use crate::analysis::table::NOT_KNOWN;
use crate::analysis::{Analysis, Run, Study, marks};
use crate::job::{PARAMETERS, distinction};
use crate::record::{HostFacts, Record};
use crate::stats::TooFew;

/// A template that cannot be rendered.
#[derive(Debug, thiserror::Error)]
#[error("cannot render the template of {name}")]
pub struct PageError {
    name: String,
    #[source]
    source: Box<minijinja::Error>,
}

/// What both templates see.
#[derive(Debug, Serialize)]
pub(super) struct Page {
    matrix: String,
    description: Option<String>,
    overview: Vec<Fact>,
    hosts: Vec<Section>,
    envs: Vec<Section>,
    varying: Vec<String>,
    results: Vec<ResultRow>,
    convention: String,
    left_out: Vec<LeftOut>,
    failures: Vec<FailureRow>,
    not_run: Vec<Fact>,
    findings: Vec<String>,
    throughput: Vec<FigureView>,
    rooflines: Vec<FigureView>,
    ceilings: Vec<CeilingRow>,
    complexity: Vec<ComplexityRow>,
    profiles: Profiles,
    provenance: Vec<Fact>,
    commands: Vec<String>,
}

/// A name and its value.
#[derive(Debug, Serialize)]
struct Fact {
    name: String,
    value: String,
}

/// Facts under a heading.
#[derive(Debug, Serialize)]
struct Section {
    name: String,
    facts: Vec<Fact>,
}

#[derive(Debug, Serialize)]
struct ResultRow {
    env: String,
    model: String,
    precision: String,
    batch: u32,
    varying: Vec<String>,
    part: Option<String>,
    /// `None` where there is no throughput, and `reason` says why.
    numbers: Option<Numbers>,
    reason: String,
    marks: String,
}

#[derive(Debug, Serialize)]
struct Numbers {
    n: usize,
    median: String,
    mad: String,
    mean: String,
    sd: String,
    interval: String,
    attained: String,
    share: String,
    usd: String,
}

#[derive(Debug, Serialize)]
struct LeftOut {
    label: String,
    images_per_s: String,
    why: String,
}

#[derive(Debug, Serialize)]
struct FailureRow {
    job: String,
    outcome: String,
    reason: String,
    attempts: u32,
}

#[derive(Debug, Serialize)]
struct FigureView {
    name: String,
    title: String,
    svg: String,
}

#[derive(Debug, Serialize)]
struct CeilingRow {
    env: String,
    precision: String,
    flops: String,
    bandwidth: String,
    knee: String,
    origin: String,
    source: String,
}

#[derive(Debug, Serialize)]
struct ComplexityRow {
    model: String,
    parameters: String,
    forward_gmac: String,
    training_gflop: String,
    intensity: String,
}

/// Renders the template `text` of the page `name`, whose extension says how values are escaped.
///
/// # Errors
/// [`PageError`]: the template is wrong, or names something that a page does not have.
pub(super) fn render(name: &str, text: &str, page: &Page) -> Result<String, PageError> {
    let wrong = |source| PageError { name: name.to_owned(), source: Box::new(source) };
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    environment.set_syntax(syntax.build().map_err(wrong)?);
    environment.add_filter("cell", cell);
    environment.add_template(name, text).map_err(wrong)?;
    let template = environment.get_template(name).map_err(wrong)?;
    template.render(minijinja::value::Serde(page)).map_err(wrong)
}

/// A text as it may stand in a Markdown table.
fn cell(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|").replace(['\n', '\r'], " ").replace('<', "&lt;")
}

/// What a page says of `analysis`.
pub(super) fn page(study: &Study, analysis: &Analysis<'_>, figures: &Figures) -> Page {
    let records: Vec<&Record> = analysis.runs.iter().filter_map(|run| run.cell.record()).collect();
    let name = &study.matrix.name;
    Page {
        matrix: name.clone(),
        description: study.description.clone(),
        overview: overview(study, analysis, &records),
        hosts: hosts(&records),
        envs: envs(analysis),
        varying: analysis.varying.clone(),
        results: analysis.rows.iter().map(|row| result(row, &analysis.varying)).collect(),
        convention: study.convention.to_string(),
        left_out: analysis.runs.iter().filter_map(|run| left_out(run, &analysis.varying)).collect(),
        failures: analysis.runs.iter().filter_map(failure).collect(),
        not_run: not_run(analysis),
        findings: analysis.findings.iter().map(|finding| finding.text.clone()).collect(),
        throughput: figures.throughput.iter().map(figure_view).collect(),
        rooflines: figures.rooflines.iter().map(figure_view).collect(),
        ceilings: ceilings(analysis),
        complexity: complexity(analysis),
        profiles: profiles(analysis),
        provenance: provenance(study, &records),
        commands: vec![
            format!("orchestrate run {}", study.matrix.path),
            format!(
                "orchestrate report {name}{}",
                if study.include_marked { " --include-marked" } else { "" }
            ),
        ],
    }
}

fn fact(name: &str, value: impl Into<String>) -> Fact {
    Fact { name: name.to_owned(), value: value.into() }
}

fn maybe_fact(name: &str, value: Option<String>) -> Option<Fact> {
    value.map(|value| fact(name, value))
}

fn overview(study: &Study, analysis: &Analysis<'_>, records: &[&Record]) -> Vec<Fact> {
    let done = analysis.runs.iter().filter(|run| run.cell.success().is_some()).count();
    let failed = analysis.runs.iter().filter(|run| run.cell.is_failure()).count();
    let total = analysis.runs.len();
    let wall: f64 = records.iter().map(|record| marks::wall_s(record)).sum();
    let started = records.iter().map(|record| record.started_at).min();
    let ended = records.iter().map(|record| record.ended_at).max();
    let span = started.zip(ended).map(|(from, to)| {
        format!("{} to {} UTC", from.format("%Y-%m-%d %H:%M:%S"), to.format("%Y-%m-%d %H:%M:%S"))
    });
    let jobs =
        format!("{total} planned: {done} with a result, {failed} failed, {} not run", total - done - failed);
    [
        Some(fact("Matrix", format!("{} ({})", study.matrix.name, study.matrix.path))),
        Some(fact("Jobs", jobs)),
        maybe_fact("Measured", span),
        Some(fact("Time in jobs", duration(wall))),
        study.include_marked.then(|| fact("Marked runs", included(analysis))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What `--include-marked` did.
fn included(analysis: &Analysis<'_>) -> String {
    let n: usize = analysis.rows.iter().map(Row::included).sum();
    format!("in the statistics in spite of their marks, as asked for by --include-marked: {n}")
}

fn hosts(records: &[&Record]) -> Vec<Section> {
    let mut found: BTreeMap<String, Vec<Fact>> = BTreeMap::new();
    for record in records {
        let host = &record.provenance.host;
        found.entry(host.hostname.clone()).or_insert_with(|| host_facts(host));
    }
    found.into_iter().map(|(name, facts)| Section { name, facts }).collect()
}

fn host_facts(host: &HostFacts) -> Vec<Fact> {
    let system = [Some(host.os.name.as_str()), host.os.version.as_deref(), host.os.kernel.as_deref()];
    let system: Vec<&str> = system.into_iter().flatten().chain([host.os.architecture.as_str()]).collect();
    [
        Some(fact("System", system.join(", "))),
        maybe_fact("Processor", host.cpu.model.clone()),
        Some(fact("Processors", format!("{} usable of {}", host.cpu.usable, host.cpu.logical))),
        maybe_fact("Memory", host.memory_bytes.map(gibibytes)),
        maybe_fact("GPU", gpu_names(host)),
        maybe_fact("NVIDIA driver", host.nvidia_driver.clone()),
        maybe_fact("Virtualisation", host.virtualisation.clone()),
        maybe_fact("Container", host.container.clone()),
        maybe_fact("Governor", host.governor.clone()),
        maybe_fact("Power", host.power_source.clone()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Models of the host's GPUs, each as often as it is there; `None` without any.
fn gpu_names(host: &HostFacts) -> Option<String> {
    let names: Vec<&str> = host.gpus.iter().map(|gpu| gpu.name.as_str()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// What the runs of each env had in common; where they differ, all values are named.
fn envs(analysis: &Analysis<'_>) -> Vec<Section> {
    let mut found: BTreeMap<&str, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for row in &analysis.rows {
        let facts = found.entry(&row.config.env).or_default();
        for (name, value) in env_facts(row, &analysis.varying) {
            facts.entry(name).or_default().insert(value);
        }
    }
    found
        .into_iter()
        .map(|(name, facts)| Section {
            name: name.to_owned(),
            facts: facts
                .into_iter()
                .map(|(name, values)| fact(&name, values.into_iter().collect::<Vec<_>>().join(" / ")))
                .collect(),
        })
        .collect()
}

fn env_facts(row: &Row<'_>, varying: &[String]) -> Vec<(String, String)> {
    let mut facts = vec![("backend".to_owned(), row.config.device.to_string())];
    for (name, value) in &row.config.params {
        if !varying.contains(name) {
            facts.push((name.clone(), value.to_string()));
        }
    }
    if let crate::job::WorkerTemplate::Command(argv) = &row.config.worker {
        facts.push(("worker command".to_owned(), argv.join(" ")));
    }
    let Some(circumstances) = &row.circumstances else { return facts };
    let effective = &circumstances.effective;
    facts.push(("host".to_owned(), circumstances.host.clone()));
    facts.extend(circumstances.device_name.clone().map(|name| ("device".to_owned(), name)));
    facts.extend(circumstances.device_uuid.clone().map(|uuid| ("device UUID".to_owned(), uuid)));
    let threads = effective.settings.get("threads");
    facts.extend(threads.map(|threads| ("threads".to_owned(), threads.to_string())));
    facts.extend(effective.tf32.map(|tf32| ("TF32 (effective)".to_owned(), tf32.to_string())));
    facts.extend(
        circumstances
            .worker_sha256
            .as_ref()
            .map(|hash| ("worker SHA-256".to_owned(), hash.chars().take(12).collect())),
    );
    facts.extend(circumstances.versions.clone());
    facts.retain(|(name, _)| !varying.contains(name));
    facts
}

fn result(row: &Row<'_>, varying: &[String]) -> ResultRow {
    let key = &row.config;
    let value = |name: &String| key.param(name).map_or(NOT_KNOWN.to_owned(), |value| value.to_string());
    ResultRow {
        env: key.env.clone(),
        model: key.model.clone(),
        precision: key.precision.to_string(),
        batch: key.batch,
        varying: varying.iter().map(value).collect(),
        part: (row.part.1 > 1).then(|| format!("{} of {}", row.part.0, row.part.1)),
        numbers: row.statistics.as_ref().ok().map(|statistics| numbers(row, statistics)),
        reason: row.statistics.as_ref().err().cloned().unwrap_or_default(),
        marks: marks_cell(row),
    }
}

fn numbers(row: &Row<'_>, statistics: &Statistics) -> Numbers {
    let or_too_few =
        |value: Result<f64, TooFew>| value.map_or("n too small".to_owned(), |value| significant(value, 2));
    let interval = match statistics.median_interval {
        Ok(interval) => format!(
            "{} to {} ({} %)",
            significant(interval.low, 4),
            significant(interval.high, 4),
            significant(100.0 * interval.coverage, 3)
        ),
        Err(_) => "n too small".to_owned(),
    };
    let or_unknown =
        |value: Option<f64>, digits| value.map_or(NOT_KNOWN.to_owned(), |value| significant(value, digits));
    Numbers {
        n: statistics.n,
        median: significant(statistics.median, 4),
        mad: or_too_few(statistics.mad),
        mean: significant(statistics.mean, 4),
        sd: or_too_few(statistics.sd),
        interval,
        attained: or_unknown(row.attained().map(|attained| attained / 1e9), 4),
        share: or_unknown(row.share_of_peak().map(|share| 100.0 * share), 3),
        usd: or_unknown(row.usd_per_million(), 3),
    }
}

/// The marks of the row and of its runs, with how many runs are left out, or are not though their marks say so.
fn marks_cell(row: &Row<'_>) -> String {
    let names: Vec<&str> = row.marks().into_iter().collect();
    if names.is_empty() {
        return "none".to_owned();
    }
    let of = row.runs.len();
    let counts = [(row.left_out(), "left out"), (row.included(), "included")];
    let counts = counts.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} of {of} {what}"));
    let counts: Vec<String> = counts.collect();
    if counts.is_empty() { names.join(", ") } else { format!("{} ({})", names.join(", "), counts.join(", ")) }
}

fn left_out(run: &Run<'_>, varying: &[String]) -> Option<LeftOut> {
    run.cell.success()?;
    if run.counts() || !run.cell.is_timing() {
        return None;
    }
    let whys: Vec<String> = run.left_out_by().map(ToString::to_string).collect();
    Some(LeftOut {
        label: format!("{}{}", run.cell.job.label(), distinction(run.cell.job.key(), varying)),
        images_per_s: run.images_per_s().map_or(NOT_KNOWN.to_owned(), |rate| significant(rate, 4)),
        why: whys.join("; "),
    })
}

fn failure(run: &Run<'_>) -> Option<FailureRow> {
    let record = run.cell.record().filter(|_| run.cell.is_failure())?;
    Some(FailureRow {
        job: run.cell.job.dir_name(),
        outcome: record.outcome.kind().to_owned(),
        reason: run.cell.reason()?,
        attempts: record.attempt,
    })
}

/// Jobs without a record: their number by env and reason.
fn not_run(analysis: &Analysis<'_>) -> Vec<Fact> {
    let mut found: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for run in analysis.runs.iter().filter(|run| run.cell.record().is_none()) {
        let reason = run.cell.reason().unwrap_or_default();
        *found.entry((&run.cell.job.key().env, reason)).or_default() += 1;
    }
    found.into_iter().map(|((env, reason), n)| fact(env, format!("{n} × {reason}"))).collect()
}

fn figure_view(figure: &Figure) -> FigureView {
    FigureView { name: figure.name.clone(), title: figure.title.clone(), svg: figure.svg.clone() }
}

fn ceilings(analysis: &Analysis<'_>) -> Vec<CeilingRow> {
    let of = |env: &str, peaks: &Peaks| -> Vec<CeilingRow> {
        let bandwidth = peaks.bandwidth.map(|range| format!("{} GB/s", significant(range.high / 1e9, 3)));
        let row = |ceiling: &crate::analysis::peaks::Ceiling| {
            let range = ceiling.flops_per_s;
            let high = significant(range.high / 1e9, 4);
            let flops = if range.is_wide() {
                format!("{} to {high} GFLOP/s, the roof at the upper end", significant(range.low / 1e9, 4))
            } else {
                format!("{high} GFLOP/s")
            };
            let knee =
                peaks.knee(ceiling.precision).map(|knee| format!("{} FLOP/byte", significant(knee, 3)));
            CeilingRow {
                env: env.to_owned(),
                precision: format!("{}, dense, accumulated in {}", ceiling.precision, ceiling.accumulate),
                flops,
                bandwidth: bandwidth.clone().unwrap_or_else(|| NOT_KNOWN.to_owned()),
                knee: knee.unwrap_or_else(|| NOT_KNOWN.to_owned()),
                origin: format!("{}, {}", peaks.origin, peaks.date),
                source: peaks.source.clone(),
            }
        };
        peaks.flops.iter().map(row).collect()
    };
    let mut seen: Vec<(&str, &str)> = Vec::new();
    let mut rows = Vec::new();
    for row in &analysis.rows {
        let Some(peaks) = row.ceilings() else { continue };
        let this = (row.config.env.as_str(), peaks.name.as_str());
        if !seen.contains(&this) {
            seen.push(this);
            rows.extend(of(&row.config.env, peaks));
        }
    }
    rows
}

/// One row a network, precision and batch: intensity depends on all three.
fn complexity(analysis: &Analysis<'_>) -> Vec<ComplexityRow> {
    let mut seen = BTreeSet::new();
    let mut rows = Vec::new();
    for row in &analysis.rows {
        let Ok(cost) = &row.cost else { continue };
        let key = &row.config;
        let size = cost.input_size;
        let model = format!("{} {}, {size} × {size} pixels, batch {}", key.model, key.precision, key.batch);
        if !seen.insert(model.clone()) {
            continue;
        }
        rows.push(ComplexityRow {
            model,
            parameters: grouped(cost.parameters),
            forward_gmac: format!("{:.3}", cost.forward_macs as f64 / 1e9),
            training_gflop: format!("{:.3}", cost.training_flops as f64 / 1e9),
            intensity: significant(cost.training_flops as f64 / cost.modelled_bytes, 3),
        });
    }
    rows
}

fn provenance(study: &Study, records: &[&Record]) -> Vec<Fact> {
    let unique = |value: &dyn Fn(&Record) -> Option<String>| -> Option<String> {
        let values: BTreeSet<String> = records.iter().filter_map(|record| value(record)).collect();
        (!values.is_empty()).then(|| values.into_iter().collect::<Vec<_>>().join(" / "))
    };
    let git = |record: &Record| {
        let git = record.provenance.git.as_ref()?;
        Some(format!("{}{}", git.revision, if git.dirty { ", with uncommitted changes" } else { "" }))
    };
    let settings: Vec<&str> = PARAMETERS.iter().map(|parameter| parameter.name).collect();
    [
        Some(fact("Matrix SHA-256 (planned)", study.matrix.sha256.clone())),
        maybe_fact(
            "Matrix SHA-256 (of the runs)",
            unique(&|record| Some(record.provenance.matrix.sha256.clone())),
        ),
        maybe_fact("Git", unique(&git)),
        maybe_fact("orchestrate", unique(&|record| Some(record.provenance.orchestrate.clone()))),
        maybe_fact("Worker SHA-256", unique(&|record| record.provenance.worker.sha256.clone())),
        maybe_fact("Optimizer", unique(&|record| record.measurement.as_ref()?.details.optimizer.clone())),
        Some(fact("Settings in metrics.csv", settings.join(", "))),
        maybe_fact("Changed thresholds", study.thresholds.changed_text()),
    ]
    .into_iter()
    .flatten()
    .collect()
}
