use serde::{Deserialize, Serialize};

/// What a profiled job asks of its profiler, beside the config that it runs. A timing job's is the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Profile {
    /// Measured iterations; `None` where it is not said: one for `ncu`, the config's own for `perf`. `ncu` makes them up to whole
    /// optimizer steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iters: Option<u32>,
    /// Names of the metrics (`ncu`) or events (`perf`) to count; empty for those that the tables need.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<String>,
}

impl Profile {
    /// Whether it asks for nothing of its own.
    pub fn is_default(&self) -> bool {
        *self == Profile::default()
    }
}
