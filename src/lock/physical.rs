//! The physical device that a lock refers to.

use std::fmt;

use crate::job::Device;

/// A device, independent of its number for a job. `cuda:0` of one run can be `cuda:3` of another, if
/// `CUDA_VISIBLE_DEVICES` differs. Both lock the same device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhysicalDevice(String);

impl PhysicalDevice {
    /// A device that has the same name for all processes.
    pub fn of(device: Device) -> PhysicalDevice {
        PhysicalDevice(device.to_string())
    }

    /// The GPU of this UUID, whose number is unknown.
    pub fn unnumbered(uuid: &str) -> PhysicalDevice {
        PhysicalDevice(uuid.to_owned())
    }

    /// The name of its lock file, without an ending.
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
    fn names_of_lock_files_are_stable() {
        let name = |device| PhysicalDevice::of(device).file_name();
        assert_eq!(name(Device::Cpu), "device-cpu");
        assert_eq!(name(Device::Cuda(0)), "device-cuda");
        assert_eq!(name(Device::Cuda(3)), "device-cuda-3");
        let part = PhysicalDevice::unnumbered("MIG-GPU-1a/../0");
        assert_eq!(part.file_name(), "device-MIG-GPU-1a-..-0", "the name contains no `/`");
    }
}
