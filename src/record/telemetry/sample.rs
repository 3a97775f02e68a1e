//! One reading of all sensors, which is one line of `telemetry.csv`.
//!
//! The column names contain the units; `NA` is not measured. Each version writes the same columns every time. A reader
//! skips unknown columns and treats missing ones as not measured.

use std::collections::BTreeMap;

use super::{ForeignProcess, Part, Sensor};
use crate::clean::clean_text;
use crate::text::decimals;

/// The value of a cell that was not measured.
const NOT_MEASURED: &str = "NA";

/// The time, in seconds since the Unix epoch.
const TIME: &str = "time_unix_s";

/// Why the driver throttled the clocks: `none`, or reasons separated by `;`.
const REASONS: &str = "gpu_throttle_reasons";

/// Foreign processes that compute on the device: `none`, `unknown`, or `pid:bytes:name` separated by `;`.
const PROCESSES: &str = "gpu_foreign_processes";

/// Foreign processes that only draw on the device, in the same form.
const DRAWING: &str = "gpu_graphics_processes";

/// One reading of all sensors. Counters keep growing from sample to sample: only differences are meaningful.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// When, in seconds since the Unix epoch.
    pub unix_s: f64,
    /// The readings. A sensor that was not read is absent.
    pub values: BTreeMap<Sensor, f64>,
    /// Other readings of the driver for the GPU that the job runs on. Absent for a job on the CPU.
    pub gpu: GpuSample,
}

/// Readings of a GPU's driver besides its sensors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuSample {
    /// The driver's reasons for throttling the clocks; empty if it does not throttle them.
    pub throttle_reasons: Option<Vec<String>>,
    /// The processes on the device besides the job's.
    pub others: Option<OnDevice>,
}

/// The foreign processes on a device, as far as they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnDevice {
    /// The processes that are not the job's, in the order of their pids; possibly none.
    Foreign(Vec<ForeignProcess>),
    /// There are processes of unknown owners.
    Unknown,
}

impl Sample {
    /// The reading of `sensor`.
    pub fn get(&self, sensor: Sensor) -> Option<f64> {
        self.values.get(&sensor).copied()
    }

    /// Whether it has any reading of a GPU.
    pub(super) fn has_gpu(&self) -> bool {
        self.gpu != GpuSample::default() || Sensor::of(Part::Gpu).any(|sensor| self.get(sensor).is_some())
    }

    /// The names of the columns, in order.
    pub fn header() -> Vec<&'static str> {
        let numbers = Sensor::ALL.iter().map(|sensor| sensor.declaration().column);
        std::iter::once(TIME).chain(numbers).chain([REASONS, PROCESSES, DRAWING]).collect()
    }

    /// The cells of its line, in the order of [`Sample::header`].
    pub fn words(&self) -> Vec<String> {
        let mut words = vec![number_text(self.unix_s)];
        words.extend(Sensor::ALL.iter().map(|sensor| match self.get(*sensor) {
            Some(value) => number_text(value),
            None => NOT_MEASURED.to_owned(),
        }));
        let reasons = self.gpu.throttle_reasons.as_ref();
        words.push(reasons.map_or_else(|| NOT_MEASURED.to_owned(), |reasons| joined(reasons.clone())));
        words.extend([false, true].map(|graphics| self.processes_text(graphics)));
        words
    }

    /// The cell of the foreign processes that compute or, with `graphics`, of those that only draw.
    fn processes_text(&self, graphics: bool) -> String {
        match &self.gpu.others {
            None => NOT_MEASURED.to_owned(),
            Some(OnDevice::Unknown) => "unknown".to_owned(),
            Some(OnDevice::Foreign(processes)) => {
                let of_kind = processes.iter().filter(|process| process.graphics == graphics);
                joined(of_kind.map(process_text).collect())
            }
        }
    }

    /// Reads the cell of one column; `None` if it is malformed.
    fn read(&mut self, column: &str, word: &str) -> Option<()> {
        if column == TIME {
            self.unix_s = number(word)?;
        } else if word == NOT_MEASURED {
            // The sensor is absent already.
        } else if let Some(sensor) = Sensor::ALL.iter().find(|sensor| sensor.declaration().column == column) {
            self.values.insert(*sensor, number(word)?);
        } else if column == REASONS {
            self.gpu.throttle_reasons = Some(parts(word).map(|word| clean_text(word).into_owned()).collect());
        } else if column == PROCESSES || column == DRAWING {
            self.read_processes(word, column == DRAWING)?;
        }
        Some(())
    }

    /// Reads the cell of one of the two columns of processes.
    fn read_processes(&mut self, word: &str, graphics: bool) -> Option<()> {
        let others = match word {
            "unknown" => OnDevice::Unknown,
            list => {
                let processes = parts(list).map(|text| process(text, graphics));
                OnDevice::Foreign(processes.collect::<Option<_>>()?)
            }
        };
        self.gpu.others = Some(match (self.gpu.others.take(), others) {
            (Some(OnDevice::Foreign(mut all)), OnDevice::Foreign(processes)) => {
                all.extend(processes);
                all.sort_by_key(|process| process.pid);
                OnDevice::Foreign(all)
            }
            (Some(OnDevice::Unknown), _) => OnDevice::Unknown,
            (_, others) => others,
        });
        Some(())
    }
}

