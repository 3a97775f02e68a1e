//! The facts about the programs, the location and the files of a run.

use std::borrow::Cow;

use super::fact::{Fact, POOLS, REPORTED, SPLITS, apart, fact, joined, maybe_text, text};
use crate::record::LockReach;

/// The worker.
pub(super) const WORKER: &[Fact] = &[
    apart(POOLS, "worker.path", "Only a path. The content is compared."),
    apart(SPLITS, "worker.sha256", "Another program."),
    apart(SPLITS, "worker.others", "Another interpreter, another script."),
    apart(POOLS, "worker.libraries.path", "Only a path. The content is compared."),
    apart(POOLS, "worker.libraries.version", "Only a name. The content is compared."),
    apart(SPLITS, "worker.libraries.sha256", "Another library."),
    apart(POOLS, "worker.libraries.size_bytes", "The content is compared."),
    apart(POOLS, "worker.libraries.modified_at", "A new date does not change the content."),
];

/// The call of the worker: its caller, its arguments and environment, and its location.
pub(super) const CALL: &[Fact] = &[
    fact(
        REPORTED,
        "orchestrate",
        "orchestrate",
        "It starts and watches the worker but does not compute.",
        |it| text(&it.provenance.orchestrate),
    ),
    apart(POOLS, "matrix.name", "The declarations about a job are in its key."),
    apart(POOLS, "matrix.path", "Only a path."),
    apart(POOLS, "matrix.sha256", "The declarations about a job are in its key."),
    fact(REPORTED, "git.revision", "git revision", "A worker may import files of the checkout.", |it| {
        text(&it.provenance.git.as_ref()?.revision)
    }),
    fact(REPORTED, "git.dirty", "uncommitted changes", "A worker may import files of the checkout.", |it| {
        Some(Cow::Borrowed(if it.provenance.git.as_ref()?.dirty { "some" } else { "none" }))
    }),
    fact(REPORTED, "cloud.provider", "provider", "A location. The machine itself is compared.", |it| {
        maybe_text(&it.provenance.cloud.as_ref()?.provider)
    }),
    fact(REPORTED, "cloud.region", "region", "A location. The machine itself is compared.", |it| {
        maybe_text(&it.provenance.cloud.as_ref()?.region)
    }),
    fact(REPORTED, "cloud.zone", "zone", "A location. The machine itself is compared.", |it| {
        maybe_text(&it.provenance.cloud.as_ref()?.zone)
    }),
    fact(REPORTED, "cloud.instance", "machine type", "A location. The machine itself is compared.", |it| {
        maybe_text(&it.provenance.cloud.as_ref()?.instance)
    }),
    apart(POOLS, "cloud_source", "The source of the location. The location itself is reported."),
    fact(REPORTED, "slurm.cluster", "cluster", "The machine itself is compared.", |it| {
        maybe_text(&it.provenance.slurm.as_ref()?.cluster)
    }),
    apart(POOLS, "slurm.partition", "A queue. The machine itself is compared."),
    fact(
        REPORTED,
        "slurm.node",
        "node",
        "Its host is compared; several nodes of a test can be on one host.",
        |it| maybe_text(&it.provenance.slurm.as_ref()?.node),
    ),
    apart(POOLS, "slurm.task", "Each task has another one."),
    apart(POOLS, "slurm.restarts", "A restarted task begins a new attempt."),
    apart(POOLS, "command", "It contains the paths of the job. The resulting settings are compared."),
    apart(SPLITS, "environment", "Variables configure libraries. Those that only contain paths pool."),
    apart(POOLS, "variables", "The names of declared variables. Their values are compared."),
    apart(POOLS, "secret", "The names of secret variables. Only their presence is compared."),
    fact(REPORTED, "useless_locks", "useless locks", "Another job may have run at the same time.", |it| {
        let kinds: Vec<&str> = it.provenance.useless_locks.iter().map(String::as_str).collect();
        joined(&kinds, " and ")
    }),
    fact(REPORTED, "locks", "reach of the locks", "Another job may have run at the same time.", |it| {
        Some(Cow::Borrowed(match it.provenance.locks? {
            LockReach::Host => "host",
            LockReach::Container => "container",
            LockReach::Service => "service",
            LockReach::User => "user",
        }))
    }),
];
