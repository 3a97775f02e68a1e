use serde::{Deserialize, Serialize};

/// The profiler's settings in a profiled job. A timing job has the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Profile {
    /// Measured iterations. `None` means one for `ncu` and those of the config for `perf`. For `ncu`, they are rounded
    /// up to whole optimizer steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iters: Option<u32>,
    /// Names of the metrics (`ncu`) or events (`perf`) to count; empty for those of the tables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<String>,
}

impl Profile {
    /// Whether it has only defaults.
    pub fn is_default(&self) -> bool {
        *self == Profile::default()
    }
}
