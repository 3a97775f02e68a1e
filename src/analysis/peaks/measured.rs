//! The YAML files in `peaks/measured/`, written by `orchestrate peaks measure` for one device of one host. They hold
//! every sample. The ceilings (the best product of each precision, the best pass of any stream) are derived when they
//! are read.

use serde::{Deserialize, Serialize};

use super::{Ceiling, Confidence, Origin, Peaks, PeaksError, Range, Spread};
use crate::job::{Device, Precision};
use crate::protocol::{GemmSample, MeasuredPeaks};

/// The version of a measured peaks file.
///
/// Changelog: 1: the first version. 2: samples have operands, layout and whether they are emulated (then they are not a
/// ceiling); clocks, UUID, reasons for missing precisions, and warnings. Version 1 is read as before.
pub const MEASURED_SCHEMA: u32 = 2;

/// The method of measurement, which is written to the file and shown as the source.
pub const METHOD: &str = "orchestrate peaks measure: dense matrix products of random numbers, copy and triad beyond \
                          the caches with read and write counted, best of n";

/// The content of a measured peaks file: the samples, and where they were taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredFile {
    /// [`MEASURED_SCHEMA`].
    pub schema: u32,
    /// [`METHOD`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The host's name.
    pub host: String,
    /// The day, `2026-10-31`.
    pub date: String,
    /// `orchestrate`'s own version.
    pub orchestrate: String,
    /// SHA-256 of the worker that measured.
    pub worker_sha256: Option<String>,
    /// What was doubtful compared with the vendor's figures that day, one sentence each.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The output of the worker.
    pub measured: MeasuredPeaks,
}

/// Parses the measured peaks file `name`.
///
/// # Errors
/// The text does not have the expected form, its schema is unknown, or it has no usable sample.
pub fn parse_measured(name: &str, text: &str) -> Result<Peaks, PeaksError> {
    let file: MeasuredFile = serde_yaml::from_str(text)
        .map_err(|source| PeaksError::Form { name: name.to_owned(), source: Box::new(source) })?;
    if !(1..=MEASURED_SCHEMA).contains(&file.schema) {
        let message = format!("schema is {}: expected 1 to {MEASURED_SCHEMA}", file.schema);
        return Err(PeaksError::Value { name: name.to_owned(), message });
    }
    file.peaks(name).map_err(|message| PeaksError::Value { name: name.to_owned(), message })
}

impl MeasuredFile {
    /// The ceilings: the best product of each precision, the best pass of any stream.
    ///
    /// # Errors
    /// A sentence, if there is no usable sample of a product, no host or no device name.
    pub fn peaks(&self, name: &str) -> Result<Peaks, String> {
        let measured = &self.measured;
        if self.host.is_empty() || measured.device_name.is_empty() {
            return Err(
                "host and device_name must not be empty: peaks are for one device of one host".to_owned()
            );
        }
        let flops: Vec<Ceiling> =
            Precision::ALL.into_iter().filter_map(|precision| ceiling(measured, precision)).collect();
        if flops.is_empty() {
            return Err("gemm has no sample above 0".to_owned());
        }
        let streams = measured.stream.iter().filter_map(|sample| Some((best(&sample.bytes_per_s)?, sample)));
        let fastest = streams.max_by(|(left, _), (right, _)| left.total_cmp(right));
        Ok(Peaks {
            name: name.to_owned(),
            device: measured.device_name.clone(),
            backend: measured.device.backend().to_owned(),
            names: vec![measured.device_name.clone()],
            origin: Origin::Measured {
                host: self.host.clone(),
                device: measured.device,
                uuid: measured.device_uuid.clone(),
                threads: measured.threads,
                quick: measured.quick,
            },
            flops,
            left_out: measured.left_out.clone(),
            bandwidth: fastest.map(|(bytes_per_s, _)| Range::exactly(bytes_per_s)),
            bandwidth_spread: fastest.and_then(|(_, sample)| Spread::of(&sample.bytes_per_s)),
            clocks: measured.clocks.map(|clocks| clocks.to_string()),
            source: METHOD.to_owned(),
            date: self.date.clone(),
            confidence: if measured.quick { Confidence::Medium } else { Confidence::High },
            note: (!measured.notes.is_empty()).then(|| measured.notes.join("; ")),
            warnings: self.warnings.clone(),
        })
    }
}

