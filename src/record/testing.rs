//! A record for tests.

use super::{HostFacts, MatrixFacts, Observed, Outcome, Provenance, RECORD_SCHEMA, Record, WorkerFacts};
use crate::job::{Job, Key};

/// The record of attempt `attempt` of the example job.
pub(crate) fn record(attempt: u32, outcome: Outcome) -> Record {
    let job = Job::new(Key::example());
    Record {
        schema: RECORD_SCHEMA,
        id: job.id(),
        label: job.label(),
        key: job.key().clone(),
        attempt,
        started_at: Default::default(),
        ended_at: Default::default(),
        outcome,
        measurement: None,
        process: None,
        counters: None,
        observed: Observed::default(),
        provenance: Provenance {
            orchestrate: "0".into(),
            host: HostFacts::default(),
            worker: WorkerFacts::default(),
            matrix: MatrixFacts::example(),
            git: None,
            cloud: None,
            command: Vec::new(),
            environment: Default::default(),
            variables: None,
        },
    }
}
