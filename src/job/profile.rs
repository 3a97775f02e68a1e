use serde::{Deserialize, Serialize};

/// The iterations that a job of the kind `ops` profiles by default. The first can still differ from the others, which
/// the second and third reveal.
pub const OPS_ITERS: u32 = 3;

/// The profiler's settings in a profiled job. A timing job has the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Profile {
    /// Iterations under the profiler. `None` means one for `ncu`, those of the config for `perf`, and
    /// [`OPS_ITERS`] for `ops`. For `ncu` and `ops`, they are rounded up to whole optimizer steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iters: Option<u32>,
    /// Names of the metrics (`ncu`) or events (`perf`) to count; empty for those of the tables, and for `ops`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<String>,
}

impl Profile {
    /// Whether it has only defaults.
    pub fn is_default(&self) -> bool {
        *self == Profile::default()
    }
}
