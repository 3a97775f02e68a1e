//! The YAML files in `peaks/measured/`, written by `orchestrate peaks measure` for one device of one host. A
//! [`MeasuredFile`] contains every sample. The ceilings (the fastest instructions of each precision, the best pass of
//! any stream) are derived when it is read.

use serde::{Deserialize, Serialize};

use super::units::flops_per_cycle;
use super::{
    Attainable, CacheCeiling, Ceiling, CeilingKind, Confidence, Origin, Peaks, PeaksError, Range, Spread,
};
use crate::job::{Device, Precision};
use crate::protocol::{CacheFact, GpuUnits, MeasuredPeaks, StreamSample};
use crate::stats;

/// The version of a measured peaks file.
///
/// Changelog: 1: the first version. 2: samples have operands, layout and whether they are emulated (then they are not a
/// ceiling); clocks, UUID, reasons for missing precisions, and warnings. 3: instructions, convolutions, theoretical
/// ceilings, caches and streams within them. Versions 1 and 2 are read as before: their ceilings are the fastest
/// product.
pub const MEASURED_SCHEMA: u32 = 3;

/// The method of measurement, which is written to the file and shown as the source.
pub const METHOD: &str = "orchestrate peaks measure: multiply-adds in registers or units × clock, matrix products, convolutions, streams";

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
    /// Doubts compared with the vendor's figures of that day, one sentence each.
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
    /// The ceilings of each precision, of the memory and of the caches.
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
        let fastest = fastest_stream(measured, MEMORY);
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
            bandwidth: fastest.map(|(_, sample)| steady(&sample.bytes_per_s, measured.device)),
            bandwidth_spread: fastest.and_then(|(_, sample)| Spread::of(&sample.bytes_per_s)),
            caches: caches(measured),
            cache_bytes: capacity(measured, u32::MAX),
            clocks: measured.clocks.map(|clocks| clocks.to_string()),
            source: METHOD.to_owned(),
            date: self.date.clone(),
            confidence: if measured.quick { Confidence::Medium } else { Confidence::High },
            note: (!measured.notes.is_empty()).then(|| measured.notes.join("; ")),
            warnings: self.warnings.clone(),
        })
    }
}

/// The fastest samples of one method.
struct Fastest<'m> {
    flops_per_s: f64,
    samples: &'m [f64],
}

impl<'m> Fastest<'m> {
    fn of(all: impl Iterator<Item = &'m Vec<f64>>) -> Option<Fastest<'m>> {
        let bests = all.filter_map(|samples| Some(Fastest { flops_per_s: best(samples)?, samples }));
        bests.max_by(|left, right| left.flops_per_s.total_cmp(&right.flops_per_s))
    }
}

/// The ceiling at `precision`: that of the instructions or units, unless a product or a convolution was faster. `None`
/// if the hardware has no instruction for it. That of the instructions can be a range: see [`steady`].
fn ceiling(measured: &MeasuredPeaks, precision: Precision) -> Option<Ceiling> {
    let arithmetic = arithmetic(precision, measured.device);
    let gemms = || measured.gemm.iter().filter(|it| it.precision == arithmetic && !it.emulated);
    let convolutions = measured.convolutions.iter().filter(|it| it.precision == arithmetic);
    let product = Fastest::of(gemms().map(|it| &it.flops_per_s));
    let convolution = Fastest::of(convolutions.map(|it| &it.flops_per_s));
    let attainable = Attainable {
        product: product.as_ref().map(|it| it.flops_per_s),
        convolution: convolution.as_ref().map(|it| it.flops_per_s),
    };
    let by_library = [product, convolution].into_iter().flatten();
    let by_library = by_library.max_by(|left, right| left.flops_per_s.total_cmp(&right.flops_per_s));
    let by_hardware = by_instructions(measured, arithmetic).or_else(|| by_units(measured, arithmetic));
    // If a library is faster than the hardware's ceiling, that ceiling was measured badly.
    let is_ceiling = |hardware: &Hardware<'_>| {
        by_library.as_ref().is_none_or(|library| library.flops_per_s <= hardware.flops_per_s.high)
    };
    let (flops_per_s, kind, samples, clock) = match (by_hardware.filter(is_ceiling), by_library) {
        (Some(Hardware { flops_per_s, kind, samples, clock }), _) => (flops_per_s, kind, samples, clock),
        (None, Some(library)) => {
            (Range::exactly(library.flops_per_s), CeilingKind::Product, library.samples, None)
        }
        (None, None) => return None,
    };
    // The first version only measured single precision, without naming it.
    let accumulate = gemms().find_map(|it| it.accumulate.clone()).unwrap_or_else(|| "fp32".to_owned());
    let is_clock = |range: &Range| range.low > 0.0 && range.low <= range.high && range.high.is_finite();
    let seen = || measured.clocks.map(|clocks| Range { low: clocks.low_mhz, high: clocks.high_mhz });
    Some(Ceiling {
        precision,
        flops_per_s,
        kind,
        attainable,
        accumulate,
        spread: Spread::of(samples),
        clock_mhz: clock.or_else(seen).filter(is_clock),
    })
}

