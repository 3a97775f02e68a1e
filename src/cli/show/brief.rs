//! The summary of one job, on one screen. Pure.

use super::page::{Lines, Page, line, metric_lines, section};
use crate::analysis::marks::Mark;
use crate::job::{Key, Kind, WorkerTemplate};
use crate::protocol::{Details, Measurement};
use crate::record::{HostFacts, Record};
use crate::text::{count_text, duration_text, first_few, gibibytes, rate_text, size_text};

/// The most custom metrics of the worker that are listed. `--all` lists the others.
const MOST_METRICS: usize = 3;

/// The page: state, config, throughput, bound, memory, machine, versions and files, then doubts.
pub(super) fn brief_text(page: &Page) -> String {
    let is_left_out = page.doubts.run.iter().any(Mark::disqualifies);
    let but = if is_left_out { ", but left out of the statistics" } else { "" };
    let mut lines = vec![line("state", format!("{}{but}", page.state()))];
    lines.extend(attempts(page));
    lines.extend(config(page.job.key()));
    if let Some(record) = page.last_record() {
        lines.extend(record.measurement.as_ref().map(|it| measured(it, &record.key)).unwrap_or_default());
        lines.extend(page.doubts.of_row.as_ref().map(|row| line("its row", row)));
        let class = page.doubts.class.as_ref();
        lines.extend(class.map(|class| line("limited by", format!("{}: {}", class.bound(), class.why()))));
        lines.extend(memory(record));
        lines.extend(place(record));
    }
    lines.push(line("files", files(page)));
    let mut text = format!("{}\n", page.job.label());
    section(&mut text, "", lines);
    text + &page.warnings()
}

/// The last attempt, and the outcomes of the earlier ones.
fn attempts(page: &Page) -> Lines {
    let Some(last) = page.attempts.last() else { return Lines::new() };
    let Some(record) = &last.record else {
        return vec![line("attempt", format!("{}, which left no record yet", last.number))];
    };
    let when = record.started_at.format("%Y-%m-%d %H:%M:%S UTC");
    let mut lines = vec![line("ran", format!("{when}, for {}", duration_text(record.wall_s())))];
    let earlier = page.attempts.iter().filter(|attempt| attempt.number != last.number);
    let ended = earlier.map(|attempt| match &attempt.record {
        Some(record) => format!("attempt {} {}", attempt.number, record.outcome),
        None => format!("attempt {} left no record", attempt.number),
    });
    let ended: Vec<String> = ended.collect();
    lines.extend((!ended.is_empty()).then(|| line("before", first_few(&ended))));
    lines
}

fn config(key: &Key) -> Lines {
    let Key { env, model, precision, batch, repeat, .. } = key;
    let config = format!("{env}, {model}, {precision}, batch {batch}, repeat {repeat}");
    let mut lines = vec![line("config", config)];
    lines.extend((key.kind != Kind::Timing).then(|| line("kind", key.kind)));
    let params: Vec<String> = key.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    lines.extend((!params.is_empty()).then(|| line("parameters", params.join(" "))));
    if let WorkerTemplate::Command(argv) = &key.worker {
        lines.push(line("worker", argv.join(" ")));
    }
    lines
}

fn measured(measurement: &Measurement, key: &Key) -> Lines {
    let unit = measurement.unit(key);
    let window = format!("{} {unit} in {} s", measurement.samples, rate_text(measurement.elapsed_s));
    let mut lines = match (key.kind, measurement.synchronized) {
        (Kind::Timing, true) => {
            let rate = rate_text(measurement.samples_per_s());
            vec![line("throughput", format!("{rate} {unit}/s ({window})"))]
        }
        (Kind::Timing, false) => {
            vec![line("window", format!("{window}, not synchronised: its seconds are meaningless"))]
        }
        (Kind::Ncu | Kind::Perf | Kind::Ops, _) => vec![line("window", format!("{window}, profiled"))],
    };
    let metrics = metric_lines(measurement);
    let more = metrics.len().saturating_sub(MOST_METRICS);
    lines.extend(metrics.into_iter().take(MOST_METRICS));
    lines.extend((more > 0).then(|| line("", format!("and {}", count_text(more, "more metric")))));
    lines
}

