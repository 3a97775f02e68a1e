//! Roles of our columns in an audit, which reads our tables like the ledgers of other scripts.

/// The role of a column in an audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The number of runs in the line.
    Runs,
    /// Samples per second.
    Throughput,
    /// The standard deviation of that.
    ThroughputSd,
    /// Samples of the measured window.
    Samples,
    /// Seconds of the measured window.
    Window,
    /// Attained GFLOP/s.
    Attained,
    /// The compute roof in GFLOP/s.
    Peak,
    /// A setting that distinguishes the config or the row from others of the same network, precision and batch.
    Setting,
    /// Whether the line enters the statistics: `true` or `false`.
    Counts,
}