/// Parses the samples of a `telemetry.csv`. Skips malformed and incomplete lines: its writer can be killed at any byte.
pub fn parse_samples(text: &str) -> Vec<Sample> {
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    // Without quotes, splitting at line breaks and commas is enough. Building a CSV reader would take longer than
    // reading the few lines of a short job.
    if !whole.contains(['"', '\r']) {
        let mut lines = whole.lines().filter(|line| !line.is_empty()).map(|line| line.split(',').collect());
        return lines.next().map_or_else(Vec::new, |header: Vec<&str>| samples(&header, lines));
    }
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(whole.as_bytes());
    let Ok(header) = reader.headers().cloned() else { return Vec::new() };
    let records: Vec<csv::StringRecord> = reader.into_records().filter_map(Result::ok).collect();
    samples(&header.iter().collect::<Vec<_>>(), records.iter().map(|record| record.iter().collect()))
}

/// The samples in the cells of `lines` below `header`.
fn samples<'a>(header: &[&str], lines: impl Iterator<Item = Vec<&'a str>>) -> Vec<Sample> {
    if header.first() != Some(&TIME) {
        return Vec::new();
    }
    let sample = |cells: Vec<&str>| {
        let mut sample = Sample::default();
        let read = header.iter().zip(&cells).try_for_each(|(column, word)| sample.read(column, word));
        (read.is_some() && cells.len() == header.len()).then_some(sample)
    };
    lines.filter_map(sample).collect()
}

/// Rounded to thousandths, finer than any sensor's resolution.
fn number_text(value: f64) -> String {
    decimals(value, 3)
}

fn number(word: &str) -> Option<f64> {
    word.parse().ok().filter(|number: &f64| number.is_finite())
}

fn joined(words: Vec<String>) -> String {
    if words.is_empty() { "none".to_owned() } else { words.join(";") }
}

fn parts(list: &str) -> impl Iterator<Item = &str> {
    list.split(';').filter(|part| *part != "none")
}

fn process_text(process: &ForeignProcess) -> String {
    let bytes = process.memory_bytes.map_or_else(|| NOT_MEASURED.to_owned(), |bytes| bytes.to_string());
    // Names of programs can contain the separators.
    let plain = |letter: char| if letter == ';' || letter.is_control() { '_' } else { letter };
    let name: String = process.name.as_deref().unwrap_or(NOT_MEASURED).chars().map(plain).collect();
    format!("{}:{bytes}:{name}", process.pid)
}

