//! The ceilings of a device, measured: matrix products of random numbers for arithmetic, copy and triad over arrays
//! larger than the caches for memory. Prints [`MeasuredPeaks`] as JSON; raw samples, from which the reader takes the
//! best and says the spread.

#![expect(clippy::disallowed_methods, reason = "a worker measures time and looks at the machine it runs on")]

use std::fs;
use std::time::Instant;

use orchestrate::job::{Device, Precision};
use orchestrate::protocol::{GemmSample, MEASUREMENT_SCHEMA, MeasuredPeaks, StreamSample};
use tch::{Kind, Tensor};

use super::arguments::Peaks;
use super::device::OpenDevice;
use super::failure::WorkerError;
use super::request::Backend;
use super::settings;
use super::shim::{self, Flags};

/// Rows and columns of the matrices, small to large.
const GEMM_SIZES: [i64; 4] = [512, 1024, 2048, 4096];

/// The two arrays of a copy together are this many times the last-level cache; the three of a triad are more.
const CACHES: u64 = 4;

/// Of the free memory, all arrays together take no more than one part in this many.
const SHARE_OF_FREE_MEMORY: u64 = 4;

/// Where the system does not tell the size of its caches.
const ASSUMED_CACHE: u64 = 64 << 20;

/// Where the system does not tell how much memory is free.
const ASSUMED_FREE_MEMORY: u64 = 4 << 30;

/// How long to measure and how often at least.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Effort {
    /// Seconds for all matrix products.
    gemm_s: f64,
    /// Seconds for each stream.
    stream_s: f64,
    /// Repetitions of each measurement, whatever they take.
    least: usize,
}

const THOROUGH: Effort = Effort { gemm_s: 5.0, stream_s: 1.5, least: 3 };
const QUICK: Effort = Effort { gemm_s: 2.0, stream_s: 0.5, least: 2 };

/// More repetitions than this of one measurement say nothing new.
const MOST: usize = 50;

/// Measures and prints.
///
/// # Errors
/// [`WorkerError::Unsupported`] for any device but the processor; libtorch's.
pub(crate) fn run(peaks: &Peaks) -> Result<(), WorkerError> {
    let unsupported = |error: orchestrate::job::UnknownWord| WorkerError::Unsupported(error.to_string());
    let word: Device = peaks.device.parse().map_err(unsupported)?;
    if word != Device::Cpu {
        let message = format!("the ceilings of {word} cannot be measured by this version: expected `cpu`");
        return Err(WorkerError::Unsupported(message));
    }
    let device = OpenDevice::open(Backend::Only(word))?;
    settings::set_threads(peaks.threads);
    Flags { tf32: false, deterministic: false, cudnn_benchmark: false }.set()?;
    let effort = if peaks.quick { QUICK } else { THOROUGH };
    let elements = stream_elements(last_level_cache(), free_memory());
    let measured = MeasuredPeaks {
        schema: MEASUREMENT_SCHEMA,
        device: device.device,
        device_name: device.name,
        threads: Some(settings::threads()),
        gemm: gemm(effort)?,
        stream: streams(elements, effort)?,
        versions: shim::versions().collect(),
    };
    println!(
        "{}",
        serde_json::to_string_pretty(&measured).expect("peaks have string keys and no failing serializer")
    );
    Ok(())
}

/// Products of random matrices, from small to large until the next size would not fit into the time.
fn gemm(effort: Effort) -> Result<Vec<GemmSample>, WorkerError> {
    tch::manual_seed(0);
    let options = (Kind::Float, tch::Device::Cpu);
    let mut samples = Vec::new();
    let mut left_s = effort.gemm_s;
    for (index, size) in GEMM_SIZES.into_iter().enumerate() {
        let left = Tensor::f_randn([size, size], options)?;
        let right = Tensor::f_randn([size, size], options)?;
        let product = Tensor::f_zeros([size, size], options)?;
        let budget_s = left_s / (GEMM_SIZES.len() - index) as f64;
        let seconds = repeat(budget_s, effort.least, || {
            let _ = left.f_mm_out(&product, &right)?;
            Ok(())
        })?;
        left_s -= seconds.iter().sum::<f64>();
        let flops = 2.0 * (size as f64).powi(3);
        let slowest = seconds.iter().copied().fold(0.0, f64::max);
        samples.push(GemmSample {
            precision: Precision::Fp32,
            size: size.unsigned_abs(),
            flops_per_s: seconds.iter().map(|seconds| flops / seconds).collect(),
        });
        // The next product takes eight times as long, and one of them goes before the clock.
        if 8.0 * slowest * (effort.least + 1) as f64 > left_s.max(0.0) + effort.gemm_s {
            break;
        }
    }
    Ok(samples)
}

