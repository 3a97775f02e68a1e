//! What columns of our tables are to an audit, which reads those tables as it reads the ledgers of other scripts.

/// What a column is to an audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The number of runs that the line stands for.
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
    /// What distinguishes the config or the row from others of the same network, precision and batch.
    Setting,
    /// Whether the line enters the statistics: `true` or `false`.
    Counts,
}
