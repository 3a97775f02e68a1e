//! What a device's lock is about.

use std::fmt;

use crate::job::Device;

/// A device, whatever number it has for a job. `cuda:0` of one run can be `cuda:3` of another, if
/// `CUDA_VISIBLE_DEVICES` shows them different GPUs. Both lock the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhysicalDevice(String);

impl PhysicalDevice {
    /// The device that is `device` for everybody.
    pub fn of(device: Device) -> PhysicalDevice {
        PhysicalDevice(device.to_string())
    }

    /// The GPU of this UUID, whose number nobody knows.
    pub fn unnumbered(uuid: &str) -> PhysicalDevice {
        PhysicalDevice(uuid.to_owned())
    }

    /// The name of its lock, without an ending.
    pub(super) fn file_name(&self) -> String {
        let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '.' { letter } else { '-' };
        format!("device-{}", self.0.chars().map(plain).collect::<String>())
    }
}

impl fmt::Display for PhysicalDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_keeps_the_name_of_its_lock() {
        let name = |device| PhysicalDevice::of(device).file_name();
        assert_eq!(name(Device::Cpu), "device-cpu");
        assert_eq!(name(Device::Cuda(0)), "device-cuda");
        assert_eq!(name(Device::Cuda(3)), "device-cuda-3");
        let part = PhysicalDevice::unnumbered("MIG-GPU-1a/../0");
        assert_eq!(part.file_name(), "device-MIG-GPU-1a-..-0", "no path leads elsewhere");
    }
}
