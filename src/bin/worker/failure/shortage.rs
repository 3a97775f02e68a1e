//! Out of memory: recognised by what libtorch's allocators print, with the bytes needed and the bytes free.

#![expect(clippy::disallowed_methods, reason = "a worker looks at the machine it runs on")]

use std::fmt;
use std::fs;

use crate::shim::{FreeMemory, free_memory};

/// An allocation that failed for lack of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    /// The message of the allocator, on one line.
    pub(crate) message: String,
    /// The bytes of the allocation.
    pub(crate) needed: Option<u64>,
    /// The bytes that were free at the time.
    pub(crate) free: Option<u64>,
}

/// The memory that ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Host,
    Cuda,
    Mps,
}

/// Parts of allocators' messages, and the memory that ran out.
const MESSAGES: [(&str, Place); 8] = [
    ("DefaultCPUAllocator: can't allocate memory", Place::Host),
    ("DefaultCPUAllocator: not enough memory", Place::Host),
    ("std::bad_alloc", Place::Host),
    ("memory allocation of", Place::Host),
    ("CUDA out of memory", Place::Cuda),
    ("CUDA error: out of memory", Place::Cuda),
    ("MPS backend out of memory", Place::Mps),
    // Metal limits the size of a single tensor.
    ("Invalid buffer size: ", Place::Mps),
];

/// Messages of CUDA's libraries for lack of memory, and for other reasons too. cuDNN finds no engine if none gets its
/// working memory.
const DOUBTFUL: [&str; 4] = [
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "unable to find an engine",
];

/// If less than one part in this many of a device's memory is free, a doubtful message means that it ran out. A network
/// leaves it nearly full, and one engine needs a few hundredths of it.
const LITTLE: u64 = 10;

impl Shortage {
    /// The shortage that `text` reports, if it reports one. If it does not name the free memory, that is read now.
    pub(super) fn observe(text: &str) -> Option<Self> {
        let (place, shortage) = parse(text, free_memory)?;
        let free = shortage.free.or_else(|| match place {
            Place::Host => mem_available(&fs::read_to_string("/proc/meminfo").ok()?),
            Place::Cuda | Place::Mps => Some(free_memory()?.free),
        });
        Some(Shortage { free, ..shortage })
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        match (self.needed, self.free) {
            (Some(needed), Some(free)) => {
                write!(f, "{:.2} GiB were needed and {:.2} GiB free: ", gib(needed), gib(free))?;
            }
            (Some(needed), None) => write!(f, "{:.2} GiB were needed: ", gib(needed))?,
            (None, Some(free)) => write!(f, "{:.2} GiB were free: ", gib(free))?,
            (None, None) => {}
        }
        f.write_str(&self.message)
    }
}

/// The shortage in `text`; `None` if it is about something else. `memory` returns the free memory of the device, and is
/// called only for doubtful messages.
fn parse(text: &str, memory: impl Fn() -> Option<FreeMemory>) -> Option<(Place, Shortage)> {
    let stated = MESSAGES.iter().find(|(words, _)| text.contains(words)).map(|(_, place)| *place);
    let is_doubtful = || DOUBTFUL.iter().any(|words| text.contains(words));
    let place = stated.or_else(|| (is_doubtful() && is_scarce(memory()?)).then_some(Place::Cuda))?;
    let (needed, free) = match place {
        Place::Host => {
            (bytes_after(text, "tried to allocate ").or(bytes_after(text, "allocation of ")), None)
        }
        Place::Cuda => {
            let free = text.split_once(" of which ").and_then(|(_, rest)| size(rest));
            (size_after(text, "Tried to allocate "), free)
        }
        Place::Mps => {
            let needed = size_after(text, "Tried to allocate ").or(size_after(text, "Invalid buffer size: "));
            (needed, mps_free(text))
        }
    };
    Some((place, Shortage { message: first_line(text), needed, free }))
}

/// Whether little of a device's memory is free.
fn is_scarce(memory: FreeMemory) -> bool {
    memory.free < memory.total / LITTLE
}

/// On MPS: the maximum minus what is allocated.
fn mps_free(text: &str) -> Option<u64> {
    let allocated = size_after(text, "MPS allocated: ")?;
    let other = size_after(text, "other allocations: ").unwrap_or(0);
    Some(size_after(text, "max allowed: ")?.saturating_sub(allocated).saturating_sub(other))
}

/// The whole number of bytes behind `words`.
fn bytes_after(text: &str, words: &str) -> Option<u64> {
    let (_, rest) = text.split_once(words)?;
    let (number, _) = rest.split_once(" bytes")?;
    number.parse().ok()
}

