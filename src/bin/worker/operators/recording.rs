//! The recording of libtorch's profiler, as `shim/operators.cpp` writes it.

use serde::Deserialize;
use serde_json::Value;

use super::super::failure::WorkerError;

/// The recorded calls and kernels of some iterations.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recording {
    /// Calls of operators, and scopes, on all threads.
    pub(super) operators: Vec<Call>,
    /// Kernels and copies of an accelerator.
    pub(super) kernels: Vec<Kernel>,
}

/// One call of an operator on the host, or one scope.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    /// Its name.
    pub(super) name: String,
    /// Different for each call.
    pub(super) id: u64,
    /// The thread that it ran on.
    pub(super) thread: u64,
    /// Its begin, in nanoseconds of the profiler's clock.
    pub(super) start_ns: i64,
    /// Its end.
    pub(super) end_ns: i64,
    /// Whether it is one of the worker's scopes and not an operator.
    pub(super) is_scope: bool,
    /// The shape of each input; `None` for what is not a tensor.
    pub(super) shapes: Vec<Option<Vec<u64>>>,
    /// The type of each input; `None` for what is not a tensor.
    pub(super) types: Vec<Option<String>>,
    /// The value of each input that is a number, a truth value or a list of them; null for the others.
    pub(super) arguments: Vec<Value>,
    /// Bytes of each input that is a list of tensors.
    pub(super) lists: Vec<u64>,
    /// Microseconds between the device's events around it.
    #[serde(default)]
    pub(super) device_us: Option<f64>,
}

/// One kernel or copy of an accelerator.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kernel {
    /// Its name.
    pub(super) name: String,
    /// The [`Call::id`] of what launched it; 0 if that is unknown.
    pub(super) launcher: u64,
    /// Its begin, in nanoseconds of the profiler's clock.
    pub(super) start_ns: i64,
    /// Its end.
    pub(super) end_ns: i64,
}

impl Recording {
    /// Reads what the shim wrote.
    ///
    /// # Errors
    /// The JSON does not have the form of this module.
    pub(super) fn parse(json: &str) -> Result<Self, WorkerError> {
        serde_json::from_str(json)
            .map_err(|error| WorkerError::Torch(format!("the recording of libtorch's profiler: {error}")))
    }
}
