//! A line of `metrics.csv`: a job, and where to find what its columns show.

use super::shared::OfConfig;
use crate::analysis::group::Row;
use crate::analysis::{Cell, NoRecord, Run};
use crate::job::Key;
use crate::protocol::{Effective, Measurement};
use crate::record::{Gate, GpuTelemetry, HostFacts, Provenance, Record, Telemetry};

/// A line of `metrics.csv`.
#[derive(Clone, Copy)]
pub(in crate::analysis) struct JobLine<'a> {
    /// The job, whatever became of it.
    pub(in crate::analysis) run: &'a Run<'a>,
    /// Its row; `None` if it could belong to any of several.
    pub(in crate::analysis) row: Option<&'a Row<'a>>,
}

impl OfConfig for JobLine<'_> {
    fn key(&self) -> &Key {
        self.cell().job.key()
    }
}

impl<'a> JobLine<'a> {
    pub(super) fn cell(&self) -> &'a Cell {
        self.run.cell
    }

    /// `succeeded`, `failed` or `not_run`.
    pub(super) fn status(&self) -> &'static str {
        match &self.cell().record {
            Err(NoRecord { .. }) => "not_run",
            Ok(_) if self.measured().is_some() => "succeeded",
            Ok(_) => "failed",
        }
    }

    pub(super) fn record(&self) -> Option<&'a Record> {
        self.cell().record()
    }

    pub(super) fn measured(&self) -> Option<&'a Measurement> {
        self.cell().success().map(|(_, measured)| measured)
    }

    /// The row that pooled its run, or the only one of its config.
    pub(super) fn row_of_run(&self) -> Option<&'a Row<'a>> {
        let is_its = |row: &&Row<'_>| {
            row.part.1 == 1 || row.runs.iter().any(|run| std::ptr::eq(run.cell, self.run.cell))
        };
        self.row.filter(is_its)
    }

    pub(super) fn iterations(&self) -> Option<u64> {
        self.measured().map(|measured| measured.samples / u64::from(measured.effective.batch))
    }

    pub(super) fn samples_per_s(&self) -> Option<f64> {
        self.run.samples_per_s().filter(|_| self.cell().is_timing())
    }

    pub(super) fn training_flops(&self) -> Option<f64> {
        Some(self.row?.cost.as_ref().ok()?.training_flops())
    }

    /// What the worker reports that it did, also if the job failed.
    pub(super) fn effective(&self) -> Option<&'a Effective> {
        Some(&self.record()?.measurement.as_ref()?.effective)
    }

    pub(super) fn provenance(&self) -> Option<&'a Provenance> {
        self.record().map(|record| &*record.provenance)
    }

    pub(super) fn host(&self) -> Option<&'a HostFacts> {
        self.provenance().map(|provenance| &*provenance.host)
    }

    pub(super) fn telemetry(&self) -> Option<&'a Telemetry> {
        self.record()?.observed.telemetry.as_ref()
    }

    pub(super) fn gpu(&self) -> Option<&'a GpuTelemetry> {
        self.telemetry()?.gpu.as_ref()
    }

    pub(super) fn gate(&self) -> Option<&'a Gate> {
        self.record()?.observed.gate.as_ref()
    }
}
