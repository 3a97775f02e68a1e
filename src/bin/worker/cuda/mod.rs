//! CUDA: whether it can be used here, and if not, why and what to do.
//!
//! | module | what it is |
//! |---|---|
//! | [`driver`] | whether the driver works, and is new enough for this libtorch |
//! | [`libraries`] | libtorch's CUDA half, and CUDA's libraries before it |
//! | [`kernels`] | the GPUs that this libtorch has kernels for |

mod driver;
mod kernels;
mod libraries;

use std::io::Write;

use tch::{Kind, Tensor};

use super::failure::WorkerError;
use super::shim::{self, CudaFacts};

pub(crate) use driver::is_here;

/// Loads libtorch's CUDA half and opens the first device. Returns the driver's facts about it.
///
/// # Errors
/// [`WorkerError::Unsupported`] if CUDA cannot be used here. Errors of libtorch.
pub(crate) fn open() -> Result<CudaFacts, WorkerError> {
    let facts = load()?;
    try_kernel().map_err(|error| kernels::explain(error, &facts, &shim::cuda_config()))?;
    Ok(facts)
}

/// `worker cuda`: prints the device if libtorch can load CUDA and sees it. It neither computes nor allocates memory on
/// the device, so that it does not disturb measurements.
///
/// # Errors
/// [`WorkerError::Unsupported`] if CUDA cannot be used here.
pub(crate) fn run() -> Result<(), WorkerError> {
    let CudaFacts { name, uuid, capability: (major, minor) } = load()?;
    // A closed pipe is not an error.
    let _ = writeln!(std::io::stdout(), "{name}, {uuid}, compute capability {major}.{minor}");
    Ok(())
}

/// Loads libtorch's CUDA half, without touching the device.
fn load() -> Result<CudaFacts, WorkerError> {
    let absent = |reason: String| WorkerError::Unsupported(format!("cuda is not available: {reason}"));
    driver::check().map_err(absent)?;
    libraries::load().map_err(absent)?;
    if !tch::Cuda::is_available() {
        return Err(absent("libtorch sees no CUDA device".to_owned()));
    }
    shim::cuda_facts().map_err(absent)
}

/// Runs one tiny kernel on the device and waits for its result.
fn try_kernel() -> Result<(), WorkerError> {
    Tensor::f_ones([1], (Kind::Float, tch::Device::Cuda(0)))?.f_double_value(&[0])?;
    Ok(())
}
