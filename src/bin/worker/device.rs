//! The device: chosen, opened, named, synchronised.

#![expect(clippy::disallowed_methods, reason = "a worker looks at the machine it runs on")]

use std::env;
use std::fs;
use std::process::Command;

use orchestrate::job::Device;
use orchestrate::processor;

use super::cuda;
use super::failure::WorkerError;
use super::model::Products;
use super::request::Backend;
use super::shim::{self, CudaFacts};

/// A device that is ready to compute.
#[derive(Clone, Debug)]
pub(crate) struct OpenDevice {
    /// The device in the protocol.
    pub(crate) device: Device,
    /// The model of the processor or GPU.
    pub(crate) name: String,
    /// Its UUID, if it has one.
    pub(crate) uuid: Option<String>,
    /// Its compute capability, if it is a CUDA device.
    pub(crate) capability: Option<(i32, i32)>,
}

impl OpenDevice {
    /// Opens the device that `backend` asks for.
    ///
    /// # Errors
    /// [`WorkerError::Unsupported`] if this machine does not have it.
    pub(crate) fn open(backend: Backend) -> Result<Self, WorkerError> {
        match backend {
            Backend::Only(Device::Cpu) => Ok(Self::cpu()),
            Backend::Only(Device::Mps) => Self::mps(),
            Backend::Only(Device::Cuda(_)) => Self::cuda(),
            Backend::Auto if cuda::is_here() => Self::cuda(),
            Backend::Auto if tch::utils::has_mps() => Self::mps(),
            Backend::Auto => Ok(Self::cpu()),
        }
    }

    /// The device in `tch`.
    pub(crate) fn tch(&self) -> tch::Device {
        match self.device {
            Device::Cpu => tch::Device::Cpu,
            Device::Mps => tch::Device::Mps,
            Device::Cuda(index) => tch::Device::Cuda(usize::try_from(index).unwrap_or(0)),
        }
    }

    /// Waits until the device has finished all its work. On the CPU, work is finished when its call returns.
    pub(crate) fn synchronize(&self) -> Result<(), WorkerError> {
        match self.device {
            Device::Cpu => Ok(()),
            Device::Mps | Device::Cuda(_) => shim::synchronize(),
        }
    }

    /// The fastest way to multiply bfloat16 on this processor; `None` for any other device.
    ///
    /// # Errors
    /// Errors of libtorch.
    pub(crate) fn bfloat16_products(&self) -> Result<Option<Products>, WorkerError> {
        if self.device != Device::Cpu {
            return Ok(None);
        }
        // The part of AVX-512 that its first processors lack.
        let avx512 = cfg!(target_arch = "x86_64").then(|| shim::processor_has("avx512_bw"));
        Ok(Some(Products::best(shim::onednn_has_bfloat16()?, avx512)))
    }

    fn cpu() -> Self {
        OpenDevice { device: Device::Cpu, name: processor_name(), uuid: None, capability: None }
    }

    fn mps() -> Result<Self, WorkerError> {
        if !tch::utils::has_mps() {
            return Err(WorkerError::Unsupported("mps is not available: it needs an Apple GPU".to_owned()));
        }
        Ok(OpenDevice { device: Device::Mps, name: processor_name(), uuid: None, capability: None })
    }

    fn cuda() -> Result<Self, WorkerError> {
        let CudaFacts { name, uuid, capability } = cuda::open()?;
        Ok(OpenDevice { device: Device::Cuda(0), name, uuid: Some(uuid), capability: Some(capability) })
    }
}

/// The model of the processor, or its architecture if the system does not name the model.
fn processor_name() -> String {
    let name = if cfg!(target_os = "macos") {
        sysctl("machdep.cpu.brand_string")
    } else {
        fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| processor::processor_name(&text))
    };
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| env::consts::ARCH.to_owned())
}

/// The major version of macOS; `None` elsewhere.
pub(crate) fn macos_version() -> Option<u32> {
    if !cfg!(target_os = "macos") {
        return None;
    }
    sysctl("kern.osproductversion")?.split('.').next()?.parse().ok()
}

/// The value of the macOS kernel variable `name`. `sysctl` is called by its path: it is not on every `PATH`.
fn sysctl(name: &str) -> Option<String> {
    let output = Command::new("/usr/sbin/sysctl").args(["-n", name]).output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_has_a_name() {
        assert!(!processor_name().is_empty());
    }
}
