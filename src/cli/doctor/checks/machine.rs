//! Findings about power, GPUs, memory, virtualisation and clocks. Pure.

use crate::cli::doctor::facts::gpu_name;
use crate::cli::doctor::finding::{Finding, Severity};
use crate::host::GpuProcess;
use crate::host::survey::Survey;
use crate::record::{GpuFacts, HostFacts, LockReach};
use crate::text::{decimals, size_text};

pub(super) fn battery(survey: &Survey) -> Option<Finding> {
    (survey.host.power_source.as_deref() == Some("battery")).then(|| Finding {
        code: "battery",
        severity: Severity::Spoils,
        what: "the machine runs on battery power".to_owned(),
        why: "clocks are lower and change with the charge, and runs are marked `on-battery`",
        remedy: "plug it in".to_owned(),
    })
}

/// Processes that compute on a GPU use much of its time, those that draw little.
pub(super) fn gpu_processes(survey: &Survey) -> Option<Finding> {
    let computing: Vec<&GpuProcess> = survey.gpu_processes.iter().filter(|it| it.computes).collect();
    let severity = if computing.is_empty() { Severity::Note } else { Severity::Spoils };
    let shown = if computing.is_empty() { survey.gpu_processes.iter().collect() } else { computing };
    let first = shown.first()?;
    let what = match severity {
        Severity::Spoils => {
            format!("other processes compute on a GPU: {}", gpu_process_texts(&shown, &survey.host))
        }
        _ => format!("a GPU draws the screen: {}", gpu_process_texts(&shown, &survey.host)),
    };
    let (why, remedy) = match severity {
        Severity::Spoils => (
            "they use its time and memory; a run at the same time is marked `contended` and left out",
            format!("end them: `nvidia-smi` lists them, `ps -fp {}` shows the first", first.pid),
        ),
        _ => (
            "drawing uses a little of its time and memory",
            "for exact numbers, measure over ssh while the screen is not in use".to_owned(),
        ),
    };
    Some(Finding { code: "gpu_processes", severity, what, why, remedy })
}

/// `python (pid 7, 1.2 GiB) on GPU 0, pid 8 on GPU 1`
fn gpu_process_texts(processes: &[&GpuProcess], host: &HostFacts) -> String {
    let text = |it: &&GpuProcess| {
        let memory = it.memory_bytes.map_or(String::new(), |bytes| format!(", {}", size_text(bytes)));
        let name = match &it.name {
            Some(name) => format!("{name} (pid {}{memory})", it.pid),
            None => format!("pid {}{memory}", it.pid),
        };
        format!("{name} on {}", gpu_name(host, it.gpu))
    };
    processes.iter().map(text).collect::<Vec<_>>().join(", ")
}

pub(super) fn gpu_without_driver(survey: &Survey) -> Option<Finding> {
    let number = survey.gpus_without_driver;
    (number > 0).then(|| Finding {
        code: "gpu_without_driver",
        severity: Severity::Limits,
        what: format!(
            "{number} NVIDIA GPU{} without NVIDIA's driver",
            if number == 1 { " is" } else { "s are" }
        ),
        why: "jobs on `cuda` cannot run on this machine",
        remedy: "install the driver (Ubuntu: `sudo ubuntu-drivers install`), then restart the machine"
            .to_owned(),
    })
}

pub(super) fn gpu_dead(survey: &Survey) -> Option<Finding> {
    let of_gpu = |(position, gpu): (usize, &GpuFacts)| {
        let name = gpu_name(&survey.host, position);
        gpu.problem.as_ref().map(|problem| format!("{name} does not answer its driver: {problem}"))
    };
    let dead: Vec<String> = survey.host.gpus.iter().enumerate().filter_map(of_gpu).collect();
    (!dead.is_empty()).then(|| Finding {
        code: "gpu_dead",
        severity: Severity::Limits,
        what: dead.join("; "),
        why: "its jobs do not run here, and jobs on other GPUs use UUIDs, because CUDA may or may not count this one",
        remedy: "`sudo dmesg | grep -i xid` shows what happened; restart the machine".to_owned(),
    })
}

