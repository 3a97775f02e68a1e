//! The CSV files, as tables of words. Units stand in the column names; what is not known is `NA`, never blank and never 0.

use std::collections::HashMap;

use super::analyse::Analysis;
use super::cost::{Cost, usd_per_million_images};
use super::counted::{Counted, NcuRun};
use super::group::{Row, Statistics};
use super::line::Line;
use super::marks::{foreign_cores, mark_names, stolen_cores, wall_s};
use super::peaks::Peaks;
use super::roofline::{Point, Roofline};
use super::telemetry_columns::telemetry_columns;
use super::{Cell, Run, State};
use crate::job::{JobId, PARAMETERS, Parameter};
use crate::protocol::Measurement;
use crate::record::{PerfCounters, ProcessStats, Record};

pub use super::line::{NOT_KNOWN, Table};

/// `metrics.csv`: a row a job, failures and jobs not run included with their reason.
pub fn metrics(analysis: &Analysis<'_>) -> Table {
    let mut table = Table::default();
    let costs = Costs::of(&analysis.rows);
    for run in &analysis.runs {
        let mut line = Line::default();
        job_columns(&mut line, run);
        measured_columns(&mut line, run, costs.of_run(run));
        setting_columns(&mut line, run.cell);
        process_columns(&mut line, run.cell.record());
        telemetry_columns(&mut line, run.cell.record());
        host_columns(&mut line, run.cell.record());
        table.push(line);
    }
    table
}

/// What an image costs, for every run.
struct Costs<'a> {
    /// By cell. A cell is in one row at most, and the parts of a split config may differ in cost.
    by_cell: HashMap<*const Cell, Option<&'a Cost>>,
    /// By config, for jobs without a result, which are in no row; `None` if the config's parts differ.
    by_config: HashMap<JobId, Option<&'a Cost>>,
}

impl<'a> Costs<'a> {
    fn of(rows: &'a [Row<'_>]) -> Self {
        let (mut by_cell, mut by_config) = (HashMap::new(), HashMap::new());
        for row in rows {
            let cost = row.cost.as_ref().ok();
            by_cell.extend(row.runs.iter().map(|run| (std::ptr::from_ref(run.cell), cost)));
            let known = by_config.entry(row.config.id()).or_insert(cost);
            *known = known.filter(|known| Some(*known) == cost);
        }
        Costs { by_cell, by_config }
    }

    fn of_run(&self, run: &Run<'_>) -> Option<&'a Cost> {
        let of_row = self.by_cell.get(&std::ptr::from_ref(run.cell));
        let of_config = || self.by_config.get(&run.cell.job.key().config().id());
        *of_row.or_else(of_config)?
    }
}

fn status(cell: &Cell) -> &'static str {
    match &cell.state {
        State::NotRun { .. } => "not_run",
        State::Recorded(_) if cell.success().is_some() => "succeeded",
        State::Recorded(_) => "failed",
    }
}

fn job_columns(line: &mut Line, run: &Run<'_>) {
    let (cell, key) = (run.cell, run.cell.job.key());
    line.word("job", cell.job.dir_name());
    line.word("label", cell.job.label());
    line.word("kind", key.kind);
    line.config(Some(key));
    line.word("repeat", key.repeat);
    line.word("status", status(cell));
    line.maybe("outcome", cell.record().map(|record| record.outcome.kind()));
    line.word("reason", cell.reason().unwrap_or_else(|| "none".to_owned()));
    line.yes("in_statistics", run.counts());
    let names = mark_names(&run.marks);
    line.word("marks", if names.is_empty() { "none".to_owned() } else { names.join("; ") });
    let details: Vec<String> = run.marks.iter().map(ToString::to_string).collect();
    line.word("marks_why", if details.is_empty() { "none".to_owned() } else { details.join("; ") });
    line.maybe("attempt", cell.record().map(|record| record.attempt));
    line.maybe("started_at", cell.record().map(|record| record.started_at.to_rfc3339()));
    line.maybe("ended_at", cell.record().map(|record| record.ended_at.to_rfc3339()));
}

