//! Rows: the runs of a config that can be pooled, with their statistics.
//!
//! Runs are pooled only within one config (all declared settings except the repeat) *and* one set of [`Circumstances`]
//! (all observations that affect the seconds). A config whose runs differ in these has several rows. A config without
//! any result is one row with a reason.

use std::collections::{BTreeMap, BTreeSet};

use super::circumstances::Circumstances;
use super::cost::{Cost, NoCost, cost, usd_of, usd_per_million_samples};
use super::counted::{Counted, Profiles};
use super::marks::{Mark, clock};
use super::peaks::{NoPeaks, Peaks, Range, Wanted};
use super::{Run, Study};
use crate::job::{ConfigOf, Device, Key, Name, WorkerTemplate, distinction, varying_parameters};
use crate::protocol::{Measurement, SampleUnit};
use crate::record::Machine;
use crate::stats::{self, CONFIDENCE, Interval, TooFew};
use crate::threads;

/// Statistics of samples per second over the runs that count.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// The number of runs.
    pub n: usize,
    /// Their median.
    pub median: f64,
    /// Median absolute deviation.
    pub mad: Result<f64, TooFew>,
    /// Their geometric mean: the throughput of the row in sentences and figures.
    pub geometric_mean: f64,
    /// Their mean.
    pub mean: f64,
    /// Standard deviation.
    pub sd: Result<f64, TooFew>,
    /// Standard deviation ÷ mean.
    pub cv: Result<f64, TooFew>,
    /// The slowest run.
    pub min: f64,
    /// The fastest run.
    pub max: f64,
    /// Distribution-free confidence interval of the median.
    pub median_interval: Result<Interval, TooFew>,
    /// Student's confidence interval of the geometric mean, computed on logarithms.
    pub interval: Result<Interval, TooFew>,
}

impl Statistics {
    /// Statistics of `values`, which are greater than 0; `None` if there are none.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        Some(Statistics {
            n: values.len(),
            median: stats::median(values).ok()?,
            mad: stats::mad(values),
            geometric_mean: stats::geometric_mean(values).ok()?,
            mean: stats::mean(values).ok()?,
            sd: stats::standard_deviation(values),
            cv: stats::coefficient_of_variation(values),
            min: values.iter().copied().min_by(f64::total_cmp)?,
            max: values.iter().copied().max_by(f64::total_cmp)?,
            median_interval: stats::median_interval(values, CONFIDENCE),
            interval: stats::geometric_mean_interval(values, CONFIDENCE),
        })
    }
}

/// The number of timing jobs of a config in each state, over all of its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Jobs in the plan.
    pub planned: usize,
    /// Jobs with a result.
    pub succeeded: usize,
    /// Jobs whose last attempt failed.
    pub failed: usize,
    /// Failed jobs that ran out of memory.
    pub out_of_memory: usize,
    /// Jobs without a record.
    pub not_run: usize,
    /// The reasons of the jobs without a result, each with its number of jobs.
    pub reasons: BTreeMap<String, usize>,
}

impl Counts {
    /// Why there is no throughput, in a word or two.
    pub fn why_none(&self) -> &'static str {
        match (self.succeeded, self.failed) {
            (0, 0) => "not run",
            (0, failed) if failed == self.out_of_memory => "OOM",
            (0, _) => "failed",
            _ => "left out",
        }
    }
}

/// The runs of a config in the same circumstances, or a config without results.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// The config, as its key of repeat 1.
    pub config: Key,
    /// The circumstances that its runs share; `None` if none has a result.
    pub circumstances: Option<Circumstances>,
    /// The row's number among the rows of its config, from 1, and how many rows there are.
    pub part: (usize, usize),
    /// Earlier results of its jobs that marks leave out, and that a re-run replaced. Only the exclusion audit uses
    /// them.
    pub replaced: Vec<Run<'a>>,
    /// Its runs with a result, marked ones included.
    pub runs: Vec<Run<'a>>,
    /// The marks of the row itself, from [`super::marks::row_marks`].
    pub doubts: Vec<Mark>,
    /// The states of all jobs of the config.
    pub counts: Counts,
    /// The statistics over the runs that count, or why there are none.
    pub statistics: Result<Statistics, String>,
    /// The cost of a sample in operations and bytes.
    pub cost: Result<Cost, NoCost>,
    /// The device's ceilings; `None` if the device is unknown.
    pub peaks: Option<Result<&'a Peaks, NoPeaks>>,
    /// The price of an hour on the machine, in US dollars.
    pub usd_per_hour: Option<f64>,
    /// The config's [`distinction`].
    pub distinction: String,
    /// The config's [`distinction`] among those of its env, for texts that also name the env.
    pub distinction_in_env: String,
    /// The counters of profilers for the config.
    pub counted: Counted<'a>,
}

