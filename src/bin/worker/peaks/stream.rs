//! The size of arrays that exceed all caches, and libtorch's copy and triad over them, in single precision: for
//! accelerators. Both bytes read and bytes written count.

use orchestrate::protocol::StreamSample;
use tch::{Kind, Tensor};

use super::super::device::OpenDevice;
use super::super::failure::WorkerError;
use super::super::shim;
use super::host::Memory;
use super::print::print_progress;
use super::timing::{self, Timings};

/// Each array is this many times the last-level caches.
const CACHES: u64 = 4;

/// The three arrays together take at most one part in this many of the free memory.
const SHARE_OF_FREE_MEMORY: u64 = 4;

/// Arrays are at least this large, however small the caches are.
const LEAST_BYTES: u64 = 32 << 20;

/// Timings of each stream at least, however long they take.
const LEAST_TIMINGS: usize = 3;

/// The most timings: more would not improve the result.
const MOST_TIMINGS: usize = 50;

/// Bytes of one number.
const NUMBER: u64 = 4;

/// Three arrays of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrays {
    /// Numbers in each array.
    elements: u64,
}

impl Arrays {
    /// As large as the caches require, unless the memory is too small for that.
    pub(super) fn fitting(memory: Memory) -> Self {
        let wanted = memory.cache.saturating_mul(CACHES).max(LEAST_BYTES);
        let possible = memory.free / SHARE_OF_FREE_MEMORY / 3;
        Arrays { elements: (wanted.min(possible) / NUMBER).max(1) }
    }

    /// A warning, if the two arrays of a copy together are less than [`CACHES`] times the caches.
    pub(super) fn shortfall(self, cache: u64) -> Option<String> {
        let times = 2.0 * self.bytes() as f64 / cache as f64;
        (times < CACHES as f64).then(|| {
            format!(
                "for lack of memory, the arrays of the copy are only {times:.1} times the caches of {} MiB: the bandwidth \
                 might come out too high",
                cache >> 20
            )
        })
    }

    /// The bytes of each.
    pub(super) fn bytes(self) -> u64 {
        NUMBER * self.elements
    }
}

/// Times both streams for `budget_s` seconds each.
///
/// # Errors
/// Errors of libtorch.
pub(super) fn measure(
    device: &OpenDevice,
    arrays: Arrays,
    budget_s: f64,
) -> Result<Vec<StreamSample>, WorkerError> {
    let length = i64::try_from(arrays.elements).expect("memory is below 2⁶³ bytes");
    let filled = |value: f64| -> Result<Tensor, WorkerError> {
        let mut array = Tensor::f_empty([length], (Kind::Float, device.tch()))?;
        // Each thread touches its part first, so that the part is in memory near the thread.
        drop(array.f_fill_(value)?);
        Ok(array)
    };
    let (a, b, mut c) = (filled(1.0)?, filled(2.0)?, filled(0.0)?);
    let time = |work: timing::Work<'_>| timing::time(device, LEAST_TIMINGS, MOST_TIMINGS, budget_s, work);
    let copy = time(&mut || c.f_copy_(&a).map(drop).map_err(WorkerError::from))?;
    let triad = time(&mut || shim::triad(&c, &a, &b, 3.0))?;
    Ok(vec![sample("copy", 2 * arrays.bytes(), &copy), sample("triad", 3 * arrays.bytes(), &triad)])
}

fn sample(kernel: &str, bytes: u64, timings: &Timings) -> StreamSample {
    let sample = StreamSample {
        kernel: kernel.to_owned(),
        level: Some("memory".to_owned()),
        isa: None,
        bytes,
        passes: Some(timings.calls),
        bytes_per_s: timings.seconds.iter().map(|seconds| bytes as f64 / seconds).collect(),
    };
    let best = sample.bytes_per_s.iter().copied().fold(0.0, f64::max);
    print_progress(&format!("{kernel} of {:.0} MB: {:.1} GB/s", bytes as f64 / 1e6, best / 1e9));
    sample
}

#[cfg(test)]
mod tests {
    use orchestrate::job::Device;

    use super::super::super::request::Backend;
    use super::*;

    #[test]
    fn arrays_exceed_the_caches_and_leave_memory_to_others() {
        let roomy = Memory { cache: 32 << 20, free: 64 << 30 };
        let arrays = Arrays::fitting(roomy);
        assert_eq!(arrays.bytes(), 4 * (32 << 20));
        assert_eq!(arrays.shortfall(roomy.cache), None);
        // A virtual machine that claims 2 GiB of cache and has 6 GiB of memory: the arrays take a quarter, with a
        // warning.
        let tight = Memory { cache: 2 << 30, free: 6 << 30 };
        let arrays = Arrays::fitting(tight);
        assert_eq!(3 * arrays.bytes(), 6 << 28);
        let said = arrays.shortfall(tight.cache).unwrap();
        assert!(said.contains("only 0.5 times the caches of 2048 MiB"), "{said}");
        // A small board: the submission of work would dominate shorter passes.
        assert_eq!(Arrays::fitting(Memory { cache: 1 << 20, free: 1 << 30 }).bytes(), LEAST_BYTES);
    }

    #[test]
    fn streams_compute_copy_and_triad() {
        let device = OpenDevice::open(Backend::Only(Device::Cpu)).unwrap();
        let samples = measure(&device, Arrays { elements: 1000 }, 0.0).unwrap();
        let printed: Vec<_> =
            samples.iter().map(|s| (s.kernel.as_str(), s.bytes, s.bytes_per_s.len())).collect();
        assert_eq!(printed, [("copy", 8000, LEAST_TIMINGS), ("triad", 12000, LEAST_TIMINGS)]);
        let [a, b] = [1.0_f32, 2.0].map(|value| Tensor::from_slice(&[value; 5]));
        let c = Tensor::zeros([5], (Kind::Float, tch::Device::Cpu));
        shim::triad(&c, &a, &b, 3.0).unwrap();
        assert_eq!(Vec::<f32>::try_from(&c).unwrap(), [7.0; 5]);
    }
}
