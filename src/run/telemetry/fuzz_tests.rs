//! Damaged words of the kernel about its processors and sensors.

use super::parse::{Unwrapped, allowed_processors, is_package, measured_clocks, number, processors, spread};
use crate::fuzz::{Form, Target, fuzz};

const TEXTS: &[&str] = &[
    "0-3,8,10-11\n",
    "Name:\tworker\nCpus_allowed:\tf\nCpus_allowed_list:\t0-3\n",
    "processor\t: 0\ncpu MHz\t\t: 2000.000\nflags\t\t: fpu aperfmperf\n\nprocessor\t: 1\ncpu MHz\t\t: 3500.125\n",
    "intel-rapl:0\npackage-0\n",
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
        format!("{} {} {} {packages} {}", listed.len(), allowed.len(), clocks.len(), counted.len())
    });
}