fn measured_columns(line: &mut Line, run: &Run<'_>, cost: Option<&Cost>) {
    let measured = run.cell.success().map(|(_, measured)| measured);
    let details = measured.map(|measured| &measured.details);
    let per_s = run.images_per_s().filter(|_| run.cell.is_timing());
    let iterations = |measured: &Measurement| measured.samples / u64::from(measured.effective.batch);
    line.maybe("samples", measured.map(|measured| measured.samples));
    line.maybe("window_s", measured.map(|measured| measured.elapsed_s));
    line.maybe("synchronized", measured.map(|measured| measured.synchronized));
    line.maybe("images_per_s", per_s);
    line.maybe("iterations", measured.map(iterations));
    line.maybe("mean_iteration_s", measured.map(|m| m.elapsed_s / iterations(m) as f64));
    line.maybe("training_gflop_per_image", cost.map(|cost| cost.training_flops as f64 / 1e9));
    line.maybe("attained_gflop_per_s", cost.zip(per_s).map(|(c, rate)| c.training_flops as f64 * rate / 1e9));
    let usd = run.cell.usd_per_hour.zip(per_s).map(|(usd, rate)| usd_per_million_images(usd, rate));
    line.maybe("usd_per_million_images", usd);
    line.maybe("data_wait_s", details.and_then(|details| details.data_wait_s));
    line.maybe("first_step_s", details.and_then(|details| details.first_step_s));
    line.maybe("first_loss", details.and_then(|details| details.first_loss));
    line.maybe("last_loss", details.and_then(|details| details.last_loss));
    line.maybe("first_non_finite_iteration", details.and_then(|details| details.first_non_finite_iteration));
    line.maybe("optimizer_steps", details.and_then(|details| details.optimizer_steps));
    line.maybe("parameters", details.and_then(|details| details.parameters));
    line.maybe("peak_device_memory_bytes", details.and_then(|details| details.peak_device_memory_bytes));
    line.maybe(
        "peak_device_allocated_bytes",
        details.and_then(|details| details.peak_device_allocated_bytes),
    );
    line.maybe("peak_host_memory_bytes", details.and_then(|details| details.peak_host_memory_bytes));
    line.maybe("dataset_images", details.and_then(|details| details.dataset_images));
    line.maybe("unreadable_images", details.and_then(|details| details.unreadable_images));
    line.maybe("device_name", details.and_then(|details| details.device_name.as_ref()));
    line.maybe("device_uuid", details.and_then(|details| details.device_uuid.as_ref()));
    line.maybe("compute_capability", details.and_then(|details| details.compute_capability.as_ref()));
    line.maybe("optimizer_settings", details.and_then(|details| details.optimizer.as_ref()));
    let versions = details.map(|details| {
        details
            .versions
            .iter()
            .map(|(name, version)| format!("{name} {version}"))
            .collect::<Vec<_>>()
            .join("; ")
    });
    line.maybe("versions", versions);
}

/// The effective value if the record holds one, else the declared value, else not known. Today's defaults mean
/// nothing to an external worker or to an older version of the shipped one.
fn setting_columns(line: &mut Line, cell: &Cell) {
    let effective = cell.record().and_then(|record| Some(&record.measurement.as_ref()?.effective));
    let key = cell.job.key();
    for Parameter { name, .. } in PARAMETERS {
        let reported = effective.and_then(|effective| effective.settings.get(name)).map(ToString::to_string);
        let declared = || key.asked(name).filter(|_| key.declares(name)).map(|value| value.to_string());
        line.maybe(name, reported.or_else(declared));
    }
    line.maybe("tf32", effective.and_then(|effective| effective.tf32));
}

