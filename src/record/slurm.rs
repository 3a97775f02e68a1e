//! The Slurm task of an attempt, from the variables that Slurm sets for it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The task of Slurm in which an attempt ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlurmFacts {
    /// The cluster's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The partition's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// Slurm's name of the node. It can differ from the host's own name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The task, as Slurm's own programs name it: `4711_3`.
    pub task: String,
    /// How often Slurm restarted it. `None` if never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarts: Option<u32>,
}

impl SlurmFacts {
    /// The task that `environment` belongs to; `None` outside of Slurm.
    pub fn of(environment: &BTreeMap<String, String>) -> Option<SlurmFacts> {
        let of = |name: &str| environment.get(name).filter(|value| !value.is_empty()).cloned();
        let in_array = || Some(format!("{}_{}", of("SLURM_ARRAY_JOB_ID")?, of("SLURM_ARRAY_TASK_ID")?));
        Some(SlurmFacts {
            task: in_array().or_else(|| of("SLURM_JOB_ID"))?,
            cluster: of("SLURM_CLUSTER_NAME"),
            partition: of("SLURM_JOB_PARTITION"),
            node: of("SLURMD_NODENAME"),
            restarts: of("SLURM_RESTART_COUNT").and_then(|count| count.parse().ok()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_read_from_the_variables_of_slurm() {
        let variables = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        assert_eq!(SlurmFacts::of(&variables(&[("SLURMD_NODENAME", "n1")])), None);
        let alone = SlurmFacts::of(&variables(&[("SLURM_JOB_ID", "12"), ("SLURMD_NODENAME", "n1")])).unwrap();
        assert_eq!((alone.task.as_str(), alone.node.as_deref(), alone.restarts), ("12", Some("n1"), None));
        let task = SlurmFacts::of(&variables(&[
            ("SLURM_JOB_ID", "14"),
            ("SLURM_ARRAY_JOB_ID", "12"),
            ("SLURM_ARRAY_TASK_ID", "3"),
            ("SLURM_RESTART_COUNT", "1"),
            ("SLURM_CLUSTER_NAME", "alpha"),
            ("SLURM_JOB_PARTITION", ""),
        ]));
        let task = task.unwrap();
        assert_eq!((task.task.as_str(), task.restarts, task.partition), ("12_3", Some(1), None));
        assert_eq!(task.cluster.as_deref(), Some("alpha"));
    }
}
