//! Everything about one job, as text. Pure.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::number::{field_text, number_text};
use crate::analysis::cost::{usd_of, usd_per_million_samples};
use crate::analysis::energy::{Draw, cpu_draw, gpu_draw};
use crate::analysis::marks::Mark;
use crate::analysis::unconfirmed::{unconfirmed, unconfirmed_text};
use crate::cli::marked::Doubts;
use crate::cli::words::mark_text;
use crate::job::{Job, Key, Kind, WorkerTemplate};
use crate::plan::{Standing, quote};
use crate::protocol::{Measurement, OwnMetric};
use crate::record::perf::{Count, PerfEvent};
use crate::record::{
    Counters, Observed, ProcessStats, Provenance, Readings, Record, SET, contains_password, looks_secret,
};
use crate::text::{decimals, duration_text, rate_text, significant, size_text};

/// Everything about one job.
#[derive(Debug)]
pub(in crate::cli) struct Page {
    pub(super) job: Job,
    pub(super) directory: String,
    pub(super) standing: Standing,
    /// In order.
    pub(in crate::cli) attempts: Vec<AttemptPage>,
    /// Paths below the directory, and sizes in bytes.
    pub(super) files: Vec<(String, u64)>,
    /// The content of `command.sh`.
    pub(super) command: Option<String>,
    /// The price of an hour of the machine in US dollars, from the saved plan.
    pub(in crate::cli) usd_per_hour: Option<f64>,
    /// The marks of the attempt that counts, and of its row.
    pub(in crate::cli) doubts: Doubts,
    /// The altered files of the record that counts, each as a sentence.
    pub(super) altered: Vec<String>,
}

/// One attempt.
#[derive(Debug)]
pub(in crate::cli) struct AttemptPage {
    pub(in crate::cli) number: u32,
    /// `None` if it left no record: it is running, or was cut off.
    pub(super) record: Option<Record>,
}

/// The names and values of a section.
pub(in crate::cli) type Lines = Vec<(String, String)>;

impl Page {
    /// The record of the last attempt that left one.
    pub(super) fn last_record(&self) -> Option<&Record> {
        self.attempts.iter().rev().find_map(|attempt| attempt.record.as_ref())
    }

    /// Its state: `done`, or why it is not.
    pub(super) fn state(&self) -> String {
        match &self.standing {
            Standing::Done(_) => "done".to_owned(),
            Standing::NotDone(not_done) => format!("not done: {not_done}"),
        }
    }

