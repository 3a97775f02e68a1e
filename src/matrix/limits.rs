//! Limits of a job, and the conditions of its start.

use std::time::Duration;

use super::keys::{self, OUTPUT, QUIET, RETRIES, TEMPERATURE};
use super::note::Notes;
use super::reader::{
    NumberOrSwitch, check_keys, count, duration, entries, get, mismatch, number_or_switch, size,
};
use super::tree::Node;
use super::{Limits, Quiet};

/// The declared limits.
#[derive(Debug, Default)]
pub(super) struct LimitsFile {
    pub(super) timeout: Option<Duration>,
    pub(super) retries: Option<u32>,
    pub(super) grace: Option<Duration>,
    pub(super) cool_down: Option<Duration>,
    /// `Some(None)`: explicitly none.
    pub(super) quiet: Option<Option<Quiet>>,
    /// `Some(None)`: explicitly none.
    pub(super) max_temperature: Option<Option<f64>>,
    pub(super) gate_timeout: Option<Duration>,
    /// In bytes.
    pub(super) output: Option<u64>,
}

/// Reads the limits of a matrix or an env.
pub(super) fn read_limits(node: &Node, notes: &mut Notes) -> LimitsFile {
    let map = entries(node, "limits such as `{ timeout: 30m, retries: 1 }`", notes);
    check_keys(map, &[keys::LIMITS], "`limits`", notes);
    LimitsFile {
        timeout: get(map, "timeout").and_then(|node| duration(node, Duration::from_secs(1), notes)),
        retries: get(map, "retries").and_then(|node| count(node, RETRIES, notes)).map(|count| count.value),
        grace: get(map, "grace").and_then(|node| duration(node, Duration::ZERO, notes)),
        cool_down: get(map, "cool_down").and_then(|node| duration(node, Duration::ZERO, notes)),
        quiet: get(map, "quiet").and_then(|node| quiet(node, notes)),
        max_temperature: get(map, "max_temperature").and_then(|node| max_temperature(node, notes)),
        gate_timeout: get(map, "gate_timeout").and_then(|node| duration(node, Duration::ZERO, notes)),
        output: get(map, "output").and_then(|node| size(node, OUTPUT, notes)),
    }
}

fn quiet(node: &Node, notes: &mut Notes) -> Option<Option<Quiet>> {
    let expected = "`true`, `false`, or the number of processors that other processes may keep busy";
    Some(match number_or_switch(node, QUIET, expected, notes)? {
        NumberOrSwitch::Number(processors) => Some(Quiet::Processors(processors)),
        NumberOrSwitch::Switch(on) => on.then_some(Quiet::Usual),
    })
}

fn max_temperature(node: &Node, notes: &mut Notes) -> Option<Option<f64>> {
    let expected = "degrees Celsius, or `false`";
    match number_or_switch(node, TEMPERATURE, expected, notes)? {
        NumberOrSwitch::Number(celsius) => Some(Some(celsius)),
        NumberOrSwitch::Switch(false) => Some(None),
        NumberOrSwitch::Switch(true) => {
            mismatch(node, expected, notes);
            None
        }
    }
}

/// The limits of an env: its own, otherwise those of the matrix, otherwise the defaults.
pub(super) fn merge_limits(own: &LimitsFile, base: &LimitsFile) -> Limits {
    let default = Limits::default();
    Limits {
        timeout: own.timeout.or(base.timeout).unwrap_or(default.timeout),
        retries: own.retries.or(base.retries).unwrap_or(default.retries),
        grace: own.grace.or(base.grace).unwrap_or(default.grace),
        cool_down: own.cool_down.or(base.cool_down).unwrap_or(default.cool_down),
        quiet: own.quiet.or(base.quiet).unwrap_or(default.quiet),
        max_temperature: own.max_temperature.or(base.max_temperature).unwrap_or(default.max_temperature),
        gate_timeout: own.gate_timeout.or(base.gate_timeout).unwrap_or(default.gate_timeout),
        output: own.output.or(base.output).unwrap_or(default.output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Matrix, check};

    fn matrix(limits: &str, env: &str) -> Result<Matrix, Vec<crate::matrix::Note>> {
        check(&format!(
            "name: t\nmodels: [resnet18]\nbatches: [4]\nlimits: {{ {limits} }}\n\
             envs: {{ cpu: {{ device: cpu, limits: {{ {env} }} }} }}\n"
        ))
    }

    fn limits(limits: &str, env: &str) -> Limits {
        matrix(limits, env).unwrap().envs[0].limits
    }

    #[test]
    fn jobs_start_immediately_by_default() {
        let none = limits("", "");
        assert_eq!((none.quiet, none.max_temperature), (None, None));
        assert_eq!(none.gate_timeout, Duration::from_secs(300));
    }

    #[test]
    fn an_env_overrides_the_conditions_of_a_start() {
        let settings = "quiet: true, max_temperature: 60.5, gate_timeout: 90s";
        let own = limits(settings, "");
        assert_eq!((own.quiet, own.max_temperature), (Some(Quiet::Usual), Some(60.5)));
        assert_eq!(own.gate_timeout, Duration::from_secs(90));
        let other = limits(settings, "quiet: 1, max_temperature: false");
        assert_eq!((other.quiet, other.max_temperature), (Some(Quiet::Processors(1.0)), None));
        assert_eq!(limits(settings, "quiet: false").quiet, None);
    }

    #[test]
    fn impossible_gates_are_mistakes() {
        for mistake in
            ["quiet: 0", "quiet: -1", "quiet: still", "max_temperature: true", "max_temperature: 151"]
        {
            assert_eq!(matrix(mistake, "").unwrap_err().len(), 1, "{mistake}");
        }
    }

    #[test]
    fn the_output_has_a_size_with_its_unit() {
        assert_eq!(limits("", "").output, 64 << 20);
        for (text, bytes) in [
            ("64KiB", 65_536),
            ("16 MiB", 16 << 20),
            ("3GiB", 3 << 30),
            ("1TiB", 1 << 40),
            ("100 kB", 100_000),
            ("5MB", 5_000_000),
        ] {
            assert_eq!(limits(&format!("output: {text}"), "").output, bytes);
        }
        assert_eq!(limits("output: 1GiB", "output: 2MiB").output, 2 << 20);
        for mistake in [
            "1000000",
            "64",
            "63KiB",
            "2PiB",
            "MiB",
            "-1MiB",
            "1.5GiB",
            "1Mib",
            "true",
            "99999999999999999999TiB",
        ] {
            assert_eq!(matrix(&format!("output: {mistake}"), "").unwrap_err().len(), 1, "{mistake}");
        }
    }

    #[test]
    fn limits_of_older_plans_are_read() {
        let old = r#"{"timeout":{"secs":1,"nanos":0},"retries":0,"grace":{"secs":1,"nanos":0},
            "cool_down":{"secs":0,"nanos":0}}"#;
        let limits: Limits = serde_json::from_str(old).unwrap();
        assert_eq!((limits.quiet, limits.gate_timeout), (None, Duration::from_secs(300)));
        assert_eq!(limits.output, 64 << 20);
        for quiet in [Quiet::Usual, Quiet::Processors(0.5)] {
            let limits = Limits { quiet: Some(quiet), ..limits };
            let json = serde_json::to_string(&limits).unwrap();
            assert_eq!(serde_json::from_str::<Limits>(&json).unwrap(), limits);
        }
    }
}
