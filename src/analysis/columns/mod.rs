//! The columns of every CSV file of a report, each declared once.

mod axis;
mod breakdown;
mod class;
mod comparison;
mod curve;
mod exclusion;
mod failure;
mod history;
mod job;
mod job_line;
mod offer;
mod own;
mod point;
mod price;
mod run;
mod sensors;
mod shared;
mod summary;
mod trace;

pub(super) use axis::{axis_columns, effect_columns};
pub(super) use breakdown::{TimeLine, breakdown_columns, time_columns};
pub(super) use class::class_columns;
pub(super) use comparison::comparison_columns;
pub(super) use curve::{CurveLine, curve_columns};
pub(super) use exclusion::exclusion_columns;
pub(super) use failure::{FailureLine, failure_columns};
pub(super) use history::history_columns;
pub(super) use job::job_columns;
pub(super) use job_line::JobLine;
pub(super) use offer::{OfferLine, offer_columns};
pub(super) use point::{PointLine, point_columns};
pub(super) use run::{RunLine, run_columns};
pub(super) use shared::{OfRow, config_columns, host_column, part_column};
pub(super) use summary::summary_columns;
pub(super) use trace::{TraceLine, trace_columns};
