//! Kernels below the roofs of their device, and the division of a config's time among these roofs.
//!
//! A kernel's FLOP/s and bytes per second are its counts ÷ its seconds under the profiler. Clocks are not locked
//! meanwhile, but each kernel starts with empty caches and runs alone. So a place is that of the kernel as
//! profiled, and a short kernel looks slower than it is. The flat roof is the peak at the config's precision: a kernel
//! that uses other units, such as those for fp32 in mixed precision, cannot reach it.

use super::NcuRun;
use crate::analysis::bound::{Bound, of_shares};
use crate::analysis::group::Row;
use crate::analysis::peaks::Range;
use crate::record::ncu::KernelGroup;

/// The launches of a kernel, with their place below the roofs.
#[derive(Clone, Copy, Debug)]
pub struct PlacedKernel<'r> {
    /// The counters.
    pub kernel: &'r KernelGroup,
    /// From 1, the slowest.
    pub rank: usize,
    /// Its share of the time of all kernels; `None` if a time is unknown.
    pub time_share: Option<f64>,
    /// Its place; `None` if its FLOPs, bytes or seconds are unknown, or a roof is.
    pub place: Option<KernelPlace>,
}

/// The place of a kernel below its roofs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelPlace {
    /// FLOPs per second.
    pub flops_per_s: f64,
    /// Bytes per second between the device and its memory.
    pub bytes_per_s: f64,
    /// FLOPs per byte; `None` if it moved no byte.
    pub intensity: Option<f64>,
    /// Its share of the peak.
    pub of_compute: Range,
    /// Its share of the bandwidth.
    pub of_memory: Range,
    /// The bound of the roof that it is at, or latency if it is far from both; unknown in between.
    pub bound: Bound,
}

/// The division of the time of a config's kernels, as shares of the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimeShares {
    /// At the compute roof.
    pub compute: f64,
    /// At the memory roof.
    pub memory: f64,
    /// Far from both.
    pub latency: f64,
    /// Between these, or above a roof, or undecided because a roof is a range.
    pub between: f64,
    /// Without a place, or not among the listed kernels.
    pub unplaced: f64,
}

impl KernelPlace {
    /// `None` if a number is unknown or no time passed.
    fn of(kernel: &KernelGroup, row: &Row<'_>) -> Option<KernelPlace> {
        let peaks = row.ceilings()?;
        let (peak, bandwidth) = (peaks.ceiling(row.config.precision)?.flops_per_s, peaks.bandwidth?);
        let seconds = kernel.seconds.filter(|seconds| *seconds > 0.0)?;
        let (flops, bytes) = (kernel.flops? as f64, kernel.dram_bytes? as f64);
        let (of_compute, of_memory) = (peak.share(flops / seconds), bandwidth.share(bytes / seconds));
        Some(KernelPlace {
            flops_per_s: flops / seconds,
            bytes_per_s: bytes / seconds,
            intensity: (bytes > 0.0).then_some(flops / bytes),
            of_compute,
            of_memory,
            bound: of_shares(of_compute, of_memory),
        })
    }
}

/// The kernels of `run` that took longest, the slowest first. If the table might be truncated, none has a share of the
/// time, since the whole is unknown.
pub fn placed_kernels<'r>(row: &Row<'_>, run: &'r NcuRun<'_>) -> Vec<PlacedKernel<'r>> {
    let whole = run.totals.seconds.filter(|seconds| *seconds > 0.0 && !run.counters.unproven);
    let placed = |(kernel, rank): (&'r KernelGroup, usize)| PlacedKernel {
        kernel,
        rank,
        time_share: kernel.seconds.zip(whole).map(|(seconds, whole)| seconds / whole),
        place: KernelPlace::of(kernel, row),
    };
    run.counters.top_kernels.iter().zip(1..).map(placed).collect()
}

