//! The counters of profiled jobs, joined with the timing runs of the same config.
//!
//! They are joined only if they ran in the same circumstances, because bytes counted on one device do not apply to
//! another. Operations and bytes are per sample of training. Seconds under a profiler are only used to place kernels
//! below the roofs.

mod kernel;
mod stray;
mod table;

pub use kernel::{KernelPlace, PlacedKernel, TimeShares, placed_kernels};

pub(super) use stray::stray;
pub(super) use table::{counter_columns, counters, kernel_columns, kernel_lines, kernels};

use std::collections::HashMap;

use super::circumstances::Circumstances;
use super::{Cell, Run};
use crate::job::{ConfigOf, Key, Kind};
use crate::protocol::OperatorProfile;
use crate::record::ncu::{NcuCounters, NcuTotals};
use crate::record::perf::PerfCounters;
use crate::record::{Counters, NotProfiled, Outcome};

/// The profiles of the config of a row.
#[derive(Clone, Debug, Default)]
pub struct Counted<'a> {
    /// By Nsight Compute.
    pub ncu: Option<NcuRun<'a>>,
    /// By `perf stat`, over the whole life of the worker.
    pub perf: Option<&'a PerfCounters>,
    /// Seconds by operator, from a profile of a few iterations.
    pub ops: Option<&'a OperatorProfile>,
    /// Why Nsight Compute could not count.
    pub refused: Option<&'a NotProfiled>,
}

/// The counters of Nsight Compute for one config.
#[derive(Clone, Debug)]
pub struct NcuRun<'a> {
    /// The counters as recorded.
    pub counters: &'a NcuCounters,
    /// The sums of the counters.
    pub totals: NcuTotals,
    /// The number of samples that were trained on in the profiled range.
    pub samples: u64,
}

impl NcuRun<'_> {
    /// The floating-point operations that the device executed per sample. Algorithms such as Winograd's execute fewer
    /// than the network has, padding adds some.
    pub fn flops_per_sample(&self) -> Option<f64> {
        self.per_sample(self.totals.flops.filter(|_| !self.counters.unproven))
    }

    /// Bytes per sample between the chip and its memory, both ways.
    pub fn dram_bytes_per_sample(&self) -> Option<f64> {
        // If the table might be cut off, all sums are lower bounds, and a point placed by them would be wrong.
        self.per_sample(self.totals.dram_bytes.filter(|_| !self.counters.unproven))
    }

    fn per_sample(&self, value: Option<u64>) -> Option<f64> {
        Some(value? as f64 / self.samples as f64)
    }
}

/// The undisturbed profiled jobs, by the config of their timing jobs.
#[derive(Debug)]
pub(super) struct Profiles<'a>(HashMap<ConfigOf<'a>, Vec<&'a Cell>>);

impl<'a> Profiles<'a> {
    /// The profiled jobs among `runs`.
    pub(super) fn of(runs: &[Run<'a>]) -> Self {
        let mut by_config: HashMap<ConfigOf<'_>, Vec<&Cell>> = HashMap::new();
        for cell in sound(runs) {
            by_config.entry(ConfigOf::timing(cell.job.key())).or_default().push(cell);
        }
        Profiles(by_config)
    }

    /// The profiles of `config` in these circumstances.
    pub(super) fn counted(&self, config: &Key, circumstances: Option<&Circumstances>) -> Counted<'a> {
        let mut counted = Counted::default();
        let cells = || self.0.get(&ConfigOf::new(config)).into_iter().flatten();
        counted.refused = cells().find_map(|cell| refusal(cell));
        for cell in cells().filter(|cell| is_alike(circumstances, cell)) {
            let Some((record, measurement)) = cell.success() else { continue };
            match &record.counters {
                Some(Counters::Ncu(counters)) => {
                    let totals = counters.totals();
                    counted.ncu = Some(NcuRun { counters, totals, samples: measurement.samples });
                }
                Some(Counters::Perf(counters)) => counted.perf = Some(counters),
                None => {}
            }
            counted.ops = counted.ops.or(measurement.ops.as_deref());
        }
        counted
    }
}

