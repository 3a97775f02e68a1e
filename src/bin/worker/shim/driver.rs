//! The safe side of `driver.cpp`: NVIDIA's driver and CUDA's libraries.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uchar, c_uint};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{error, text};

// SAFETY: these are the declarations of `driver.cpp`, of which none throws.
unsafe extern "C" {
    safe fn shim_libtorch_directory() -> *const c_char;
    fn shim_open_library(path: *const c_char) -> bool;
    fn shim_driver(init: *mut c_int, version: *mut c_int) -> bool;
    safe fn shim_runtime_version() -> c_int;
    fn shim_cuda_facts(
        name: *mut c_char,
        name_length: c_int,
        uuid: *mut c_uchar,
        major: *mut c_int,
        minor: *mut c_int,
    ) -> bool;
    safe fn shim_cuda_attribute(number: c_int) -> c_int;
    safe fn shim_cuda_config() -> *const c_char;
    fn shim_nvidia_driver(version: *mut c_char, length: c_uint) -> bool;
}

/// The directory of the libtorch that this process has loaded.
pub(crate) fn libtorch_directory() -> Option<PathBuf> {
    let directory = shim_libtorch_directory();
    // SAFETY: the shim returns a terminated string that lives as long as the process.
    let bytes = unsafe { CStr::from_ptr(directory) }.to_bytes();
    (!bytes.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(bytes)))
}

/// Opens the library at `path` for as long as the process lives.
///
/// # Errors
/// The message of the dynamic linker. Most often, another library is not installed.
pub(crate) fn open_library(path: &Path) -> Result<(), String> {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return Err(format!("{} is not a path", path.display()));
    };
    // SAFETY: a terminated string that lives through the call.
    if unsafe { shim_open_library(path.as_ptr()) } { Ok(()) } else { Err(error()) }
}

/// The state and version of NVIDIA's driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Driver {
    /// The return value of its `cuInit`: 0 on success.
    pub(crate) init: i32,
    /// The newest CUDA that it supports, as CUDA numbers it: 12020 is 12.2.
    pub(crate) cuda: i32,
}

/// Asks the driver whether it works.
///
/// # Errors
/// Its library cannot be loaded (the message of the dynamic linker), or is not a driver.
pub(crate) fn driver() -> Result<Driver, String> {
    let (mut init, mut cuda) = (0, 0);
    // SAFETY: two pointers to distinct numbers that live through the call.
    if unsafe { shim_driver(&raw mut init, &raw mut cuda) } {
        Ok(Driver { init, cuda })
    } else {
        Err(error())
    }
}

/// The CUDA that libtorch was built with, as CUDA numbers it: 13000 is 13.0. `None` for a libtorch without CUDA.
pub(crate) fn runtime_version() -> Option<i32> {
    Some(shim_runtime_version()).filter(|version| *version > 0)
}

/// The driver's facts about the CUDA device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CudaFacts {
    /// `NVIDIA H200`, …
    pub(crate) name: String,
    /// As `nvidia-smi -L` prints it: `GPU-…`.
    pub(crate) uuid: String,
    /// Compute capability: major, minor.
    pub(crate) capability: (i32, i32),
}

/// Asks the driver about CUDA's device 0.
///
/// # Errors
/// Its library cannot be loaded, or the driver does not answer.
pub(crate) fn cuda_facts() -> Result<CudaFacts, String> {
    let mut name = [0_u8; 256];
    let mut uuid = [0_u8; 16];
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the driver writes at most 255 bytes and a terminator, and 16 bytes, into buffers of those sizes.
    let done =
        unsafe { shim_cuda_facts(name.as_mut_ptr().cast(), 256, uuid.as_mut_ptr(), &mut major, &mut minor) };
    if !done {
        return Err(error());
    }
    let name = CStr::from_bytes_until_nul(&name).map(|name| name.to_string_lossy().into_owned());
    Ok(CudaFacts { name: name.unwrap_or_default(), uuid: uuid_text(&uuid), capability: (major, minor) })
}

/// `GPU-00112233-4455-6677-8899-aabbccddeeff`.
fn uuid_text(bytes: &[u8; 16]) -> String {
    let hex = hex::encode(bytes);
    format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT` of the driver's interface.
const MULTIPROCESSORS: c_int = 16;

/// `CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE` of the driver's interface.
const L2_CACHE_BYTES: c_int = 38;

/// Bytes of the last-level cache of CUDA's device 0, from the driver.
pub(crate) fn cuda_cache() -> Option<u64> {
    u64::try_from(shim_cuda_attribute(L2_CACHE_BYTES)).ok()
}

/// The number of multiprocessors of CUDA's device 0, from the driver.
pub(crate) fn cuda_multiprocessors() -> Option<u32> {
    u32::try_from(shim_cuda_attribute(MULTIPROCESSORS)).ok()
}

/// How libtorch's CUDA half was built, in libtorch's words. Empty if it is not loaded.
pub(crate) fn cuda_config() -> String {
    text(shim_cuda_config())
}

/// `580.65.06`: the NVIDIA driver's version.
pub(crate) fn nvidia_driver() -> Option<String> {
    let mut version = [0_u8; 80];
    // SAFETY: the library writes at most 80 bytes, its terminator among them, into a buffer of that size.
    if !unsafe { shim_nvidia_driver(version.as_mut_ptr().cast(), 80) } {
        return None;
    }
    CStr::from_bytes_until_nul(&version).ok().map(|version| version.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_as_nvidia_smi_prints_it() {
        let bytes: [u8; 16] = std::array::from_fn(|index| 0x11 * u8::try_from(index).unwrap());
        assert_eq!(uuid_text(&bytes), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }

    #[test]
    fn the_error_about_a_library_is_that_of_the_linker() {
        let reason = open_library(Path::new("/nowhere/liba.so")).unwrap_err();
        assert!(reason.contains("/nowhere/liba.so"), "{reason}");
        assert!(open_library(Path::new("a\0b")).is_err());
    }

    #[test]
    fn the_directory_of_libtorch_is_found() {
        let directory = libtorch_directory().unwrap();
        let names = ["libtorch_cpu.so", "libtorch_cpu.dylib"];
        assert!(names.iter().any(|name| directory.join(name).exists()), "{}", directory.display());
    }
}
