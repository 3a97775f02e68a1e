//! The facts about the job's GPU, and about the GPUs that were visible to it.

use std::borrow::Cow;

use super::fact::{
    Effect, Effects, Fact, OF_CUDA, OF_GPUS, OF_MPS, POOLS, apart, fact, maybe_text, number, text,
};
use super::fact::{switch, whole};
use crate::text::gibibytes;

/// Reported only for jobs on NVIDIA GPUs.
const REPORTED_OF_CUDA: Effects = [Effect::Pools, Effect::Reported, Effect::Pools];

/// The GPU of the job. The other GPUs of the host have no effect.
pub(super) const GPU: &[Fact] = &[
    fact(OF_GPUS, "host.gpus.name", "GPU", "Another GPU.", |it| text(&it.gpu?.name)),
    fact(OF_CUDA, "host.gpus.uuid", "GPU UUID", "GPUs of one model differ in their clocks.", |it| {
        maybe_text(&it.gpu?.uuid)
    }),
    fact(OF_CUDA, "host.gpus.memory_bytes", "GPU memory", "Some models are sold with several sizes.", |it| {
        it.gpu?.memory_bytes.map(|bytes| Cow::Owned(gibibytes(bytes)))
    }),
    fact(
        OF_CUDA,
        "host.gpus.compute_capability",
        "compute capability",
        "Libraries choose other kernels.",
        |it| maybe_text(&it.gpu?.compute_capability),
    ),
    fact(OF_MPS, "host.gpus.cores", "GPU cores", "Chips of one name are sold with several numbers.", |it| {
        it.gpu?.cores.and_then(number)
    }),
    fact(OF_CUDA, "host.gpus.power_limit_w", "power limit", "Under load, it determines the clock.", |it| {
        whole(it.gpu?.power_limit_w, "W")
    }),
    fact(
        REPORTED_OF_CUDA,
        "host.gpus.persistence_mode",
        "persistence mode",
        "It shortens the start, which is outside the window.",
        |it| switch(it.gpu?.persistence_mode),
    ),
    fact(OF_CUDA, "host.gpus.ecc", "ECC", "It costs bandwidth on some models.", |it| switch(it.gpu?.ecc)),
    apart(POOLS, "host.gpus.index", "A number. The GPU itself is compared."),
    apart(POOLS, "host.gpus.problem", "A GPU that does not answer runs no job."),
    apart(
        POOLS,
        "host.gpus.instances.uuid",
        "New with each partition. The worker's variable names the part.",
    ),
    fact(
        OF_CUDA,
        "host.gpus.instances.memory_bytes",
        "parts of the GPU",
        "They share its bandwidth.",
        |it| {
            let sizes = |bytes: Option<u64>| bytes.map_or_else(|| "not reported".to_owned(), gibibytes);
            let parts = it.gpu?.instances.as_ref()?.iter().map(|part| sizes(part.memory_bytes));
            Some(Cow::Owned(parts.collect::<Vec<_>>().join(" + ")))
        },
    ),
];

/// The value of `CUDA_VISIBLE_DEVICES`.
pub(super) const VISIBLE: &[Fact] = &[
    apart(POOLS, "host.cuda_visible_devices.variable", "Names of GPUs. The GPU itself is compared."),
    apart(POOLS, "host.cuda_visible_devices.entries.entry", "A name. The GPU itself is compared."),
    apart(POOLS, "host.cuda_visible_devices.entries.gpu", "A position. The GPU itself is compared."),
    apart(POOLS, "host.cuda_visible_devices.entries.instance", "The worker's own variable names the part."),
];
