//! A cached job, [`Entry`]: its record, in which parts that other records share are replaced by their numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use chrono::serde::ts_nanoseconds;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::parts::{Config, ReadParts, WrittenParts};
use super::stamps::Stamps;
use crate::job::{JobId, Key};
use crate::protocol::{Measurement, OperatorProfile, OwnMetric, SampleUnit};
use crate::record::{
    CloudSource, Counters, Evidence, FileDigest, LockReach, Observed, Outcome, ProcessStats, Provenance,
    Record, SlurmFacts,
};
use crate::shared::Shared;

/// A cached job.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The name of its directory.
    pub(super) name: String,
    pub(super) stamps: Stamps,
    schema: u32,
    id: JobId,
    label: String,
    config: u32,
    repeat: u32,
    attempt: u32,
    #[serde(with = "ts_nanoseconds")]
    started_at: DateTime<Utc>,
    #[serde(with = "ts_nanoseconds")]
    ended_at: DateTime<Utc>,
    outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    measurement: Option<MeasurementEntry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    process: Option<ProcessStats>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    counters: Option<Counters>,
    observed: Observed,
    provenance: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    evidence: Option<EvidenceEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct EvidenceEntry {
    /// The names of the files.
    files: u32,
    /// The bytes of each file, and their SHA-256.
    digests: Vec<(u64, [u8; 32])>,
}

#[derive(Debug, Serialize, Deserialize)]
struct MeasurementEntry {
    samples: u64,
    elapsed_s: f64,
    synchronized: bool,
    effective: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unit: Option<SampleUnit>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    metrics: BTreeMap<String, OwnMetric>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ops: Option<Shared<OperatorProfile>>,
    details: u32,
}

/// A provenance, made of the numbers of its parts.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProvenanceEntry {
    orchestrate: String,
    host: u32,
    worker: u32,
    matrix: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    git: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cloud: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cloud_source: Option<CloudSource>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    slurm: Option<SlurmFacts>,
    environment: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    variables: Option<u32>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    useless_locks: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<BTreeSet<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    locks: Option<LockReach>,
}

impl Entry {
    /// The entry of the job in the directory `name`. Writes new parts to `out`.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub(super) fn of(
        name: String,
        stamps: Stamps,
        record: &Record,
        parts: &mut WrittenParts,
        out: &mut impl Write,
    ) -> io::Result<Entry> {
        // Exhaustive, so that a new field of a record is not forgotten here.
        let Record {
            schema,
            id,
            label,
            key,
            attempt,
            started_at,
            ended_at,
            outcome,
            measurement,
            process,
            counters,
            observed,
            provenance,
            evidence,
        } = record;
        let measurement = match measurement {
            Some(measurement) => Some(MeasurementEntry::of(measurement, parts, out)?),
            None => None,
        };
        let evidence = match evidence {
            Some(evidence) => Some(EvidenceEntry::of(evidence, parts, out)?),
            None => None,
        };
        Ok(Entry {
            name,
            stamps,
            schema: *schema,
            id: *id,
            label: label.clone(),
            config: parts.config.number(&Config(Key { repeat: 1, ..key.clone() }), out)?,
            repeat: key.repeat,
            attempt: *attempt,
            started_at: *started_at,
            ended_at: *ended_at,
            outcome: outcome.clone(),
            measurement,
            process: process.clone(),
            counters: counters.clone(),
            observed: observed.clone(),
            provenance: ProvenanceEntry::number(provenance, parts, out)?,
            evidence,
        })
    }

    /// The record. `None` if it refers to an unknown part.
    pub(super) fn record(self, parts: &ReadParts) -> Option<Record> {
        let measurement = match self.measurement {
            Some(measurement) => Some(measurement.measurement(parts)?),
            None => None,
        };
        let evidence = match self.evidence {
            Some(evidence) => Some(evidence.evidence(parts)?),
            None => None,
        };
        Some(Record {
            schema: self.schema,
            id: self.id,
            label: self.label,
            key: Key { repeat: self.repeat, ..parts.config.get(self.config)?.0 },
            attempt: self.attempt,
            started_at: self.started_at,
            ended_at: self.ended_at,
            outcome: self.outcome,
            measurement,
            process: self.process,
            counters: self.counters,
            observed: self.observed,
            provenance: parts.provenance.get(self.provenance)?,
            evidence,
        })
    }
}

