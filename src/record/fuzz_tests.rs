//! Damaged output of other programs: both kinds of `time`, `ncu` and `perf`, and our own tables of sensors.

use super::ncu::{NcuOutput, parse_ncu, parse_ncu_version, parse_query_metrics, select_metrics};
use super::perf::{PERF_EVENTS, parse_perf};
use super::{
    ReportedExit, Sample, Sensor, Telemetry, TimeReport, TimeReportError, parse_bsd_time, parse_gnu_time,
    parse_samples,
};
use crate::fuzz::{Form, Target, files, fuzz};

/// A text, with the texts in `tests/records` whose names begin with `name` for seeds.
fn recorded(name: &'static str, words: &'static [&'static str]) -> Target<'static> {
    Target { name, form: Form::Text, seeds: files("tests/records", name, ""), words }
}

fn answer(report: Result<TimeReport, TimeReportError>) -> String {
    match report {
        Ok(TimeReport { exit, stats }) => {
            let times = [stats.wall_s, stats.user_s, stats.system_s];
            assert!(times.into_iter().flatten().all(|seconds| seconds.is_finite() && seconds >= 0.0));
            format!(
                "{:?} {}",
                exit.map(|exit| matches!(exit, ReportedExit::Signal(_))),
                stats.wall_s.is_some()
            )
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn fuzz_gnu_time() {
    const WORDS: &[&str] =
        &["\tCommand being timed: ", "\tExit status: ", "Command terminated by signal ", "\t"];
    fuzz(recorded("gnu_time", WORDS), |bytes| answer(parse_gnu_time(&String::from_utf8_lossy(bytes))));
}

#[test]
fn fuzz_bsd_time() {
    const WORDS: &[&str] =
        &["real", "user", "sys", "  maximum resident set size", "  cycles elapsed", "real "];
    fuzz(recorded("bsd_time", WORDS), |bytes| answer(parse_bsd_time(&String::from_utf8_lossy(bytes))));
}

#[test]
fn fuzz_ncu() {
    const WORDS: &[&str] = &[
        "==ERROR== ",
        "==PROF== Disconnected from process ",
        "\"ID\",\"Process ID\",",
        "Metric Value",
        "n/a",
        "(!) nan",
        "Gbyte",
        "msecond",
        "%",
        "gpu__time_duration.sum",
        "dram__bytes.sum",
    ];
    let listed = String::from_utf8(files("tests/records", "ncu_query_metrics_gh100", "").remove(0));
    let capability = "9.0".parse().expect("a compute capability");
    let hopper = select_metrics(Some(capability), Some(&parse_query_metrics(&listed.expect("a text"))));
    fuzz(recorded("ncu", WORDS), |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let _ = (parse_query_metrics(&text), parse_ncu_version(&text));
        let exit = Some(ReportedExit::Code(0)).filter(|_| bytes.len() % 2 == 0);
        let output = NcuOutput { log: &text, exit, program_stderr: &text };
        match parse_ncu(bytes, &output, &hopper) {
            Ok(counters) => {
                assert!(counters.kernels > 0);
                assert!(counters.zero_flop_share().is_none_or(|share| (0.0..=1.0).contains(&share)));
                format!("{} {:?}", counters.unproven, counters.totals().tensor_flops.keys())
            }
            Err(failure) => format!("{failure} {}", failure.remedy()),
        }
    });
}

#[test]
fn fuzz_perf() {
    const WORDS: &[&str] =
        &["<not counted>", "<not supported>", "cycles:u", "/", "msec", "instructions", "# started on"];
    fuzz(recorded("perf", WORDS), |bytes| {
        let text = String::from_utf8_lossy(bytes);
        match parse_perf(&text, &text, &PERF_EVENTS[..2]) {
            Ok(counters) => {
                let rates = [counters.ipc(), counters.cache_miss_rate(), counters.branch_miss_rate()];
                assert!(rates.into_iter().flatten().all(|rate| rate.is_finite() && rate >= 0.0));
                format!("{:?}", rates.map(|rate| rate.is_some()))
            }
            Err(failure) => format!("{failure} {}", failure.remedy()),
        }
    });
}

#[test]
fn fuzz_telemetry() {
    const WORDS: &[&str] = &["time_unix_s", "gpu_foreign_processes", "1:2:Xorg", "sw_power_cap", "NA"];
    let header = Sample::header().into_iter().map(|name| name.to_string()).collect::<Vec<_>>().join(",");
    let line = |second: usize| {
        let numbers = (0..Sample::header().len()).map(|column| (second + column).to_string());
        numbers.collect::<Vec<_>>().join(",")
    };
    let seed = format!("{header}\n{}\n{}\n{}\n", line(1), line(2), line(4));
    let target = Target { name: "telemetry", form: Form::Text, seeds: vec![seed.into()], words: WORDS };
    fuzz(target, |bytes| {
        let samples = parse_samples(&String::from_utf8_lossy(bytes));
        let Some(telemetry) = Telemetry::of(&samples, Some((1.5, 3.5))) else { return "nothing".to_owned() };
        assert!(telemetry.window_growth(Sensor::CpuEnergy).is_none_or(|joules| joules >= 0.0));
        format!("{} {}", telemetry.of_window, telemetry.gpu.is_some())
    });
}