fn memory(record: &Record) -> Option<(String, String)> {
    let details = record.measurement.as_ref().map(|measurement| &*measurement.details);
    let of = |bytes: fn(&Details) -> Option<u64>| details.and_then(bytes);
    let host = record.process.as_ref().and_then(|process| process.max_rss_bytes);
    let device = of(|it| it.peak_device_memory_bytes);
    let host =
        host.or(of(|it| it.peak_host_memory_bytes)).map(|bytes| format!("{} of the host", size_text(bytes)));
    let device = device.map(|bytes| format!("{} of the device", size_text(bytes)));
    let parts: Vec<String> = host.into_iter().chain(device).collect();
    (!parts.is_empty()).then(|| line("peak memory", parts.join(", ")))
}

/// Its host, device and versions.
fn place(record: &Record) -> Lines {
    let host = &record.provenance.host;
    let details = record.measurement.as_ref().map(|measurement| &measurement.details);
    let device = details.and_then(|details| details.device_name.as_ref());
    let device = device.map_or_else(String::new, |name| format!(", {name}"));
    let mut versions = vec![format!("orchestrate {}", record.provenance.orchestrate)];
    let of_worker = details.map(|details| &details.versions).into_iter().flatten();
    versions.extend(of_worker.map(|(name, version)| format!("{name} {version}")));
    versions.extend(host.nvidia_driver.as_ref().map(|version| format!("driver {version}")));
    vec![
        line("host", host_text(host)),
        line("device", format!("{}{device}", record.key.device)),
        line("versions", first_few(&versions)),
    ]
}

fn host_text(host: &HostFacts) -> String {
    let os = match &host.os.version {
        Some(version) => version.clone(),
        None => host.os.name.clone(),
    };
    let processors = count_text(host.cpu.usable as usize, "processor");
    let memory =
        host.usable_memory_bytes().map(|bytes| format!(", {}", gibibytes(bytes))).unwrap_or_default();
    format!("{}, {os}, {processors}{memory}", host.hostname)
}

fn files(page: &Page) -> String {
    let bytes = page.files.iter().map(|(_, size)| size).sum();
    match page.files.len() {
        0 => format!("{} (none yet)", page.directory),
        number => format!("{} ({}, {})", page.directory, count_text(number, "file"), size_text(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::analysis::bound::Class;
    use crate::analysis::fixture;
    use crate::cli::marked::Doubts;
    use crate::cli::show::page::AttemptPage;
    use crate::job::{Job, ParamValue};
    use crate::plan::{NotDone, Standing};
    use crate::record::Outcome;

    fn page(attempts: Vec<AttemptPage>, standing: Standing) -> Page {
        let mut key = fixture::key("cpu", "resnet18", 16, 2);
        key.params.insert("warmup".into(), ParamValue::Int(3));
        Page {
            job: Job::new(key),
            directory: "runs/x".into(),
            standing,
            attempts,
            files: vec![("attempts/02/stdout.log".into(), 2048), ("key.json".into(), 12)],
            command: None,
            usd_per_hour: None,
            doubts: Doubts::default(),
            altered: Vec::new(),
        }
    }

    fn success() -> Record {
        let mut record =
            Record { attempt: 2, ..fixture::record(fixture::key("cpu", "resnet18", 16, 2), 100.0, 1) };
        record.process = None;
        let details = &mut record.measurement.as_mut().unwrap().details;
        details.peak_device_memory_bytes = Some(3 << 30);
        details.versions.insert("libtorch".into(), "2.11.0".into());
        record
    }

    #[test]
    fn summary_of_a_job_fits_a_screen() {
        let failed = Record {
            outcome: Outcome::Exited { code: 3, message: Some("no such file".into()) },
            measurement: None,
            ..success()
        };
        let attempts = vec![
            AttemptPage { number: 1, record: Some(failed) },
            AttemptPage { number: 2, record: Some(success()) },
        ];
        let page = Page {
            doubts: Doubts {
                run: vec![Mark::OnBattery, Mark::Contended { by: "others were at work".into() }],
                class: Some(Class::unknown("there is no evidence")),
                of_row: Some("99.00 images/s over 3 runs, 95 % interval 98.00 to 101.00".into()),
                ..Doubts::default()
            },
            ..page(attempts, Standing::Done(Arc::new(success())))
        };
        let text = brief_text(&page);
        assert!(text.lines().count() <= 24, "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_job_that_never_ran_has_a_config_and_a_directory() {
        let text = brief_text(&page(Vec::new(), Standing::NotDone(NotDone::NeverRan)));
        insta::assert_snapshot!(text);
    }
}
