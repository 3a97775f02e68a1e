//! The facts about the programs, the place and the files of a run.

use std::borrow::Cow;

use super::fact::{Fact, POOLS, SAID, SPLITS, apart, fact, joined, maybe_text, text};
use crate::record::LockReach;

/// The worker.
pub(super) const WORKER: &[Fact] = &[
    apart(POOLS, "worker.path", "A place. Its bytes are compared."),
    apart(SPLITS, "worker.sha256", "Another program."),
    apart(SPLITS, "worker.others", "Another interpreter, another script."),
    apart(POOLS, "worker.libraries.path", "A place. Its bytes are compared."),
    apart(POOLS, "worker.libraries.version", "A name. Its bytes are compared."),
    apart(SPLITS, "worker.libraries.sha256", "Another library."),
    apart(POOLS, "worker.libraries.size_bytes", "Its bytes are compared."),
    apart(POOLS, "worker.libraries.modified_at", "A new date changes no byte."),
];

/// What the worker was told, by whom, and where.
pub(super) const CALL: &[Fact] = &[
    fact(
        SAID,
        "orchestrate",
        "orchestrate",
        "It starts and watches the worker, and computes nothing.",
        |it| text(&it.provenance.orchestrate),
    ),
    apart(POOLS, "matrix.name", "What a matrix declares of a job is the job's key."),
    apart(POOLS, "matrix.path", "A place."),
    apart(POOLS, "matrix.sha256", "What a matrix declares of a job is the job's key."),
    fact(SAID, "git.revision", "git revision", "A worker may import files of the checkout.", |it| {
        text(&it.provenance.git.as_ref()?.revision)
    }),
    fact(SAID, "git.dirty", "uncommitted changes", "A worker may import files of the checkout.", |it| {
        Some(Cow::Borrowed(if it.provenance.git.as_ref()?.dirty { "some" } else { "none" }))
    }),
    fact(SAID, "cloud.provider", "provider", "A place. What the machine shows is compared.", |it| {
        maybe_text(&it.provenance.cloud.as_ref()?.provider)
    }),
    fact(SAID, "cloud.region", "region", "A place. What the machine shows is compared.", |it| {
        maybe_text(&it.provenance.cloud.as_ref()?.region)
    }),
    fact(SAID, "cloud.zone", "zone", "A place. What the machine shows is compared.", |it| {
        maybe_text(&it.provenance.cloud.as_ref()?.zone)
    }),
    fact(SAID, "cloud.instance", "machine type", "A place. What the machine shows is compared.", |it| {
        maybe_text(&it.provenance.cloud.as_ref()?.instance)
    }),
    apart(POOLS, "cloud_source", "Who tells the place. The place itself is said."),
    fact(SAID, "slurm.cluster", "cluster", "What the machine shows is compared.", |it| {
        maybe_text(&it.provenance.slurm.as_ref()?.cluster)
    }),
    apart(POOLS, "slurm.partition", "A queue. What the machine shows is compared."),
    fact(
        SAID,
        "slurm.node",
        "node",
        "Its host is compared; several nodes of a test can be on one host.",
        |it| maybe_text(&it.provenance.slurm.as_ref()?.node),
    ),
    apart(POOLS, "slurm.task", "Each task has its own."),
    apart(POOLS, "slurm.restarts", "A restarted task begins a new attempt."),
    apart(POOLS, "command", "It holds the paths of the job. The settings that come of it are compared."),
    apart(SPLITS, "environment", "Variables steer libraries. Those that only name places pool."),
    apart(POOLS, "variables", "Which of them are declared. Their values are compared."),
    apart(POOLS, "secret", "Which of them are secret. Whether they are set is compared."),
    fact(SAID, "useless_locks", "useless locks", "Others may have measured at the same time.", |it| {
        let kinds: Vec<&str> = it.provenance.useless_locks.iter().map(String::as_str).collect();
        joined(&kinds, " and ")
    }),
    fact(SAID, "locks", "reach of the locks", "Others may have measured at the same time.", |it| {
        Some(Cow::Borrowed(match it.provenance.locks? {
            LockReach::Host => "host",
            LockReach::Container => "container",
            LockReach::Service => "service",
            LockReach::User => "user",
        }))
    }),
];
