//! The facts about the host and its processor.

use std::borrow::Cow;

use super::fact::{Effect, Effects};
use super::fact::{
    Fact, OF_CUDA, OF_PROCESSOR, POOLS, REPORTED, SPLITS, apart, fact, joined, maybe_text, number, switch,
    text, whole,
};
use crate::text::{decimals, gibibytes};

/// The release of macOS contains the GPU driver, so it splits there. Elsewhere, the kernel is compared.
const OF_SYSTEM: Effects = [Effect::Reported, Effect::Reported, Effect::Splits];

/// The machine, its system and its settings.
pub(super) const HOST: &[Fact] = &[
    fact(
        REPORTED,
        "host.hostname",
        "host",
        "Containers of a machine differ in it. It splits only if no other fact identifies the machine.",
        |it| text(&it.host().hostname),
    ),
    apart(SPLITS, "host.machine.hardware", "Another machine, even with the same name."),
    apart(SPLITS, "host.machine.system", "Another machine, if hardware and boot are unknown."),
    apart(
        POOLS,
        "host.boot_id",
        "One boot is one machine. Facts that a new boot can change are compared separately.",
    ),
    fact(SPLITS, "host.os.name", "system", "Another scheduler, another memory, other libraries.", |it| {
        text(&it.host().os.name)
    }),
    fact(
        OF_SYSTEM,
        "host.os.version",
        "release",
        "Metal comes with macOS. Elsewhere, the kernel and the worker's libraries are compared.",
        |it| maybe_text(&it.host().os.version),
    ),
    fact(SPLITS, "host.os.kernel", "kernel", "Scheduler, memory and mitigations come with it.", |it| {
        maybe_text(&it.host().os.kernel)
    }),
    fact(SPLITS, "host.os.architecture", "architecture", "Other instructions.", |it| {
        text(&it.host().os.architecture)
    }),
    fact(REPORTED, "host.memory_bytes", "memory", "It limits what fits, not how fast it is.", |it| {
        it.host().memory_bytes.map(|bytes| Cow::Owned(gibibytes(bytes)))
    }),
    apart(POOLS, "host.devices", "The devices that jobs can use. The job's own device is compared."),
    fact(
        OF_CUDA,
        "host.nvidia_driver",
        "driver",
        "It compiles, launches and sets clocks; for GPUs only.",
        |it| maybe_text(&it.host().nvidia_driver),
    ),
    fact(OF_CUDA, "host.cuda_driver", "CUDA of the driver", "It comes with the driver.", |it| {
        maybe_text(&it.host().cuda_driver)
    }),
    fact(
        REPORTED,
        "host.virtualisation",
        "virtualisation",
        "Its cost depends on the kernel, and another virtual machine is another machine.",
        |it| maybe_text(&it.host().virtualisation),
    ),
    fact(
        SPLITS,
        "host.governor",
        "governor",
        "It sets the clock of the processor that computes or feeds a GPU.",
        |it| maybe_text(&it.host().governor),
    ),
    apart(SPLITS, "host.power_source", "On battery, all clocks are lower."),
    fact(
        REPORTED,
        "host.container",
        "container",
        "Its limits and the worker's libraries are compared.",
        |it| maybe_text(&it.host().container),
    ),
    fact(REPORTED, "host.swap_total_bytes", "swap", "Jobs that fit into memory do not use it.", |it| {
        it.host().swap_total_bytes.map(|bytes| Cow::Owned(gibibytes(bytes)))
    }),
    apart(POOLS, "host.swap_used_bytes", "It differs before every job."),
    fact(
        OF_PROCESSOR,
        "host.transparent_huge_pages",
        "transparent huge pages",
        "Tensors in main memory are slower with small pages.",
        |it| maybe_text(&it.host().transparent_huge_pages),
    ),
    fact(SPLITS, "host.clock_source", "clock source", "Reading a slow clock takes a system call.", |it| {
        maybe_text(&it.host().clock_source)
    }),
    fact(
        SPLITS,
        "host.kernel_options",
        "kernel options",
        "Mitigations, idle states, isolated processors.",
        |it| joined(&it.host().kernel_options, " "),
    ),
];

/// The limits of the control group.
pub(super) const CGROUP: &[Fact] = &[
    fact(
        REPORTED,
        "host.cgroup.memory_bytes",
        "memory limit",
        "A process that exceeds it is killed, not slowed.",
        |it| it.host().cgroup?.memory_bytes.map(|bytes| Cow::Owned(gibibytes(bytes))),
    ),
    fact(
        SPLITS,
        "host.cgroup.memory_high_bytes",
        "memory before throttling",
        "A process that exceeds it is slowed.",
        |it| it.host().cgroup?.memory_high_bytes.map(|bytes| Cow::Owned(gibibytes(bytes))),
    ),
    fact(SPLITS, "host.cgroup.cpus", "processor quota", "The kernel pauses processes beyond it.", |it| {
        it.host().cgroup?.cpus.map(|cpus| Cow::Owned(decimals(cpus, 3)))
    }),
    fact(SPLITS, "host.cgroup.processors", "processors allowed", "Fewer processors compute less.", |it| {
        it.host().cgroup?.processors.and_then(number)
    }),
];

/// The processor, which computes or feeds a GPU.
pub(super) const PROCESSOR: &[Fact] = &[
    fact(SPLITS, "host.cpu.model", "processor", "Another processor.", |it| maybe_text(&it.host().cpu.model)),
    fact(SPLITS, "host.cpu.logical", "processors", "The machine was resized, or some are offline.", |it| {
        number(it.host().cpu.logical)
    }),
    fact(SPLITS, "host.cpu.usable", "usable processors", "Fewer processors compute less.", |it| {
        number(it.host().cpu.usable)
    }),
    apart(POOLS, "host.cpu.allowed", "The usable processors and the quota are compared."),
    fact(SPLITS, "host.cpu.cores", "cores", "Threads that share a core share its arithmetic.", |it| {
        it.host().cpu.cores.and_then(number)
    }),
    fact(SPLITS, "host.cpu.smt", "SMT", "Threads that share a core share its arithmetic.", |it| {
        switch(it.host().cpu.smt)
    }),
    fact(SPLITS, "host.cpu.numa_nodes", "NUMA nodes", "They determine the distance to memory.", |it| {
        it.host().cpu.numa_nodes.and_then(number)
    }),
    fact(
        OF_PROCESSOR,
        "host.cpu.microcode",
        "microcode",
        "Its mitigations slow vector instructions.",
        |it| maybe_text(&it.host().cpu.microcode),
    ),
    fact(SPLITS, "host.cpu.turbo", "turbo", "Without it, the nominal clock is the limit.", |it| {
        switch(it.host().cpu.turbo)
    }),
    fact(
        SPLITS,
        "host.cpu.frequency_driver",
        "frequency driver",
        "Governors of one name differ between drivers.",
        |it| maybe_text(&it.host().cpu.frequency_driver),
    ),
    fact(REPORTED, "host.cpu.min_mhz", "lowest clock", "Of the hardware. Training never runs at it.", |it| {
        whole(it.host().cpu.min_mhz, "MHz")
    }),
    fact(
        REPORTED,
        "host.cpu.max_mhz",
        "highest clock",
        "Of the hardware. The system's cap is compared.",
        |it| whole(it.host().cpu.max_mhz, "MHz"),
    ),
    fact(SPLITS, "host.cpu.cap_mhz", "clock cap", "The limit of all clocks.", |it| {
        whole(it.host().cpu.cap_mhz, "MHz")
    }),
];
