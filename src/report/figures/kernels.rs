//! The kernels of a config below the roofs of its device, by the counts of Nsight Compute. The area of a kernel is its
//! share of the time.

use crate::analysis::Analysis;
use crate::analysis::bound::Bound;
use crate::analysis::counted::{KernelPlace, PlacedKernel, TimeShares, placed_kernels};
use crate::analysis::group::Row;
use crate::analysis::peaks::Peaks;
use crate::analysis::table::{Keys, kernel_sections, kernel_table};
use crate::report::figure::{Drawing, Figure};
use crate::report::frame::Sheet;
use crate::report::hover::row_anchor;
use crate::report::inks::{GREY, INK, colour};
use crate::report::roofs::{Entry, Plot, Unit, axes_text, draw_key, flat_roofs};
use crate::report::svg::{Look, Shape, Svg};
use crate::text::significant;

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

/// The most characters of a name in the key.
const NAME: usize = 44;
/// The radius of a kernel that takes all of the time.
const WHOLE: f64 = 44.0;

/// A kernel with what the figure shows of it.
struct Shown<'r> {
    placed: PlacedKernel<'r>,
    place: KernelPlace,
    share: f64,
}

impl Shown<'_> {
    /// Its place on the axes: FLOPs per byte and FLOP/s. `None` if either is 0 or endless.
    fn coordinates(&self) -> Option<(f64, f64)> {
        let intensity = self.place.intensity.filter(|intensity| *intensity > 0.0)?;
        Some((intensity, self.place.flops_per_s))
    }

    fn ink(&self) -> &'static str {
        match self.place.bound {
            Bound::Memory => colour(0),
            Bound::Compute => colour(1),
            Bound::Latency => colour(4),
            Bound::Host | Bound::Spilled | Bound::Unknown => GREY,
        }
    }
}

fn draw(analysis: &Analysis<'_>) -> Vec<Drawing> {
    let rows = analysis.rows.iter().enumerate();
    rows.filter_map(|(index, row)| of_row(index, row, analysis)).collect()
}

/// Draws the kernels of `row`; `None` if none has a place on the axes.
fn of_row(index: usize, row: &Row<'_>, analysis: &Analysis<'_>) -> Option<Drawing> {
    let placed = placed_kernels(row, row.counted.ncu.as_ref()?);
    let shares = TimeShares::of(&placed)?;
    let shown: Vec<Shown<'_>> = placed
        .into_iter()
        .filter_map(|placed| Some(Shown { placed, place: placed.place?, share: placed.time_share? }))
        .collect();
    let peaks = row.ceilings()?;
    let title = format!("Kernels of {}: {}", row.label(), peaks.device);
    let unit = Unit::of(peaks.ceiling(row.config.precision)?.flops_per_s.high);
    let mut sheet = Sheet::new(&title, &axes_text(unit));
    draw_plot(&mut sheet, row, (peaks, unit), &shown)?;
    draw_key(&mut sheet, shown.iter().map(entry));
    notes(&mut sheet, shares, &peaks.name);
    Some(Drawing {
        of: file_part(index, row),
        title,
        svg: sheet.finish(),
        numbers: kernel_table(row, analysis),
    })
}

/// Draws the axes, the roofs and the kernels. `None` if none has a place on the axes.
fn draw_plot(
    sheet: &mut Sheet,
    row: &Row<'_>,
    (peaks, unit): (&Peaks, Unit),
    shown: &[Shown<'_>],
) -> Option<()> {
    let bandwidth = peaks.bandwidth?;
    let flat = flat_roofs(peaks, &[row.config.precision], unit);
    let (mut intensities, mut heights): (Vec<f64>, Vec<f64>) =
        shown.iter().filter_map(Shown::coordinates).map(|(x, flops)| (x, flops / unit.flops)).unzip();
    if intensities.is_empty() {
        return None;
    }
    intensities.extend(flat.iter().map(|roof| roof.high * unit.flops / bandwidth.high));
    heights.extend(flat.iter().map(|roof| roof.high));
    let mut plot = Plot::new(sheet, &intensities, &heights, unit);
    plot.roofs(&mut sheet.svg, &flat, bandwidth);
    draw_kernels(&mut sheet.svg, row, shown, &mut plot);
    Some(())
}

/// `2_cuda_resnet18_amp_bs16`: the row's number, and its config in characters that a file's name can have.
fn file_part(index: usize, row: &Row<'_>) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    let label = row.config.label();
    let plain: String = label
        .trim_end_matches("_run1")
        .chars()
        .map(|letter| if is_plain(letter) { letter } else { '-' })
        .collect();
    format!("{}_{plain}", index + 1)
}

/// `12.3 % memory-bound: ampere_sgemm_128x64_nn…`
fn key_line(shown: &Shown<'_>) -> String {
    let name = &shown.placed.kernel.name;
    let cut: String = name.chars().take(NAME).collect();
    let more = if cut.len() < name.len() { "…" } else { "" };
    format!("{}: {cut}{more}", words(shown))
}

/// Its share of the time, and where it is below the roofs.
fn words(shown: &Shown<'_>) -> String {
    let what = match shown.coordinates() {
        Some(_) => shown.place.bound.to_string(),
        None if shown.place.flops_per_s > 0.0 => format!("{}, no bytes", shown.place.bound),
        None => format!(
            "{}, no FLOP, {:.0} % of the bandwidth",
            shown.place.bound,
            100.0 * shown.place.of_memory.low
        ),
    };
    format!("{} % {what}", significant(100.0 * shown.share, 2))
}

fn draw_kernels(svg: &mut Svg, row: &Row<'_>, shown: &[Shown<'_>], plot: &mut Plot) {
    let at = |kernel: &Shown<'_>| kernel.coordinates().map(|(x, flops)| plot.place(x, flops));
    let placed: Vec<(&Shown<'_>, (f64, f64))> =
        shown.iter().filter_map(|kernel| Some((kernel, at(kernel)?))).collect();
    for (kernel, at) in &placed {
        let text = format!("{}\n{}", kernel.placed.kernel.name, words(kernel));
        svg.disc(*at, (WHOLE * kernel.share.sqrt()).max(2.5), kernel.ink(), &text);
        let look = Look { shape: Shape::Circle, radius: 2.2, colour: kernel.ink(), is_filled: true };
        svg.linked_marker(*at, look, &text, &row_anchor(row));
    }
    let numbers: Vec<((f64, f64), String)> =
        placed.iter().map(|(kernel, at)| (*at, kernel.placed.rank.to_string())).collect();
    plot.names(svg, &numbers, 3.0);
}

fn entry(shown: &Shown<'_>) -> Entry<'static> {
    let is_filled = shown.coordinates().is_none();
    Entry {
        number: shown.placed.rank,
        look: Look { shape: Shape::Circle, radius: 4.6, colour: shown.ink(), is_filled },
        text: key_line(shown),
        ink: INK,
    }
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
