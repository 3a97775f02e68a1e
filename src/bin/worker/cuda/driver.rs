//! NVIDIA's driver: whether it works, and is new enough for this libtorch.

use std::path::Path;

use crate::shim::{self, Driver};

/// The driver's kernel module is loaded if one of these exists. In a container, it is the module of the host.
const OF_THE_KERNEL: [&str; 2] = ["/proc/driver/nvidia/version", "/dev/nvidiactl"];

/// The return value of `cuInit` without a visible GPU.
const NO_DEVICE: i32 = 100;

/// The return value of the stub library of CUDA's toolkit, which is not a driver.
const STUB: i32 = 34;

/// Errors of `cuInit`: the number, CUDA's name for it, and its meaning with the remedy.
const CODES: [(i32, &str, &str); 8] = [
    (
        STUB,
        "CUDA_ERROR_STUB_LIBRARY",
        "libcuda.so.1 is the toolkit's, not the driver's: take its directory out of LD_LIBRARY_PATH",
    ),
    (46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "another process has the GPU for itself: `nvidia-smi` shows it"),
    (
        NO_DEVICE,
        "CUDA_ERROR_NO_DEVICE",
        "no GPU is visible: look at CUDA_VISIBLE_DEVICES, and start a container with its GPUs (docker: --gpus all)",
    ),
    (
        304,
        "CUDA_ERROR_OPERATING_SYSTEM",
        "the system refused: look at the permissions of /dev/nvidia*, and start a container with its GPUs",
    ),
    (802, "CUDA_ERROR_SYSTEM_NOT_READY", "start NVIDIA's fabric manager (nvidia-fabricmanager)"),
    (
        803,
        "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        "libcuda.so.1 and the kernel's module are of different versions: restart the machine, or the container",
    ),
    (
        804,
        "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        "this GPU does not work with cuda-compat: take its directory out of LD_LIBRARY_PATH",
    ),
    (999, "CUDA_ERROR_UNKNOWN", "see `dmesg`; after a suspend, reload the kernel module nvidia_uvm"),
];

/// The first driver for each major version of CUDA.
const FIRST_DRIVERS: [(i32, u32); 3] = [(11, 450), (12, 525), (13, 580)];

/// Why the driver cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Problem {
    /// Its library cannot be loaded.
    NoLibrary {
        /// The dynamic linker's words.
        reason: String,
        /// Whether its module for the kernel is there all the same.
        is_in_kernel: bool,
    },
    /// `cuInit` returns this.
    Init(i32),
    /// It is of an older major version of CUDA. Both as CUDA numbers them: 12020 is 12.2.
    TooOld {
        /// The newest CUDA that it supports.
        supports: i32,
        /// The CUDA that libtorch was built with.
        needs: i32,
    },
}

/// Whether this machine is meant to compute with CUDA: there is a driver that sees a GPU, or fails in a way that its
/// user should know. Without a GPU, a driver alone does not count.
pub(crate) fn is_here() -> bool {
    match shim::driver() {
        Ok(driver) => ![NO_DEVICE, STUB].contains(&driver.init),
        Err(_) => Path::new(OF_THE_KERNEL[1]).exists(),
    }
}

/// Checks that the driver works and is new enough for this libtorch.
///
/// # Errors
/// Why not, and what to do.
pub(super) fn check() -> Result<(), String> {
    let is_in_kernel = || OF_THE_KERNEL.iter().any(|path| Path::new(path).exists());
    match problem(shim::driver(), is_in_kernel, shim::runtime_version()) {
        Some(problem) => Err(problem.text(shim::nvidia_driver().as_deref())),
        None => Ok(()),
    }
}

/// The problem of `driver` for a libtorch that was built with the CUDA of `needs`.
fn problem(
    driver: Result<Driver, String>,
    is_in_kernel: impl Fn() -> bool,
    needs: Option<i32>,
) -> Option<Problem> {
    let driver = match driver {
        Ok(driver) => driver,
        Err(reason) => return Some(Problem::NoLibrary { reason, is_in_kernel: is_in_kernel() }),
    };
    if driver.init != 0 {
        return Some(Problem::Init(driver.init));
    }
    // Within a major version, every driver runs what every libtorch was built with.
    let needs = needs.filter(|needs| driver.cuda / 1000 < needs / 1000)?;
    Some(Problem::TooOld { supports: driver.cuda, needs })
}

