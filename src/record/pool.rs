//! Saves memory for many records: [`Pool`] drops fields that tables do not need and shares equal parts.

use std::collections::{BTreeMap, BTreeSet};

use super::{CloudFacts, GitFacts, HostFacts, MatrixFacts, Provenance, Record, WorkerFacts};
use crate::job::{Key, ModelName, Name, Params, WorkerTemplate};
use crate::protocol::{Details, Effective, ITERATIONS_VARIABLE, MEASUREMENT_VARIABLE};
use crate::shared::{Recent, Shared};

/// Makes records share equal parts, and drops the fields that only the page of one job shows. A store can have a
/// hundred thousand records.
#[derive(Debug, Default)]
pub struct Pool {
    envs: Recent<Name>,
    models: Recent<ModelName>,
    params: Recent<Params>,
    workers: Recent<WorkerTemplate>,
    effective: Recent<Shared<Effective>>,
    details: Recent<Shared<Details>>,
    host: Recent<Shared<HostFacts>>,
    worker: Recent<Shared<WorkerFacts>>,
    matrix: Recent<Shared<MatrixFacts>>,
    git: Recent<Shared<GitFacts>>,
    cloud: Recent<Shared<CloudFacts>>,
    environment: Recent<Shared<BTreeMap<String, String>>>,
    variables: Recent<Shared<BTreeSet<String>>>,
    files: Recent<Shared<Vec<String>>>,
    provenance: Recent<Shared<Provenance>>,
}

impl Pool {
    /// `record` without its command and without the paths that were passed to its worker. Those differ from job to job,
    /// and no number or decision depends on them.
    pub fn lean(&mut self, mut record: Record) -> Record {
        self.share_key(&mut record.key);
        if let Some(measurement) = &mut record.measurement {
            self.effective.share(&mut measurement.effective);
            self.details.share(&mut measurement.details);
        }
        self.share_provenance(&mut record.provenance);
        if let Some(evidence) = &mut record.evidence {
            self.files.share(evidence.names_mut());
        }
        record
    }

    fn share_key(&mut self, key: &mut Key) {
        self.envs.share(&mut key.env);
        self.models.share(&mut key.model);
        self.params.share(&mut key.params);
        self.workers.share(&mut key.worker);
    }

    fn share_provenance(&mut self, provenance: &mut Shared<Provenance>) {
        self.share_parts(provenance);
        self.provenance.share(provenance);
    }

    fn share_parts(&mut self, provenance: &mut Provenance) {
        let Provenance {
            orchestrate: _,
            host,
            worker,
            matrix,
            git,
            cloud,
            cloud_source: _,
            slurm: _,
            command,
            environment,
            variables,
            useless_locks: _,
            secret: _,
            locks: _,
        } = provenance;
        *command = Vec::new();
        for path in [MEASUREMENT_VARIABLE, ITERATIONS_VARIABLE] {
            // A removal unshares the environment, so it happens only where needed.
            if environment.contains_key(path) {
                environment.remove(path);
            }
        }
        self.host.share(host);
        self.worker.share(worker);
        self.matrix.share(matrix);
        self.environment.share(environment);
        git.iter_mut().for_each(|git| self.git.share(git));
        cloud.iter_mut().for_each(|cloud| self.cloud.share(cloud));
        variables.iter_mut().for_each(|variables| self.variables.share(variables));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::super::testing::record;
    use super::*;

    #[test]
    fn a_lean_record_lacks_only_its_call() {
        let mut whole = record(1, Outcome::Succeeded);
        whole.provenance.command = vec!["/opt/worker".into(), "--batch".into(), "4".into()];
        whole.provenance.environment = BTreeMap::from(
            [(MEASUREMENT_VARIABLE, "/a"), (ITERATIONS_VARIABLE, "/b"), ("OMP_NUM_THREADS", "1")]
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
        )
        .into();
        let mut pool = Pool::default();
        let lean = pool.lean(whole.clone());
        assert_eq!(lean.provenance.environment.keys().collect::<Vec<_>>(), ["OMP_NUM_THREADS"]);
        assert!(lean.provenance.command.is_empty());
        let again = Record { provenance: whole.provenance.clone(), ..lean.clone() };
        assert_eq!(again, whole);
        // Changing one record does not change the others.
        let mut other = pool.lean(whole);
        other.provenance.host.hostname = "elsewhere".into();
        assert_ne!(other, lean);
        assert_eq!(pool.lean(again), lean);
    }
}