/// Copy and triad over arrays of `elements` numbers in single precision.
fn streams(elements: i64, effort: Effort) -> Result<Vec<StreamSample>, WorkerError> {
    let filled = |value: f64| -> Result<Tensor, WorkerError> {
        let mut array = Tensor::f_empty([elements], (Kind::Float, tch::Device::Cpu))?;
        drop(array.f_fill_(value)?);
        Ok(array)
    };
    let (a, b, mut c) = (filled(1.0)?, filled(2.0)?, filled(0.0)?);
    let array_bytes = 4 * elements.unsigned_abs();
    let sample = |kernel: &str, arrays: u64, seconds: Vec<f64>| StreamSample {
        kernel: kernel.to_owned(),
        bytes: arrays * array_bytes,
        bytes_per_s: seconds.iter().map(|seconds| (arrays * array_bytes) as f64 / seconds).collect(),
    };
    let copy = repeat(effort.stream_s, effort.least, || c.f_copy_(&a).map_err(WorkerError::from))?;
    let triad = repeat(effort.stream_s, effort.least, || shim::triad(&c, &a, &b, 3.0))?;
    Ok(vec![sample("copy", 2, copy), sample("triad", 3, triad)])
}

/// Seconds of each repetition of `work`, after one that does not count: at least `least` of them, then as many as fit
/// into `budget_s`.
fn repeat(
    budget_s: f64,
    least: usize,
    mut work: impl FnMut() -> Result<(), WorkerError>,
) -> Result<Vec<f64>, WorkerError> {
    work()?;
    let mut seconds: Vec<f64> = Vec::new();
    while seconds.len() < least || (seconds.len() < MOST && seconds.iter().sum::<f64>() < budget_s) {
        let start = Instant::now();
        work()?;
        // A clock that did not move would make an infinite rate.
        seconds.push(start.elapsed().as_secs_f64().max(1e-9));
    }
    Ok(seconds)
}

/// Numbers in each of the three arrays: two of them are [`CACHES`] times the cache, unless memory is too small.
fn stream_elements(cache: u64, free_memory: u64) -> i64 {
    let wanted = CACHES * cache / 2 / 4;
    let possible = free_memory / SHARE_OF_FREE_MEMORY / 3 / 4;
    i64::try_from(wanted.min(possible).max(1)).unwrap_or(i64::MAX)
}

/// Bytes of the largest cache that the first processor sees.
fn last_level_cache() -> u64 {
    let Ok(entries) = fs::read_dir("/sys/devices/system/cpu/cpu0/cache") else { return ASSUMED_CACHE };
    let sizes = entries.flatten().filter_map(|entry| fs::read_to_string(entry.path().join("size")).ok());
    sizes.filter_map(|size| kibibytes(size.trim().strip_suffix('K')?)).max().unwrap_or(ASSUMED_CACHE)
}

/// Bytes that can be had without swapping.
fn free_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    available(&text).unwrap_or(ASSUMED_FREE_MEMORY)
}

/// `MemAvailable` of `/proc/meminfo`, in bytes.
fn available(meminfo: &str) -> Option<u64> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    kibibytes(rest.trim().strip_suffix("kB")?.trim())
}

fn kibibytes(digits: &str) -> Option<u64> {
    digits.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_exceed_the_cache_and_leave_memory_to_others() {
        // 32 MiB of cache, 64 GiB free: two arrays are four times the cache.
        assert_eq!(stream_elements(32 << 20, 64 << 30) * 4 * 2, 4 * (32 << 20));
        // A virtual machine that claims 480 MiB of cache and has 6 GiB: a quarter of the memory, all three together.
        let bytes = stream_elements(480 << 20, 6 << 30) * 4 * 3;
        assert!(bytes <= 6 << 28 && bytes > (6 << 28) - 12, "{bytes}");
        assert_eq!(available("MemTotal: 8 kB\nMemAvailable:   24600 kB\n"), Some(24600 * 1024));
    }

    #[test]
    fn repetitions_are_counted_without_the_first() {
        let mut calls = 0;
        let seconds = repeat(0.0, 3, || {
            calls += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!((seconds.len(), calls), (3, 4));
        assert!(repeat(0.0, 1, || Err(WorkerError::torch("no"))).is_err());
    }

    #[test]
    fn streams_do_what_they_say() {
        let samples = streams(1000, Effort { gemm_s: 0.0, stream_s: 0.0, least: 2 }).unwrap();
        let told: Vec<_> =
            samples.iter().map(|s| (s.kernel.as_str(), s.bytes, s.bytes_per_s.len())).collect();
        assert_eq!(told, [("copy", 8000, 2), ("triad", 12000, 2)]);
        let [a, b] = [1.0_f32, 2.0].map(|value| Tensor::from_slice(&[value; 5]));
        let c = Tensor::zeros([5], (Kind::Float, tch::Device::Cpu));
        shim::triad(&c, &a, &b, 3.0).unwrap();
        assert_eq!(Vec::<f32>::try_from(&c).unwrap(), [7.0; 5]);
    }
}