/// The best product at `precision` that the hardware has an instruction for.
fn ceiling(measured: &MeasuredPeaks, precision: Precision) -> Option<Ceiling> {
    let arithmetic = arithmetic(precision, measured.device);
    let of = |sample: &&GemmSample| sample.precision == arithmetic && !sample.emulated;
    let fastest = measured
        .gemm
        .iter()
        .filter(of)
        .filter_map(|sample| Some((best(&sample.flops_per_s)?, sample)))
        .max_by(|(left, _), (right, _)| left.total_cmp(right));
    let (flops_per_s, sample) = fastest?;
    // The first version only measured single precision, without naming it.
    let accumulate = sample.accumulate.clone().unwrap_or_else(|| "fp32".to_owned());
    let spread = Spread::of(&sample.flops_per_s);
    let is_clock = |range: &Range| range.low > 0.0 && range.low <= range.high && range.high.is_finite();
    let clock = measured.clocks.map(|clocks| Range { low: clocks.low_mhz, high: clocks.high_mhz });
    let clock_mhz = clock.filter(is_clock);
    Some(Ceiling { precision, flops_per_s: Range::exactly(flops_per_s), accumulate, spread, clock_mhz })
}

/// The precision whose products are those of `precision` on `device`: mixed precision on a CPU multiplies bf16.
fn arithmetic(precision: Precision, device: Device) -> Precision {
    match (precision, device) {
        (Precision::Amp, Device::Cpu) => Precision::Bf16,
        (precision, _) => precision,
    }
}