/// The undisturbed profiled jobs.
fn sound<'a>(runs: &[Run<'a>]) -> impl Iterator<Item = &'a Cell> {
    let is_sound = |run: &&Run<'a>| !run.cell.is_timing() && run.left_out_by().next().is_none();
    runs.iter().filter(is_sound).map(|run| run.cell)
}

/// Why Nsight Compute could not count in `cell`.
fn refusal(cell: &Cell) -> Option<&NotProfiled> {
    let record = cell.record().filter(|_| cell.job.key().kind == Kind::Ncu)?;
    match &record.outcome {
        Outcome::NotProfiled(why) => Some(why),
        _ => None,
    }
}

/// Whether `cell` ran in the circumstances `of_row`, apart from its profiler.
fn is_alike(of_row: Option<&Circumstances>, cell: &Cell) -> bool {
    let of_row = of_row.map(Circumstances::without_profiling);
    of_row.is_some() && of_row == circumstances(cell)
}

fn circumstances(cell: &Cell) -> Option<Circumstances> {
    let (record, measurement) = cell.success()?;
    Some(Circumstances::of(record, measurement).without_profiling())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::analysis::bound::Bound;
    use crate::analysis::fixture::{StudyBuilder, key, measured_peaks};
    use crate::analysis::roofline::BytesSource;
    use crate::analysis::{Study, analyse};
    use crate::job::{Kind, Profile};
    use crate::record::Record;
    use crate::record::ncu::KernelGroup;
    use crate::record::perf::{Count, PerfEvent};

    /// Counters with sums computed by hand: 160 images with 211 operations and 5120 bytes in total.
    fn ncu() -> NcuCounters {
        let names = |kind: &str| {
            ["add", "mul", "fma"].map(|op| format!("sm__sass_thread_inst_executed_op_{kind}{op}_pred_on.sum"))
        };
        let zero = ["f", "h", "d"].into_iter().flat_map(names).map(|name| (name, 0));
        let mut metrics: BTreeMap<String, u64> = zero.collect();
        metrics.extend(
            [
                ("sm__sass_thread_inst_executed_op_fadd_pred_on.sum", 11),
                ("sm__sass_thread_inst_executed_op_ffma_pred_on.sum", 100),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        metrics.extend(
            [("sm__ops_path_tensor_src_fp16.sum", 0), ("dram__bytes.sum", 5120)]
                .map(|(name, value)| (name.to_owned(), value)),
        );
        NcuCounters { kernels: 2, metrics, ..NcuCounters::default() }
    }

    fn study(change: impl FnOnce(&mut Record)) -> Study {
        let profiled = key("cpu", "resnet18", 16, 1).profiled(Kind::Ncu, Profile::default());
        StudyBuilder::new()
            .peaks(measured_peaks(250e9, 20e9))
            .runs("cpu", "resnet18", 16, &[10.0, 10.1, 9.9])
            .run_with(profiled, 0.5, |record| {
                record.counters = Some(Counters::Ncu(ncu().into()));
                let settings = &mut record.measurement.as_mut().unwrap().effective;
                settings.settings.set("iters", 10);
                settings.settings.set("nvtx", true);
                change(record);
            })
            .build()
    }

    #[test]
    fn counters_are_per_image_and_place_a_measured_point() {
        let study = study(|_| {});
        let analysis = analyse(&study);
        assert_eq!(analysis.rows.len(), 1, "a profiled job is not a row");
        let run = analysis.rows[0].counted.ncu.as_ref().unwrap();
        assert_eq!(run.flops_per_sample(), Some(211.0 / 160.0));
        assert_eq!(run.dram_bytes_per_sample(), Some(32.0));
        let point = &analysis.rooflines[0].points[0];
        assert_eq!(point.source, BytesSource::Measured);
        let flops = analysis.rows[0].cost.as_ref().unwrap().training_flops();
        assert!((point.intensity - flops / 32.0).abs() < 1e-6 * point.intensity);
        // 10 samples per second × 10.8 GFLOP are 43 % of 250 GFLOP/s: not at a roof, and not far from both.
        assert_eq!(point.bound, Bound::Unknown);
        let reports = |words: &str| analysis.findings.iter().any(|finding| finding.text.contains(words));
        assert!(reports("42 to 44 % of the compute roof"), "{:?}", analysis.findings);
        assert!(reports("the device executed 0.00 GFLOP"), "{:?}", analysis.findings);
    }

    /// 10 samples per second of 1.9 GB each are 95 % of 20 GB/s.
    #[test]
    fn counted_bytes_make_a_point_memory_bound() {
        let with_bytes = |bytes: u64| {
            study(|record| {
                let Some(Counters::Ncu(counters)) = &mut record.counters else { panic!("no counters") };
                counters.metrics.insert("dram__bytes.sum".into(), bytes);
            })
        };
        let first = |study: &Study| {
            let point = analyse(study).rooflines[0].points[0].clone();
            (point.source, point.bound)
        };
        let near_memory = with_bytes(160 * 1_900_000_000);
        assert_eq!(first(&near_memory), (BytesSource::Measured, Bound::Memory));
        assert_eq!(first(&with_bytes(0)), (BytesSource::Modelled, Bound::Unknown));
        let reports = |study: &Study, words: &str| {
            let analysis = analyse(study);
            let said = analysis.findings.iter().any(|finding| finding.text.contains(words));
            assert!(said, "{words}: {:?}", analysis.findings);
        };
        reports(
            &near_memory,
            "is memory-bound: with the bytes that ncu counted it reaches 42 to 44 % of the compute roof and 93 to 97 %",
        );
        reports(&study(|_| {}), "bs16 is unknown: it is between its roofs: with the bytes");
        reports(&with_bytes(160 * 3_000_000_000), "bs16 is unknown: it is above its roof: with the bytes");
    }

    #[test]
    fn counters_of_other_circumstances_are_reported_but_not_used() {
        let study = study(|record| record.provenance.host.hostname = "elsewhere".into());
        let analysis = analyse(&study);
        assert!(analysis.rows[0].counted.ncu.is_none());
        assert!(analysis.rooflines[0].points.iter().all(|point| point.source != BytesSource::Measured));
        let text = "The profile of cpu_resnet18_fp32_bs16_ncu is not compared with the timing runs";
        assert!(
            analysis.findings.iter().any(|finding| finding.text.contains(text)),
            "{:?}",
            analysis.findings
        );
    }

    #[test]
    fn counters_of_a_disturbed_job_are_reported_but_not_used() {
        let study = study(|record| record.observed.host_busy_s = Some(1000.0));
        let analysis = analyse(&study);
        assert!(analysis.rows[0].counted.ncu.is_none());
        let text = "The profile of cpu_resnet18_fp32_bs16_ncu is left out: contended";
        assert!(
            analysis.findings.iter().any(|finding| finding.text.contains(text)),
            "{:?}",
            analysis.findings
        );
    }

    #[test]
    fn a_possibly_truncated_table_places_no_point() {
        let study = study(|record| {
            record.counters = Some(Counters::Ncu(NcuCounters { unproven: true, ..ncu() }.into()));
        });
        let analysis = analyse(&study);
        let run = analysis.rows[0].counted.ncu.as_ref().unwrap();
        assert_eq!((run.dram_bytes_per_sample(), run.flops_per_sample()), (None, None));
        assert!(counters(&analysis).table().csv().contains("a lower bound: the table might be cut off"));
    }

    #[test]
    fn the_tables_list_counted_and_missing_metrics() {
        let study = study(|record| {
            let not_measured = BTreeMap::from([(
                "pcie__read_bytes.sum".to_owned(),
                "the device does not offer it".to_owned(),
            )]);
            record.counters = Some(Counters::Ncu(NcuCounters { not_measured, ..ncu() }.into()));
        });
        let analysis = analyse(&study);
        let csv = counters(&analysis).table().csv();
        assert!(csv.contains(",ncu,executed,211,FLOP,1.31875,none"), "{csv}");
        assert!(
            csv.contains(",ncu,pcie__read_bytes.sum,NA,byte,NA,not measured: the device does not offer it"),
            "{csv}"
        );
        assert_eq!(kernels(&analysis).table().rows.len(), 0);
    }

    /// Every form of a line: sums and metrics of `ncu` in each unit, ratios and events of `perf`, and missing ones.
    #[test]
    fn every_line_of_the_tables() {
        let kernel = KernelGroup {
            name: "sgemm".into(),
            launches: 2,
            seconds: Some(3e-6),
            flops: Some(211),
            dram_bytes: Some(5120),
        };
        let event = |name: &str, count| PerfEvent {
            name: name.into(),
            pmu: None,
            modifiers: Some("u".into()),
            unit: None,
            count,
            deviation_percent: None,
            threads: None,
        };
        let counted = |value, share| Count::Counted { value, share };
        let time =
            PerfEvent { unit: Some("s".into()), modifiers: None, ..event("task-clock", counted(1.5, 1.0)) };
        let of_core = PerfEvent { pmu: Some("cpu_core".into()), ..event("faults", Count::NotCounted) };
        let events = vec![
            event("cycles", counted(200.0, 0.5)),
            event("instructions", counted(300.0, 1.0)),
            event("cache-references", counted(10.0, 1.0)),
            event("cache-misses", counted(1.0, 1.0)),
            event("branches", Count::NotSupported),
            of_core,
            time,
        ];
        let perf = key("cpu", "resnet18", 16, 1).profiled(Kind::Perf, Profile::default());
        let study = StudyBuilder::new()
            .runs("cpu", "resnet18", 16, &[10.0, 10.1, 9.9])
            .run_with(key("cpu", "resnet18", 16, 1).profiled(Kind::Ncu, Profile::default()), 0.5, |record| {
                let mut counters =
                    NcuCounters { zero_flop_s: Some(1e-6), top_kernels: vec![kernel], ..ncu() };
                counters.metrics.insert("gpu__time_duration.sum".into(), 4000);
                record.counters = Some(Counters::Ncu(counters.into()));
                let settings = &mut record.measurement.as_mut().unwrap().effective.settings;
                settings.set("iters", 10);
                settings.set("nvtx", true);
            })
            .run_with(perf, 9.0, |record| record.counters = Some(Counters::Perf(PerfCounters { events })))
            .build();
        let analysis = analyse(&study);
        insta::assert_snapshot!("counters", counters(&analysis).table().csv());
        insta::assert_snapshot!("kernels", kernels(&analysis).table().csv());
        let no_time = KernelGroup { seconds: Some(0.0), name: "none".into(), ..KernelGroup::default() };
        let study = self::study(|record| {
            let mut counters = NcuCounters { top_kernels: vec![no_time], ..ncu() };
            counters.metrics.insert("gpu__time_duration.sum".into(), 0);
            record.counters = Some(Counters::Ncu(counters.into()));
        });
        assert!(kernels(&analyse(&study)).table().csv().contains(",none,0,0,NA,NA,NA"));
    }

    /// The runs of another config never replace those of the profiled one.
    #[test]
    fn counters_are_compared_only_with_rows_of_their_config() {
        let elsewhere = |record: &mut Record| record.provenance.host.hostname = "elsewhere".into();
        let profiled = key("cpu", "resnet18", 16, 1).profiled(Kind::Ncu, Profile::default());
        let study = StudyBuilder::new()
            .run_with(key("cpu", "mobilenet_v2", 16, 1), 10.0, elsewhere)
            .run("cpu", "resnet18", 16, 1, 10.0)
            .run_with(profiled, 0.5, |record| {
                record.counters = Some(Counters::Ncu(ncu().into()));
                elsewhere(record);
            })
            .build();
        let text = "The profile of cpu_resnet18_fp32_bs16_ncu is not compared with the timing runs";
        let analysis = analyse(&study);
        assert!(analysis.findings.iter().any(|it| it.text.contains(text)), "{:?}", analysis.findings);
    }
}