fn process_columns(line: &mut Line, record: Option<&Record>) {
    let process = record.and_then(|record| record.process.clone());
    let of = |field: fn(&ProcessStats) -> Option<u64>| process.as_ref().and_then(field);
    let seconds = |field: fn(&ProcessStats) -> Option<f64>| process.as_ref().and_then(field);
    line.maybe("wall_s", record.map(wall_s));
    line.maybe("user_s", seconds(|process| process.user_s));
    line.maybe("system_s", seconds(|process| process.system_s));
    line.maybe("max_rss_bytes", of(|process| process.max_rss_bytes));
    line.maybe("peak_footprint_bytes", of(|process| process.peak_footprint_bytes));
    line.maybe("voluntary_switches", of(|process| process.voluntary_switches));
    line.maybe("involuntary_switches", of(|process| process.involuntary_switches));
    line.maybe("major_faults", of(|process| process.major_faults));
    line.maybe("minor_faults", of(|process| process.minor_faults));
    line.maybe("instructions", of(|process| process.instructions));
    line.maybe("cycles", of(|process| process.cycles));
    line.maybe("load_before", record.and_then(|record| record.observed.load_before));
    line.maybe("host_busy_s", record.and_then(|record| record.observed.host_busy_s));
    line.maybe("host_steal_s", record.and_then(|record| record.observed.host_steal_s));
    line.maybe("foreign_processors", record.and_then(foreign_cores));
    line.maybe("stolen_processors", record.and_then(stolen_cores));
    line.maybe("adopted", record.map(|record| record.observed.adopted));
    let beside = record.map(|record| record.observed.beside.join("; "));
    line.maybe("beside", beside.map(|beside| if beside.is_empty() { "none".to_owned() } else { beside }));
}

fn host_columns(line: &mut Line, record: Option<&Record>) {
    let provenance = record.map(|record| &record.provenance);
    let host = provenance.map(|provenance| &provenance.host);
    line.maybe("host", host.map(|host| &host.hostname));
    line.maybe(
        "os",
        host.map(|host| format!("{} {}", host.os.name, host.os.version.as_deref().unwrap_or(""))),
    );
    line.maybe("kernel", host.and_then(|host| host.os.kernel.as_ref()));
    line.maybe("cpu", host.and_then(|host| host.cpu.model.as_ref()));
    line.maybe("usable_processors", host.map(|host| host.cpu.usable));
    line.maybe("memory_bytes", host.and_then(|host| host.memory_bytes));
    line.maybe("nvidia_driver", host.and_then(|host| host.nvidia_driver.as_ref()));
    line.maybe("virtualisation", host.and_then(|host| host.virtualisation.as_ref()));
    line.maybe("governor", host.and_then(|host| host.governor.as_ref()));
    line.maybe("power_source", host.and_then(|host| host.power_source.as_ref()));
    line.maybe("worker_sha256", provenance.and_then(|provenance| provenance.worker.sha256.as_ref()));
    line.maybe("matrix_sha256", provenance.map(|provenance| &provenance.matrix.sha256));
    let git = provenance.and_then(|provenance| provenance.git.as_ref());
    line.maybe("git_revision", git.map(|git| &git.revision));
    line.maybe("git_dirty", git.map(|git| git.dirty));
    line.maybe("orchestrate", provenance.map(|provenance| &provenance.orchestrate));
}

/// `summary.csv`: a row a config and circumstances.
pub fn summary(analysis: &Analysis<'_>) -> Table {
    let mut table = Table::default();
    for row in &analysis.rows {
        table.push(summary_line(row));
    }
    table
}