/// A ceiling of the hardware itself.
struct Hardware<'m> {
    flops_per_s: Range,
    kind: CeilingKind,
    samples: &'m [f64],
    /// The clock that it is for, if that is not the observed one.
    clock: Option<Range>,
}

fn by_instructions(measured: &MeasuredPeaks, precision: Precision) -> Option<Hardware<'_>> {
    let of = measured.instructions.iter().filter(|it| it.precision == precision);
    let bests = of.filter_map(|it| Some((best(&it.flops_per_s)?, it)));
    let (_, sample) = bests.max_by(|(left, _), (right, _)| left.total_cmp(right))?;
    let flops_per_s = steady(&sample.flops_per_s, measured.device);
    let kind = CeilingKind::Instruction(sample.isa.clone());
    Some(Hardware { flops_per_s, kind, samples: &sample.flops_per_s, clock: None })
}

fn by_units(measured: &MeasuredPeaks, precision: Precision) -> Option<Hardware<'_>> {
    let GpuUnits { multiprocessors, capability } = measured.units?;
    let each = flops_per_cycle(&measured.device_name, capability, precision)?;
    let mhz = measured.clocks?.most_mhz.filter(|mhz| mhz.is_finite() && *mhz > 0.0)?;
    let flops_per_s = Range::exactly(f64::from(multiprocessors) * each as f64 * mhz * 1e6);
    let kind = CeilingKind::Theoretical(Some(format!("{multiprocessors} SM × {each} FLOP per cycle")));
    Some(Hardware { flops_per_s, kind, samples: &[], clock: Some(Range::exactly(mhz)) })
}

/// The name of the memory among the levels of streams.
const MEMORY: &str = "memory";

/// The fastest stream through `level`: the memory or a cache.
fn fastest_stream<'m>(measured: &'m MeasuredPeaks, level: &str) -> Option<(f64, &'m StreamSample)> {
    // Older files only have memory, and do not name it.
    let is_level = |sample: &&StreamSample| sample.level.as_deref().unwrap_or(MEMORY) == level;
    let of_level = measured.stream.iter().filter(is_level);
    let bests = of_level.filter_map(|sample| Some((best(&sample.bytes_per_s)?, sample)));
    bests.max_by(|(left, _), (right, _)| left.total_cmp(right))
}

/// If the median is below this share of the best sample, other work uses the processor or its memory.
const STEADY: f64 = 0.9;

/// The ceiling from `samples` of one method: the best. If most samples of a processor are far below it, other work uses
/// its cores or its memory too, as on a virtual machine. Then the ceiling is a range from the lower quartile on.
fn steady(samples: &[f64], device: Device) -> Range {
    let valid: Vec<f64> = valid(samples).collect();
    let high = valid.iter().copied().fold(0.0, f64::max);
    let is_shared = device == Device::Cpu && stats::median(&valid).is_ok_and(|median| median < STEADY * high);
    let low = stats::quantile(&valid, 0.25).ok().filter(|_| is_shared);
    Range { low: low.unwrap_or(high), high }
}

fn caches(measured: &MeasuredPeaks) -> Vec<CacheCeiling> {
    let of = |number: u32| {
        let level = format!("L{number}");
        let (bytes_per_s, _) = fastest_stream(measured, &level)?;
        Some(CacheCeiling { level, bytes_per_s, capacity: capacity(measured, number) })
    };
    (1..=4).filter_map(of).collect()
}

/// The bytes of all caches up to `level`; `None` if none is known.
fn capacity(measured: &MeasuredPeaks, level: u32) -> Option<u64> {
    let bytes = |cache: &CacheFact| cache.bytes.saturating_mul(cache.instances.into());
    let up_to = measured.caches.iter().filter(|cache| cache.level <= level).map(bytes);
    Some(up_to.fold(0, u64::saturating_add)).filter(|bytes| *bytes > 0)
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
    valid(samples).max_by(f64::total_cmp)
}

