//! Fuzzes the parsers of the kernel's files about processors and sensors.

use std::collections::BTreeSet;

use super::parse::{
    Unwrapped, allowed_processors, is_package, is_processor_temperature, is_processor_zone, measured_clocks,
    number, processors, spread,
};
use crate::fuzz::{Form, Target, fuzz};

const TEXTS: &[&str] = &[
    "0-3,8,10-11\n",
    "Name:\tworker\nCpus_allowed:\tf\nCpus_allowed_list:\t0-3\n",
    "processor\t: 0\ncpu MHz\t\t: 2000.000\nflags\t\t: fpu aperfmperf\n\nprocessor\t: 1\ncpu MHz\t\t: 3500.125\n",
    "intel-rapl:0\npackage-0\n",
    "coretemp\nTctl\nx86_pkg_temp\ncpu-thermal\n",
    "262143328850\n17\n262143328849\n-3\n1e308\n",
];

const WORDS: &[&str] =
    &["processor\t: ", "cpu MHz\t: ", "Cpus_allowed_list:\t", "aperfmperf", "package-", "-", ","];

#[test]
fn fuzz_sensors() {
    let seeds = TEXTS.iter().map(|text| Vec::from(*text)).collect();
    fuzz(Target { name: "sensors", form: Form::Text, seeds, words: WORDS }, |bytes| {
        let text = &*String::from_utf8_lossy(bytes);
        let (listed, allowed) = (processors(text), allowed_processors(text));
        let some = spread(&listed, 32);
        assert!(some.len() <= 32 && some.iter().all(|processor| listed.contains(processor)), "{some:?}");
        let clocks = measured_clocks(text, &some);
        let mut counter = Unwrapped::new(262_143_328_850.0);
        let counted: Vec<f64> =
            text.lines().filter_map(number).map(|reading| counter.advance(reading)).collect();
        let packages = text.lines().filter(|line| is_package(line, line)).count();
        let labels: Vec<String> = text.lines().map(str::to_owned).collect();
        let is_warm = |line: &&str| is_processor_zone(line) || is_processor_temperature(line, line, &labels);
        let warm = text.lines().filter(is_warm).count();
        format!("{} {} {} {packages} {warm} {}", listed.len(), allowed.len(), clocks.len(), counted.len())
    });
}

#[test]
fn every_parser_is_fuzzed_and_tested() {
    let part = |text: &'static str, start, end| {
        let (_, after) = text.split_once(start).expect("the part begins");
        after.split_once(end).map_or(after, |(part, _)| part)
    };
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = |part: &'static str| part.split(move |c| !is_letter(c)).collect::<BTreeSet<&str>>();
    let parse = include_str!("parse.rs");
    let parsers = parse.lines().filter_map(|line| line.trim().strip_prefix("pub(super) fn "));
    let names: Vec<&str> = parsers.filter_map(|line| line.split('(').next()).collect();
    assert!(names.len() > 5, "{names:?}");
    let fuzzed = words(part(include_str!("fuzz_tests.rs"), "fn fuzz_sensors()", "#[test]"));
    let tested = words(part(parse, "mod tests {", "no end"));
    for name in names {
        assert!(fuzzed.contains(name), "`{name}` of parse.rs is not called in `fuzz_sensors`");
        assert!(tested.contains(name), "`{name}` of parse.rs has no test there");
    }
}