fn summary_line(row: &Row<'_>) -> Line {
    let mut line = Line::default();
    line.config(Some(&row.config));
    let circumstances = row.circumstances.as_ref();
    line.maybe("host", circumstances.map(|found| &found.host));
    line.maybe("device_name", circumstances.and_then(|found| found.device_name.as_ref()));
    line.word("part", format!("{} of {}", row.part.0, row.part.1));
    line.word("status", if row.statistics.is_ok() { "measured" } else { "no_result" });
    line.word("reason", row.statistics.as_ref().err().map_or("none", String::as_str));
    line.word("config_planned", row.counts.planned);
    line.word("config_failed", row.counts.failed);
    line.word("config_not_run", row.counts.not_run);
    let reasons: Vec<String> =
        row.counts.reasons.iter().map(|(reason, n)| format!("{n} × {reason}")).collect();
    line.word("config_reasons", if reasons.is_empty() { "none".to_owned() } else { reasons.join("; ") });
    line.word("runs", row.runs.len());
    line.word("left_out", row.left_out());
    line.word("included_marked", row.included());
    let marks: Vec<&str> = row.marks().into_iter().collect();
    line.word("marks", if marks.is_empty() { "none".to_owned() } else { marks.join("; ") });
    let details: Vec<String> = row.doubts.iter().map(ToString::to_string).collect();
    line.word("row_marks_why", if details.is_empty() { "none".to_owned() } else { details.join("; ") });
    statistics_columns(&mut line, row.statistics.as_ref().ok());
    let cost = row.cost.as_ref().ok();
    line.maybe("parameters", cost.map(|cost| cost.parameters));
    line.maybe("forward_gmac_per_image", cost.map(|cost| cost.forward_macs as f64 / 1e9));
    line.maybe("training_gflop_per_image", cost.map(|cost| cost.training_flops as f64 / 1e9));
    line.maybe("attained_gflop_per_s", row.attained().map(|attained| attained / 1e9));
    line.maybe("percent_of_peak", row.share_of_peak().map(|share| 100.0 * share));
    let ceiling = row.ceilings().and_then(|peaks| Some((peaks, peaks.ceiling(row.config.precision)?)));
    line.maybe("peak_gflop_per_s", ceiling.map(|(_, ceiling)| ceiling.flops_per_s.high / 1e9));
    line.maybe("peaks", row.ceilings().map(|peaks| &peaks.name));
    line.maybe("peaks_origin", row.ceilings().map(|peaks| &peaks.origin));
    line.maybe("usd_per_million_images", row.usd_per_million());
    counted_columns(&mut line, &row.counted);
    line.maybe("worker_sha256", circumstances.and_then(|found| found.worker_sha256.as_ref()));
    line.maybe("libtorch", circumstances.and_then(|found| found.versions.get("libtorch")));
    line
}

fn counted_columns(line: &mut Line, counted: &Counted<'_>) {
    let ncu = counted.ncu.as_ref();
    line.maybe("executed_gflop_per_image", ncu.and_then(NcuRun::flops_per_image).map(|flops| flops / 1e9));
    line.maybe("dram_bytes_per_image", ncu.and_then(NcuRun::dram_bytes_per_image));
    let share = ncu.and_then(|ncu| ncu.counters.zero_flop_share());
    line.maybe("zero_flop_time_percent", share.map(|share| 100.0 * share));
    let perf = counted.perf.as_ref().map(|perf| perf.counters);
    line.maybe("ipc", perf.and_then(PerfCounters::ipc));
    let percent = |share: Option<f64>| share.map(|share| 100.0 * share);
    line.maybe("cache_miss_percent", percent(perf.and_then(PerfCounters::cache_miss_rate)));
    line.maybe("branch_miss_percent", percent(perf.and_then(PerfCounters::branch_miss_rate)));
}

fn statistics_columns(line: &mut Line, statistics: Option<&Statistics>) {
    line.word("n", statistics.map_or(0, |statistics| statistics.n));
    line.maybe("median_images_per_s", statistics.map(|statistics| statistics.median));
    line.maybe("mad_images_per_s", statistics.and_then(|statistics| statistics.mad.ok()));
    line.maybe("mean_images_per_s", statistics.map(|statistics| statistics.mean));
    line.maybe("sd_images_per_s", statistics.and_then(|statistics| statistics.sd.ok()));
    line.maybe("cv_percent", statistics.and_then(|statistics| statistics.cv.ok()).map(|cv| 100.0 * cv));
    line.maybe("min_images_per_s", statistics.map(|statistics| statistics.min));
    line.maybe("max_images_per_s", statistics.map(|statistics| statistics.max));
    let median = statistics.map(|statistics| statistics.median_interval);
    let mean = statistics.map(|statistics| statistics.mean_interval);
    for (name, interval) in [("median", median), ("mean", mean)] {
        let ends = interval.and_then(Result::ok);
        line.maybe(&format!("{name}_ci_low_images_per_s"), ends.map(|interval| interval.low));
        line.maybe(&format!("{name}_ci_high_images_per_s"), ends.map(|interval| interval.high));
        let note = interval.map(|interval| match interval {
            Ok(interval) => format!("{:.2} %", 100.0 * interval.coverage),
            Err(too_few) => too_few.to_string(),
        });
        line.maybe(&format!("{name}_ci_coverage"), note);
    }
}