impl<'a> Row<'a> {
    /// The unit of its samples.
    pub fn unit(&self) -> SampleUnit {
        let found = self.circumstances.as_ref().map(|found| found.unit.clone());
        found.unwrap_or_else(|| SampleUnit::default_for(&self.config))
    }

    /// The measurements of the runs that count.
    pub(super) fn measurements(&self) -> impl Iterator<Item = &'a Measurement> {
        let counting = self.runs.iter().filter(|run| run.counts());
        counting.filter_map(|run| Some(run.cell.success()?.1))
    }

    /// Its throughput: the geometric mean over the runs that count, if there are any. Its interval is
    /// [`Statistics::interval`].
    pub fn samples_per_s(&self) -> Option<f64> {
        Some(self.statistics.as_ref().ok()?.geometric_mean)
    }

    /// How many runs with a result are left out of the statistics.
    pub fn left_out(&self) -> usize {
        self.runs.iter().filter(|run| !run.counts()).count()
    }

    /// How many runs are in the statistics only because the user included marked runs.
    pub fn included(&self) -> usize {
        self.runs.iter().filter(|run| run.is_included()).count()
    }

    /// The names of its marks and of its runs' marks.
    pub fn marks(&self) -> BTreeSet<&'static str> {
        self.runs.iter().flat_map(|run| &run.marks).chain(&self.doubts).map(Mark::name).collect()
    }

    /// The attained FLOP/s: throughput × FLOPs of a sample.
    pub fn attained(&self) -> Option<f64> {
        Some(self.cost.as_ref().ok()?.training_flops() * self.samples_per_s()?)
    }

    /// The device's peaks, if known.
    pub fn ceilings(&self) -> Option<&'a Peaks> {
        self.peaks.as_ref()?.as_ref().ok().copied()
    }

    /// Attained FLOP/s ÷ peak FLOP/s at the config's precision: model FLOPs utilisation (MFU). A range if the peak is.
    pub fn share_of_peak(&self) -> Option<Range> {
        let ceiling = self.ceilings()?.ceiling(self.config.precision)?;
        Some(ceiling.flops_per_s.share(self.attained()?))
    }

    /// The median over the runs that count of the device's mean clock within the window, in MHz, if it was read. Clocks
    /// of processors are the mean over all usable ones, so they are meaningless if the run left some idle.
    pub fn clock_mhz(&self) -> Option<f64> {
        let found = self.circumstances.as_ref()?;
        let threads = found.effective.settings.whole("threads");
        if self.config.device == Device::Cpu && threads? < u64::from(found.usable_processors()) {
            return None;
        }
        let counting = self.runs.iter().filter(|run| run.counts()).filter_map(|run| run.cell.record());
        let clocks = counting.filter_map(|record| Some(clock(record)?.1.mean));
        let clocks: Vec<f64> = clocks.filter(|mhz| *mhz > 0.0).collect();
        stats::median(&clocks).ok()
    }

    /// The peak at the config's precision and at the observed clock. `None` if the observed or the nominal clock is
    /// unknown.
    pub fn peak_at_clock(&self) -> Option<Range> {
        self.ceilings()?.ceiling(self.config.precision)?.at_clock(self.clock_mhz()?)
    }

    /// Attained FLOP/s ÷ the peak at the observed clock: the share of the peak without the loss from a lower clock.
    /// `None` as for [`Row::peak_at_clock`].
    pub fn share_of_peak_at_clock(&self) -> Option<Range> {
        Some(self.peak_at_clock()?.share(self.attained()?))
    }

    /// The price of a million samples.
    pub fn usd_per_million(&self) -> Option<f64> {
        Some(usd_per_million_samples(self.usd_per_hour?, self.samples_per_s()?))
    }

    /// The median price of a run that counts: of its attempt from start to end, not only of the window.
    pub fn usd_per_run(&self) -> Option<f64> {
        let usd_per_hour = self.usd_per_hour?;
        let counting = self.runs.iter().filter(|run| run.counts()).filter_map(|run| run.cell.record());
        let prices: Vec<f64> = counting.map(|record| usd_of(usd_per_hour, record.wall_s())).collect();
        stats::median(&prices).ok()
    }

    /// `{env}_{model}_{precision}_bs{batch}`, with the parameters that vary between configs and, for a config with
    /// several rows, the row's number.
    pub fn label(&self) -> String {
        let Key { env, model, precision, batch, .. } = &self.config;
        let part =
            if self.part.1 > 1 { format!(" ({} of {})", self.part.0, self.part.1) } else { String::new() };
        format!("{env}_{model}_{precision}_bs{batch}{}{part}", self.distinction)
    }
}

