//! Marks from sensors: heat, power, clocks, swap.

use super::{Mark, Threshold, Thresholds};
use crate::analysis::claim::{Compared, Limit, Relation, Sentence};
use crate::job::Device;
use crate::record::{GpuTelemetry, Readings, Record, Sensor, Telemetry};

/// The marks from the clocks and the telemetry of `record`.
pub(super) fn marks(record: &Record, thresholds: &Thresholds) -> Vec<Mark> {
    let Some(telemetry) = &record.observed.telemetry else {
        return suspended(record, thresholds).into_iter().collect();
    };
    let found = [
        suspended(record, thresholds),
        throttled_processor(record, telemetry, thresholds),
        telemetry.gpu.as_ref().and_then(|gpu| throttled_gpu(gpu, telemetry.samples, thresholds)),
        telemetry.gpu.as_ref().and_then(|gpu| power_capped(gpu, telemetry.samples, thresholds)),
        quota_throttled(record, telemetry, thresholds),
        swapped(telemetry, thresholds),
        varied_clock(record, thresholds),
    ];
    found.into_iter().flatten().collect()
}

/// The clock of the device that `record` computed on, if its readings are only from the measured window. Clocks
/// before and after it are different.
pub(in crate::analysis) fn clock(record: &Record) -> Option<(&'static str, Readings)> {
    let telemetry = record.observed.telemetry.as_ref().filter(|telemetry| telemetry.of_window)?;
    match record.key.device {
        Device::Cpu => Some(("processor", telemetry.readings(Sensor::CpuClock)?)),
        _ => Some(("GPU", telemetry.readings(Sensor::GpuSmClock)?)),
    }
}

/// By the time for which heat slowed a processor down, else by the number of slowdowns. Both are about the whole host,
/// so they do not apply to a job on a GPU. A slowdown is counted when it ends. One that began before the window can
/// therefore be longer than the window.
fn throttled_processor(record: &Record, telemetry: &Telemetry, thresholds: &Thresholds) -> Option<Mark> {
    if record.key.device != Device::Cpu {
        return None;
    }
    let by = match telemetry.readings(Sensor::CpuThrottled) {
        Some(Readings { mean, .. }) => by_throttled_time(mean.min(1.0), thresholds),
        None => by_throttle_events(record, telemetry, thresholds),
    };
    by.map(|by| Mark::Throttled { by })
}

fn by_throttled_time(share: f64, thresholds: &Thresholds) -> Option<Sentence> {
    let threshold = thresholds.of(Threshold::ThrottledShare);
    (share > threshold).then(|| {
        let share = Compared::passed(Threshold::ThrottledShare, share, threshold, 0);
        let (percent, limit) = (share.number(), share.limit());
        let text = format!("heat slowed a processor down for {percent} % of the time (threshold {limit})");
        Sentence::new(text, [share])
    })
}

fn by_throttle_events(record: &Record, telemetry: &Telemetry, thresholds: &Thresholds) -> Option<Sentence> {
    let minutes = record.wall_s() / 60.0;
    let usable = f64::from(record.provenance.host.cpu.usable.max(1));
    let limit = (thresholds.of(Threshold::ThrottleEvents) * minutes * usable).max(1.0);
    let events = telemetry.growth(Sensor::CpuThrottleEvents)?;
    (events as f64 > limit).then(|| {
        let events = Compared::new(events as f64, Relation::Above, Limit::printed(limit, 0), 0);
        let (times, limit) = (events.number(), events.limit());
        let text = format!("processors slowed themselves down for heat {times} times (threshold {limit})");
        Sentence::new(text, [events])
    })
}

fn throttled_gpu(gpu: &GpuTelemetry, samples: u32, thresholds: &Thresholds) -> Option<Mark> {
    let reasons: Vec<(&str, u32)> = reasons(gpu, samples, thresholds, is_protection).collect();
    let (reason, most) = reasons.iter().copied().max_by_key(|(_, samples)| *samples)?;
    let share = f64::from(most) / f64::from(samples);
    let tolerated = thresholds.of(Threshold::ThrottledShare);
    let share = Compared::passed(Threshold::ThrottledShare, share, tolerated, 0);
    let more = match reasons.len() {
        1 => "",
        2 => ", and by another reason",
        _ => ", and by other reasons",
    };
    let by = format!(
        "the driver held the GPU's clocks down by {reason} in {most} of {samples} samples, {} % of them (threshold \
         {}){more}",
        share.number(),
        share.limit()
    );
    Some(Mark::Throttled { by: Sentence::new(by, [share]) })
}

fn power_capped(gpu: &GpuTelemetry, of: u32, thresholds: &Thresholds) -> Option<Mark> {
    let (_, samples) = reasons(gpu, of, thresholds, |reason| reason == "sw_power_cap").next()?;
    Some(Mark::PowerCapped { samples, of, threshold: thresholds.of(Threshold::ThrottledShare) })
}

