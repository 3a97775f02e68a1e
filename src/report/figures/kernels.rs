//! The kernels of a config below the roofs of its device, by the counts of Nsight Compute. The area of a kernel is its
//! share of the time.

use crate::analysis::Analysis;
use crate::analysis::counted::{PlacedKernel, TimeShares, placed_kernels};
use crate::analysis::group::Row;
use crate::analysis::table::{Keys, kernel_sections, kernel_table};
use crate::report::discs::{Disc, draw_discs, file_part};
use crate::report::figure::{Drawing, Figure};
use crate::report::frame::Sheet;
use crate::report::inks::{GREY, bound_ink};
use crate::report::roofs::{Unit, axes_text};

pub(super) const KERNELS: Figure = Figure {
    name: "kernels",
    heading: "Kernels",
    one_per: "config whose kernels were counted",
    needs: "\
It needs an `ncu` job that counted FLOPs, bytes and time in full, and the device's peak and bandwidth.",
    explanation: "\
Each circle is a kernel: all launches of one name, among the 20 names that took longest. Its area is its share of the
time of all kernels. Its place is its FLOPs ÷ its bytes, and its FLOPs ÷ its seconds.

- The seconds are those under the profiler, where each kernel runs alone and starts with empty caches. Short kernels
  look slower than they are.
- The flat roof is the peak at the config's precision. A kernel that uses other units, such as those for fp32 in mixed
  precision, cannot reach it.
- A kernel without a FLOP, such as a copy, has no place on this axis. The key says how much of the bandwidth it uses.",
    columns: kernel_sections,
    keys: Keys::KERNELS,
    draw,
};

fn draw(analysis: &Analysis<'_>) -> Vec<Drawing> {
    let rows = analysis.rows.iter().enumerate();
    rows.filter_map(|(index, row)| of_row(index, row, analysis)).collect()
}

/// Draws the kernels of `row`; `None` if none has a place on the axes.
fn of_row(index: usize, row: &Row<'_>, analysis: &Analysis<'_>) -> Option<Drawing> {
    let placed = placed_kernels(row, row.counted.ncu.as_ref()?);
    let shares = TimeShares::of(&placed)?;
    let discs: Vec<Disc> = placed.iter().filter_map(disc).collect();
    let peaks = row.ceilings()?;
    let title = format!("Kernels of {}: {}", row.label(), peaks.device);
    let unit = Unit::of(peaks.ceiling(row.config.precision)?.flops_per_s.high);
    let mut sheet = Sheet::new(&title, &axes_text(unit));
    draw_discs(&mut sheet, row, (peaks, unit), &discs)?;
    notes(&mut sheet, shares, &peaks.name);
    Some(Drawing {
        of: file_part(index, row),
        title,
        svg: sheet.finish(),
        numbers: kernel_table(row, analysis),
    })
}

/// A kernel as a disc; `None` if it has no place below the roofs or no share of the time.
fn disc(placed: &PlacedKernel<'_>) -> Option<Disc> {
    let place = placed.place?;
    let intensity = place.intensity.filter(|intensity| *intensity > 0.0);
    let coordinates = intensity.map(|intensity| (intensity, place.flops_per_s));
    let words = match coordinates {
        Some(_) => place.bound.to_string(),
        None if place.flops_per_s > 0.0 => format!("{}, no bytes", place.bound),
        None => format!("{}, no FLOP, {:.0} % of the bandwidth", place.bound, 100.0 * place.of_memory.low),
    };
    Some(Disc {
        rank: placed.rank,
        name: placed.kernel.name.clone(),
        share: placed.time_share?,
        coordinates,
        ink: bound_ink(place.bound),
        words,
    })
}

fn notes(sheet: &mut Sheet, shares: TimeShares, peaks: &str) {
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let text = format!(
        "Of the kernels' time, {} is at the compute roof, {} at the memory roof, {} far from both, {} between or \
         above, {} not placed. Areas are shares of that time. Roofs: {peaks}. Seconds are those under the profiler.",
        percent(shares.compute),
        percent(shares.memory),
        percent(shares.latency),
        percent(shares.between),
        percent(shares.unplaced)
    );
    sheet.paragraph(GREY, &text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::{StudyBuilder, kernel, key, measured_peaks};
    use crate::record::ncu::KernelGroup;

    fn drawings(kernels: Vec<KernelGroup>) -> Vec<Drawing> {
        let config = key("cpu", "resnet18", 16, 1);
        let builder = StudyBuilder::new().peaks(measured_peaks(100e9, 10e9));
        let study = builder.run_with(config.clone(), 1.0, |_| {}).kernels(&config, kernels, 10.0).build();
        draw(&analyse(&study))
    }

    #[test]
    fn kernels_are_drawn_with_their_share_of_the_time_and_their_roof() {
        let long = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>";
        let kernels = vec![
            kernel("ampere_sgemm_128x64_nn", 5.0, 400.0, 5.0),
            kernel(long, 4.0, 4.0, 36.0),
            kernel("copy", 0.5, 0.0, 4.5),
        ];
        let [drawing] = &drawings(kernels)[..] else { panic!("one config") };
        assert_eq!(drawing.of, "1_cpu_resnet18_fp32_bs16");
        for text in [
            "50 % compute-bound: ampere_sgemm_128x64_nn<",
            "40 % memory-bound: void at::native::vectorized_elementwise_kern…<",
            "5.0 % memory-bound, no FLOP, 90 % of the bandwidth: copy<",
            "50 % is at the compute roof, 45 % at",
        ] {
            assert!(drawing.svg.contains(text), "{text}: {}", drawing.svg);
        }
        assert_eq!(drawing.numbers.read().rows.len(), 3);
    }

    #[test]
    fn without_a_kernel_on_the_axes_there_is_no_figure() {
        assert!(drawings(vec![kernel("copy", 1.0, 0.0, 9.0)]).is_empty());
        assert!(drawings(Vec::new()).is_empty());
        let uncounted = KernelGroup { flops: None, ..kernel("gemm", 1.0, 1.0, 1.0) };
        assert!(drawings(vec![uncounted]).is_empty());
    }
}
