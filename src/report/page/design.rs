//! The design of the matrix: the jobs of each env.

use std::collections::{BTreeSet, HashMap};

use indexmap::IndexMap;
use serde::Serialize;

use super::facts::{Fact, fact};
use crate::analysis::Analysis;
use crate::job::{ConfigOf, Key, WorkerTemplate};
use crate::text::first_few;

/// The timing jobs of an env.
#[derive(Debug, Serialize)]
pub(super) struct DesignRow {
    env: String,
    device: String,
    models: String,
    precisions: String,
    batches: String,
    configs: usize,
    repeats: String,
    jobs: usize,
}

/// One line per env, in the order of the rows.
pub(super) fn design(analysis: &Analysis<'_>) -> Vec<DesignRow> {
    let mut by_env: IndexMap<&str, Vec<&Key>> = IndexMap::new();
    for key in timing_keys(analysis) {
        by_env.entry(key.env.as_str()).or_default().push(key);
    }
    by_env.into_iter().map(|(env, keys)| design_row(env, &keys)).collect()
}

fn timing_keys<'a>(analysis: &Analysis<'a>) -> impl Iterator<Item = &'a Key> {
    analysis.runs.iter().filter(|run| run.cell.is_timing()).map(|run| run.cell.job.key())
}

fn design_row(env: &str, keys: &[&Key]) -> DesignRow {
    let listed = |word: fn(&Key) -> String| {
        let mut seen = Vec::new();
        for word in keys.iter().map(|key| word(key)) {
            if !seen.contains(&word) {
                seen.push(word);
            }
        }
        first_few(&seen)
    };
    let batches: BTreeSet<u32> = keys.iter().map(|key| key.batch).collect();
    let mut repeats: HashMap<ConfigOf<'_>, usize> = HashMap::new();
    for key in keys {
        *repeats.entry(ConfigOf::new(key)).or_default() += 1;
    }
    let (least, most) = (repeats.values().min(), repeats.values().max());
    DesignRow {
        env: env.to_owned(),
        device: listed(|key| key.device.to_string()),
        models: listed(|key| key.model.to_string()),
        precisions: listed(|key| key.precision.to_string()),
        batches: batches.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
        configs: repeats.len(),
        repeats: match (least, most) {
            (Some(least), Some(most)) if least < most => format!("{least} to {most}"),
            (_, most) => most.copied().unwrap_or_default().to_string(),
        },
        jobs: keys.len(),
    }
}

/// The parameters that all jobs share, except those at their defaults, and the worker.
pub(super) fn settings(analysis: &Analysis<'_>) -> Vec<Fact> {
    let Some(first) = timing_keys(analysis).next() else { return Vec::new() };
    let is_shared =
        |name: &str| timing_keys(analysis).all(|key| key.params.get(name) == first.params.get(name));
    let shared = first.params.iter().filter(|(name, _)| is_shared(name));
    let mut facts: Vec<Fact> = shared.map(|(name, value)| fact(name, value.to_string())).collect();
    let workers: BTreeSet<String> = timing_keys(analysis).map(|key| worker_text(&key.worker)).collect();
    facts.push(fact("worker", workers.into_iter().collect::<Vec<_>>().join("; ")));
    facts
}

fn worker_text(worker: &WorkerTemplate) -> String {
    match worker {
        WorkerTemplate::Shipped => "the shipped one".to_owned(),
        WorkerTemplate::Command(argv) => argv.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::StudyBuilder;

    #[test]
    fn the_configs_of_an_env_and_their_repeats_are_counted() {
        let study = StudyBuilder::new()
            .runs("cpu", "resnet18", 4, &[8.0, 8.1, 8.2])
            .runs("cpu", "resnet18", 16, &[10.0])
            .runs("other", "resnet18", 16, &[10.0, 10.1])
            .build();
        let rows = design(&analyse(&study));
        let counted =
            |row: &DesignRow| format!("{}: {} × {} = {}", row.env, row.configs, row.repeats, row.jobs);
        assert_eq!(rows.iter().map(counted).collect::<Vec<_>>(), ["cpu: 2 × 1 to 3 = 4", "other: 1 × 2 = 2"]);
    }
}