/// The unit of the samples of all `rows`: [`SampleUnit::SAMPLES`] if they differ. Rows without a result count only if
/// there are no others, since their workers have not reported a unit yet.
pub fn unit<'r, 'a: 'r>(rows: impl IntoIterator<Item = &'r Row<'a>>) -> SampleUnit {
    let (with_result, without): (Vec<&Row<'_>>, Vec<&Row<'_>>) =
        rows.into_iter().partition(|row| row.circumstances.is_some());
    let deciding = if with_result.is_empty() { without } else { with_result };
    SampleUnit::common(deciding.into_iter().map(Row::unit))
}

/// The parameters that differ from their defaults, and the command of an external worker: `name=value; …`.
pub fn params_text(key: &Key) -> String {
    let mut words: Vec<String> = key.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if let WorkerTemplate::Command(argv) = &key.worker {
        words.push(format!("worker={}", argv.join(" ")));
    }
    words.join("; ")
}

/// The rows of `runs`, which must be in the order of [`sort`]. Only timing jobs make rows. `varying` names the
/// parameters that differ between configs.
pub fn rows<'a>(runs: &[Run<'a>], varying: &[String], study: &'a Study) -> Vec<Row<'a>> {
    let mut configs: Vec<(ConfigOf<'_>, Vec<Run<'a>>)> = Vec::new();
    for run in runs.iter().filter(|run| run.cell.is_timing()) {
        let config = ConfigOf::new(run.cell.job.key());
        match configs.last_mut().filter(|(last, _)| *last == config) {
            Some((_, members)) => members.push(run.clone()),
            None => configs.push((config, vec![run.clone()])),
        }
    }
    let profiles = Profiles::of(runs);
    let mut keys: BTreeMap<&Name, Vec<&Key>> = BTreeMap::new();
    for (_, members) in &configs {
        let key = members[0].cell.job.key();
        keys.entry(&key.env).or_default().push(key);
    }
    let in_env: BTreeMap<&Name, Vec<String>> =
        keys.into_iter().map(|(env, keys)| (env, varying_parameters(keys))).collect();
    let complete = |row: Row<'a>| Row {
        distinction: distinction(&row.config, varying),
        distinction_in_env: distinction(&row.config, &in_env[&row.config.env]),
        counted: profiles.counted(&row.config, row.circumstances.as_ref()),
        ..row
    };
    let rows = threads::each(configs.len(), |number| -> Vec<Row<'a>> {
        let members = &configs[number].1;
        let config = members[0].cell.job.key().config();
        rows_of_config(&config, members, study).into_iter().map(complete).collect()
    });
    rows.into_iter().flatten().collect()
}

fn rows_of_config<'a>(config: &Key, members: &[Run<'a>], study: &'a Study) -> Vec<Row<'a>> {
    let counts = counts(members);
    let mut parts: Vec<(Circumstances, Machine<'_>, Vec<Run<'a>>)> = Vec::new();
    for run in members {
        let Some((record, measurement)) = run.cell.success() else { continue };
        let host = &record.provenance.host;
        let known = parts.iter_mut().position(|(known, machine, _)| {
            known.are_of_any_machine(record, measurement) && machine.admits(host)
        });
        match known {
            Some(part) => parts[part].2.push(run.clone()),
            None => {
                let found = Circumstances::of(record, measurement);
                parts.push((found, Machine::of(host), vec![run.clone()]));
            }
        }
    }
    let of = parts.len();
    if of == 0 {
        return vec![empty_row(config, members, counts, study)];
    }
    parts
        .into_iter()
        .enumerate()
        .map(|(index, (circumstances, _, runs))| Row {
            part: (index + 1, of),
            ..full_row(config, circumstances, runs, counts.clone(), study)
        })
        .collect()
}

