//! Gathers the present host and workers, which [`crate::plan::changes`] compares with the records of jobs.

use super::Programs;
use super::find::own_program;
use crate::job::Device;
use crate::plan::{Inventory, Plan, Present};
use crate::record::{GpuFacts, HostFacts};

/// The host and workers with which the done jobs of `plan` would run now on `host`.
pub fn probe_present(
    programs: &mut Programs,
    plan: &Plan,
    inventory: &Inventory,
    host: &HostFacts,
) -> Present {
    let workers = programs.workers_of_done(plan, inventory, host);
    let environment = Some(programs.surroundings().ambient.clone());
    Present { workers, gpus: reachable_gpus(host), environment, slurm: finds_slurm(), ssh: finds_ssh() }
}

/// Whether jobs can be submitted to Slurm from this host.
fn finds_slurm() -> bool {
    !["sbatch", "squeue", "scancel", "scontrol"].iter().any(|name| own_program(name).is_none())
}

/// Whether jobs can be sent to other hosts from this host.
fn finds_ssh() -> bool {
    own_program("ssh").is_some()
}

/// The NVIDIA GPUs of `host`, in the numbering of jobs. Empty if its driver reports more or fewer than can be used: in
/// a container, they cannot be matched then.
fn reachable_gpus(host: &HostFacts) -> Vec<GpuFacts> {
    if let Some(visible) = &host.cuda_visible_devices {
        let numbers = (0..).map(Device::Cuda).take(visible.entries.len());
        return numbers.map(|device| host.gpu(device).cloned().unwrap_or_default()).collect();
    }
    let reachable = host.devices.iter().filter(|device| device.starts_with("cuda:")).count();
    let dead = host.gpus.iter().filter(|gpu| gpu.problem.is_some()).count();
    if host.gpus.len() == reachable + dead { host.gpus.clone() } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{VisibleGpu, VisibleGpus};

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
        let mut dead = host(&["cpu", "cuda", "cuda:0"]);
        dead.gpus[1].problem = Some("it is lost".to_owned());
        assert_eq!(reachable_gpus(&dead).len(), 2, "the other keeps its position");
        let entry = |gpu| VisibleGpu { gpu, ..VisibleGpu::default() };
        let entries = vec![entry(Some(1)), entry(None), entry(Some(0))];
        let shown = VisibleGpus { variable: "1,GPU-x,0".to_owned(), entries };
        dead.cuda_visible_devices = Some(shown);
        let names: Vec<String> = reachable_gpus(&dead).into_iter().map(|gpu| gpu.name).collect();
        assert_eq!(names, ["second", "", "first"], "in the numbering of jobs");
    }
}
