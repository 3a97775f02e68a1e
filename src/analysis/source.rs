//! The source of the values of a column.

use strum::EnumIter;

/// The source of the values of a column.
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

    /// The meaning of the name, for the manual.
    pub fn meaning(self) -> &'static str {
        match self {
            Source::Matrix => "Declared by the matrix, as in the key of the job.",
            Source::Worker => "Reported by the worker in `measurement.json`.",
            Source::Orchestrate => "Observed by `orchestrate` during the attempt. It is in `record.json`.",
            Source::Time => "Reported by `/usr/bin/time` for the worker and its children.",
            Source::Host => "Reported by the host: its kernel, its files, its environment.",
            Source::Sensors => {
                "Read from sensors once per second, or the difference of a counter between two times."
            }
            Source::Ncu => "Counted by Nsight Compute in a separate job.",
            Source::Perf => "Counted by `perf` in a separate job.",
            Source::Profiler => "Either of the two, as the line says.",
            Source::Peaks => "From the peaks file of the device.",
            Source::Computed => "Computed by `orchestrate` from the others.",
        }
    }
}
