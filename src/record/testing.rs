//! Records for tests.

use super::{Evidence, MatrixFacts, Observed, Outcome, Provenance, RECORD_SCHEMA, Record};
use crate::job::Key;

/// The record of attempt `attempt` of the example job.
pub(crate) fn record(attempt: u32, outcome: Outcome) -> Record {
    Record { attempt, ..record_of(Key::example(), outcome) }
}

/// The record of the first attempt of the job of `key`, without a measurement or observations.
pub(crate) fn record_of(key: Key, outcome: Outcome) -> Record {
    Record {
        schema: RECORD_SCHEMA,
        id: key.id(),
        label: key.label(),
        key,
        attempt: 1,
        started_at: Default::default(),
        ended_at: Default::default(),
        outcome,
        measurement: None,
        process: None,
        counters: None,
        observed: Observed::default(),
        provenance: provenance().into(),
        evidence: Some(Evidence::default()),
    }
}

/// An example provenance.
pub(crate) fn provenance() -> Provenance {
    Provenance {
        orchestrate: "0".into(),
        host: Default::default(),
        worker: Default::default(),
        matrix: MatrixFacts::example().into(),
        git: None,
        cloud: None,
        cloud_source: None,
        command: Vec::new(),
        environment: Default::default(),
        variables: None,
        slurm: None,
        useless_locks: Default::default(),
        secret: None,
        locks: None,
    }
}