fn process(text: &str, graphics: bool) -> Option<ForeignProcess> {
    let mut fields = text.splitn(3, ':');
    let pid = fields.next()?.parse().ok()?;
    let known = |word: &&str| *word != NOT_MEASURED;
    let memory_bytes = match fields.next().filter(known) {
        Some(bytes) => Some(bytes.parse().ok()?),
        None => None,
    };
    let name = fields.next().filter(known).map(|name| clean_text(name).into_owned());
    Some(ForeignProcess { pid, name, memory_bytes, graphics })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn full() -> Sample {
        Sample {
            unix_s: 1_790_000_000.125,
            // Every sensor has another value.
            values: Sensor::ALL
                .iter()
                .zip(1..)
                .map(|(sensor, n)| (*sensor, f64::from(n) * 1000.125))
                .collect(),
            gpu: GpuSample {
                throttle_reasons: Some(vec!["sw_power_cap".to_owned(), "hw_slowdown".to_owned()]),
                others: Some(OnDevice::Foreign(vec![
                    process("6:1:compositor", true).unwrap(),
                    process("7:NA:a \"b\",c:d", false).unwrap(),
                    process("8:5:NA", false).unwrap(),
                ])),
            },
        }
    }

    fn csv(samples: &[Sample]) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(Sample::header()).unwrap();
        for sample in samples {
            writer.write_record(sample.words()).unwrap();
        }
        String::from_utf8(writer.into_inner().unwrap()).unwrap()
    }

    #[test]
    fn samples_read_back_from_their_lines() {
        let bare = Sample { unix_s: 5.0, ..Sample::default() };
        let mut unknown = bare.clone();
        unknown.gpu.others = Some(OnDevice::Unknown);
        let mut alone = bare.clone();
        alone.gpu.others = Some(OnDevice::Foreign(Vec::new()));
        alone.gpu.throttle_reasons = Some(Vec::new());
        let samples = [full(), bare, unknown, alone];
        let text = csv(&samples);
        assert_eq!(parse_samples(&text), samples, "{text}");
        let without_reading = text.lines().nth(2).unwrap().strip_prefix("5").unwrap();
        assert_eq!(without_reading.replace(",NA", ""), "", "{text}");
        assert!(text.lines().nth(4).unwrap().ends_with("none,none,none"), "{text}");
    }

    /// Line breaks of Windows, which are never written, are parsed by the CSV reader.
    #[test]
    fn lines_without_quotes_are_read_as_csv_is() {
        let bare = Sample { unix_s: 5.0, ..Sample::default() };
        let text = csv(&[bare.clone(), bare]);
        for odd in ["", "\n", "5\n", "x,y\n", "5,1,2\n,,\n\n", "torn"] {
            for text in [format!("{text}{odd}"), format!("{odd}{text}"), odd.to_owned()] {
                assert_eq!(parse_samples(&text), parse_samples(&text.replace('\n', "\r\n")), "{text:?}");
            }
        }
    }

    #[test]
    fn one_reading_of_a_gpu_implies_a_gpu() {
        let with = |sensor| Sample { values: [(sensor, 1.0)].into(), ..Sample::default() };
        let reasons = GpuSample { throttle_reasons: Some(Vec::new()), ..GpuSample::default() };
        assert!(with(Sensor::GpuPower).has_gpu());
        assert!(Sample { gpu: reasons, ..Sample::default() }.has_gpu());
        assert!(!with(Sensor::CpuClock).has_gpu());
    }

    #[test]
    fn a_process_of_any_name_is_one_cell_of_one_line() {
        let name = Some("a;b\nc:d".to_owned());
        let named = ForeignProcess { pid: 7, name, memory_bytes: None, graphics: false };
        assert_eq!(process_text(&named), "7:NA:a_b_c:d");
        for garbled in ["", "six:1:a", "6:many:a"] {
            assert_eq!(process(garbled, false), None, "{garbled}");
        }
    }

    #[test]
    fn a_file_cut_at_any_byte_loses_only_its_last_line() {
        let samples = [full(), full(), full()];
        let text = csv(&samples);
        for length in 0..text.len() {
            let cut = parse_samples(&text[..length]);
            let whole = text[..length].matches('\n').count().saturating_sub(1);
            assert_eq!(cut, samples[..whole], "{length}");
        }
    }

    #[test]
    fn unknown_and_missing_columns_are_accepted() {
        let text = "time_unix_s,fan_rpm,cpu_mhz\n1,900,2000\n2,x,many\n3,900\n4,NA,2100\n";
        let read: Vec<_> =
            parse_samples(text).iter().map(|sample| (sample.unix_s, sample.get(Sensor::CpuClock))).collect();
        assert_eq!(read, [(1.0, Some(2000.0)), (4.0, Some(2100.0))]);
        assert_eq!(parse_samples("a,b\n1,2\n"), []);
        assert_eq!(parse_samples(""), []);
    }

    /// Older versions did not distinguish processes that only draw.
    #[test]
    fn a_process_in_an_older_file_computes() {
        let text = "time_unix_s,gpu_foreign_processes\n1,6:1:Xorg\n";
        let others = parse_samples(text).remove(0).gpu.others;
        assert_eq!(others, Some(OnDevice::Foreign(vec![process("6:1:Xorg", false).unwrap()])));
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in "(time_unix_s,gpu_foreign_processes,cpu_mhz\n)?(\\PC|[0-9:;,\"\n])*") {
            for sample in parse_samples(&text) {
                prop_assert!(sample.unix_s.is_finite());
            }
        }
    }
}
