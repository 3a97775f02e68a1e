//! The YAML files in `peaks/`: published figures, with their source and date, and the exact names of their devices.

use serde::Deserialize;

use super::{Attainable, Ceiling, CeilingKind, Confidence, Origin, Peaks, Range};
use crate::job::{Device, Precision};

/// The version of a published peaks file.
///
/// Changelog: 1: the first version; later with `clock_mhz` and `cache_mib`, which may be left out.
pub const PEAKS_SCHEMA: u32 = 1;

/// A peaks file cannot be used. The caller adds its path.
#[derive(Debug, thiserror::Error)]
pub enum PeaksError {
    /// It is not YAML of the expected form.
    #[error("{name} is not a peaks file")]
    Form {
        /// The file's name without `.yaml`.
        name: String,
        /// The place and the reason.
        #[source]
        source: Box<serde_yaml::Error>,
    },
    /// A value is missing or impossible.
    #[error("{name}: {message}")]
    Value {
        /// The file's name without `.yaml`.
        name: String,
        /// The value, and the expected one.
        message: String,
    },
}

/// The content of a published peaks file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedFile {
    schema: u32,
    device: String,
    backend: String,
    names: Vec<String>,
    origin: PublishedOrigin,
    flops: Vec<CeilingFile>,
    #[serde(default)]
    bandwidth: Option<BandwidthFile>,
    /// The last-level cache: L2 on a GPU.
    #[serde(default)]
    cache_mib: Option<u64>,
    #[serde(default)]
    clocks: Option<String>,
    source: String,
    date: String,
    confidence: Confidence,
    #[serde(default)]
    note: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PublishedOrigin {
    Vendor,
    Published,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CeilingFile {
    precision: Precision,
    #[serde(default)]
    tflops: Option<f64>,
    #[serde(default)]
    tflops_range: Option<RangeFile>,
    #[serde(default)]
    clock_mhz: Option<f64>,
    #[serde(default)]
    clock_mhz_range: Option<RangeFile>,
    accumulate: String,
    sparsity: Sparsity,
}

/// The training here is dense. A sparse figure is twice as high and would be a wrong roof.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Sparsity {
    Dense,
    Sparse,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BandwidthFile {
    #[serde(default)]
    gb_per_s: Option<f64>,
    #[serde(default)]
    gb_per_s_range: Option<RangeFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RangeFile {
    low: f64,
    high: f64,
}

/// Parses the published peaks file `name`.
///
/// # Errors
/// The text does not have the expected form; a figure is missing, null, impossible or sparse; there is no device name;
/// or a precision occurs twice.
pub fn parse(name: &str, text: &str) -> Result<Peaks, PeaksError> {
    let file: PublishedFile = serde_yaml::from_str(text)
        .map_err(|source| PeaksError::Form { name: name.to_owned(), source: Box::new(source) })?;
    check(name, file).map_err(|message| PeaksError::Value { name: name.to_owned(), message })
}

/// The ceilings of a device, one per precision.
fn ceilings(entries: Vec<CeilingFile>, kind: &CeilingKind) -> Result<Vec<Ceiling>, String> {
    let mut flops: Vec<Ceiling> = Vec::new();
    for entry in entries {
        let precision = entry.precision;
        if flops.iter().any(|ceiling| ceiling.precision == precision) {
            return Err(format!("flops has {precision} twice"));
        }
        if entry.sparsity == Sparsity::Sparse {
            return Err(format!("flops of {precision} are sparse: expected the dense figure, half of it"));
        }
        let what = format!("flops of {precision}: tflops");
        let flops_per_s = range(&what, entry.tflops, entry.tflops_range, 1e12)?;
        let what = format!("flops of {precision}: clock_mhz");
        let clock_mhz = (entry.clock_mhz.is_some() || entry.clock_mhz_range.is_some())
            .then(|| range(&what, entry.clock_mhz, entry.clock_mhz_range, 1.0))
            .transpose()?;
        flops.push(Ceiling {
            precision,
            flops_per_s,
            kind: kind.clone(),
            attainable: Attainable::default(),
            accumulate: entry.accumulate,
            spread: None,
            clock_mhz,
        });
    }
    Ok(flops)
}

fn check(name: &str, file: PublishedFile) -> Result<Peaks, String> {
    if file.schema != PEAKS_SCHEMA {
        return Err(format!("schema is {}: expected {PEAKS_SCHEMA}", file.schema));
    }
    if file.names.is_empty() {
        return Err("names is empty: expected the device's name, exactly as its driver reports it".to_owned());
    }
    check_backend(&file.backend)?;
    let (origin, kind) = match file.origin {
        PublishedOrigin::Vendor => (Origin::Vendor, CeilingKind::Theoretical(None)),
        PublishedOrigin::Published => (Origin::Published, CeilingKind::Product),
    };
    let flops = ceilings(file.flops, &kind)?;
    let bandwidth = file
        .bandwidth
        .map(|file| range("bandwidth: gb_per_s", file.gb_per_s, file.gb_per_s_range, 1e9))
        .transpose()?;
    Ok(Peaks {
        name: name.to_owned(),
        device: file.device,
        backend: file.backend,
        names: file.names,
        origin,
        flops,
        left_out: Vec::new(),
        bandwidth,
        bandwidth_spread: None,
        caches: Vec::new(),
        cache_bytes: file.cache_mib.map(|mebibytes| mebibytes << 20),
        clocks: file.clocks,
        source: file.source,
        date: file.date,
        confidence: file.confidence,
        note: file.note,
        warnings: Vec::new(),
    })
}

fn check_backend(word: &str) -> Result<(), String> {
    let known = [Device::Cpu, Device::Mps, Device::Cuda(0)].map(Device::backend);
    if known.contains(&word) {
        return Ok(());
    }
    Err(format!("backend is `{word}`: expected {}", known.map(|word| format!("`{word}`")).join(", ")))
}

/// The figure or the range, in units of `unit`. Exactly one of them must be given.
fn range(what: &str, value: Option<f64>, range: Option<RangeFile>, unit: f64) -> Result<Range, String> {
    let (low, high) = match (value, range) {
        (Some(value), None) => (value, value),
        (None, Some(RangeFile { low, high })) => (low, high),
        (None, None) => {
            return Err(format!("{what} is missing or null: expected a number; leave out what is unknown"));
        }
        (Some(_), Some(_)) => return Err(format!("{what} and {what}_range: expected one of them")),
    };
    if !(low > 0.0 && low <= high && high.is_finite()) {
        return Err(format!("{what} is {low} to {high}: expected positive numbers, the lower first"));
    }
    Ok(Range { low: low * unit, high: high * unit })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A unit computes the same number of FLOPs in every cycle, so both ends of a range have equal FLOPs per cycle.
    #[test]
    fn figures_and_clocks_of_published_files_agree() {
        let mut known = 0;
        for text in crate::fuzz::files("peaks", "", ".yaml") {
            let peaks = parse("file", &String::from_utf8(text).unwrap()).unwrap();
            for ceiling in peaks.flops {
                let Some(clock) = ceiling.clock_mhz else { continue };
                let [low, high] =
                    [ceiling.flops_per_s.low / clock.low, ceiling.flops_per_s.high / clock.high];
                let device = &peaks.device;
                assert!((low / high - 1.0).abs() < 0.02, "{device}: {low} and {high} FLOP per 10⁶ cycles");
                known += 1;
            }
        }
        assert!(known > 30, "{known} figures have a clock");
    }

    #[test]
    fn a_figure_is_for_a_clock_and_grows_with_it() {
        let with = |clock: &str| {
            let text = LAPTOP.replacen("sparsity: dense }", &format!("sparsity: dense{clock} }}"), 1);
            parse("laptop", &text).map(|peaks| peaks.flops[0].at_clock(1740.0))
        };
        assert_eq!(with("").unwrap(), None);
        let at = with(", clock_mhz_range: { low: 1650, high: 1895 }").unwrap().unwrap();
        assert!((at.low / 34.8e12 - 1.0).abs() < 1e-9 && (at.high / 34.8e12 - 1.0).abs() < 1e-9, "{at:?}");
        let measured = with(", clock_mhz: 1740").unwrap().unwrap();
        assert!((measured.low / 33.0e12 - 1.0).abs() < 1e-9 && (measured.high / 37.9e12 - 1.0).abs() < 1e-9);
        let error = with(", clock_mhz: -1").unwrap_err().to_string();
        assert!(error.contains("clock_mhz is -1"), "{error}");
    }

    const LAPTOP: &str = "\
schema: 1
device: NVIDIA RTX 4090 Laptop
backend: cuda
names: [NVIDIA GeForce RTX 4090 Laptop GPU]
origin: vendor
flops:
  - { precision: fp32, tflops_range: { low: 33.0, high: 37.9 }, accumulate: fp32, sparsity: dense }
  - { precision: amp, tflops: 75.9, accumulate: fp32, sparsity: dense }
bandwidth: { gb_per_s: 576 }
source: a page
date: 2026-10
confidence: medium
";

    #[test]
    fn a_range_stays_a_range_and_the_roof_is_its_upper_end() {
        let peaks = parse("laptop", LAPTOP).unwrap();
        let fp32 = peaks.ceiling(Precision::Fp32).unwrap();
        assert_eq!((fp32.flops_per_s.low, fp32.flops_per_s.high), (33e12, 37.9e12));
        let amp = peaks.ceiling(Precision::Amp).unwrap();
        assert!(fp32.flops_per_s.is_wide() && !amp.flops_per_s.is_wide());
        assert!((peaks.knee(Precision::Fp32).unwrap() - 65.8).abs() < 0.01);
    }

    #[test]
    fn parses_every_confidence() {
        for (word, is_doubtful) in [("high", false), ("medium", false), ("low", true), ("estimate", true)] {
            let text = LAPTOP.replace("confidence: medium", &format!("confidence: {word}"));
            let confidence = parse("laptop", &text).unwrap().confidence;
            assert_eq!((confidence.to_string().as_str(), confidence.is_doubtful()), (word, is_doubtful));
        }
        let text = LAPTOP.replace("confidence: medium", "confidence: sure");
        assert!(parse("laptop", &text).is_err());
    }

    #[test]
    fn missing_null_sparse_and_impossible_values_are_refused() {
        for (from, to, message) in [
            (
                "tflops: 75.9",
                "tflops: null",
                "laptop: flops of amp: tflops is missing or null: expected a number; leave out what is unknown",
            ),
            (
                "tflops: 75.9, ",
                "",
                "laptop: flops of amp: tflops is missing or null: expected a number; leave out what is unknown",
            ),
            (
                "gb_per_s: 576",
                "gb_per_s: null",
                "laptop: bandwidth: gb_per_s is missing or null: expected a number; leave out what is unknown",
            ),
            (
                "gb_per_s: 576",
                "gb_per_s: -1",
                "laptop: bandwidth: gb_per_s is -1 to -1: expected positive numbers, the lower first",
            ),
            (
                "gb_per_s: 576",
                "gb_per_s: 0",
                "laptop: bandwidth: gb_per_s is 0 to 0: expected positive numbers, the lower first",
            ),
            (
                "accumulate: fp32, sparsity: dense }\nb",
                "accumulate: fp32, sparsity: sparse }\nb",
                "laptop: flops of amp are sparse: expected the dense figure, half of it",
            ),
            ("precision: amp", "precision: fp32", "laptop: flops has fp32 twice"),
            (
                "names: [NVIDIA GeForce RTX 4090 Laptop GPU]",
                "names: []",
                "laptop: names is empty: expected the device's name, exactly as its driver reports it",
            ),
            ("backend: cuda", "backend: cudo", "laptop: backend is `cudo`: expected `cpu`, `mps`, `cuda`"),
            ("schema: 1", "schema: 2", "laptop: schema is 2: expected 1"),
            ("source: a page", "sauce: a page", "laptop is not a peaks file"),
        ] {
            let text = LAPTOP.replace(from, to);
            assert_ne!(text, LAPTOP, "{from} is not in the file");
            assert_eq!(parse("laptop", &text).unwrap_err().to_string(), message);
        }
    }
}
