//! The cheapest experiment that would decide the limit of a row.

use super::bound::AT_ROOF;
use super::group::Row;
use super::operators::{Breakdown, Limit, PlacedOperator, Rates};
use super::peaks::{Origin, Range};
use crate::job::Device;

/// The experiment that would decide the limit of `row`, as an imperative without a full stop. `None` if its failure has
/// to be fixed first: the row contains the reason.
pub(super) fn experiment(row: &Row<'_>, breakdown: Option<&Breakdown<'_>>, matrix: &str) -> Option<String> {
    if row.statistics.is_err() {
        return None;
    }
    let device = row.config.device;
    if row.ceilings().is_none() {
        return Some(format!("measure the ceilings: `orchestrate peaks measure --device {device}`"));
    }
    let Some(breakdown) = breakdown else {
        return Some(format!("profile it by operator: `orchestrate run {matrix} --profile ops`"));
    };
    if !breakdown.is_representative() {
        return Some(by_counters(row, matrix, "profile a larger batch, whose operators take longer"));
    }
    let open = breakdown.operators.iter().find(|it| it.limit == Limit::Open);
    Some(match open {
        Some(open) => for_operator(open, row, breakdown, matrix),
        None => by_counters(row, matrix, "report more operators: those in `rest_s` decide it"),
    })
}

/// The experiment for `operator`, the slowest one with an open limit.
fn for_operator(
    operator: &PlacedOperator<'_>,
    row: &Row<'_>,
    breakdown: &Breakdown<'_>,
    matrix: &str,
) -> String {
    let PlacedOperator { sample, class, rates, .. } = operator;
    let name = &sample.name;
    if rates.flops.is_none() || rates.bytes.is_none() {
        let remedy = format!("report `flops` and `bytes` of the operator `{name}`, whose work is unknown");
        return by_counters(row, matrix, &remedy);
    }
    let device = row.config.device;
    if rates.flops.is_some_and(|flops| flops > 0.0) && rates.of_compute.is_none() {
        return format!(
            "measure the ceilings at its precision: `orchestrate peaks measure --device {device}`"
        );
    }
    if let Some(disturbed) = disturbed(rates) {
        let is_measured = row.ceilings().is_some_and(|peaks| matches!(peaks.origin, Origin::Measured { .. }));
        let quietly =
            if is_measured { format!(" when nothing else uses the {disturbed}") } else { String::new() };
        let remedy = format!("measure the ceilings{quietly}: `orchestrate peaks measure --device {device}`");
        return by_counters(row, matrix, &remedy);
    }
    let pace = breakdown.pace();
    if pace.is_wide() && Limit::of(*class, rates, Range::exactly(1.0)) != Limit::Open {
        let again = format!("`orchestrate run {matrix} --store DIR`");
        let remedy = format!("measure it again when nothing else uses the machine, in a new store: {again}");
        return by_counters(row, matrix, &remedy);
    }
    by_counters(row, matrix, &format!("run a larger batch: the data of `{name}` then exceed the caches"))
}

/// The part of the machine with a ceiling that is only known as a range, so that an operator with `rates` might be at
/// it.
fn disturbed(rates: &Rates) -> Option<&'static str> {
    let of_stream = rates.of_memory.as_ref().and_then(|memory| memory.streams.as_ref());
    let shares = [(rates.of_compute, "processor"), (of_stream.map(|(_, share)| *share), "memory")];
    let is_open = |share: &Range| share.is_wide() && share.low < AT_ROOF && share.high >= AT_ROOF;
    shares.into_iter().find(|(share, _)| share.as_ref().is_some_and(is_open)).map(|(_, what)| what)
}

/// Suggests counted bytes if the device can count them and has not yet, else `otherwise`. If counting was refused,
/// `otherwise` comes first, because it needs no permission.
fn by_counters(row: &Row<'_>, matrix: &str, otherwise: &str) -> String {
    let is_counted = row.counted.ncu.as_ref().is_some_and(|ncu| ncu.dram_bytes_per_sample().is_some());
    match row.config.device {
        Device::Cuda(_) if !is_counted => match row.counted.refused {
            None => format!("count its bytes: `orchestrate run {matrix} --profile ncu`"),
            Some(why) => format!("{otherwise}; or let ncu count its bytes: {}", why.remedy),
        },
        Device::Cuda(_) | Device::Cpu | Device::Mps => otherwise.to_owned(),
    }
}