impl Problem {
    /// The problem and its remedy. `release` is the version of the driver, if it is known: `535.104.05`.
    fn text(&self, release: Option<&str>) -> String {
        match self {
            Problem::NoLibrary { reason, is_in_kernel: false } => {
                format!("no NVIDIA driver is installed: {reason}")
            }
            Problem::NoLibrary { reason, is_in_kernel: true } => format!(
                "the NVIDIA driver is loaded, but its library is not here: {reason}: start a container with its GPUs \
                 (docker: --gpus all)"
            ),
            Problem::Init(code) => match CODES.iter().find(|(known, _, _)| known == code) {
                Some((_, name, advice)) => format!("cuInit returns {code}, {name}: {advice}"),
                None => format!("cuInit returns {code}: `nvidia-smi` and `dmesg` might show the cause"),
            },
            Problem::TooOld { supports, needs } => {
                let (major, driver) = (needs / 1000, release.map_or(String::new(), |it| format!(" {it}")));
                let first = FIRST_DRIVERS.iter().find(|(cuda, _)| *cuda == major);
                let newer =
                    first.map_or("a newer driver".to_owned(), |(_, it)| format!("driver {it} or later"));
                format!(
                    "the NVIDIA driver{driver} supports CUDA up to {}, but this libtorch needs {}: install {newer}, or \
                     set LIBTORCH to a libtorch for CUDA {} and build again",
                    number(*supports),
                    number(*needs),
                    supports / 1000
                )
            }
        }
    }
}

/// `12.2` of 12020.
fn number(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(init: i32, cuda: i32, needs: Option<i32>) -> Option<Problem> {
        problem(Ok(Driver { init, cuda }), || true, needs)
    }

    #[test]
    fn a_driver_of_the_same_major_version_is_new_enough() {
        for (cuda, needs) in [(13000, 13000), (13000, 13020), (13020, 13000), (14000, 13000)] {
            assert_eq!(found(0, cuda, Some(needs)), None, "{cuda} for {needs}");
        }
        assert_eq!(found(0, 12090, Some(13000)), Some(Problem::TooOld { supports: 12090, needs: 13000 }));
        assert_eq!(found(0, 12090, None), None, "a libtorch without CUDA fails for that reason");
    }

    #[test]
    fn the_error_about_an_old_driver_names_both_versions_and_the_remedy() {
        let text = |needs| Problem::TooOld { supports: 12020, needs }.text(Some("535.104.05"));
        assert_eq!(
            text(13000),
            "the NVIDIA driver 535.104.05 supports CUDA up to 12.2, but this libtorch needs 13.0: install driver 580 \
             or later, or set LIBTORCH to a libtorch for CUDA 12 and build again"
        );
        assert!(text(14010).contains("needs 14.1: install a newer driver, or"), "{}", text(14010));
        let nameless = Problem::TooOld { supports: 12020, needs: 13000 }.text(None);
        assert!(nameless.starts_with("the NVIDIA driver supports CUDA up to 12.2"), "{nameless}");
    }

    #[test]
    fn an_error_of_cu_init_precedes_the_version() {
        for (code, words) in [
            (100, "CUDA_ERROR_NO_DEVICE: no GPU is visible"),
            (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: libcuda.so.1 and the kernel's module"),
            (999, "CUDA_ERROR_UNKNOWN: see `dmesg`"),
        ] {
            assert_eq!(found(code, 12020, Some(13000)), Some(Problem::Init(code)));
            let text = Problem::Init(code).text(None);
            assert!(text.starts_with(&format!("cuInit returns {code}, {words}")), "{text}");
        }
        assert!(Problem::Init(7).text(None).starts_with("cuInit returns 7: `nvidia-smi`"));
        assert!(CODES.is_sorted_by_key(|(code, _, _)| code));
    }

    #[test]
    fn the_error_about_a_missing_library_mentions_the_container() {
        let absent =
            |is_in_kernel| problem(Err("no libcuda".into()), || is_in_kernel, None).unwrap().text(None);
        assert_eq!(absent(false), "no NVIDIA driver is installed: no libcuda");
        assert!(
            absent(true).contains("its library is not here: no libcuda: start a container with its GPUs")
        );
    }
}
