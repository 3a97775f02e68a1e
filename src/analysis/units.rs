//! The units of columns. The name of a column ends with its unit, or names the counted thing.

/// The ends of names and their units. The first match counts.
const ENDS: &[(&str, &str)] = &[
    ("samples_per_s", "samples/s"),
    ("gflop_per_s", "GFLOP/s"),
    ("gb_per_s", "GB/s"),
    ("flop_per_byte", "FLOP/byte"),
    ("gflop_per_sample", "GFLOP/sample"),
    ("gmac_per_sample", "GMAC/sample"),
    ("bytes_per_sample", "bytes/sample"),
    ("joules_per_sample", "J/sample"),
    ("usd_per_million_samples", "USD/million samples"),
    ("percent_of_peak", "%"),
    ("percent_of_peak_most", "%"),
    ("percent_of_peak_at_clock", "%"),
    ("percent_of_peak_at_clock_most", "%"),
    ("percent_of_bandwidth", "%"),
    ("_percent", "%"),
    ("_mhz", "MHz"),
    ("_c", "°C"),
    ("_w", "W"),
    ("_j", "J"),
    ("_usd", "USD"),
    ("_bytes", "bytes"),
    ("gflop", "GFLOP"),
    ("_s", "s"),
    ("seconds_under_the_profiler", "s"),
    ("_events", "events"),
    ("_busy", "processors"),
    ("_quota_held", "processors"),
    ("_processors", "processors"),
    ("_throttled", "s/s"),
    ("_faults", "page faults"),
    ("_switches", "context switches"),
    ("_images", "images"),
    ("_loss", "loss"),
    ("ratio", "1"),
    ("ratio_low", "1"),
    ("ratio_high", "1"),
    ("_n", "runs"),
];

/// The units of columns whose names do not end with one.
const COUNTED: &[(&str, &str)] = &[
    ("n", "runs"),
    ("runs", "runs"),
    ("calls", "calls per iteration"),
    ("left_out", "runs"),
    ("replaced", "runs"),
    ("left_out_without_throughput", "runs"),
    ("included_marked", "runs"),
    ("configs", "configs"),
    ("configs_apart", "configs"),
    ("configs_faster", "configs"),
    ("configs_slower", "configs"),
    ("configs_same", "configs"),
    ("configs_cannot_tell", "configs"),
    ("config_planned", "jobs"),
    ("config_failed", "jobs"),
    ("config_not_run", "jobs"),
    ("batch", "samples/iteration"),
    ("samples", "samples"),
    ("iterations", "iterations"),
    ("first_non_finite_iteration", "iterations"),
    ("first_iteration", "iterations"),
    ("last_iteration", "iterations"),
    ("place", "runs"),
    ("block", "blocks"),
    ("optimizer_steps", "optimizer steps"),
    ("parameters", "parameters"),
    ("repeat", "repeats"),
    ("repeats_to_decide", "repeats"),
    ("attempt", "attempts"),
    ("attempts", "attempts"),
    ("telemetry_samples", "samples of sensors"),
    ("load_before", "processes"),
    ("instructions", "instructions"),
    ("cycles", "cycles"),
    ("ipc", "instructions/cycle"),
    ("number", "points"),
    ("rank", "kernels or operators"),
    ("launches", "launches"),
    ("p_equal", "1"),
    ("p_beyond_margin", "1"),
];

/// Columns whose unit is in another column of the same line, with that column.
const BESIDE: &[(&str, &str)] = &[("value", "see `unit`"), ("per_sample", "`unit`/sample")];

/// The unit of the numbers of the column `name`.
pub(super) fn unit_of(name: &str) -> Option<&'static str> {
    if name.starts_with("metric_") {
        return Some(if name.ends_with("_n") { "runs" } else { "see its `_unit`" });
    }
    let whole = COUNTED.iter().chain(BESIDE).find(|(known, _)| *known == name);
    let end = || ENDS.iter().find(|(end, _)| name.ends_with(end));
    whole.or_else(end).map(|(_, unit)| *unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::table::{CSV_FILES, comparison_sections, run_sections, trace_sections};

    #[test]
    fn units_follow_from_names() {
        for (name, unit) in [
            ("median_samples_per_s", Some("samples/s")),
            ("window_s", Some("s")),
            ("attained_gflop_per_s", Some("GFLOP/s")),
            ("bandwidth_least_gb_per_s", Some("GB/s")),
            ("n", Some("runs")),
            ("metric_loss_scale", Some("see its `_unit`")),
            ("marks_why", None),
        ] {
            assert_eq!(unit_of(name), unit, "{name}");
        }
    }

    /// An unused rule would apply to the next column that happens to match.
    #[test]
    fn every_rule_is_used_by_a_column() {
        let files = CSV_FILES.iter().map(|file| file.sections).chain([
            comparison_sections,
            run_sections,
            trace_sections,
        ]);
        let columns = files.flat_map(|sections| sections()).flat_map(|section| section.columns);
        let numbers = columns.filter(|about| about.cell_type.is_number());
        let names: Vec<String> = numbers.map(|about| about.name.into_owned()).collect();
        for (name, _) in COUNTED.iter().chain(BESIDE) {
            assert!(names.iter().any(|column| column == name), "no number is called `{name}`");
        }
        for (place, (end, _)) in ENDS.iter().enumerate() {
            let decides = |name: &String| {
                ENDS.iter().position(|(end, _)| name.ends_with(end)) == Some(place)
                    && !COUNTED.iter().any(|(known, _)| known == name)
            };
            assert!(names.iter().any(decides), "no number has its unit from `{end}`");
        }
    }
}