    /// The whole page.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n", self.job.label());
        section(&mut text, "", self.head());
        section(&mut text, "key", self.key());
        section(&mut text, "attempts", self.attempt_lines());
        text += &self.warnings();
        // The last record counts. The outcomes of earlier ones are listed above.
        if let Some(record) = self.last_record() {
            let title = format!("of attempt {}", record.attempt);
            let measurement = record.measurement.as_ref().map(|it| measurement(it, &record.key));
            section(&mut text, &format!("measurement {title}"), measurement.unwrap_or_default());
            text += &record.measurement.as_ref().map(first_step_note).unwrap_or_default();
            section(&mut text, &format!("process {title}"), process(record.process.as_ref()));
            let counters = record.counters.as_ref().map(counters).unwrap_or_default();
            section(&mut text, &format!("counters {title}"), counters);
            section(&mut text, &format!("observed {title}"), observed(&record.observed));
            section(&mut text, &format!("telemetry {title}"), telemetry(record));
            section(&mut text, &format!("price {title}"), price(record, self.usd_per_hour));
            section(&mut text, &format!("provenance {title}"), provenance(&record.provenance));
        }
        let file = |(name, size): &(String, u64)| (name.clone(), size_text(*size));
        section(&mut text, "files", self.files.iter().map(file).collect());
        if let Some(command) = self.command_text() {
            text += &format!("\ncommand\n{}\n", indented(command.trim_end()));
        }
        text
    }

    /// The sections that matter most, each with its title. Some have no lines.
    pub(in crate::cli) fn short(&self) -> [(&'static str, Lines); 6] {
        let record = self.attempts.iter().rev().find_map(|attempt| attempt.record.as_ref());
        let measured = record.and_then(|record| Some(measurement(record.measurement.as_ref()?, &record.key)));
        [
            ("marks", mark_lines(&self.doubts.run)),
            ("marks of its row", mark_lines(&self.doubts.row)),
            ("measurement", measured.unwrap_or_default()),
            ("process", process(record.and_then(|record| record.process.as_ref()))),
            ("price", record.map(|record| price(record, self.usd_per_hour)).unwrap_or_default()),
            ("config", self.key()),
        ]
    }

    /// `command.sh` without the values of secrets, or if it is missing, the argv of the last record.
    fn command_text(&self) -> Option<String> {
        let remembered = || {
            let record = self.last_record()?;
            let words: Vec<String> = record.provenance.command.iter().map(|word| quote(word)).collect();
            Some(words.join(" "))
        };
        let provenance = self.last_record().map(|record| &*record.provenance);
        self.command.as_ref().map(|script| without_secrets(script, provenance)).or_else(remembered)
    }

    fn head(&self) -> Lines {
        vec![line("id", self.job.id()), line("state", self.state()), line("directory", &self.directory)]
    }

    fn key(&self) -> Lines {
        let key = self.job.key();
        let mut lines = vec![
            line("kind", key.kind),
            line("env", &key.env),
            line("device", key.device),
            line("model", &key.model),
            line("precision", key.precision),
            line("batch", key.batch),
            line("repeat", key.repeat),
        ];
        if let WorkerTemplate::Command(argv) = &key.worker {
            lines.push(line("worker", argv.join(" ")));
        }
        lines.extend(key.params.iter().map(|(name, value)| line(name, value)));
        lines.extend(key.profile.iters.map(|iters| line("profiled iters", iters)));
        if !key.profile.counters.is_empty() {
            lines.push(line("profiled counters", key.profile.counters.join(", ")));
        }
        lines
    }

    /// The sections with doubts about its numbers; empty if there are none.
    pub(super) fn warnings(&self) -> String {
        let mut text = String::new();
        section(&mut text, "marks", mark_lines(&self.doubts.run));
        section(&mut text, "marks of its row", mark_lines(&self.doubts.row));
        text + &self.unconfirmed() + &self.altered()
    }

    /// The section on parameters that the record does not confirm; empty if it confirms all.
    fn unconfirmed(&self) -> String {
        let Standing::Done(record) = &self.standing else { return String::new() };
        match unconfirmed(self.job.key(), record) {
            names if names.is_empty() => String::new(),
            names => format!("\nnot confirmed\n  {}\n", unconfirmed_text(&names)),
        }
    }

    /// The section on altered files; empty if there are none.
    fn altered(&self) -> String {
        let lines: String = self.altered.iter().map(|line| format!("  {line}\n")).collect();
        if lines.is_empty() { lines } else { format!("\nnot as it was written\n{lines}") }
    }

    /// The attempts, each with its number and outcome.
    pub(in crate::cli) fn attempt_lines(&self) -> Lines {
        let text = |attempt: &AttemptPage| match &attempt.record {
            None => "left no record: it is running, or it was cut off".to_owned(),
            Some(record) => format!(
                "{}, {}: {}",
                record.started_at.format("%Y-%m-%d %H:%M:%S UTC"),
                duration_text(record.wall_s()),
                record.outcome
            ),
        };
        self.attempts.iter().map(|attempt| line(attempt.number, text(attempt))).collect()
    }
}

fn mark_lines(marks: &[Mark]) -> Lines {
    let text = |mark: &Mark| match mark_text(mark).split_once(": ") {
        Some((name, rest)) => line(name, rest),
        None => line("", mark_text(mark)),
    };
    marks.iter().map(text).collect()
}

/// `script` from [`crate::plan::Invocation::script`], without the values of secrets if an older version wrote it. It
/// sets each variable on its own continued line. `provenance` is that of the last record.
fn without_secrets(script: &str, provenance: Option<&Provenance>) -> String {
    const CONTINUED: &str = " \\\n";
    // Versions that support secrets write no values with such a name.
    let is_older = provenance.is_none_or(|provenance| provenance.secret.is_none());
    let is_open = |name: &str, value: &str| {
        (is_older && (looks_secret(name) || contains_password(name, value)))
            || provenance.is_some_and(|provenance| provenance.shows_secret(name))
    };
    let hide = |line: &str| match line.trim_start().split_once('=') {
        Some((name, value)) if is_open(name, value) && value != format!("\"${name}\"") => {
            format!("  {name}={SET}")
        }
        _ => line.to_owned(),
    };
    script.split(CONTINUED).map(hide).collect::<Vec<_>>().join(CONTINUED)
}

