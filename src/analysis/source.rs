//! Where the values of a column come from.

use strum::EnumIter;

/// Where the values of a column come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumIter)]
pub enum Source {
    /// The matrix.
    Matrix,
    /// The worker.
    Worker,
    /// `orchestrate` itself, which ran the attempt.
    Orchestrate,
    /// `/usr/bin/time`.
    Time,
    /// The host.
    Host,
    /// Sensors.
    Sensors,
    /// Nsight Compute.
    Ncu,
    /// `perf`.
    Perf,
    /// Nsight Compute or `perf`.
    Profiler,
    /// A file of peaks.
    Peaks,
    /// Other values.
    Computed,
}

impl Source {
    /// Its name in the manual and in the schema of the tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Matrix => "matrix",
            Source::Worker => "worker",
            Source::Orchestrate => "orchestrate",
            Source::Time => "time",
            Source::Host => "host",
            Source::Sensors => "sensors",
            Source::Ncu => "ncu",
            Source::Perf => "perf",
            Source::Profiler => "ncu or perf",
            Source::Peaks => "peaks",
            Source::Computed => "computed",
        }
    }

    /// What stands behind the name, for the manual.
    pub fn meaning(self) -> &'static str {
        match self {
            Source::Matrix => "What the matrix declares, as it stands in the key of the job.",
            Source::Worker => "What the worker reports in `measurement.json`.",
            Source::Orchestrate => {
                "What `orchestrate` saw while it ran the attempt. It stands in `record.json`."
            }
            Source::Time => "What `/usr/bin/time` reports of the worker and its children.",
            Source::Host => "What the host tells of itself: its kernel, its files, its environment.",
            Source::Sensors => {
                "What sensors showed once per second, or the difference of a counter between two moments."
            }
            Source::Ncu => "What Nsight Compute counted in a job of its own.",
            Source::Perf => "What `perf` counted in a job of its own.",
            Source::Profiler => "Either of the two, as its line says.",
            Source::Peaks => "What the peaks file of the device says.",
            Source::Computed => "What `orchestrate` computes from the others.",
        }
    }
}