/// `failures.csv`: a row a job whose last attempt failed.
pub fn failures(analysis: &Analysis<'_>) -> Table {
    let mut table = Table::like(failure_line(None));
    for run in analysis.runs.iter().filter(|run| run.cell.is_failure()) {
        table.push(failure_line(Some(run)));
    }
    table
}

/// The columns of a failure; of none, for their names.
fn failure_line(run: Option<&Run<'_>>) -> Line {
    let mut line = Line::default();
    let key = run.map(|run| run.cell.job.key());
    let record = run.and_then(|run| run.cell.record());
    line.maybe("job", run.map(|run| run.cell.job.dir_name()));
    line.maybe("kind", key.map(|key| key.kind));
    line.config(key);
    line.maybe("repeat", key.map(|key| key.repeat));
    line.maybe("outcome", record.map(|record| record.outcome.kind()));
    line.maybe("reason", run.and_then(|run| run.cell.reason()));
    line.maybe("attempts", record.map(|record| record.attempt));
    line.maybe("started_at", record.map(|record| record.started_at.to_rfc3339()));
    line.maybe("wall_s", record.map(wall_s));
    line.maybe("host", record.map(|record| &record.provenance.host.hostname));
    line
}

/// What the throughput figure of `env` shows: a row a run, with its config's median and deviation.
pub fn throughput_table(env: &str, analysis: &Analysis<'_>) -> Table {
    let mut table = Table::default();
    for row in analysis.rows.iter().filter(|row| row.config.env == env) {
        for run in &row.runs {
            let statistics = row.statistics.as_ref().ok();
            let mut line = Line::default();
            line.config(Some(&row.config));
            line.word("part", format!("{} of {}", row.part.0, row.part.1));
            line.word("repeat", run.cell.job.key().repeat);
            line.maybe("images_per_s", run.images_per_s());
            line.yes("in_statistics", run.counts());
            line.maybe("median_images_per_s", statistics.map(|statistics| statistics.median));
            line.maybe("mad_images_per_s", statistics.and_then(|statistics| statistics.mad.ok()));
            table.push(line);
        }
    }
    table
}

/// `roofline_points.csv`: all points of all rooflines, estimated ones included.
pub fn roofline_points(analysis: &Analysis<'_>) -> Table {
    roofline_table(analysis, &analysis.rooflines)
}

/// The points of some rooflines.
pub fn roofline_table(analysis: &Analysis<'_>, rooflines: &[Roofline<'_>]) -> Table {
    let mut table = Table::like(point_line(None));
    for roofline in rooflines {
        for point in &roofline.points {
            table.push(point_line(Some((&analysis.rows[point.row], roofline.peaks, point))));
        }
    }
    table
}