/// The sums of a profiler's counters. `counters.csv` and `kernels.csv` have the rest.
fn counters(counters: &Counters) -> Lines {
    let mut lines = Lines::new();
    match counters {
        Counters::Ncu(ncu) => {
            let totals = ncu.totals();
            lines.push(line("kernels", ncu.kernels));
            let missing = || "not measured".to_owned();
            let totals = [("executed_flops", totals.flops), ("dram_bytes", totals.dram_bytes)];
            lines.extend(totals.map(|(name, value)| {
                line(name, value.map_or_else(missing, |value| field_text(name, value as f64)))
            }));
            let share = ncu.zero_flop_share().map(|share| format!("{:.1} %", 100.0 * share));
            lines.push(line("zero_flop_time", share.unwrap_or_else(missing)));
            lines.extend(
                ncu.not_measured.iter().map(|(name, why)| line(name, format!("not measured: {why}"))),
            );
            lines.extend(ncu.warnings.iter().map(|warning| line("warning", warning)));
        }
        Counters::Perf(perf) => {
            let ratio = |value: Option<f64>| {
                value.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.3}"))
            };
            lines.push(line("instructions_per_cycle", ratio(perf.ipc())));
            lines.push(line("cache_miss_rate", ratio(perf.cache_miss_rate())));
            lines.push(line("branch_miss_rate", ratio(perf.branch_miss_rate())));
            let value = |event: &PerfEvent| match event.count {
                Count::Counted { value, .. } => value.to_string(),
                Count::NotSupported | Count::NotCounted => "not measured".to_owned(),
            };
            lines.extend(perf.events.iter().map(|event| line(&event.name, value(event))));
        }
    }
    lines
}

/// A line of a section.
pub(super) fn line(name: impl ToString, value: impl ToString) -> (String, String) {
    (name.to_string(), value.to_string())
}

