//! A calibration as text.

use crate::analysis::noise::{Calibrated, Noise, Order};
use crate::cli::output::{Layout, table, table_text};
use crate::text::{count_text, significant};

/// The numbers of repeats in the table of resolutions.
const REPEATS: [usize; 5] = [3, 5, 10, 20, 50];

/// The differences in the table of needed repeats, as shares.
const DIFFERENCES: [f64; 3] = [0.01, 0.02, 0.05];

/// The whole output.
pub(super) fn page(known: &Calibrated) -> String {
    let Calibrated { plan, device, host, date, noise } = known;
    let host = &host.hostname;
    let mut lines = vec![format!(
        "{plan}: {device} of {host}, {date}: {} of equal runs, {} left out, windows of {} s",
        count_text(noise.pairs, "pair"),
        noise.left_out,
        significant(noise.window_s, 2)
    )];
    let (low, high) = noise.within_interval;
    lines.push(format!(
        "within a block, runs scatter by {} % (95 % interval {} to {} %)",
        percent(noise.within),
        percent(low),
        percent(high)
    ));
    lines.push(format!("blocks scatter by {} % beyond that", percent(noise.between)));
    lines.push(drift_text(noise));
    lines.extend(iterations_text(noise));
    lines.extend(noise.idle_processors.map(idle_text));
    lines.push(format!("equal envs compared: {}", noise.verdict));
    format!("{}\n\n{}\n{}", lines.join("\n"), resolution_table(noise), needs_table(noise))
}

/// The line for too few blocks.
const DRIFT_UNKNOWN: &str = "drift: unknown, too few blocks";

fn drift_text(noise: &Noise) -> String {
    match noise.drift_per_hour {
        // The interval of a strongly autocorrelated series can be unbounded.
        Some((_, low, high)) if !(low.is_finite() && high.is_finite()) => DRIFT_UNKNOWN.to_owned(),
        None => DRIFT_UNKNOWN.to_owned(),
        Some((_, low, high)) if low <= 0.0 && high >= 0.0 => {
            format!("drift: not significant; it is between {} and {} % per hour", signed(low), signed(high))
        }
        Some((drift, low, high)) => {
            let faster = if drift > 0.0 { "faster" } else { "slower" };
            format!(
                "drift: {} % per hour (95 % interval {} to {} %): runs become {faster}",
                signed(drift),
                signed(low),
                signed(high)
            )
        }
    }
}

/// The autocorrelation of iterations, and the part of the scatter of runs that they explain.
fn iterations_text(noise: &Noise) -> Option<String> {
    let correlation = noise.autocorrelation?;
    let explained = noise.by_iterations?;
    Some(format!(
        "neighbouring iterations correlate by {correlation:.2}; a run's own iterations explain {} % of the scatter of \
         runs",
        percent(explained)
    ))
}

/// `when idle, others keep 0.03 processors busy`
fn idle_text(processors: f64) -> String {
    format!("when idle, others keep {processors:.2} processors busy")
}

/// The smallest difference that a number of repeats finds.
fn resolution_table(noise: &Noise) -> String {
    let header = ["repeats of each side", "interleaved, they find", "apart, they find"].map(str::to_owned);
    let mut shown = table(header.into(), Layout::of_stdout());
    for repeats in REPEATS {
        let finds = |order| {
            noise.resolves(repeats, order).map_or("-".to_owned(), |share| format!("{} %", percent(share)))
        };
        shown.add_row([repeats.to_string(), finds(Order::Interleaved), finds(Order::Apart)]);
    }
    table_text(&shown)
}

/// The number of repeats that finds a difference.
fn needs_table(noise: &Noise) -> String {
    let header = ["to find", "interleaved, it takes", "apart, it takes"].map(str::to_owned);
    let mut shown = table(header.into(), Layout::of_stdout());
    for difference in DIFFERENCES {
        let takes = |order| match noise.repeats_for(difference, order) {
            Some(repeats) => count_text(repeats, "repeat"),
            None => format!("more than {} repeats", crate::stats::MOST_REPEATS),
        };
        let cells = [format!("{} %", percent(difference)), takes(Order::Interleaved), takes(Order::Apart)];
        shown.add_row(cells);
    }
    table_text(&shown)
}

fn percent(share: f64) -> String {
    significant(100.0 * share, 2)
}

fn signed(share: f64) -> String {
    let sign = if share < 0.0 { "−" } else { "+" };
    format!("{sign}{}", percent(share.abs()))
}