fn counts(members: &[Run<'_>]) -> Counts {
    let mut counts = Counts { planned: members.len(), ..Counts::default() };
    for run in members {
        match run.cell.reason() {
            None => counts.succeeded += 1,
            Some(reason) => {
                *counts.reasons.entry(reason).or_default() += 1;
                if run.cell.is_failure() {
                    counts.failed += 1
                } else {
                    counts.not_run += 1
                }
                counts.out_of_memory += usize::from(run.cell.is_out_of_memory());
            }
        }
    }
    counts
}

fn full_row<'a>(
    config: &Key,
    circumstances: Circumstances,
    runs: Vec<Run<'a>>,
    counts: Counts,
    study: &'a Study,
) -> Row<'a> {
    let values: Vec<f64> = runs.iter().filter(|run| run.counts()).filter_map(Run::samples_per_s).collect();
    let cell = runs[0].cell;
    let measured: Vec<_> = runs.iter().filter_map(|run| Some(run.cell.success()?.1)).collect();
    let wanted = Wanted {
        named: cell.peaks.as_deref(),
        backend: config.device.backend(),
        host: circumstances.host(),
        device_name: circumstances.device_name.as_deref(),
        device_uuid: circumstances.device_uuid.as_deref(),
        threads: circumstances.effective.settings.whole("threads"),
        usable_processors: circumstances.usable_processors(),
    };
    Row {
        config: config.clone(),
        part: (1, 1),
        statistics: Statistics::of(&values).ok_or_else(|| all_left_out(&runs)),
        cost: cost(config, &measured, study.convention),
        peaks: Some(study.peaks.choose(&wanted)),
        usd_per_hour: cell.usd_per_hour,
        distinction: String::new(),
        distinction_in_env: String::new(),
        counted: Counted::default(),
        circumstances: Some(circumstances),
        runs,
        replaced: Vec::new(),
        doubts: Vec::new(),
        counts,
    }
}