impl TimeShares {
    /// Of `kernels`, those that [`placed_kernels`] found. `None` if none of them has a place and a share of the time.
    pub fn of(kernels: &[PlacedKernel<'_>]) -> Option<TimeShares> {
        let mut shares = TimeShares::default();
        let mut placed = 0.0;
        for (place, share) in kernels.iter().filter_map(|kernel| Some((kernel.place?, kernel.time_share?))) {
            placed += share;
            *match place.bound {
                Bound::Compute => &mut shares.compute,
                Bound::Memory => &mut shares.memory,
                Bound::Latency => &mut shares.latency,
                Bound::Unknown | Bound::Host | Bound::Spilled | Bound::Kernel | Bound::Mixed => {
                    &mut shares.between
                }
            } += share;
        }
        shares.unplaced = (1.0 - placed).max(0.0);
        (placed > 0.0).then_some(shares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::{StudyBuilder, kernel, key, measured_peaks};
    use crate::record::Counters;

    /// The kernels of a job below roofs of 100 GFLOP/s and 10 GB/s. Together they took `whole` seconds.
    fn counted<T>(
        kernels: Vec<KernelGroup>,
        whole: f64,
        unproven: bool,
        check: impl Fn(&[PlacedKernel<'_>]) -> T,
    ) -> T {
        let config = key("cpu", "resnet18", 16, 1);
        let builder = StudyBuilder::new().peaks(measured_peaks(100e9, 10e9));
        let mut study =
            builder.run_with(config.clone(), 1.0, |_| {}).kernels(&config, kernels, whole).build();
        let record = std::sync::Arc::make_mut(study.cells[1].record.as_mut().unwrap());
        let Some(Counters::Ncu(counters)) = &mut record.counters else { panic!("no counters") };
        counters.unproven = unproven;
        let analysis = analyse(&study);
        let run = analysis.rows[0].counted.ncu.as_ref().expect("it was counted");
        check(&placed_kernels(&analysis.rows[0], run))
    }

    #[test]
    fn time_divides_among_the_roofs_that_kernels_are_at() {
        let kernels = vec![
            kernel("gemm", 4.0, 320.0, 4.0),
            kernel("relu", 3.0, 3.0, 27.0),
            kernel("tiny", 1.0, 1.0, 0.1),
            kernel("half", 1.0, 45.0, 1.0),
            KernelGroup { flops: None, ..kernel("unknown", 0.5, 1.0, 1.0) },
        ];
        counted(kernels, 10.0, false, |placed| {
            let bounds: Vec<Option<Bound>> = placed.iter().map(|kernel| Some(kernel.place?.bound)).collect();
            let [compute, memory, latency] = [Bound::Compute, Bound::Memory, Bound::Latency].map(Some);
            assert_eq!(bounds, [compute, memory, latency, Some(Bound::Unknown), None]);
            let shares = TimeShares::of(placed).unwrap();
            let found = [shares.compute, shares.memory, shares.latency, shares.between, shares.unplaced];
            let expected = [0.4, 0.3, 0.1, 0.1, 0.1];
            assert!(found.iter().zip(expected).all(|(found, it)| (found - it).abs() < 1e-9), "{shares:?}");
            let relu = placed[1].place.unwrap();
            assert!(
                (relu.intensity.unwrap() - 1.0 / 9.0).abs() < 1e-9 && (relu.of_memory.low - 0.9).abs() < 1e-9
            );
        });
    }

    /// A copy has no FLOP, but is at the memory roof.
    #[test]
    fn a_kernel_without_a_flop_or_without_a_byte_has_a_place() {
        counted(vec![kernel("copy", 1.0, 0.0, 9.0), kernel("spin", 1.0, 90.0, 0.0)], 2.0, false, |placed| {
            let [copy, spin] = [0, 1].map(|at| placed[at].place.unwrap());
            assert_eq!((copy.bound, copy.intensity), (Bound::Memory, Some(0.0)));
            assert_eq!((spin.bound, spin.intensity), (Bound::Compute, None));
        });
    }

    #[test]
    fn possibly_truncated_tables_have_no_shares() {
        let shares = |unproven| counted(vec![kernel("gemm", 1.0, 90.0, 1.0)], 1.0, unproven, TimeShares::of);
        assert!(shares(false).is_some() && shares(true).is_none());
        let nothing = KernelGroup { seconds: Some(0.0), ..kernel("none", 1.0, 1.0, 1.0) };
        assert!(counted(vec![nothing], 1.0, false, |placed| TimeShares::of(placed).is_none()));
    }
}