fn valid<'a>(samples: impl IntoIterator<Item = &'a f64>) -> impl Iterator<Item = f64> {
    samples.into_iter().copied().filter(|value| value.is_finite() && *value > 0.0)
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

    /// Triads at 18 GB/s are at the memory roof of a machine whose memory mostly attains 27 GB/s, and not at one half
    /// of it.
    #[test]
    fn a_disturbed_bandwidth_is_a_range() {
        let samples = [27e9, 38e9, 25e9, f64::NAN, 0.0, 26e9, 28e9];
        assert_eq!(steady(&samples, Device::Cpu), Range { low: 26e9, high: 38e9 });
        assert_eq!(steady(&samples, Device::Cuda(0)), Range::exactly(38e9));
        assert_eq!(steady(&[37e9, 38e9, 26e9], Device::Cpu), Range::exactly(38e9));
    }

    #[test]
    fn a_value_within_a_range_has_a_share_of_at_most_1() {
        let range = Range { low: 80.0, high: 100.0 };
        assert_eq!(range.share(40.0), Range { low: 0.4, high: 0.5 });
        assert_eq!(range.share(90.0), Range { low: 0.9, high: 1.0 });
        assert_eq!(range.share(120.0), Range { low: 1.2, high: 1.5 });
        assert_eq!(Range { low: 50.0, high: 90.0 }.over(range), Range { low: 0.5, high: 1.0 });
        assert_eq!(Range { low: 50.0, high: 120.0 }.over(range), Range { low: 0.5, high: 1.5 });
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
        let later = text.replacen("schema: 1", "schema: 4", 1);
        let message = parse_measured("x", &later).unwrap_err().to_string();
        assert_eq!(message, "x: schema is 4: expected 1 to 3");
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

    /// The scatter is that of the fastest size and of the fastest stream, without invalid samples.
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

    /// Register-resident multiply-adds are the ceiling; the rates of libraries are reported beside it.
    #[test]
    fn the_ceiling_of_a_processor_is_that_of_its_instructions() {
        let with = |flops: &[f64]| {
            let mut file = file("cpu", GEMM);
            file.measured.instructions = serde_json::from_value(serde_json::json!([
                { "precision": "fp32", "operands": "fp32", "isa": "avx2", "threads": 2, "passes": 9, "flops_per_s": [1.25e11] },
                { "precision": "fp32", "operands": "fp32", "isa": "avx512f", "threads": 2, "passes": 9, "flops_per_s": flops }
            ]))
            .unwrap();
            file.measured.convolutions = serde_json::from_value(serde_json::json!([
                { "precision": "fp32", "operands": "fp32", "format": "contiguous", "batch": 1, "input_channels": 2,
                  "output_channels": 2, "size": 3, "kernel": 3, "flops_per_s": [1.3e11] }
            ]))
            .unwrap();
            read_back(&file).ceiling(Precision::Fp32).unwrap().clone()
        };
        let found = with(&[1.5e11, 1.48e11]);
        assert_eq!(found.flops_per_s, Range::exactly(1.5e11));
        assert_eq!(found.kind, CeilingKind::Instruction("avx512f".into()));
        assert_eq!(found.attainable, Attainable { product: Some(1.2e11), convolution: Some(1.3e11) });
        let disturbed = with(&[1.2e11]);
        assert_eq!((disturbed.flops_per_s.high, disturbed.kind), (1.3e11, CeilingKind::Product));
        let with_neighbours = with(&[1.5e11, 0.8e11, 0.9e11, 0.8e11, 1e11]);
        assert_eq!(with_neighbours.flops_per_s, Range { low: 0.8e11, high: 1.5e11 });
    }

    #[test]
    fn the_ceiling_of_a_gpu_follows_from_its_units() {
        let mut file = file("cuda", GEMM);
        file.measured.units = Some(GpuUnits { multiprocessors: 132, capability: (9, 0) });
        file.measured.clocks.as_mut().unwrap().most_mhz = Some(1830.0);
        let peaks = read_back(&file);
        let bf16 = peaks.ceiling(Precision::Bf16).unwrap();
        // NVIDIA's data sheet of the H100 SXM says 989.4 TFLOP/s.
        assert!((bf16.flops_per_s.high / 989.4e12 - 1.0).abs() < 1e-3, "{bf16:?}");
        assert_eq!(bf16.attainable.product, Some(4e11));
        assert_eq!(bf16.kind.to_string(), "theoretical (132 SM × 4096 FLOP per cycle)");
        assert_eq!(bf16.clock_mhz, Some(Range::exactly(1830.0)));
        let unknown = GpuUnits { multiprocessors: 132, capability: (99, 0) };
        file.measured.units = Some(unknown);
        assert_eq!(read_back(&file).ceiling(Precision::Bf16).unwrap().kind, CeilingKind::Product);
    }

    #[test]
    fn a_stream_within_a_cache_is_not_a_bandwidth_of_the_memory() {
        let mut file = file("cpu", GEMM);
        file.measured.stream.extend(
            serde_json::from_value::<Vec<StreamSample>>(serde_json::json!([
                { "kernel": "read", "level": "L2", "bytes": 1000, "bytes_per_s": [9e10] },
                { "kernel": "triad_nt", "bytes": 1000, "bytes_per_s": [1.2e10] }
            ]))
            .unwrap(),
        );
        file.measured.caches = serde_json::from_value(serde_json::json!([
            { "level": 1, "bytes": 32, "instances": 2 }, { "level": 2, "bytes": 1000, "instances": 2 },
            { "level": 3, "bytes": 9000, "instances": 1 }
        ]))
        .unwrap();
        let peaks = read_back(&file);
        assert_eq!(peaks.bandwidth, Some(Range::exactly(1.2e10)));
        let expected = CacheCeiling { level: "L2".into(), bytes_per_s: 9e10, capacity: Some(2064) };
        assert_eq!((peaks.caches, peaks.cache_bytes), (vec![expected], Some(11_064)));
    }
}