pub(super) fn gpu_persistence(survey: &Survey) -> Option<Finding> {
    let off = survey.host.gpus.iter().filter(|gpu| gpu.persistence_mode == Some(false)).count();
    // In WSL the driver belongs to Windows and stays loaded, even if it reports otherwise.
    let in_wsl = survey.host.virtualisation.as_deref().is_some_and(|layer| layer.contains("wsl"));
    (off > 0 && !in_wsl).then(|| Finding {
        code: "gpu_persistence",
        severity: Severity::Note,
        what: format!("persistence mode is off on {off} of {} GPUs", survey.host.gpus.len()),
        why: "the driver unloads and the GPU cools between jobs, so each job starts more slowly and differently",
        remedy: "`sudo nvidia-smi -pm 1`".to_owned(),
    })
}

/// Systems swap out less than this without memory pressure, too.
const LITTLE_SWAP: u64 = 64 << 20;

pub(super) fn swap(survey: &Survey) -> Option<Finding> {
    let used = survey.host.swap_used_bytes.filter(|used| *used > LITTLE_SWAP)?;
    let total = survey.host.swap_total_bytes.unwrap_or(used);
    Some(Finding {
        code: "swap",
        severity: Severity::Limits,
        what: format!("{} of {} swap are in use", size_text(used), size_text(total)),
        why: "memory has run short before, and a run that needs swapped memory waits for the disk",
        remedy: match survey.host.os.name.as_str() {
            "macos" => "close programs that use much memory, or restart the machine".to_owned(),
            _ => "close programs that use much memory, then `sudo swapoff -a && sudo swapon -a`".to_owned(),
        },
    })
}

/// Even a small network does not fit into less than this.
const TOO_LITTLE_MEMORY: u64 = 1 << 30;
/// Training the larger networks at usual batches takes this much.
const LITTLE_MEMORY: u64 = 4 << 30;

pub(super) fn memory(survey: &Survey) -> Option<Finding> {
    let usable = survey.host.usable_memory_bytes();
    let free = survey.memory_available_bytes.map(|free| usable.map_or(free, |usable| free.min(usable)));
    let free = free.filter(|free| *free < LITTLE_MEMORY)?;
    let total = usable.map_or(String::new(), |all| format!(" of {}", size_text(all)));
    let severity = if free < TOO_LITTLE_MEMORY { Severity::Spoils } else { Severity::Limits };
    Some(Finding {
        code: "memory",
        severity,
        what: format!("{}{total} memory are available", size_text(free)),
        why: "larger batches will run out of memory or be swapped",
        remedy: "close programs that use much memory (`top -o %MEM` shows them), or use small batches"
            .to_owned(),
    })
}

/// The virtualisation between the program and the hardware, apart from containers.
pub(super) fn layer(survey: &Survey) -> Option<Finding> {
    let whole = survey.host.virtualisation.as_deref()?;
    let name = whole.split('+').find(|layer| *layer != "container")?;
    let (what, why, remedy) = match name {
        "gvisor" => (
            "this is a gVisor sandbox".to_owned(),
            "system calls are expensive, other processes are invisible, and there are no hardware counters",
            "measure on a machine or in a container without gVisor (`runc`)".to_owned(),
        ),
        "wsl1" | "wsl2" => (
            format!("this is the Windows Subsystem for Linux ({name})"),
            "Windows invisibly uses processors and GPU memory, and GPU memory spills to the host without an error",
            "close other programs on Windows; for numbers to publish, measure on native Linux".to_owned(),
        ),
        _ => (
            format!("this is a virtual machine ({name})"),
            "neighbours invisibly share caches, memory and clocks; hardware counters and sensors are often missing",
            "use more `repeats` and compare only results of this machine, or measure on a dedicated machine"
                .to_owned(),
        ),
    };
    Some(Finding { code: "virtualisation", severity: Severity::Limits, what, why, remedy })
}

pub(super) fn container(survey: &Survey) -> Option<Finding> {
    let kind = survey.host.container.as_deref()?;
    Some(Finding {
        code: "container",
        severity: Severity::Note,
        what: format!("this is a container ({kind})"),
        why: "its limits on processors and memory apply, and other containers of the host are invisible",
        remedy: "keep the image's digest with the results, because the provenance does not contain it"
            .to_owned(),
    })
}

/// Locks exclude only processes that see the same directory.
pub(super) fn lock_reach(survey: &Survey) -> Option<Finding> {
    let (severity, scope, remedy) = match survey.lock_reach? {
        LockReach::Host => return None,
        LockReach::Container => (
            Severity::Limits,
            "only processes of this container",
            "mount one directory of the host into each container: \
             `-v /tmp/orchestrate-locks:/tmp/orchestrate-locks`",
        ),
        LockReach::Service => (
            Severity::Limits,
            "only processes of this service or session, which has a private /tmp",
            "set ORCHESTRATE_LOCK_DIR to one directory for all users of the host",
        ),
        LockReach::User => (
            Severity::Note,
            "only processes of this user",
            "if others measure here, set ORCHESTRATE_LOCK_DIR to a directory that all of you can write, or unset it",
        ),
    };
    Some(Finding {
        code: "lock_reach",
        severity,
        what: format!("the locks in {} exclude {scope}", survey.locks.path),
        why: "other processes can measure on this host at the same time, and only their load shows that they do",
        remedy: remedy.to_owned(),
    })
}