fn size_after(text: &str, words: &str) -> Option<u64> {
    size(text.split_once(words)?.1)
}

/// The size at the beginning of `text`, as libtorch writes one: `20.00 MiB`, `512 bytes`. Older versions write `MB` for
/// MiB.
fn size(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    let number: f64 = words.next()?.parse().ok()?;
    let unit = words.next()?.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
    let power = match unit {
        "bytes" | "byte" => 0,
        "KiB" | "KB" => 10,
        "MiB" | "MB" => 20,
        "GiB" | "GB" => 30,
        _ => return None,
    };
    let bytes = number * f64::from(1_u32 << power);
    // The number is finite and not negative, and no allocation exceeds 64 bits.
    (bytes.is_finite() && bytes >= 0.0).then_some(bytes.round() as u64)
}

/// `MemAvailable` of `/proc/meminfo`, which prints KiB as kB.
fn mem_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// libtorch appends pages of backtrace to its messages.
pub(super) fn first_line(text: &str) -> String {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no reason given").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn needed_and_free_bytes_are_read_from_the_messages_of_all_allocators() {
        let cpu = "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you \
                   tried to allocate 82208358400 bytes. Error code 12 (Cannot allocate memory)\nException raised from";
        let cuda = "CUDA out of memory. Tried to allocate 350.00 MiB. GPU 0 has a total capacity of 23.50 GiB of which \
                    212.50 MiB is free. Process 16335 has 25.34 GiB memory in use.";
        let older = "CUDA out of memory. Tried to allocate 512 bytes (GPU 0; 3.95 GiB total capacity)";
        let mps = "MPS backend out of memory (MPS allocated: 17.00 GiB, other allocations: 512.00 MiB, max allowed: \
                   18.00 GiB). Tried to allocate 768.00 MiB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0";
        for (text, place, needed, free) in [
            (cpu, Place::Host, Some(82_208_358_400), None),
            ("memory allocation of 602112 bytes failed", Place::Host, Some(602_112), None),
            ("std::bad_alloc", Place::Host, None, None),
            (cuda, Place::Cuda, Some(350 * MIB), Some(212 * MIB + MIB / 2)),
            (older, Place::Cuda, Some(512), None),
            (mps, Place::Mps, Some(768 * MIB), Some(512 * MIB)),
            ("MPS backend out of memory (MPS allocated: 18.0 GB)", Place::Mps, None, None),
            ("Invalid buffer size: 24.00 GiB", Place::Mps, Some(24 << 30), None),
        ] {
            let message = first_line(text);
            assert_eq!(parse(text, || None), Some((place, Shortage { message, needed, free })), "{text}");
        }
        let full = || Some(FreeMemory { free: 0, total: 80 << 30 });
        assert_eq!(parse("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)", full), None);
    }

    #[test]
    fn doubtful_messages_are_a_shortage_only_if_little_memory_is_free() {
        let of = |free| move || Some(FreeMemory { free: free * MIB, total: 1000 * MIB });
        for text in [
            "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
            "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
            "GET was unable to find an engine to execute this computation",
            "FIND was unable to find an engine to execute this computation",
        ] {
            let shortage = Shortage { message: text.to_owned(), needed: None, free: None };
            for free in [0, 99] {
                assert_eq!(
                    parse(text, of(free)),
                    Some((Place::Cuda, shortage.clone())),
                    "{text}, {free} MiB"
                );
            }
            assert_eq!(parse(text, of(100)), None, "{text}");
            assert_eq!(parse(text, || None), None, "{text}");
        }
    }

    #[test]
    fn a_shortage_is_printed_with_its_numbers() {
        let shortage = |needed, free| Shortage { message: "no more".into(), needed, free }.to_string();
        let (needed, free) = (Some(3072 * MIB), Some(512 * MIB));
        assert_eq!(shortage(needed, free), "3.00 GiB were needed and 0.50 GiB free: no more");
        assert_eq!(shortage(needed, None), "3.00 GiB were needed: no more");
        assert_eq!(shortage(None, free), "0.50 GiB were free: no more");
        assert_eq!(shortage(None, None), "no more");
    }

    #[test]
    fn the_free_memory_of_the_host_is_mem_available() {
        let meminfo =
            "MemTotal:       8000000 kB\nMemFree:          100000 kB\nMemAvailable:    4000000 kB\n";
        assert_eq!(mem_available(meminfo), Some(4_096_000_000));
        assert_eq!(mem_available("MemTotal: 8 kB\n"), None);
    }
}