/// Adds a section with aligned names, or nothing if it has no lines.
pub(super) fn section(text: &mut String, title: &str, lines: Lines) {
    if lines.is_empty() {
        return;
    }
    if !title.is_empty() {
        *text += &format!("\n{title}\n");
    }
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, value) in lines {
        *text += &format!("  {name:width$}  {value}\n");
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

fn measurement(measurement: &Measurement, key: &Key) -> Lines {
    let synchronised = if measurement.synchronized { "yes" } else { "no: its seconds are meaningless" };
    let mut lines = vec![
        line("samples", measurement.samples),
        line("seconds", number_text(measurement.elapsed_s)),
        line("synchronised", synchronised),
    ];
    if key.kind == Kind::Timing && measurement.synchronized {
        let unit = measurement.unit(key);
        lines.push(line(format!("{unit}/s"), rate_text(measurement.samples_per_s())));
    }
    lines.extend(metric_lines(measurement));
    lines.extend(fields("effective ", &measurement.effective));
    lines.extend(fields("", &measurement.details));
    lines
}

/// The custom metrics of the worker, in the units in which they are compared.
pub(super) fn metric_lines(measurement: &Measurement) -> Lines {
    let metric = |(name, metric): (&String, &OwnMetric)| {
        let value = metric.compared(measurement.elapsed_s)?;
        let unit = metric.compared_unit(name).map(|unit| format!(" {unit}")).unwrap_or_default();
        Some(line(format!("metric {name}"), format!("{}{unit}", number_text(value))))
    };
    measurement.metrics.iter().filter_map(metric).collect()
}

/// An explanation of `first_step_s`, which is often mistaken for the time of compilation.
fn first_step_note(measurement: &Measurement) -> String {
    if measurement.details.first_step_s.is_none() {
        return String::new();
    }
    let warmed = measurement.effective.settings.get("warmup").map(ToString::to_string);
    let of_first_steps = match warmed.as_deref() {
        Some("0") => "There was no warm-up, so the window contains them.",
        _ => "They are in the warm-up, outside the window too.",
    };
    format!(
        "\n  first_step_s ends where the first step begins: libraries, network and first batch are loaded. It is \
         outside the window.\n  Compilation, cuDNN's search and first allocations happen in the first steps. \
         {of_first_steps}\n"
    )
}

fn process(process: Option<&ProcessStats>) -> Lines {
    let Some(process) = process else { return Vec::new() };
    let seconds =
        |name: &str, value: Option<f64>| value.map(|value| line(name, format!("{} s", number_text(value))));
    let size = |name: &str, value: Option<u64>| value.map(|value| line(name, size_text(value)));
    let number = |name: &str, value: Option<u64>| value.map(|value| line(name, value));
    [
        seconds("wall", process.wall_s),
        seconds("user", process.user_s),
        seconds("system", process.system_s),
        size("peak resident", process.max_rss_bytes),
        size("peak footprint", process.peak_footprint_bytes),
        number("voluntary switches", process.voluntary_switches),
        number("involuntary switches", process.involuntary_switches),
        number("major faults", process.major_faults),
        number("minor faults", process.minor_faults),
        number("instructions", process.instructions),
        number("cycles", process.cycles),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn observed(observed: &Observed) -> Lines {
    fields("", &Observed { telemetry: None, ..observed.clone() })
}

/// The cost of the attempt at `usd_per_hour`, and of a million samples at its throughput.
fn price(record: &Record, usd_per_hour: Option<f64>) -> Lines {
    let Some(usd_per_hour) = usd_per_hour else { return Vec::new() };
    let wall_s = record.wall_s();
    let of_attempt =
        format!("{} USD for {}", significant(usd_of(usd_per_hour, wall_s), 3), duration_text(wall_s));
    let mut lines = vec![line("attempt", of_attempt)];
    let measured = record.measurement.as_ref().filter(|it| it.synchronized && record.outcome.is_success());
    if let Some(measured) = measured.filter(|_| record.key.kind == Kind::Timing) {
        let usd = usd_per_million_samples(usd_per_hour, measured.samples as f64 / measured.elapsed_s);
        let unit = measured.unit(&record.key);
        lines.push(line(format!("a million {unit}"), format!("{} USD", significant(usd, 3))));
    }
    lines
}

/// The readings of sensors, and the power and energy computed from them.
fn telemetry(record: &Record) -> Lines {
    let Some(telemetry) = &record.observed.telemetry else { return Vec::new() };
    let mut lines = fields("", telemetry);
    let draw = |name: &str, draw: Option<Draw>| {
        let draw = draw?;
        let power = decimals(draw.power_w, 1);
        let joules = rate_text(draw.joules_per_sample);
        Some(line(name, format!("{power} W, {joules} J per sample ({})", draw.source.as_str())))
    };
    lines.extend(draw("processor power", cpu_draw(record)));
    lines.extend(draw("GPU power", gpu_draw(record)));
    lines
}

fn provenance(provenance: &Provenance) -> Lines {
    let mut lines = vec![line("orchestrate", &provenance.orchestrate)];
    lines.extend(fields("host ", &provenance.host));
    lines.extend(fields("worker ", &provenance.worker));
    lines.extend(fields("matrix ", &provenance.matrix));
    lines.extend(provenance.git.iter().flat_map(|git| fields("git ", git)));
    lines.extend(provenance.slurm.iter().flat_map(|slurm| fields("Slurm ", slurm)));
    lines.extend(provenance.cloud.iter().flat_map(|cloud| fields("cloud ", cloud)));
    lines.extend(provenance.shown_environment().map(|(name, value)| line(format!("${name}"), value)));
    lines
}

/// Every non-empty field of `value`, named as in `record.json`. New fields of a record are thus shown automatically.
fn fields(prefix: &str, value: &impl Serialize) -> Lines {
    let mut lines = Vec::new();
    // A record was read from JSON, so it can be serialised.
    if let Ok(value) = serde_json::to_value(value) {
        add_fields(prefix.trim_end(), &value, &mut lines);
    }
    lines
}

fn add_fields(name: &str, value: &Value, lines: &mut Lines) {
    match value {
        Value::Null => {}
        Value::Object(map) => {
            if let Ok(readings) = Readings::deserialize(value) {
                return lines.push(line(name, readings_text(name, &readings)));
            }
            for (field, value) in map {
                let name = if name.is_empty() { field.clone() } else { format!("{name} {field}") };
                add_fields(&name, value, lines);
            }
        }
        Value::Array(values) if values.is_empty() => {}
        // Objects with fields, such as GPUs and processes.
        Value::Array(values) if values.iter().any(Value::is_object) => {
            for (index, value) in values.iter().enumerate() {
                add_fields(&format!("{name} {index}"), value, lines);
            }
        }
        Value::Array(values) => {
            let words: Vec<String> = values.iter().map(|value| scalar_text(name, value)).collect();
            lines.push(line(name, words.join(", ")));
        }
        scalar => lines.push(line(name, scalar_text(name, scalar))),
    }
}

/// A summary of the readings of the sensor `name`.
fn readings_text(name: &str, readings: &Readings) -> String {
    let [min, mean, max, first, last] =
        [readings.min, readings.mean, readings.max, readings.first, readings.last]
            .map(|value| field_text(name, value));
    format!("mean {mean}, from {min} to {max}; first {first}, last {last}")
}

/// `value` of the field `name`. Whole numbers have all of their digits, except for bytes.
fn scalar_text(name: &str, value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() || name.ends_with("bytes") => {
            field_text(name, number.as_f64().unwrap_or(f64::NAN))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::analysis::fixture;
    use crate::job::ParamValue;
    use crate::plan::NotDone;
    use crate::record::{GpuFacts, HostFacts, Outcome, Sensor, Telemetry};

    #[test]
    fn a_job_that_failed_once_and_then_succeeded() {
        let mut key = fixture::key("cpu", "resnet18", 16, 2);
        key.params.insert("warmup".into(), ParamValue::Int(3));
        let success = Record { attempt: 2, ..fixture::record(key.clone(), 100.0, 1) };
        let failure = Record {
            outcome: Outcome::Exited { code: 3, message: Some("no such file".into()) },
            measurement: None,
            ..fixture::record(key.clone(), 100.0, 0)
        };
        let page = Page {
            job: Job::new(key),
            directory: "runs/x".into(),
            standing: Standing::Done(Arc::new(success.clone())),
            attempts: vec![
                AttemptPage { number: 1, record: Some(failure) },
                AttemptPage { number: 2, record: Some(success) },
            ],
            files: vec![("attempts/02/stdout.log".into(), 2048), ("key.json".into(), 12)],
            command: Some("#!/bin/sh\nexec worker --arch resnet18\n".into()),
            usd_per_hour: Some(0.36),
            doubts: Doubts::default(),
            altered: Vec::new(),
        };
        insta::assert_snapshot!(page.text());
    }

    #[test]
    fn explains_the_time_to_the_first_step() {
        let page = |warmup: i64, first_step_s: Option<f64>| {
            let mut measurement =
                fixture::record(fixture::key("cpu", "resnet18", 16, 1), 100.0, 0).measurement.unwrap();
            measurement.details.first_step_s = first_step_s;
            measurement.effective.settings.set("warmup", warmup);
            first_step_note(&measurement)
        };
        assert_eq!(page(10, None), "");
        assert!(page(10, Some(2.5)).contains("They are in the warm-up, outside the window too."));
        assert!(page(0, Some(2.5)).contains("There was no warm-up, so the window contains them."));
    }

    #[test]
    fn sensors_and_power_have_one_line_each() {
        let mut record = fixture::record(fixture::key("cpu", "resnet18", 16, 1), 100.0, 0);
        let telemetry = Telemetry { samples: 9, of_window: true, ..Telemetry::default() };
        let telemetry = telemetry
            .with(Sensor::CpuClock, Readings::of([3000.0, 2900.0, 2950.0]).unwrap())
            .with(Sensor::CpuEnergy, 80.0)
            .with(Sensor::SwappedOut, 0);
        record.observed.telemetry = Some(telemetry);
        let page = Page {
            job: Job::new(record.key.clone()),
            directory: "runs/x".into(),
            standing: Standing::Done(Arc::new(record.clone())),
            attempts: vec![AttemptPage { number: 1, record: Some(record) }],
            files: Vec::new(),
            command: None,
            usd_per_hour: Some(0.36),
            doubts: Doubts::default(),
            altered: Vec::new(),
        };
        let text = page.text();
        let section = text.split("\n\n").find(|part| part.starts_with("telemetry of attempt 1")).unwrap();
        insta::assert_snapshot!(section, @r"
        telemetry of attempt 1
          cpu_energy_j       80
          cpu_mhz            mean 2950, from 2900 to 3000; first 3000, last 2950
          of_window          true
          samples            9
          swapped_out_bytes  0 B
          processor power    50 W, 0.5000 J per sample (counter)
        ");
    }

    #[test]
    fn a_job_that_never_ran_has_a_key_and_nothing_else() {
        let page = Page {
            job: Job::new(fixture::key("cpu", "resnet18", 16, 1)),
            directory: "runs/x".into(),
            standing: Standing::NotDone(NotDone::NeverRan),
            attempts: Vec::new(),
            files: Vec::new(),
            command: None,
            usd_per_hour: Some(0.36),
            doubts: Doubts::default(),
            altered: Vec::new(),
        };
        let text = page.text();
        assert!(text.contains("not done: it never ran"), "{text}");
        assert!(!text.contains("attempts") && !text.contains("files") && !text.contains("command"), "{text}");
    }

    #[test]
    fn lists_of_objects_are_numbered() {
        let gpu = |name: &str| GpuFacts { name: name.into(), ..GpuFacts::default() };
        let host = HostFacts { gpus: vec![gpu("L4"), gpu("T4")], ..HostFacts::default() };
        let lines = fields("host ", &host);
        assert!(lines.contains(&line("host gpus 0 name", "L4")), "{lines:?}");
        assert!(lines.contains(&line("host gpus 1 name", "T4")), "{lines:?}");
    }
}
