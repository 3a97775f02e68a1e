//! Numbers of a record for display: rounded, with the unit that follows from the name of the field.

use chrono::DateTime;

use crate::text::{decimals, significant, size_text};

/// Further digits are insignificant.
const DIGITS: usize = 6;

/// The units of operations, largest first.
const OPERATIONS: [(f64, &str); 3] = [(1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP")];

/// `value` of the field `name`; bytes, operations and times with their unit.
pub(super) fn field_text(name: &str, value: f64) -> String {
    let word = name.rsplit(' ').next().unwrap_or(name);
    if word.ends_with("bytes") && value >= 0.0 {
        return size_text(value.round() as u64);
    }
    if word.contains("flops") {
        return operations_text(value);
    }
    if word.ends_with("_at") {
        let at = DateTime::from_timestamp(value.floor() as i64, 0);
        return at.map_or_else(|| number_text(value), |at| at.format("%Y-%m-%d %H:%M:%S UTC").to_string());
    }
    number_text(value)
}

/// `24.28 GFLOP`.
fn operations_text(value: f64) -> String {
    let unit = OPERATIONS.iter().find(|(size, _)| value >= *size);
    unit.map_or_else(
        || format!("{} FLOP", number_text(value)),
        |(size, unit)| format!("{} {unit}", significant(value / size, 4)),
    )
}

/// `value` with six significant digits at most.
pub(super) fn number_text(value: f64) -> String {
    let before_the_point = value.abs().max(1.0).log10().floor() as usize + 1;
    decimals(value, DIGITS.saturating_sub(before_the_point))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_and_have_the_unit_of_their_name() {
        for (name, value, text) in [
            ("flops_per_sample", 24_283_290_282.666_668, "24.28 GFLOP"),
            ("counted_flops_per_sample", 512.0, "512 FLOP"),
            ("peak_host_memory_bytes", 2_085_593_088.0, "1.9 GiB"),
            ("window_started_at", 1_795_862_630.739_708, "2026-11-28 10:43:50 UTC"),
            ("elapsed_s", 11.074_271, "11.0743"),
            ("first_loss", 0.123_456_78, "0.12346"),
            ("cpu_energy_j", 1_234_567.891, "1234568"),
            ("cpu_busy", 2.0, "2"),
            ("host_steal_s", -0.0, "0"),
        ] {
            assert_eq!(field_text(name, value), text, "{name}");
        }
    }
}
