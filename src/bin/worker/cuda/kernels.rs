//! The GPUs that this libtorch has kernels for.

use crate::failure::WorkerError;
use crate::shim::CudaFacts;

/// Part of CUDA's message about a program without a kernel for the GPU.
const NO_KERNEL: &str = "no kernel image is available";

/// Explains the `error` of a first kernel on the device of `facts` if libtorch has no kernels for that device.
/// `config` is libtorch's description of its build.
pub(super) fn explain(error: WorkerError, facts: &CudaFacts, config: &str) -> WorkerError {
    if !matches!(&error, WorkerError::Torch(reason) if reason.contains(NO_KERNEL)) {
        return error;
    }
    let CudaFacts { name, capability: (major, minor), .. } = facts;
    let built_for = capabilities(config);
    let others = if built_for.is_empty() { "others only".to_owned() } else { built_for.join(", ") };
    WorkerError::Unsupported(format!(
        "cuda is not available: {name} has compute capability {major}.{minor}, but this libtorch has kernels for \
         {others}: set LIBTORCH to a libtorch with kernels for {major}.{minor} and build again"
    ))
}

/// The compute capabilities in nvcc's flags: `7.5` and `12.0` of `…code=sm_75;…,code=sm_120`. Those that a driver can
/// still compile for, as in `code=compute_90`, cover all later ones: `9.0 and later`.
fn capabilities(config: &str) -> Vec<String> {
    let capability = |code: &str| {
        let (name, later) = match code.strip_prefix("sm_") {
            Some(name) => (name, ""),
            None => (code.strip_prefix("compute_")?, " and later"),
        };
        // Some end in a letter: `sm_90a`.
        let digits = name.trim_end_matches(|end: char| end.is_ascii_alphabetic());
        let (major, minor) = digits.split_at_checked(digits.len().checked_sub(1)?)?;
        let are_digits = !major.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        are_digits.then(|| format!("{major}.{minor}{later}"))
    };
    let codes = config.split("code=").skip(1);
    codes.filter_map(|rest| capability(rest.split([';', ' ', '\n', ',', ']']).next()?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the wheel of 2.11.0 for x86-64.
    const CONFIG: &str = "  - CUDA Runtime 13.0\n  - NVCC architecture flags: \
        -gencode;arch=compute_75,code=sm_75;-gencode;arch=compute_80,code=sm_80;-gencode;arch=compute_86,code=sm_86;\
        -gencode;arch=compute_90,code=sm_90;-gencode;arch=compute_100,code=sm_100;\
        -gencode;arch=compute_120,code=sm_120\n  - CuDNN 91.9.0\n";

    fn volta() -> CudaFacts {
        CudaFacts { name: "Tesla V100-SXM2-16GB".into(), uuid: "GPU-0".into(), capability: (7, 0) }
    }

    #[test]
    fn the_capabilities_are_read_from_the_flags() {
        assert_eq!(capabilities(CONFIG), ["7.5", "8.0", "8.6", "9.0", "10.0", "12.0"]);
        let with_ptx = "-gencode;arch=compute_90a,code=sm_90a;-gencode;arch=compute_120,code=compute_120";
        assert_eq!(capabilities(with_ptx), ["9.0", "12.0 and later"]);
        assert_eq!(capabilities("code=sm_;code=sm_x;code=lto_80;code=sm_9"), [""; 0]);
    }

    #[test]
    fn a_gpu_without_kernels_is_unsupported_and_named() {
        let cuda = "CUDA error: no kernel image is available for execution on the device\nSearch for";
        let error = explain(WorkerError::torch(cuda), &volta(), CONFIG);
        assert!(error.failure().is_some(), "{error}");
        assert_eq!(
            error.to_string(),
            "cuda is not available: Tesla V100-SXM2-16GB has compute capability 7.0, but this libtorch has kernels for \
             7.5, 8.0, 8.6, 9.0, 10.0, 12.0: set LIBTORCH to a libtorch with kernels for 7.0 and build again"
        );
        let unknown = explain(WorkerError::torch(cuda), &volta(), "").to_string();
        assert!(unknown.contains("has kernels for others only"), "{unknown}");
    }

    #[test]
    fn other_errors_are_unchanged() {
        let failed = "CUDA error: unspecified launch failure";
        let error = explain(WorkerError::torch(failed), &volta(), CONFIG);
        assert_eq!(error.to_string(), format!("libtorch: {failed}"));
    }
}