/// The columns of a point; of none, for their names.
fn point_line(place: Option<(&Row<'_>, &Peaks, &Point)>) -> Line {
    let mut line = Line::default();
    let row = place.map(|(row, _, _)| row);
    let peaks = place.map(|(_, peaks, _)| peaks);
    let point = place.map(|(_, _, point)| point);
    line.maybe("number", point.map(|point| point.number));
    line.config(row.map(|row| &row.config));
    line.maybe("host", row.and_then(|row| row.circumstances.as_ref()).map(|found| &found.host));
    line.maybe("part", row.map(|row| format!("{} of {}", row.part.0, row.part.1)));
    line.maybe("n", row.and_then(|row| row.statistics.as_ref().ok()).map(|statistics| statistics.n));
    line.maybe("median_images_per_s", row.and_then(Row::median));
    line.maybe("bytes_source", point.map(|point| point.source));
    line.maybe("intensity_flop_per_byte", point.map(|point| point.intensity));
    line.maybe("attained_gflop_per_s", point.map(|point| point.attained / 1e9));
    line.maybe("attainable_gflop_per_s", point.map(|point| point.attainable / 1e9));
    line.maybe("bound", point.map(|point| point.bound));
    line.maybe("above_roof", point.map(|point| if point.is_above_roof() { "yes" } else { "no" }));
    let ceiling = place.and_then(|(row, peaks, _)| peaks.ceiling(row.config.precision));
    line.maybe("peak_gflop_per_s", ceiling.map(|ceiling| ceiling.flops_per_s.high / 1e9));
    let bandwidth = peaks.and_then(|peaks| peaks.bandwidth);
    line.maybe("bandwidth_gb_per_s", bandwidth.map(|bandwidth| bandwidth.high / 1e9));
    line.maybe("knee_flop_per_byte", place.and_then(|(row, peaks, _)| peaks.knee(row.config.precision)));
    line.maybe("peaks", peaks.map(|peaks| &peaks.name));
    line.maybe("peaks_origin", peaks.map(|peaks| &peaks.origin));
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture::{StudyBuilder, key, study_with_peaks};
    use crate::analysis::{Study, analyse};
    use crate::record::Outcome;

    fn tables(study: &Study) -> [Table; 4] {
        let analysis = analyse(study);
        [metrics(&analysis), summary(&analysis), failures(&analysis), roofline_points(&analysis)]
    }

    #[test]
    fn every_table() {
        for (name, table) in
            ["metrics", "summary", "failures", "roofline_points"].iter().zip(tables(&study_with_peaks()))
        {
            insta::assert_snapshot!(*name, table.csv());
        }
    }

    /// Promise 8: never 0, never blank, never dropped.
    #[test]
    fn a_failed_job_is_a_row_with_a_reason_and_without_a_number() {
        let study = StudyBuilder::new()
            .failure(key("cpu", "vgg16", 16, 1), Outcome::Signalled { signal: 11 })
            .not_run(key("cpu", "vgg16", 16, 2), "nobody has tried")
            .build();
        let [metrics, summary, failures, points] = tables(&study);
        let cell = |table: &Table, row: usize, name: &str| {
            table.rows[row][table.header.iter().position(|column| column == name).unwrap()].clone()
        };
        assert_eq!(metrics.rows.len(), 2);
        for (row, status) in [(0, "failed"), (1, "not_run")] {
            assert_eq!(cell(&metrics, row, "status"), status);
            assert_eq!(cell(&metrics, row, "images_per_s"), "NA");
            assert_ne!(cell(&metrics, row, "reason"), "none");
        }
        assert_eq!(cell(&summary, 0, "median_images_per_s"), "NA");
        assert!(cell(&summary, 0, "reason").contains("signal 11"));
        assert_eq!((failures.rows.len(), points.rows.len()), (1, 0));
        for table in [&metrics, &summary, &failures, &points] {
            assert!(table.rows.iter().flatten().all(|word| !word.is_empty()));
            assert!(table.rows.iter().all(|row| row.len() == table.header.len()));
        }
    }

    /// The two parts trained on images of different sizes; the failed job could have belonged to either.
    #[test]
    fn runs_have_the_flops_of_their_own_part() {
        let small = |record: &mut crate::record::Record| {
            record.measurement.as_mut().unwrap().effective.settings.set("input_size", 64);
        };
        let failed = || Outcome::Signalled { signal: 11 };
        let split = StudyBuilder::new()
            .run("cpu", "resnet18", 16, 1, 10.0)
            .run_with(key("cpu", "resnet18", 16, 2), 10.0, small)
            .failure(key("cpu", "resnet18", 16, 3), failed());
        let whole = split.run("cpu", "vgg16", 16, 1, 10.0).failure(key("cpu", "vgg16", 16, 2), failed());
        let study = whole.build();
        let metrics = metrics(&analyse(&study));
        let column = metrics.header.iter().position(|name| name == "training_gflop_per_image").unwrap();
        let gflops: Vec<&str> = metrics.rows.iter().map(|row| row[column].as_str()).collect();
        let of = |name, size| crate::architecture::network(name, size, 1000).unwrap().training_flops();
        let [large, small, vgg] = [("resnet18", 224), ("resnet18", 64), ("vgg16", 224)]
            .map(|(name, size)| (of(name, size) as f64 / 1e9).to_string());
        assert_eq!(gflops, [&large, &small, "NA", &vgg, &vgg]);
    }

    #[test]
    fn tables_without_rows_keep_their_columns() {
        let columns = |study: &Study| tables(study).map(|table| table.header);
        let [_, _, failures, points] =
            columns(&StudyBuilder::new().run("cpu", "resnet18", 16, 1, 1.0).build());
        let [_, _, full_failures, full_points] = columns(&study_with_peaks());
        assert_eq!((failures, points), (full_failures, full_points));
    }
}
