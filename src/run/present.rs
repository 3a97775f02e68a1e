//! What jobs would run with now: the present side of what [`crate::plan::changes`] compares.
#![expect(clippy::disallowed_methods, reason = "this probes the machine")]

use std::fs;
use std::path::Path;

use super::programs::Programs;
use crate::plan::{GpuFacts, Inventory, Plan, Present};
use crate::record::HostFacts;

/// What the done jobs of `plan` would run with on `host` now.
pub fn probe_present(
    programs: &mut Programs,
    plan: &Plan,
    inventory: &Inventory,
    host: &HostFacts,
) -> Present {
    Present {
        workers: programs.workers_of_done(plan, inventory, &host.hostname),
        gpus: probe_gpus(Path::new("/proc/driver/nvidia/gpus"), gpus_of(host)),
    }
}

/// How many NVIDIA GPUs `host` offers to us.
fn gpus_of(host: &HostFacts) -> usize {
    host.devices.iter().filter(|device| device.starts_with("cuda:")).count()
}

/// The GPUs that the driver lists below `directory`, in the order of their PCI addresses. None if it lists more or fewer
/// than the `reachable` ones: in a container it is not known then which is which.
fn probe_gpus(directory: &Path, reachable: usize) -> Vec<GpuFacts> {
    let mut addresses: Vec<String> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    if addresses.len() != reachable {
        return Vec::new();
    }
    addresses.sort();
    let text = |address: &String| fs::read_to_string(directory.join(address).join("information"));
    addresses.iter().map(|address| parse_gpu(&text(address).unwrap_or_default())).collect()
}

/// A GPU as the driver describes it: lines of a name, a colon, and a value. A UUID that the driver has not asked for yet
/// is written in question marks.
fn parse_gpu(text: &str) -> GpuFacts {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(line.trim().to_owned())
    };
    GpuFacts {
        name: value("Model").unwrap_or_default(),
        uuid: value("GPU UUID").filter(|uuid| uuid.starts_with("GPU-") && !uuid.contains('?')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: &str = "Model: \t\t NVIDIA H200\nIRQ:   \t\t 91\n\
                        GPU UUID: \t GPU-00112233-4455-6677-8899-aabbccddeeff\nBus Type: \t PCIe\n";

    #[test]
    fn a_gpu_is_read_as_the_driver_writes_it() {
        let gpu = parse_gpu(H200);
        assert_eq!(gpu.name, "NVIDIA H200");
        assert_eq!(gpu.uuid.as_deref(), Some("GPU-00112233-4455-6677-8899-aabbccddeeff"));
        let unknown =
            parse_gpu("Model: \t NVIDIA A100\nGPU UUID: \t GPU-????????-????-????-????-????????????\n");
        assert_eq!((unknown.name.as_str(), unknown.uuid), ("NVIDIA A100", None));
        assert_eq!(parse_gpu(""), GpuFacts::default());
    }

    #[test]
    fn gpus_come_in_the_order_of_their_addresses_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        for (address, name) in [("0000:41:00.0", "second"), ("0000:01:00.0", "first")] {
            fs::create_dir(directory.path().join(address)).unwrap();
            let text = format!("Model: \t {name}\n");
            fs::write(directory.path().join(address).join("information"), text).unwrap();
        }
        let names = |reachable| {
            let gpus = probe_gpus(directory.path(), reachable);
            gpus.into_iter().map(|gpu| gpu.name).collect::<Vec<_>>()
        };
        assert_eq!(names(2), ["first", "second"]);
        assert_eq!(names(1), Vec::<String>::new(), "a container shows one of two");
        assert_eq!(probe_gpus(&directory.path().join("missing"), 0), []);
    }
}
