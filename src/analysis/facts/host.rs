//! The facts about the host and its processor.

use std::borrow::Cow;

use super::fact::{Effect, Effects};
use super::fact::{
    Fact, OF_CUDA, OF_PROCESSOR, POOLS, SAID, SPLITS, apart, fact, joined, maybe_text, number, switch, text,
    whole,
};
use crate::text::{decimals, gibibytes};

/// It comes with the driver of Apple's GPUs, and on other systems with the kernel.
const OF_SYSTEM: Effects = [Effect::Said, Effect::Said, Effect::Splits];

/// The machine, its system and its settings.
pub(super) const HOST: &[Fact] = &[
    fact(
        SAID,
        "host.hostname",
        "host",
        "The containers of a machine have names of their own. Where nothing else tells, the name splits.",
        |it| text(&it.host().hostname),
    ),
    apart(SPLITS, "host.machine.hardware", "Another machine, whatever its name."),
    apart(SPLITS, "host.machine.system", "Another machine, where neither hardware nor boot tells."),
    apart(
        POOLS,
        "host.boot_id",
        "One boot is one machine. What a new boot can change is compared by itself.",
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
    fact(SAID, "host.memory_bytes", "memory", "It limits what fits, not how fast it is.", |it| {
        it.host().memory_bytes.map(|bytes| Cow::Owned(gibibytes(bytes)))
    }),
    apart(POOLS, "host.devices", "What jobs can have. The job's own device is compared."),
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
        SAID,
        "host.virtualisation",
        "virtualisation",
        "What it costs shows in the kernel, and another virtual machine is another machine.",
        |it| maybe_text(&it.host().virtualisation),
    ),
    fact(
        SPLITS,
        "host.governor",
        "governor",
        "It chooses the clock of the processor that computes or feeds.",
        |it| maybe_text(&it.host().governor),
    ),
    apart(SPLITS, "host.power_source", "On battery, all clocks are lower."),
    fact(
        SAID,
        "host.container",
        "container",
        "Its limits are compared, and so are the worker's libraries.",
        |it| maybe_text(&it.host().container),
    ),
    fact(SAID, "host.swap_total_bytes", "swap", "Nothing that fits into memory uses it.", |it| {
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
    fact(
        SPLITS,
        "host.clock_source",
        "clock source",
        "Each look at a slow clock costs a system call.",
        |it| maybe_text(&it.host().clock_source),
    ),
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
    fact(SAID, "host.cgroup.memory_bytes", "memory limit", "Who exceeds it is killed, not slowed.", |it| {
        it.host().cgroup?.memory_bytes.map(|bytes| Cow::Owned(gibibytes(bytes)))
    }),
    fact(
        SPLITS,
        "host.cgroup.memory_high_bytes",
        "memory before throttling",
        "Who exceeds it is slowed.",
        |it| it.host().cgroup?.memory_high_bytes.map(|bytes| Cow::Owned(gibibytes(bytes))),
    ),
    fact(SPLITS, "host.cgroup.cpus", "processor quota", "The kernel stops whoever has used it up.", |it| {
        it.host().cgroup?.cpus.map(|cpus| Cow::Owned(decimals(cpus, 3)))
    }),
    fact(SPLITS, "host.cgroup.processors", "processors allowed", "Fewer processors compute less.", |it| {
        it.host().cgroup?.processors.and_then(number)
    }),
];

/// The processor. Where a GPU computes, it feeds the GPU.
pub(super) const PROCESSOR: &[Fact] = &[
    fact(SPLITS, "host.cpu.model", "processor", "Another processor.", |it| maybe_text(&it.host().cpu.model)),
    fact(SPLITS, "host.cpu.logical", "processors", "The machine was resized, or some are offline.", |it| {
        number(it.host().cpu.logical)
    }),
    fact(SPLITS, "host.cpu.usable", "usable processors", "Fewer processors compute less.", |it| {
        number(it.host().cpu.usable)
    }),
    apart(POOLS, "host.cpu.allowed", "The usable ones are compared, and the quota is."),
    fact(SPLITS, "host.cpu.cores", "cores", "Threads that share a core share its arithmetic.", |it| {
        it.host().cpu.cores.and_then(number)
    }),
    fact(SPLITS, "host.cpu.smt", "SMT", "Threads that share a core share its arithmetic.", |it| {
        switch(it.host().cpu.smt)
    }),
    fact(SPLITS, "host.cpu.numa_nodes", "NUMA nodes", "They decide how far memory is.", |it| {
        it.host().cpu.numa_nodes.and_then(number)
    }),
    fact(
        OF_PROCESSOR,
        "host.cpu.microcode",
        "microcode",
        "Its mitigations slow vector instructions.",
        |it| maybe_text(&it.host().cpu.microcode),
    ),
    fact(SPLITS, "host.cpu.turbo", "turbo", "Without it, clocks end at the nominal one.", |it| {
        switch(it.host().cpu.turbo)
    }),
    fact(
        SPLITS,
        "host.cpu.frequency_driver",
        "frequency driver",
        "A governor of the same name is another one under another driver.",
        |it| maybe_text(&it.host().cpu.frequency_driver),
    ),
    fact(SAID, "host.cpu.min_mhz", "lowest clock", "Of the hardware. Nobody trains at it.", |it| {
        whole(it.host().cpu.min_mhz, "MHz")
    }),
    fact(
        SAID,
        "host.cpu.max_mhz",
        "highest clock",
        "Of the hardware. What the system allows splits.",
        |it| whole(it.host().cpu.max_mhz, "MHz"),
    ),
    fact(SPLITS, "host.cpu.cap_mhz", "clock cap", "No clock is higher.", |it| {
        whole(it.host().cpu.cap_mhz, "MHz")
    }),
];
