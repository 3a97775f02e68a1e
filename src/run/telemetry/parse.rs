//! Parses the files of Linux's sensors. Pure: text in, numbers out.

/// The processors in a list such as `0-3,8`.
pub(super) fn processors(list: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse().ok()?)
    };
    // No system has more, so a longer list is not valid.
    const MOST: usize = 65_536;
    list.trim().split(',').filter_map(range).flatten().take(MOST).collect()
}

/// The processors that the process of this `/proc/PID/status` may run on.
pub(super) fn allowed_processors(status: &str) -> Vec<u32> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map(processors).unwrap_or_default()
}

/// At most `most` of `all`, spread evenly.
pub(super) fn spread(all: &[u32], most: usize) -> Vec<u32> {
    all.iter().step_by(all.len().div_ceil(most.max(1)).max(1)).copied().collect()
}

/// The number in a file that contains nothing else.
pub(super) fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite())
}

/// The clock of each of `processors`, in MHz, from `/proc/cpuinfo`. Empty where the processors lack the counters for
/// measuring it (`aperfmperf`, which virtual machines hide): the file then contains the nominal clock.
pub(super) fn measured_clocks(cpu_info: &str, processors: &[u32]) -> Vec<f64> {
    let mut clocks = Vec::new();
    let mut current = None;
    for (name, value) in cpu_info.lines().filter_map(|line| line.split_once(':')) {
        match name.trim() {
            "processor" => current = value.trim().parse::<u32>().ok(),
            "flags" if !value.split_whitespace().any(|flag| flag == "aperfmperf") => return Vec::new(),
            "cpu MHz" if current.is_some_and(|processor| processors.contains(&processor)) => {
                clocks.extend(number(value));
            }
            _ => {}
        }
    }
    clocks
}

/// Whether a sensor of the driver `driver` (the `name` of a hardware monitor) called `label` is the temperature of the
/// processor. `labels` are those of all of the driver's sensors: a package's sensor shows the hottest of its cores, and
/// reading that of a core would disturb the core. AMD's `Tctl` is for fans and may have an offset where there is a
/// `Tdie`.
pub(super) fn is_processor_temperature(driver: &str, label: &str, labels: &[String]) -> bool {
    let any_starts_with = |start: &str| labels.iter().any(|label| label.starts_with(start));
    match driver {
        "coretemp" => label.starts_with("Package") || !any_starts_with("Package"),
        "k10temp" | "zenpower" => label != "Tctl" || !any_starts_with("Tdie"),
        "cpu_thermal" => true,
        _ => false,
    }
}

/// Whether a thermal zone of this type is the processor's.
pub(super) fn is_processor_zone(kind: &str) -> bool {
    matches!(kind, "x86_pkg_temp" | "cpu-thermal" | "cpu_thermal")
}

/// Whether the RAPL domain in the directory `directory`, called `name`, is a processor package: not one of its parts
/// (`intel-rapl:0:1`), not the whole platform (`psys`).
pub(super) fn is_package(directory: &str, name: &str) -> bool {
    let number = directory.strip_prefix("intel-rapl:");
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        && name.starts_with("package")
}

/// Turns a counter that wraps to 0 at `greatest` into one that does not wrap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Unwrapped {
    greatest: f64,
    last: Option<f64>,
    total: f64,
}

impl Unwrapped {
    pub(super) fn new(greatest: f64) -> Self {
        Unwrapped { greatest, last: None, total: 0.0 }
    }

    /// Adds a reading. Returns the count since the first one. There must be a reading between any two wraps.
    pub(super) fn advance(&mut self, reading: f64) -> f64 {
        let last = self.last.replace(reading).unwrap_or(reading);
        self.total += if reading >= last { reading - last } else { self.greatest - last + reading };
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_listed_and_spread() {
        assert_eq!(processors("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(processors(""), Vec::<u32>::new());
        assert_eq!(processors("0-4294967295").len(), 65_536);
        assert_eq!(allowed_processors("Name:\tx\nCpus_allowed:\tf\nCpus_allowed_list:\t0,2\n"), [0, 2]);
        assert!(allowed_processors("Name:\tx\n").is_empty());
        assert_eq!(spread(&[0, 1, 2, 3, 4], 2), [0, 3]);
        assert_eq!(spread(&[0, 1], 32), [0, 1]);
        assert!(spread(&[], 32).is_empty());
    }

    #[test]
    fn only_single_finite_numbers_are_parsed() {
        assert_eq!(number(" 2800000\n"), Some(2_800_000.0));
        assert_eq!(number("-3.5"), Some(-3.5));
        for text in ["", "max", "NaN", "inf", "1e999", "1 2"] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn only_measured_clocks_count() {
        let cpu_info = |flags: &str| {
            (0..3)
                .map(|i| format!("processor\t: {i}\ncpu MHz\t\t: 2{i}00.5\nflags\t\t: fpu {flags}\n\n"))
                .collect::<String>()
        };
        assert_eq!(measured_clocks(&cpu_info("aperfmperf"), &[0, 2]), [2000.5, 2200.5]);
        assert_eq!(measured_clocks(&cpu_info("hypervisor"), &[0, 2]), Vec::<f64>::new());
    }

    #[test]
    fn recognises_sensors_of_the_processor() {
        let labels = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let chosen = |driver, words: &[&'static str]| {
            let all = labels(words);
            let is = |word: &&&str| is_processor_temperature(driver, word, &all);
            words.iter().filter(is).copied().collect::<Vec<_>>()
        };
        assert_eq!(chosen("coretemp", &["Package id 0", "Core 0", "Core 1"]), ["Package id 0"]);
        assert_eq!(chosen("coretemp", &["Core 0", "Core 1"]), ["Core 0", "Core 1"]);
        assert_eq!(chosen("k10temp", &["Tctl", "Tccd1"]), ["Tctl", "Tccd1"]);
        assert_eq!(chosen("zenpower", &["Tctl", "Tdie"]), ["Tdie"]);
        assert_eq!(chosen("cpu_thermal", &[""]), [""]);
        assert_eq!(chosen("nvme", &["Composite"]), Vec::<&str>::new());
        assert!(is_processor_zone("x86_pkg_temp") && !is_processor_zone("acpitz"));
        assert!(is_package("intel-rapl:0", "package-0"));
        for (directory, name) in
            [("intel-rapl:0:0", "core"), ("intel-rapl:1", "psys"), ("intel-rapl-mmio:0", "package-0")]
        {
            assert!(!is_package(directory, name), "{directory} {name}");
        }
    }

    #[test]
    fn a_wrapping_counter_continues() {
        let mut counter = Unwrapped::new(1000.0);
        let totals: Vec<f64> = [900.0, 950.0, 20.0, 20.0, 999.0, 1.0].map(|it| counter.advance(it)).into();
        // 50; up to 1000 and 20 more; 0; 979; up to 1000 and 1 more.
        assert_eq!(totals, [0.0, 50.0, 120.0, 120.0, 1099.0, 1101.0]);
    }
}
