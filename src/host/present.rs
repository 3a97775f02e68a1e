//! What jobs would run with now, for [`crate::plan::changes`] to compare with their records.

use super::Programs;
use crate::plan::{Inventory, Plan, Present};
use crate::record::{GpuFacts, HostFacts};

/// What the done jobs of `plan` would run with on `host` now.
pub fn probe_present(
    programs: &mut Programs,
    plan: &Plan,
    inventory: &Inventory,
    host: &HostFacts,
) -> Present {
    let workers = programs.workers_of_done(plan, inventory, &host.hostname);
    let environment = Some(programs.surroundings().ambient.clone());
    Present { workers, gpus: reachable_gpus(host), environment }
}

/// The NVIDIA GPUs of `host`, numbered as workers number them. Empty if its driver reports more or fewer than can be
/// used: in a container, it is then unknown which is which.
fn reachable_gpus(host: &HostFacts) -> Vec<GpuFacts> {
    let reachable = host.devices.iter().filter(|device| device.starts_with("cuda:")).count();
    if host.gpus.len() == reachable { host.gpus.clone() } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_known_only_if_all_of_them_can_be_used() {
        let gpu = |name: &str| GpuFacts { name: name.to_owned(), ..GpuFacts::default() };
        let host = |devices: &[&str]| HostFacts {
            devices: devices.iter().map(|device| (*device).to_owned()).collect(),
            gpus: vec![gpu("first"), gpu("second")],
            ..HostFacts::default()
        };
        assert_eq!(reachable_gpus(&host(&["cpu", "cuda", "cuda:0", "cuda:1"])).len(), 2);
        assert_eq!(reachable_gpus(&host(&["cpu", "cuda", "cuda:0"])), [], "a container shows one of two");
        assert_eq!(reachable_gpus(&host(&["cpu"])), []);
    }
}
