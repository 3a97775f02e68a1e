//! Threads and libtorch's global flags: set before the first tensor, read back for the measurement.

#![expect(clippy::disallowed_methods, reason = "a worker looks at the machine it runs on")]

use std::env;
use std::thread;

use orchestrate::job::{Device, Precision};

use super::arguments::Training;
use super::failure::WorkerError;
use super::shim::Flags;

/// Variables with which oneDNN and NVIDIA's libraries can be told how to round single precision behind libtorch's back,
/// and the values that change nothing.
const ROUNDING_VARIABLES: [(&str, &[&str]); 3] = [
    ("ONEDNN_DEFAULT_FPMATH_MODE", &["", "STRICT", "strict"]),
    ("DNNL_DEFAULT_FPMATH_MODE", &["", "STRICT", "strict"]),
    ("NVIDIA_TF32_OVERRIDE", &[""]),
];

/// What cuBLAS needs to know before it starts if its results are to be the same twice.
const CUBLAS_VARIABLE: &str = "CUBLAS_WORKSPACE_CONFIG";

/// Prepares the process's environment. To be called first, while the process has one thread.
///
/// # Errors
/// [`WorkerError::Usage`] if the environment asks for another precision than the job's.
pub(crate) fn prepare_environment(training: &Training) -> Result<(), WorkerError> {
    refuse_rounding()?;
    if training.parameters.deterministic && env::var_os(CUBLAS_VARIABLE).is_none() {
        // SAFETY: the caller has not started a thread yet, so nobody reads the environment meanwhile.
        unsafe { env::set_var(CUBLAS_VARIABLE, ":4096:8") };
    }
    Ok(())
}

/// Refuses an environment in which a precision would not be what it says.
///
/// # Errors
/// [`WorkerError::Usage`] names the variable.
pub(crate) fn refuse_rounding() -> Result<(), WorkerError> {
    check_rounding(|name| env::var(name).unwrap_or_default())
}

/// Refuses variables that change what a precision means; `value` tells what each is set to.
fn check_rounding(value: impl Fn(&str) -> String) -> Result<(), WorkerError> {
    for (name, harmless) in ROUNDING_VARIABLES {
        let value = value(name);
        if !harmless.contains(&value.as_str()) {
            return Err(WorkerError::Usage(format!(
                "{name}={value} changes what a precision means: unset it"
            )));
        }
    }
    Ok(())
}

/// Sets libtorch's flags for `precision`: every one of them, so that none is left to libtorch's defaults. On a device
/// without TF32 the flag has no meaning and is off.
pub(crate) fn set_flags(
    training: &Training,
    precision: Precision,
    device: Device,
) -> Result<(), WorkerError> {
    Flags {
        tf32: precision == Precision::Tf32 && matches!(device, Device::Cuda(_)),
        deterministic: training.parameters.deterministic,
        cudnn_benchmark: training.parameters.cudnn_benchmark,
    }
    .set()
}

/// Sets the compute threads: those asked for, else as many as the process may use processors.
///
/// A second pool for independent operations would only compete, so it has one thread.
pub(crate) fn set_threads(asked: Option<u32>) {
    let threads = asked.unwrap_or_else(usable_processors);
    tch::set_num_threads(i32::try_from(threads).unwrap_or(i32::MAX));
    tch::set_num_interop_threads(1);
}

/// Compute threads as libtorch has them now.
pub(crate) fn threads() -> u32 {
    u32::try_from(tch::get_num_threads()).unwrap_or(1)
}

/// Processors that this process may use: its affinity, cut by its control group's quota.
fn usable_processors() -> u32 {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(processors).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_changes_a_precision_is_refused() {
        let refused = |set: &str, to: &str| {
            let value = |name: &str| if name == set { to.to_owned() } else { String::new() };
            check_rounding(value).err().map(|error| error.to_string())
        };
        let message = refused("ONEDNN_DEFAULT_FPMATH_MODE", "BF16").unwrap();
        assert_eq!(message, "ONEDNN_DEFAULT_FPMATH_MODE=BF16 changes what a precision means: unset it");
        assert!(refused("NVIDIA_TF32_OVERRIDE", "0").is_some(), "tf32 would be fp32");
        assert_eq!(refused("DNNL_DEFAULT_FPMATH_MODE", "STRICT"), None);
        assert_eq!(refused("ANOTHER", "1"), None);
    }
}
