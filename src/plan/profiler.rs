//! How a profiler is called, as data: the words between `time` and the worker.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::protocol::NVTX_RANGE;
use crate::record::ncu::Selection;

/// A profiler that is ready to be called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Profiler {
    /// NVIDIA's Nsight Compute.
    Ncu {
        /// The absolute path of the program.
        program: String,
        /// Its version, where it says one.
        version: Option<String>,
        /// The metrics to count; at least one.
        metrics: Vec<String>,
        /// Metrics that it is not asked for, although somebody might look for them, and why.
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
    /// Its version, where it is known.
    pub fn version(&self) -> Option<&str> {
        match self {
            Profiler::Ncu { version, .. } => version.as_deref(),
            Profiler::Perf { .. } => None,
        }
    }

    /// The metrics or events that it is asked for, and those that it is not.
    pub fn selection(&self) -> Selection {
        match self {
            Profiler::Ncu { metrics, missing, .. } => {
                Selection { metrics: metrics.clone(), missing: missing.clone() }
            }
            Profiler::Perf { events, .. } => Selection { metrics: events.clone(), missing: BTreeMap::new() },
        }
    }

    /// The words that the worker's own follow. The profiler writes its table, and what it has to say, to `output`.
    ///
    /// `ncu` looks at the range around the measured window alone, replays each kernel as often as the metrics need, and
    /// leaves the clocks alone: locking them needs rights that many hosts do not give, and seconds are the timing jobs'
    /// affair. Each kernel begins with empty caches, as is `ncu`'s own default: replays would otherwise find there what the
    /// replay before left. The run itself may have moved fewer bytes. Its table is in base units, so that no number is rounded to three digits of a megabyte.
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
            version: None,
            metrics: vec!["a.sum".into(), "b.sum".into()],
            missing: BTreeMap::new(),
        };
        assert_eq!(
            ncu.argv("/runs/x/ncu.csv").join(" "),
            "/opt/ncu --target-processes all --nvtx --nvtx-include orchestrate/ --clock-control none --cache-control all --replay-mode \
             kernel --metrics a.sum,b.sum --csv --page raw --print-units base --log-file /runs/x/ncu.csv"
        );
    }

    #[test]
    fn the_words_of_perf() {
        let perf = Profiler::Perf {
            program: "/usr/bin/perf".into(),
            events: vec!["cycles".into(), "faults".into()],
        };
        assert_eq!(
            perf.argv("/runs/x/perf.csv").join(" "),
            "/usr/bin/perf stat -x, -o /runs/x/perf.csv -e cycles,faults --"
        );
    }
}