/// A limit of memory counts only if it is less than the host's memory.
pub(super) fn cgroup_limits(survey: &Survey) -> Option<Finding> {
    let host = &survey.host;
    let limits = host.cgroup?;
    let memory = [limits.memory_bytes, limits.memory_high_bytes].into_iter().flatten().min();
    let memory = memory.filter(|bytes| host.memory_bytes.is_none_or(|all| *bytes < all)).map(|bytes| {
        let of = host.memory_bytes.map_or(String::new(), |all| format!(" of {}", size_text(all)));
        format!("{}{of} of memory", size_text(bytes))
    });
    let processors = [limits.cpus, limits.processors.map(f64::from)].into_iter().flatten().reduce(f64::min);
    let processors = processors
        .filter(|number| *number < f64::from(host.cpu.logical))
        .map(|number| format!("{} of {} processors", decimals(number, 2), host.cpu.logical));
    let allowed: Vec<String> = memory.into_iter().chain(processors).collect();
    (!allowed.is_empty()).then(|| Finding {
        code: "cgroup_limits",
        severity: Severity::Note,
        what: format!("the control group allows {}", allowed.join(" and ")),
        why: "batches run out of memory earlier than on the whole host, and threads beyond a quota are throttled: such \
              runs are marked `quota-throttled`",
        remedy: "use no more `threads` than that, or raise the limits of the container, the pod or the scheduler's job"
            .to_owned(),
    })
}

/// Sources that the kernel falls back to, and that take a microsecond or more to read.
const SLOW_CLOCKS: [&str; 5] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"];

pub(super) fn clock_source(survey: &Survey) -> Option<Finding> {
    let source = survey.host.clock_source.as_deref().filter(|source| SLOW_CLOCKS.contains(source))?;
    Some(Finding {
        code: "clock_source",
        severity: Severity::Limits,
        what: format!("the kernel reads the time from `{source}`"),
        why: "each reading takes a microsecond or more, which affects the times of single iterations",
        remedy: "`journalctl -k | grep -i clocksource` shows why the kernel rejected a faster one".to_owned(),
    })
}