impl MeasurementEntry {
    fn of(
        measurement: &Measurement,
        parts: &mut WrittenParts,
        out: &mut impl Write,
    ) -> io::Result<MeasurementEntry> {
        let Measurement { samples, elapsed_s, synchronized, effective, unit, metrics, ops, details } =
            measurement;
        Ok(MeasurementEntry {
            samples: *samples,
            elapsed_s: *elapsed_s,
            synchronized: *synchronized,
            effective: parts.effective.number(effective, out)?,
            unit: unit.clone(),
            metrics: metrics.clone(),
            ops: ops.clone(),
            details: parts.details.number(details, out)?,
        })
    }

    fn measurement(self, parts: &ReadParts) -> Option<Measurement> {
        Some(Measurement {
            samples: self.samples,
            elapsed_s: self.elapsed_s,
            synchronized: self.synchronized,
            effective: parts.effective.get(self.effective)?,
            unit: self.unit,
            metrics: self.metrics,
            ops: self.ops,
            details: parts.details.get(self.details)?,
        })
    }
}

impl EvidenceEntry {
    fn of(evidence: &Evidence, parts: &mut WrittenParts, out: &mut impl Write) -> io::Result<EvidenceEntry> {
        let (names, digests) = evidence.parts();
        Ok(EvidenceEntry {
            files: parts.files.number(names, out)?,
            digests: digests.iter().map(|FileDigest { bytes, sha256 }| (*bytes, *sha256)).collect(),
        })
    }

    fn evidence(self, parts: &ReadParts) -> Option<Evidence> {
        let digests = self.digests.into_iter().map(|(bytes, sha256)| FileDigest { bytes, sha256 });
        Evidence::from_parts(parts.files.get(self.files)?, digests.collect())
    }
}

impl ProvenanceEntry {
    /// The number of `provenance`, which is written to `out` first if it is new.
    fn number(
        provenance: &Shared<Provenance>,
        parts: &mut WrittenParts,
        out: &mut impl Write,
    ) -> io::Result<u32> {
        if let Some(number) = parts.provenance.known(provenance) {
            return Ok(number);
        }
        let written = ProvenanceEntry::of(provenance, parts, out)?;
        parts.provenance.add(provenance, &written, out)
    }

    fn of(
        provenance: &Provenance,
        parts: &mut WrittenParts,
        out: &mut impl Write,
    ) -> io::Result<ProvenanceEntry> {
        let Provenance {
            orchestrate,
            host,
            worker,
            matrix,
            git,
            cloud,
            cloud_source,
            slurm,
            // Inventories do not contain commands.
            command: _,
            environment,
            variables,
            useless_locks,
            secret,
            locks,
        } = provenance;
        Ok(ProvenanceEntry {
            orchestrate: orchestrate.clone(),
            host: parts.host.number(host, out)?,
            worker: parts.worker.number(worker, out)?,
            matrix: parts.matrix.number(matrix, out)?,
            git: git.as_ref().map(|git| parts.git.number(git, out)).transpose()?,
            cloud: cloud.as_ref().map(|cloud| parts.cloud.number(cloud, out)).transpose()?,
            cloud_source: *cloud_source,
            slurm: slurm.clone(),
            environment: parts.environment.number(environment, out)?,
            variables: variables.as_ref().map(|names| parts.variables.number(names, out)).transpose()?,
            useless_locks: useless_locks.clone(),
            secret: secret.clone(),
            locks: *locks,
        })
    }

    /// The provenance. `None` if it refers to an unknown part.
    pub(super) fn provenance(self, parts: &ReadParts) -> Option<Provenance> {
        /// The part with this number, or `Some(None)` without a number; `None` if the part is unknown.
        fn part<T>(number: Option<u32>, find: impl Fn(u32) -> Option<T>) -> Option<Option<T>> {
            number.map_or(Some(None), |number| find(number).map(Some))
        }
        Some(Provenance {
            orchestrate: self.orchestrate,
            host: parts.host.get(self.host)?,
            worker: parts.worker.get(self.worker)?,
            matrix: parts.matrix.get(self.matrix)?,
            git: part(self.git, |number| parts.git.get(number))?,
            cloud: part(self.cloud, |number| parts.cloud.get(number))?,
            cloud_source: self.cloud_source,
            slurm: self.slurm,
            command: Vec::new(),
            environment: parts.environment.get(self.environment)?,
            variables: part(self.variables, |number| parts.variables.get(number))?,
            useless_locks: self.useless_locks,
            secret: self.secret,
            locks: self.locks,
        })
    }
}
