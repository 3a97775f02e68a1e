//! libtorch's CUDA half, and CUDA's libraries before it.
//!
//! libtorch finds its direct dependencies. These find each other by bare names, which the loader does not find, or
//! finds in another version on `LD_LIBRARY_PATH`: cuDNN opens nvrtc this way, and cuBLAS its other half. The loader
//! finds libraries by bare name if they are loaded already. So all are opened first, as `torch/__init__.py` does.

#![expect(clippy::disallowed_methods, reason = "a worker looks for its libraries")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::shim;

/// The libraries, in the order of `torch/__init__.py`: the folder that each had in the wheels before CUDA 13, and its
/// name. libtorch_cpu itself needs cudart and cupti, so these two are loaded already.
const LIBRARIES: [(&str, &str); 14] = [
    ("cublas", "libcublasLt"),
    ("cublas", "libcublas"),
    ("cudnn", "libcudnn"),
    ("cuda_nvrtc", "libnvrtc"),
    ("cuda_nvrtc", "libnvrtc-builtins"),
    ("cufft", "libcufft"),
    ("curand", "libcurand"),
    ("nvjitlink", "libnvJitLink"),
    ("cusparse", "libcusparse"),
    ("cusparselt", "libcusparseLt"),
    ("cusolver", "libcusolver"),
    ("nccl", "libnccl"),
    ("nvshmem", "libnvshmem_host"),
    ("cufile", "libcufile"),
];

/// Loads libtorch's CUDA half from the directory of the running libtorch, after the libraries of CUDA that are beside
/// it. CUDA must not have been requested from libtorch before.
///
/// # Errors
/// Why it cannot be loaded, and which other libraries could not.
pub(super) fn load() -> Result<(), String> {
    let directory = shim::libtorch_directory().ok_or("the directory of libtorch is unknown")?;
    let found = find(&directory, shim::runtime_version().map(|version| version / 1000));
    let failures = found.iter().filter_map(|path| shim::open_library(path).err()).collect();
    let library = directory.join("libtorch_cuda.so");
    shim::open_library(&library).map_err(|reason| not_loaded(&reason, failures))
}

/// The text for a libtorch_cuda that could not be loaded for `reason`, after these `failures` of other libraries.
fn not_loaded(reason: &str, failures: Vec<String>) -> String {
    let mut reasons = vec![format!("libtorch_cuda cannot be loaded: {reason}")];
    // Those that the reason does not contain already.
    reasons.extend(failures.into_iter().filter(|failure| !reason.contains(failure.as_str())));
    reasons.join("; before it: ")
}

/// The libraries beside the libtorch in `directory` for the CUDA of this `major` version. Missing ones are left out:
/// they may be in the directory of libtorch, or installed in the system.
fn find(directory: &Path, major: Option<i32>) -> Vec<PathBuf> {
    // Of a wheel: `site-packages/torch/lib`, beside `site-packages/nvidia`. The system resolves the dots, for `torch`
    // can be a link.
    let packages = directory.join("../..");
    let found = LIBRARIES.iter().filter_map(|(folder, name)| {
        let mut folders = vec![format!("nvidia/{folder}")];
        folders.extend(major.map(|major| format!("nvidia/cu{major}")));
        folders.push((*folder).to_owned());
        folders.iter().find_map(|folder| library_in(&packages.join(folder).join("lib"), name))
    });
    found.collect()
}

/// The library called `name` in `directory`: `libcudnn.so.9`, but not `libcudnn_ops.so.9` or `libcudnn.so.9.debug`.
fn library_in(directory: &Path, name: &str) -> Option<PathBuf> {
    let is_meant = |path: &PathBuf| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let version = file.strip_prefix(name).and_then(|rest| rest.strip_prefix(".so."));
        version.is_some_and(|version| version.ends_with(|end: char| end.is_ascii_digit()))
    };
    let entries = fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path());
    // Deterministic, whatever the order of the directory.
    entries.filter(is_meant).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let packages = tempfile::tempdir().unwrap();
        for file in files.iter().chain(&["torch/lib/libtorch_cpu.so"]) {
            let path = packages.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        packages
    }

    fn names(packages: &tempfile::TempDir, major: Option<i32>) -> Vec<String> {
        let root = packages.path().canonicalize().unwrap();
        let found = find(&root.join("torch/lib"), major);
        let relative = |path: PathBuf| path.canonicalize().unwrap().strip_prefix(&root).unwrap().to_owned();
        found.into_iter().map(|path| relative(path).display().to_string()).collect()
    }

    #[test]
    fn libraries_are_found_where_the_wheels_have_them_in_torchs_order() {
        let packages = tree(&[
            "nvidia/cu13/lib/libnvrtc.so.13",
            "nvidia/cu13/lib/libnvrtc.alt.so.13",
            "nvidia/cu13/lib/libnvrtc-builtins.so.13.0",
            "nvidia/cu13/lib/libcublas.so.13",
            "nvidia/cu13/lib/libcublasLt.so.13",
            "nvidia/cu12/lib/libcufft.so.11",
            "nvidia/cudnn/lib/libcudnn.so.9",
            "nvidia/cudnn/lib/libcudnn_ops.so.9",
            "nvidia/cudnn/lib/libcudnn.so.9.debug",
            "curand/lib/libcurand.so.10",
        ]);
        let of_13 = [
            "nvidia/cu13/lib/libcublasLt.so.13",
            "nvidia/cu13/lib/libcublas.so.13",
            "nvidia/cudnn/lib/libcudnn.so.9",
            "nvidia/cu13/lib/libnvrtc.so.13",
            "nvidia/cu13/lib/libnvrtc-builtins.so.13.0",
            "curand/lib/libcurand.so.10",
        ];
        assert_eq!(names(&packages, Some(13)), of_13);
        assert_eq!(names(&packages, None), ["nvidia/cudnn/lib/libcudnn.so.9", "curand/lib/libcurand.so.10"]);
        assert_eq!(names(&tree(&[]), Some(13)), [""; 0]);
    }

    #[test]
    fn earlier_failures_are_reported_once() {
        assert_eq!(not_loaded("a: no b", Vec::new()), "libtorch_cuda cannot be loaded: a: no b");
        assert_eq!(
            not_loaded("a: no b", vec!["c: no d".into(), "a: no b".into()]),
            "libtorch_cuda cannot be loaded: a: no b; before it: c: no d"
        );
    }
}