pub(super) fn clock_synchronised(survey: &Survey) -> Option<Finding> {
    (survey.clock_synchronised == Some(false)).then(|| Finding {
        code: "clock_synchronised",
        severity: Severity::Note,
        what: "the clock is not synchronised with a time server".to_owned(),
        why: "durations do not depend on it, but records of several machines are ordered by it",
        remedy: "`sudo timedatectl set-ntp true`; a virtual machine might get its time from the host"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{found, sound};
    use super::*;
    use crate::record::CgroupLimits;

    fn process(computes: bool) -> GpuProcess {
        GpuProcess { gpu: 1, computes, pid: 7, name: Some("python".into()), memory_bytes: Some(3 << 29) }
    }

    #[test]
    fn power() {
        assert_eq!(
            found(|it| it.host.power_source = Some("battery".into())),
            [("battery", Severity::Spoils)]
        );
    }

    #[test]
    fn computing_processes_on_a_gpu_spoil_and_drawing_ones_are_noted() {
        let severity = |computes| found(|it| it.gpu_processes = vec![process(computes)]);
        assert_eq!(severity(true), [("gpu_processes", Severity::Spoils)]);
        assert_eq!(severity(false), [("gpu_processes", Severity::Note)]);
        let mut survey = sound();
        survey.gpu_processes = vec![process(false), process(true)];
        let finding = gpu_processes(&survey).unwrap();
        assert_eq!(finding.what, "other processes compute on a GPU: python (pid 7, 1.5 GiB) on GPU 1");
    }

    #[test]
    fn drivers() {
        assert_eq!(found(|it| it.gpus_without_driver = 1), [("gpu_without_driver", Severity::Limits)]);
        let gpu = |mode| GpuFacts { persistence_mode: Some(mode), ..GpuFacts::default() };
        assert_eq!(found(|it| it.host.gpus = vec![gpu(true)]), []);
        assert_eq!(found(|it| it.host.gpus = vec![gpu(false)]), [("gpu_persistence", Severity::Note)]);
        let dead = GpuFacts { problem: Some("it is lost".into()), ..GpuFacts::default() };
        let mut survey = sound();
        survey.host.gpus = vec![gpu(true), GpuFacts { index: Some(5), ..dead.clone() }, dead];
        let finding = gpu_dead(&survey).unwrap();
        assert_eq!(
            finding.what,
            "GPU 5 does not answer its driver: it is lost; GPU 2 does not answer its driver: it is lost"
        );
        let in_wsl = found(|it| {
            it.host.gpus = vec![gpu(false)];
            it.host.virtualisation = Some("wsl2".into());
        });
        assert_eq!(in_wsl, [("virtualisation", Severity::Limits)]);
    }

    #[test]
    fn memory_and_swap() {
        assert_eq!(found(|it| it.host.swap_used_bytes = Some(LITTLE_SWAP)), []);
        assert_eq!(found(|it| it.host.swap_used_bytes = Some(1 << 30)), [("swap", Severity::Limits)]);
        let free = |bytes| found(|it| it.memory_available_bytes = Some(bytes));
        assert_eq!(free(LITTLE_MEMORY), []);
        assert_eq!(free(LITTLE_MEMORY - 1), [("memory", Severity::Limits)]);
        assert_eq!(free(TOO_LITTLE_MEMORY - 1), [("memory", Severity::Spoils)]);
        let limited = CgroupLimits { memory_bytes: Some(LITTLE_MEMORY - 1), ..CgroupLimits::default() };
        let within = found(|it| it.host.cgroup = Some(limited));
        assert_eq!(within, [("memory", Severity::Limits), ("cgroup_limits", Severity::Note)]);
    }

    #[test]
    fn reports_locks_with_a_limited_reach() {
        for (reach, severity) in [
            (LockReach::Host, None),
            (LockReach::Container, Some(Severity::Limits)),
            (LockReach::Service, Some(Severity::Limits)),
            (LockReach::User, Some(Severity::Note)),
        ] {
            let expected: Vec<_> = severity.map(|severity| ("lock_reach", severity)).into_iter().collect();
            assert_eq!(found(|it| it.lock_reach = Some(reach)), expected, "{reach:?}");
        }
    }

    #[test]
    fn reports_limits_of_the_control_group_below_those_of_the_host() {
        let of = |limits| {
            let mut survey = sound();
            survey.host.cgroup = Some(limits);
            cgroup_limits(&survey).map(|finding| finding.what)
        };
        let limits = CgroupLimits {
            memory_bytes: Some(16 << 30),
            memory_high_bytes: Some(8 << 30),
            cpus: Some(2.5),
            processors: Some(4),
        };
        let what = "the control group allows 8.0 GiB of 32.0 GiB of memory and 2.5 of 8 processors";
        assert_eq!(of(limits).as_deref(), Some(what));
        let quota = CgroupLimits { cpus: Some(2.0), ..CgroupLimits::default() };
        assert_eq!(of(quota).as_deref(), Some("the control group allows 2 of 8 processors"));
        let wide = CgroupLimits { memory_bytes: Some(64 << 30), cpus: Some(8.0), ..CgroupLimits::default() };
        assert_eq!(of(wide), None);
    }

    #[test]
    fn names_the_virtualisation() {
        let what = |layers: &str| {
            let mut survey = sound();
            survey.host.virtualisation = Some(layers.into());
            layer(&survey).map(|finding| finding.what)
        };
        assert_eq!(what("container+kvm").as_deref(), Some("this is a virtual machine (kvm)"));
        assert_eq!(what("gvisor").as_deref(), Some("this is a gVisor sandbox"));
        assert_eq!(what("wsl2").as_deref(), Some("this is the Windows Subsystem for Linux (wsl2)"));
        assert_eq!(what("container"), None);
        assert_eq!(found(|it| it.host.container = Some("podman".into())), [("container", Severity::Note)]);
    }

    #[test]
    fn clocks() {
        assert_eq!(
            found(|it| it.host.clock_source = Some("hpet".into())),
            [("clock_source", Severity::Limits)]
        );
        assert_eq!(found(|it| it.host.clock_source = Some("kvm-clock".into())), []);
        assert_eq!(found(|it| it.clock_synchronised = Some(false)), [("clock_synchronised", Severity::Note)]);
    }
}
