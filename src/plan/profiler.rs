//! The call of a profiler, as data: the words between `time` and the worker.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::protocol::NVTX_RANGE;
use crate::record::ncu::Selection;

/// A profiler that is ready to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Profiler {
    /// NVIDIA Nsight Compute.
    Ncu {
        /// The absolute path of the program.
        program: String,
        /// Its version, if known.
        version: Option<String>,
        /// The metrics to count; at least one.
        metrics: Vec<String>,
        /// Metrics that are not counted, although users might expect them, with the reasons.
        missing: BTreeMap<String, String>,
    },
    /// `perf stat`.
    Perf {
        /// The absolute path of the program.
        program: String,
        /// The events to count; at least one.
        events: Vec<String>,
    },
}

impl Profiler {
    /// Its version, if known.
    pub fn version(&self) -> Option<&str> {
        match self {
            Profiler::Ncu { version, .. } => version.as_deref(),
            Profiler::Perf { .. } => None,
        }
    }

    /// The metrics or events to count, and those that are not counted.
    pub fn selection(&self) -> Selection {
        match self {
            Profiler::Ncu { metrics, missing, .. } => {
                Selection { metrics: metrics.clone(), missing: missing.clone() }
            }
            Profiler::Perf { events, .. } => Selection { metrics: events.clone(), missing: BTreeMap::new() },
        }
    }

    /// The words in front of the worker's. The profiler writes its table and its messages to `output`.
    ///
    /// `ncu` only profiles the range around the measured window, and replays each kernel as often as the metrics need.
    /// It does not lock the clocks: that needs permissions that many hosts do not grant, and times come from the timing
    /// jobs. Each kernel begins with empty caches, which is `ncu`'s default. Otherwise, replays would find the data of
    /// the previous replay. So the run itself might have moved fewer bytes. The table is in base units, so numbers are
    /// not rounded to three digits of a megabyte.
    pub fn argv(&self, output: &str) -> Vec<String> {
        let words = |program: &str, words: &[&str]| -> Vec<String> {
            std::iter::once(program).chain(words.iter().copied()).map(str::to_owned).collect()
        };
        match self {
            Profiler::Ncu { program, metrics, .. } => {
                let range = format!("{NVTX_RANGE}/");
                let metrics = metrics.join(",");
                words(
                    program,
                    &[
                        "--target-processes",
                        "all",
                        "--nvtx",
                        "--nvtx-include",
                        &range,
                        "--clock-control",
                        "none",
                        "--cache-control",
                        "all",
                        "--replay-mode",
                        "kernel",
                        "--metrics",
                        &metrics,
                        "--csv",
                        "--page",
                        "raw",
                        "--print-units",
                        "base",
                        "--log-file",
                        output,
                    ],
                )
            }
            Profiler::Perf { program, events } => {
                words(program, &["stat", "-x,", "-o", output, "-e", &events.join(","), "--"])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_ncu() {
        let ncu = Profiler::Ncu {
            program: "/opt/ncu".into(),
            version: Some("2026.1".into()),
            metrics: vec!["a.sum".into(), "b.sum".into()],
            missing: BTreeMap::from([("c.sum".into(), "unknown".into())]),
        };
        let Selection { metrics, missing } = ncu.selection();
        assert_eq!((ncu.version(), metrics.len(), missing.len()), (Some("2026.1"), 2, 1));
        assert_eq!(
            ncu.argv("/runs/x/ncu.csv").join(" "),
            "/opt/ncu --target-processes all --nvtx --nvtx-include orchestrate/ --clock-control none \
             --cache-control all --replay-mode kernel --metrics a.sum,b.sum --csv --page raw --print-units base --log-file /runs/x/ncu.csv"
        );
    }

    #[test]
    fn the_words_of_perf() {
        let perf = Profiler::Perf {
            program: "/usr/bin/perf".into(),
            events: vec!["cycles".into(), "faults".into()],
        };
        let Selection { metrics, missing } = perf.selection();
        assert_eq!((perf.version(), metrics.len(), missing.len()), (None, 2, 0));
        assert_eq!(
            perf.argv("/runs/x/perf.csv").join(" "),
            "/usr/bin/perf stat -x, -o /runs/x/perf.csv -e cycles,faults --"
        );
    }
}