/// The reasons that `wanted` selects and that occur in more than the tolerated share of `samples`, with their samples.
fn reasons<'t>(
    gpu: &'t GpuTelemetry,
    samples: u32,
    thresholds: &Thresholds,
    wanted: fn(&str) -> bool,
) -> impl Iterator<Item = (&'t str, u32)> {
    let tolerated = thresholds.of(Threshold::ThrottledShare) * f64::from(samples);
    gpu.throttled_samples
        .iter()
        .filter(move |(reason, samples)| wanted(reason) && f64::from(**samples) > tolerated)
        .map(|(reason, samples)| (reason.as_str(), *samples))
}

/// Heat and protection of the board: `sw_thermal_slowdown`, `hw_thermal_slowdown`, `hw_power_brake_slowdown`,
/// `hw_slowdown`. A fixed clock and synchronised boards raise no mark.
fn is_protection(reason: &str) -> bool {
    reason.contains("thermal") || reason.contains("slowdown") || reason.contains("brake")
}

/// A pause outside the window counts too, since caches and clocks change during it.
fn suspended(record: &Record, thresholds: &Thresholds) -> Option<Mark> {
    let threshold = thresholds.of(Threshold::SuspendedS);
    let compared = |seconds, decimals| Compared::passed(Threshold::SuspendedS, seconds, threshold, decimals);
    let slept = record.observed.asleep_s.filter(|seconds| *seconds > threshold);
    let by_host = slept.map(|seconds| {
        let slept = compared(seconds, 1);
        let (seconds, limit) = (slept.number(), slept.limit());
        Sentence::new(format!("the host slept for {seconds} s while it ran (threshold {limit})"), [slept])
    });
    let by_signal = || {
        // Sensors are read once per second.
        let looks = record.observed.telemetry.as_ref()?.growth(Sensor::WorkerStopped)? as f64;
        (looks > threshold).then(|| {
            let looks = compared(looks, 0);
            let (seconds, limit) = (looks.number(), looks.limit());
            Sentence::new(
                format!("its worker was stopped for about {seconds} s (threshold {limit})"),
                [looks],
            )
        })
    };
    by_host.or_else(by_signal).map(|by| Mark::Suspended { by })
}

/// A job on a GPU is slowed down too, since its data and its kernels come from the processor.
fn quota_throttled(record: &Record, telemetry: &Telemetry, thresholds: &Thresholds) -> Option<Mark> {
    let threshold = thresholds.of(Threshold::QuotaHeld);
    let held = telemetry.readings(Sensor::CpuQuotaHeld)?.mean;
    let quota = record.provenance.host.cgroup.and_then(|limits| limits.cpus);
    (held > threshold).then_some(Mark::QuotaThrottled { held, quota, threshold })
}

/// By the swap counters of the host. Major faults are not used, since reading libraries from the disk causes them too.
fn swapped(telemetry: &Telemetry, thresholds: &Thresholds) -> Option<Mark> {
    let out_bytes = telemetry.growth(Sensor::SwappedOut).unwrap_or(0);
    let in_bytes = telemetry.growth(Sensor::SwappedIn).unwrap_or(0);
    let threshold = thresholds.of(Threshold::SwappedMib);
    (out_bytes.saturating_add(in_bytes) as f64 > threshold * f64::from(1 << 20)).then_some(Mark::Swapped {
        out_bytes,
        in_bytes,
        threshold,
    })
}

fn varied_clock(record: &Record, thresholds: &Thresholds) -> Option<Mark> {
    let (of, readings) = clock(record)?;
    let (low, high) = readings.middle?;
    let share = variation(&readings)?;
    let threshold = thresholds.of(Threshold::ClockWithin);
    (share > threshold).then(|| {
        let share = Compared::passed(Threshold::ClockWithin, share, threshold, 0);
        let low = Compared::new(low, Relation::Below, Limit::printed(high, 0), 0);
        let by = format!(
            "the {of}'s clock went from {} to {} MHz within the window, {} % of its mean, leaving out the lowest and \
             the highest tenth of its readings (threshold {})",
            low.number(),
            low.limit(),
            share.number(),
            share.limit()
        );
        Mark::ClockChanged { by: Sentence::new(by, [share, low]) }
    })
}

/// The range of the middle four fifths of a clock's readings, as a share of their mean. Unlike the range of all, it
/// does not grow with the number of readings, and a slow moment does not count. `None` for older records, which have no
/// quantiles.
pub(super) fn variation(clock: &Readings) -> Option<f64> {
    let (low, high) = clock.middle?;
    Some((high - low) / clock.mean)
}