fn all_left_out(runs: &[Run<'_>]) -> String {
    let marks: BTreeSet<&str> = runs.iter().flat_map(Run::left_out_by).map(Mark::name).collect();
    let marks: Vec<&str> = marks.into_iter().collect();
    match runs.len() {
        1 => format!("its only run is {}", marks.join(" and ")),
        n => format!("all {n} runs are {}", marks.join(" or ")),
    }
}

fn empty_row<'a>(config: &Key, members: &[Run<'a>], counts: Counts, study: &'a Study) -> Row<'a> {
    let reasons: Vec<String> = counts
        .reasons
        .iter()
        .map(|(reason, n)| if *n == 1 { reason.clone() } else { format!("{reason} ({n} jobs)") })
        .collect();
    Row {
        config: config.clone(),
        circumstances: None,
        part: (1, 1),
        runs: Vec::new(),
        replaced: Vec::new(),
        doubts: Vec::new(),
        counts,
        statistics: Err(reasons.join("; ")),
        cost: cost(config, &[], study.convention),
        peaks: None,
        usd_per_hour: members[0].cell.usd_per_hour,
        distinction: String::new(),
        distinction_in_env: String::new(),
        counted: Counted::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture::{StudyBuilder, key, measured_peaks};
    use crate::analysis::{Analysis, analyse};
    use crate::job::{Kind, ParamValue};
    use crate::protocol::Effective;
    use crate::record::{MachineIds, Outcome, Readings, Record, Sensor, Telemetry};

    /// At 1,500 of 2,000 MHz, 40 % of the peak are 53 % of the peak at that clock.
    #[test]
    fn shares_of_the_peak_at_the_nominal_and_the_observed_clock() {
        let shares = |nominal: Option<f64>, seen: Option<f64>| {
            let mut peaks = measured_peaks(250e9, 20e9);
            peaks.flops[0].clock_mhz = nominal.map(Range::exactly);
            let study =
                StudyBuilder::new().peaks(peaks).run_with(key("cpu", "resnet18", 16, 1), 10.0, |record| {
                    let clock = seen.and_then(|mhz| Readings::of([mhz, mhz]));
                    let telemetry = Telemetry { of_window: true, ..Telemetry::default() };
                    record.observed.telemetry = clock.map(|clock| telemetry.with(Sensor::CpuClock, clock));
                });
            let study = study.build();
            let row = &analyse(&study).rows[0];
            let of_seen =
                row.share_of_peak_at_clock().map(|share| share.high / row.share_of_peak().unwrap().high);
            (row.clock_mhz(), of_seen)
        };
        let (clock, more) = shares(Some(2000.0), Some(1500.0));
        assert!(clock == Some(1500.0) && (more.unwrap() - 4.0 / 3.0).abs() < 1e-9, "{more:?}");
        assert_eq!(shares(None, Some(1500.0)), (Some(1500.0), None));
        assert_eq!(shares(Some(2000.0), None), (None, None));
    }

    fn throughputs(analysis: &Analysis<'_>) -> Vec<Option<f64>> {
        analysis.rows.iter().map(Row::samples_per_s).collect()
    }

    fn near(value: Option<f64>, expected: f64) -> bool {
        value.is_some_and(|value| (value - expected).abs() < 1e-9 * expected)
    }

    /// Throughput is samples ÷ seconds of the window. So 30 iterations in 3 s count as 30, for any requested number.
    /// The seed reports got this wrong.
    #[test]
    fn throughput_is_samples_by_seconds() {
        let study = StudyBuilder::new()
            .run_with(key("cpu", "resnet18", 16, 1), 10.0, |record| {
                let measured = record.measurement.as_mut().unwrap();
                (measured.samples, measured.elapsed_s) = (30 * 16, 3.0);
            })
            .build();
        assert_eq!(throughputs(&analyse(&study)), [Some(160.0)]);
    }

    /// A mistake of the seed reports.
    #[test]
    fn an_unsynchronised_window_is_not_published() {
        let study = StudyBuilder::new()
            .run("cpu", "resnet18", 16, 1, 10.0)
            .run_with(key("cpu", "resnet18", 16, 2), 99.0, |record| {
                record.measurement.as_mut().unwrap().synchronized = false;
            })
            .build();
        let analysis = analyse(&study);
        assert!(near(analysis.rows[0].samples_per_s(), 10.0));
        assert_eq!(analysis.rows[0].left_out(), 1);
        assert_eq!(analysis.runs[1].samples_per_s(), None);
    }

    /// A mistake of the seed reports.
    #[test]
    fn a_profiled_run_never_enters_a_timing_statistic() {
        let plain = StudyBuilder::new().runs("cpu", "resnet18", 16, &[10.0, 11.0, 12.0]);
        let profiled = [Kind::Ncu, Kind::Perf].into_iter().fold(plain, |builder, kind| {
            builder.run_with(Key { kind, ..key("cpu", "resnet18", 16, 1) }, 0.5, |_| {})
        });
        let study = profiled.build();
        let analysis = analyse(&study);
        assert_eq!(analysis.runs.len(), 5);
        assert_eq!(analysis.rows.len(), 1);
        assert_eq!(analysis.rows[0].statistics.as_ref().unwrap().n, 3);
        assert!(near(analysis.rows[0].samples_per_s(), 1320f64.cbrt()));
    }

    /// A mistake of the seed reports: two hosts, both called `cuda`, with different throughputs.
    #[test]
    fn incomparable_runs_are_not_pooled() {
        type Change = fn(&mut Record);
        let changes: &[(&str, Change)] = &[
            ("host", |record| record.provenance.host.hostname = "other".into()),
            ("device", |record| details(record).device_name = Some("Other CPU".into())),
            ("device UUID", |record| details(record).device_uuid = Some("GPU-1".into())),
            ("turbo", |record| record.provenance.host.cpu.turbo = Some(false)),
            ("processor", |record| record.provenance.host.cpu.model = Some("Another".into())),
            ("usable processors", |record| record.provenance.host.cpu.usable = 1),
            ("power source", |record| record.provenance.host.power_source = Some("battery".into())),
            ("governor", |record| record.provenance.host.governor = Some("powersave".into())),
            ("$OMP_NUM_THREADS", |record| {
                record.provenance.environment.insert("OMP_NUM_THREADS".into(), "1".into());
            }),
            ("channels_last", |record| effective(record).settings.set("channels_last", true)),
            ("threads", |record| effective(record).settings.set("threads", 1)),
            ("algorithm", |record| effective(record).settings.set("algorithm", "winograd")),
            ("tf32", |record| effective(record).tf32 = Some(true)),
            ("worker", |record| record.provenance.worker.sha256 = Some("ff".repeat(32))),
            ("python3", |record| {
                record.provenance.worker.others.insert("python3".into(), "ff".repeat(32));
            }),
            ("libtorch_cpu.so", |record| {
                let library = crate::record::LibraryFacts {
                    path: "/opt/libtorch/lib/libtorch_cpu.so".into(),
                    version: None,
                    sha256: "ff".repeat(32),
                    size_bytes: 1,
                    modified_at: Default::default(),
                };
                record.provenance.worker.libraries.insert("libtorch_cpu.so".into(), library);
            }),
            ("PyTorch", |record| {
                details(record).versions.insert("libtorch".into(), "2.12.0".into());
            }),
        ];
        for (name, change) in changes {
            let study = StudyBuilder::new()
                .run("cpu", "resnet18", 16, 1, 10.0)
                .run_with(key("cpu", "resnet18", 16, 2), 30.0, change)
                .run("cpu", "resnet18", 16, 3, 10.0)
                .build();
            let analysis = analyse(&study);
            let throughputs = throughputs(&analysis);
            assert_eq!(throughputs.len(), 2, "{name} is pooled");
            assert!(near(throughputs[0], 10.0) && near(throughputs[1], 30.0), "{name}");
            let said = analysis.findings.iter().any(|finding| {
                finding.text.contains("are not pooled") && finding.text.contains(&format!("{name} "))
            });
            assert!(said, "{name}: {:?}", analysis.findings);
        }
    }

    /// A study of one config with a run on each of `hosts`: a name, the id of its hardware, that of its boot. An empty
    /// one is unknown.
    fn on_hosts(hosts: &[[&'static str; 3]]) -> Study {
        let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let builder =
            hosts.iter().zip(1..).fold(StudyBuilder::new(), |builder, ([name, id, boot], repeat)| {
                builder.run_with(key("cpu", "resnet18", 16, repeat), 10.0, move |record| {
                    let host = &mut record.provenance.host;
                    host.hostname = (*name).to_owned();
                    host.boot_id = known(boot);
                    host.machine = known(id).map(|id| MachineIds { hardware: Some(id), system: None });
                })
            });
        builder.build()
    }

    fn sizes(study: &Study) -> Vec<usize> {
        analyse(study).rows.iter().map(|row| row.runs.len()).collect()
    }

    /// A mistake of the seed reports, repeated by two machines of one name in a cloud.
    #[test]
    fn two_machines_of_one_name_are_two_rows() {
        let study = on_hosts(&[
            ["instance-1", "aaaaaaaa0", "b1"],
            ["instance-1", "bbbbbbbb0", "b2"],
            ["instance-1", "aaaaaaaa0", "b3"],
        ]);
        assert_eq!(sizes(&study), [2, 1]);
        let said: Vec<String> = analyse(&study).findings.into_iter().map(|finding| finding.text).collect();
        assert!(said.iter().any(|text| text.ends_with("in machine aaaaaaaa / bbbbbbbb.")), "{said:?}");
    }

    #[test]
    fn containers_of_one_machine_are_one_row() {
        let study = on_hosts(&[["c0ffee", "", "b"], ["decade", "", "b"], ["facade", "", "b"]]);
        assert_eq!(sizes(&study), [3]);
        let said: Vec<String> = analyse(&study).findings.into_iter().map(|finding| finding.text).collect();
        let expected = "Pooled runs differ in host c0ffee / decade / facade (1 row).";
        assert!(said.iter().any(|text| text == expected), "{said:?}");
    }

    #[test]
    fn older_records_compare_by_name_and_do_not_join_two_machines() {
        assert_eq!(sizes(&on_hosts(&[["box", "", "b1"], ["box", "", "b2"], ["book", "", "b3"]])), [2, 1]);
        assert_eq!(sizes(&on_hosts(&[["box", "", "b1"], ["box", "aaaaaaaa0", "b2"]])), [2]);
        let between = on_hosts(&[["box", "", ""], ["box", "aaaaaaaa0", "b1"], ["box", "bbbbbbbb0", "b2"]]);
        assert_eq!(sizes(&between), [2, 1]);
    }

    #[test]
    fn only_the_presence_of_a_secret_is_compared() {
        // Older versions wrote its value.
        let secret = |value: &'static str| {
            move |record: &mut Record| {
                record.provenance.environment.insert("API_TOKEN".into(), value.into());
            }
        };
        let study = StudyBuilder::new()
            .run_with(key("cpu", "resnet18", 16, 1), 10.0, |_| {})
            .run_with(key("cpu", "resnet18", 16, 2), 10.0, secret("hush"))
            .run_with(key("cpu", "resnet18", 16, 3), 10.0, secret("hushhush"))
            .build();
        let analysis = analyse(&study);
        let about: Vec<&str> = analysis
            .findings
            .iter()
            .map(|it| it.text.as_str())
            .filter(|text| text.contains("API_TOKEN"))
            .collect();
        assert!(
            matches!(about[..], [text] if text.ends_with("differs from row 1 in $API_TOKEN.")),
            "{about:?}"
        );
    }

    #[test]
    fn variables_with_paths_do_not_split_a_row() {
        let study = StudyBuilder::new()
            .run("cpu", "resnet18", 16, 1, 10.0)
            .run_with(key("cpu", "resnet18", 16, 2), 11.0, |record| {
                for name in ["PATH", "HOME", "ORCHESTRATE_MEASUREMENT"] {
                    record.provenance.environment.insert(name.into(), "/elsewhere".into());
                }
            })
            .build();
        assert_eq!(analyse(&study).rows.len(), 1);
    }

    /// The shipped worker is not a Python program. A declared variable splits its row nevertheless.
    #[test]
    fn variables_without_influence_do_not_split_a_row() {
        let rows = |command: Option<&str>, is_declared: bool| {
            let key = |repeat| {
                let worker =
                    command.map(|word| crate::job::WorkerTemplate::Command(vec![word.to_owned()].into()));
                let key = key("cpu", "resnet18", 16, repeat);
                Key { worker: worker.unwrap_or(key.worker.clone()), ..key }
            };
            let names =
                [("PYTHONPATH".to_owned(), "/elsewhere".to_owned()), ("JAX_LOG".to_owned(), "1".to_owned())];
            let study = StudyBuilder::new()
                .run_with(key(1), 10.0, |_| {})
                .run_with(key(2), 11.0, move |record| {
                    let declared =
                        names.iter().filter(|_| is_declared).map(|(name, _)| name.clone()).collect();
                    record.provenance.variables = Some(crate::shared::Shared::new(declared));
                    names.iter().for_each(|(name, value)| {
                        record.provenance.environment.insert(name.clone(), value.clone());
                    });
                })
                .build();
            analyse(&study).rows.len()
        };
        assert_eq!(rows(None, false), 1);
        assert_eq!(rows(None, true), 2);
        assert_eq!(rows(Some("python3"), false), 2);
    }

    #[test]
    fn a_gpu_with_two_names_is_one_row_if_its_uuid_is_known() {
        let rows = |first: &'static str, second: &'static str, uuid: Option<&'static str>| {
            let shown = |value: &'static str| {
                move |record: &mut Record| {
                    record.provenance.environment.insert("CUDA_VISIBLE_DEVICES".into(), value.into());
                    details(record).device_uuid = uuid.map(str::to_owned);
                }
            };
            let study = StudyBuilder::new()
                .run_with(key("gpu", "resnet18", 16, 1), 10.0, shown(first))
                .run_with(key("gpu", "resnet18", 16, 2), 10.0, shown(second))
                .build();
            analyse(&study).rows.len()
        };
        assert_eq!(rows("1", "GPU-1", Some("GPU-12")), 1);
        assert_eq!(rows("1", "GPU-1", None), 2, "it might be another GPU");
        assert_eq!(rows("MIG-1", "MIG-2", Some("GPU-12")), 2, "two parts of one GPU");
    }

    fn details(record: &mut Record) -> &mut crate::protocol::Details {
        &mut record.measurement.as_mut().unwrap().details
    }

    fn effective(record: &mut Record) -> &mut Effective {
        &mut record.measurement.as_mut().unwrap().effective
    }

    #[test]
    fn configs_declared_separately_stay_separate() {
        let other = |repeat| Key {
            params: [("channels_last".to_owned(), ParamValue::Bool(true))].into(),
            ..key("cpu", "resnet18", 16, repeat)
        };
        let study = StudyBuilder::new()
            .run("cpu", "resnet18", 16, 1, 10.0)
            .run_with(other(1), 20.0, |_| {})
            .run("cpu", "resnet18", 16, 2, 10.0)
            .run_with(other(2), 20.0, |_| {})
            .build();
        let analysis = analyse(&study);
        assert_eq!(analysis.varying, ["channels_last"]);
        assert_eq!(analysis.rows.len(), 2);
        assert!(near(analysis.rows[0].samples_per_s(), 10.0) && near(analysis.rows[1].samples_per_s(), 20.0));
        assert!(analysis.rows.iter().all(|row| row.part == (1, 1)));
        let label = |row: usize| analysis.rows[row].label();
        assert_eq!(label(0), "cpu_resnet18_fp32_bs16 channels_last=false");
        assert_eq!(label(1), "cpu_resnet18_fp32_bs16 channels_last=true");
    }

    #[test]
    fn a_config_without_results_is_a_row_with_the_reason() {
        let oom = || Outcome::OutOfMemory { message: "9 GB".into(), needed_bytes: None, free_bytes: None };
        let study = StudyBuilder::new()
            .failure(key("cpu", "vgg16", 64, 1), oom())
            .failure(key("cpu", "vgg16", 64, 2), oom())
            .not_run(key("cpu", "vgg16", 64, 3), "not started")
            .build();
        let analysis = analyse(&study);
        assert_eq!(analysis.rows.len(), 1);
        let row = &analysis.rows[0];
        assert_eq!(row.statistics, Err("not started; ran out of memory: 9 GB (2 jobs)".to_owned()));
        assert_eq!((row.counts.planned, row.counts.failed, row.counts.not_run), (3, 2, 1));
        assert_eq!((row.samples_per_s(), row.attained()), (None, None));
        assert_eq!((row.usd_per_million(), row.usd_per_run()), (None, None));
    }

    #[test]
    fn repeats_are_counted_by_outcome() {
        let without = |record: &mut Record| record.measurement = None;
        let oom = Outcome::OutOfMemory { message: "9 GB".into(), needed_bytes: None, free_bytes: None };
        let study = StudyBuilder::new()
            .runs("cpu", "vgg16", 64, &[1.0, 1.0])
            .run_with(key("cpu", "vgg16", 64, 3), 1.0, without)
            .failure(key("cpu", "vgg16", 64, 4), oom)
            .not_run(key("cpu", "vgg16", 64, 5), "not started")
            .build();
        let analysis = analyse(&study);
        let Counts { planned, succeeded, failed, not_run, out_of_memory: _, reasons } =
            &analysis.rows[0].counts;
        assert_eq!((*planned, *succeeded, *failed, *not_run), (5, 2, 2, 1));
        assert!(reasons.contains_key("its record says it succeeded but holds no measurement"), "{reasons:?}");
    }

    #[test]
    fn labels_name_the_config_and_the_number_of_the_row() {
        let labels = |study: &Study| analyse(study).rows.iter().map(Row::label).collect::<Vec<_>>();
        let one = StudyBuilder::new().run("cpu", "resnet18", 16, 1, 10.0);
        assert_eq!(labels(&one.build()), ["cpu_resnet18_fp32_bs16"]);
        let two = StudyBuilder::new().run("cpu", "resnet18", 16, 1, 10.0).run_with(
            key("cpu", "resnet18", 16, 2),
            10.0,
            |record| record.provenance.host.hostname = "other".into(),
        );
        assert_eq!(
            labels(&two.build()),
            ["cpu_resnet18_fp32_bs16 (1 of 2)", "cpu_resnet18_fp32_bs16 (2 of 2)"]
        );
    }

    /// Unrequested settings that a custom worker reports split a row, unless they name the run.
    #[test]
    fn reports_that_name_the_run_do_not_split_a_row() {
        use crate::job::WorkerTemplate;
        let rows = |settings: fn(&mut Record)| {
            let own = |repeat| Key {
                params: [("lr".to_owned(), ParamValue::Int(1))].into(),
                worker: WorkerTemplate::Command(["train.py".into()].into()),
                ..key("cpu", "m", 16, repeat)
            };
            let study = StudyBuilder::new().run_with(own(1), 10.0, settings).run_with(own(2), 10.0, settings);
            analyse(&study.build()).rows.len()
        };
        let names_run: fn(&mut Record) = |record| {
            let (label, repeat) = (record.label.clone(), record.key.repeat);
            effective(record).settings.set("repeat", repeat);
            effective(record).settings.set("log", format!("logs/{label}.txt"));
        };
        assert_eq!(rows(names_run), 1);
        let confirms_once: fn(&mut Record) = |record| {
            if record.key.repeat == 1 {
                effective(record).settings.set("lr", 1);
            }
        };
        assert_eq!(rows(confirms_once), 1);
        let differs: fn(&mut Record) = |record| {
            let repeat = record.key.repeat;
            effective(record).settings.set("workers", repeat);
        };
        assert_eq!(rows(differs), 2);
    }

    /// A mistake of the seed reports: "± 0.00" with n = 1.
    #[test]
    fn one_run_has_no_spread() {
        let study = StudyBuilder::new().run("cpu", "resnet18", 16, 1, 10.0).build();
        let analysis = analyse(&study);
        let statistics = analysis.rows[0].statistics.as_ref().unwrap();
        assert_eq!(statistics.mad, Err(TooFew { n: 1, needs: 2 }));
        assert_eq!(statistics.sd, Err(TooFew { n: 1, needs: 2 }));
        assert_eq!(statistics.median_interval, Err(TooFew { n: 1, needs: 6 }));
        assert_eq!(statistics.interval, Err(TooFew { n: 1, needs: 3 }));
    }

    /// Student's factor for two degrees of freedom is 4.302653. The logs are 2, 3 and 4, with a deviation of 1.
    #[test]
    fn the_interval_is_that_of_the_geometric_mean_from_three_runs_on() {
        let rates = [2f64, 3.0, 4.0].map(f64::exp);
        let study = StudyBuilder::new().runs("cpu", "resnet18", 16, &rates).build();
        let analysis = analyse(&study);
        let statistics = analysis.rows[0].statistics.as_ref().unwrap();
        let interval = statistics.interval.unwrap();
        let half = 4.302_652_7 / 3f64.sqrt();
        assert!(near(Some(statistics.geometric_mean.ln()), 3.0));
        assert!(
            (interval.low.ln() - (3.0 - half)).abs() < 1e-6
                && (interval.high.ln() - (3.0 + half)).abs() < 1e-6
        );
        assert_eq!(interval.coverage, 0.95);
        assert!(interval.high - statistics.geometric_mean > 2.0 * (statistics.geometric_mean - interval.low));
    }
}
