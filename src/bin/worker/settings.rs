//! Threads and libtorch's global flags: set before the first tensor, read back for the measurement.

#![expect(clippy::disallowed_methods, reason = "a worker looks at the machine it runs on")]

use std::env;
use std::thread;

use orchestrate::job::{Device, Precision};
use orchestrate::protocol::ROUNDING_VARIABLES;

use super::arguments::Training;
use super::failure::WorkerError;
use super::shim::Flags;

/// The variable that makes the results of cuBLAS reproducible. cuBLAS reads it when it starts.
const CUBLAS_VARIABLE: &str = "CUBLAS_WORKSPACE_CONFIG";

/// The variable for the log level of libtorch's profiler, and the value that silences it. Otherwise, it complains on
/// standard error about machines without a GPU.
const PROFILER_LOG: (&str, &str) = ("KINETO_LOG_LEVEL", "5");

/// Prepares the environment of the process. Call it first, while the process has one thread.
///
/// # Errors
/// [`WorkerError::Usage`] if a variable changes what a precision means.
pub(crate) fn prepare_environment(training: &Training) -> Result<(), WorkerError> {
    refuse_rounding()?;
    if training.parameters.deterministic {
        set_default(CUBLAS_VARIABLE, ":4096:8");
    }
    if training.operators.is_some() {
        silence_profiler();
    }
    Ok(())
}

/// Makes libtorch's profiler print nothing. Only while the process has one thread.
pub(crate) fn silence_profiler() {
    let (name, silent) = PROFILER_LOG;
    set_default(name, silent);
}

/// Sets the variable called `name`, unless the environment has it. Only while the process has one thread.
fn set_default(name: &str, value: &str) {
    if env::var_os(name).is_none() {
        // SAFETY: the process has no other thread yet that could read the environment.
        unsafe { env::set_var(name, value) };
    }
}

/// Refuses an environment that changes what a precision means.
///
/// # Errors
/// [`WorkerError::Usage`] names the variable.
pub(crate) fn refuse_rounding() -> Result<(), WorkerError> {
    check_rounding(|name| env::var(name).unwrap_or_default())
}

/// Refuses variables that change what a precision means. `value` returns the value of a variable.
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

/// Sets all of libtorch's flags for `precision`, so that none depends on libtorch's defaults. On a device without TF32,
/// its flag is off.
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

/// Sets the number of compute threads: by default, the processors that the process may run on.
///
/// libtorch's second pool, for independent operations, would only compete. So it gets one thread.
pub(crate) fn set_threads(asked: Option<u32>) {
    set_compute_threads(asked.unwrap_or_else(usable_processors));
    tch::set_num_interop_threads(1);
}

fn set_compute_threads(threads: u32) {
    tch::set_num_threads(i32::try_from(threads).unwrap_or(i32::MAX));
}

/// The number of compute threads that libtorch has now.
pub(crate) fn threads() -> u32 {
    u32::try_from(tch::get_num_threads()).unwrap_or(1)
}

/// The processors that this process may run on: its affinity, limited by the quota of its control group.
fn usable_processors() -> u32 {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(processors).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libtorch_has_the_number_of_threads_that_was_set() {
        let before = threads();
        for given in [1, 3, before] {
            set_compute_threads(given);
            assert_eq!(threads(), given);
        }
    }

    #[test]
    fn a_variable_that_changes_a_precision_is_refused() {
        let refused = |set: &str, to: &str| {
            let value = |name: &str| if name == set { to.to_owned() } else { String::new() };
            check_rounding(value).err().map(|error| error.to_string())
        };
        let message = refused("ONEDNN_DEFAULT_FPMATH_MODE", "BF16").unwrap();
        assert_eq!(message, "ONEDNN_DEFAULT_FPMATH_MODE=BF16 changes what a precision means: unset it");
        assert!(refused("NVIDIA_TF32_OVERRIDE", "0").is_some(), "tf32 would be fp32");
        for name in
            ["CUBLAS_EMULATE_SINGLE_PRECISION", "PYTORCH_MPS_FAST_MATH", "PYTORCH_ENABLE_MPS_FALLBACK"]
        {
            assert!(refused(name, "1").is_some(), "{name}");
            assert_eq!(refused(name, "0"), None, "{name}");
        }
        assert_eq!(refused("DNNL_DEFAULT_FPMATH_MODE", "STRICT"), None);
        assert_eq!(refused("ANOTHER", "1"), None);
    }
}