/// The largest of `samples` that is a valid rate.
fn best<'a>(samples: impl IntoIterator<Item = &'a f64>) -> Option<f64> {
    samples.into_iter().copied().filter(|value| value.is_finite() && *value > 0.0).max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEMM: &str = r#"[
        { "precision": "fp32", "operands": "fp32", "accumulate": "fp32", "layout": "NN", "size": 1024, "products": 2,
          "flops_per_s": [1e11, 1.2e11] },
        { "precision": "fp32", "size": 2048, "flops_per_s": [1.1e11] },
        { "precision": "tf32", "operands": "tf32", "accumulate": "fp32", "size": 2048, "flops_per_s": [2e11] },
        { "precision": "bf16", "operands": "bf16", "accumulate": "fp32", "size": 2048, "flops_per_s": [4e11, 3e11] },
        { "precision": "amp", "operands": "fp16", "accumulate": "fp16", "size": 2048, "flops_per_s": [8e11] }]"#;

    /// A file of all precisions, written and read back.
    fn file(device: &str, gemm: &str) -> MeasuredFile {
        let measured = format!(
            r#"{{ "schema": 1, "device": "{device}", "device_name": "A: @ 2.0 GHz", "device_uuid": "GPU-1",
                 "gemm": {gemm},
                 "stream": [{{ "kernel": "copy", "bytes": 1000, "bytes_per_s": [1e10, 0.9e10] }}],
                 "clocks": {{ "low_mhz": 1400.0, "high_mhz": 1980.0 }},
                 "left_out": [{{ "precision": "tf32", "reason": "it needs another GPU" }}] }}"#
        );
        MeasuredFile {
            schema: MEASURED_SCHEMA,
            method: Some(METHOD.into()),
            host: "box".into(),
            date: "2026-10-31".into(),
            orchestrate: "0.1.0".into(),
            worker_sha256: None,
            warnings: vec!["it is slow".into()],
            measured: serde_json::from_str(&measured).unwrap(),
        }
    }

    fn read_back(file: &MeasuredFile) -> Peaks {
        parse_measured("measured/box", &serde_yaml::to_string(file).unwrap()).unwrap()
    }

    fn ceilings(peaks: &Peaks) -> Vec<(&'static str, f64, &str)> {
        let row = |ceiling: &Ceiling| (ceiling.precision.as_str(), ceiling.flops_per_s.high, "");
        peaks
            .flops
            .iter()
            .map(row)
            .zip(&peaks.flops)
            .map(|((p, f, _), c)| (p, f, c.accumulate.as_str()))
            .collect()
    }

    #[test]
    fn ceilings_are_the_best_samples_of_each_precision() {
        let peaks = read_back(&file("cuda", GEMM));
        let expected =
            [("fp32", 1.2e11, "fp32"), ("tf32", 2e11, "fp32"), ("amp", 8e11, "fp16"), ("bf16", 4e11, "fp32")];
        assert_eq!(ceilings(&peaks), expected);
        assert_eq!(peaks.bandwidth, Some(Range::exactly(1e10)));
        assert_eq!(peaks.names, ["A: @ 2.0 GHz"]);
        assert_eq!(peaks.clocks.as_deref(), Some("1400 to 1980 MHz while measured"));
        assert_eq!(peaks.warnings, ["it is slow"]);
        assert_eq!(peaks.reason_without(Precision::Tf32), Some("it needs another GPU"));
        assert_eq!(peaks.origin.to_string(), "measured on box");
    }

    /// The CPU multiplies bf16 there, and fp16 does not matter.
    #[test]
    fn mixed_precision_on_a_processor_has_the_ceiling_of_bf16() {
        let peaks = read_back(&file("cpu", GEMM));
        assert_eq!(peaks.ceiling(Precision::Amp).unwrap().flops_per_s, Range::exactly(4e11));
    }

    #[test]
    fn an_emulated_sample_is_not_a_ceiling() {
        let emulated = GEMM.replace("\"operands\": \"bf16\",", "\"operands\": \"bf16\", \"emulated\": true,");
        assert_ne!(emulated, GEMM);
        let peaks = read_back(&file("cpu", &emulated));
        assert_eq!(peaks.ceiling(Precision::Bf16), None);
        assert_eq!(peaks.ceiling(Precision::Amp), None);
        assert!(peaks.ceiling(Precision::Fp32).is_some());
    }

    #[test]
    fn the_first_version_is_still_read_and_a_later_one_refused() {
        let text = "\
schema: 1
host: box
date: 2026-10-31
orchestrate: 0.1.0
worker_sha256: null
measured:
  schema: 1
  device: cpu
  device_name: A
  threads: 2
  gemm: [{ precision: fp32, size: 512, flops_per_s: [1.0e+9] }]
  stream: []
";
        let peaks = parse_measured("x", text).unwrap();
        assert_eq!(ceilings(&peaks), [("fp32", 1e9, "fp32")]);
        assert_eq!(
            (peaks.bandwidth, peaks.origin.to_string()),
            (None, "measured on box with 2 threads".into())
        );
        let later = text.replacen("schema: 1", "schema: 3", 1);
        let message = parse_measured("x", &later).unwrap_err().to_string();
        assert_eq!(message, "x: schema is 3: expected 1 to 2");
        for none in ["[]", r#"[{ "precision": "fp32", "size": 512, "flops_per_s": [0.0] }]"#] {
            assert_eq!(file("cpu", none).peaks("x"), Err("gemm has no sample above 0".to_owned()));
        }
    }

    #[test]
    fn peaks_are_for_a_named_device_of_a_named_host() {
        let mut of_no_host = file("cpu", GEMM);
        of_no_host.host.clear();
        let mut of_no_device = file("cpu", GEMM);
        of_no_device.measured.device_name.clear();
        for file in [of_no_host, of_no_device] {
            assert!(file.peaks("x").unwrap_err().starts_with("host and device_name must not be empty"));
        }
    }

    /// The scatter is that of the fastest size and of the fastest stream, without samples that are none.
    #[test]
    fn the_spread_is_that_of_the_best_sample() {
        let mut file = file("cuda", GEMM);
        file.measured.gemm[0].flops_per_s = vec![1.0e11, 1.2e11, 1.1e11, 0.0, f64::NAN];
        let peaks = file.peaks("x").unwrap();
        let spread = peaks.ceiling(Precision::Fp32).unwrap().spread.unwrap();
        assert_eq!((spread.n, spread.median, spread.mad), (3, 1.1e11, Some(1e10)));
        assert_eq!(spread.text(1e9), "best of 3, median 110.0, MAD 10");
        let one = peaks.ceiling(Precision::Tf32).unwrap().spread.unwrap();
        assert_eq!(one.text(1e9), "best of 1, median 200.0");
        assert_eq!(peaks.bandwidth_spread.unwrap().text(1e9), "best of 2, median 9.500, MAD 0.50");
    }

    #[test]
    fn notes_are_kept() {
        let mut file = file("cpu", GEMM);
        assert_eq!(file.peaks("x").unwrap().note, None);
        file.measured.notes = vec!["one".into(), "two".into()];
        assert_eq!(file.peaks("x").unwrap().note.as_deref(), Some("one; two"));
    }
}
