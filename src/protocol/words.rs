//! The words of vocabularies in `measurement.json`, as its schema has them.

use schemars::{Schema, SchemaGenerator, json_schema};

use super::own_metric::{LONGEST_WORD, MOST_METRICS, OwnMetric};
use super::sample_unit::LONGEST_UNIT;
use crate::job::Precision;

/// A device, as [`crate::job::Device`] reads it.
pub(super) fn device(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": "^(cpu|mps|cuda(:[0-9]{1,9})?)$" })
}

/// A precision.
pub(super) fn precision(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": Precision::ALL.map(Precision::as_str) })
}

/// The kind of a failure: any word, of which two have a defined meaning.
pub(super) fn failure_kind(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "examples": ["out_of_memory", "unsupported"] })
}

/// The name of a worker's samples, as [`super::SampleUnit`] reads it; or `null`.
pub(super) fn sample_unit(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "null"], "pattern": format!("^[A-Za-z0-9_-]{{1,{LONGEST_UNIT}}}$") })
}

/// Metrics that the worker defines, by names that columns can have.
pub(super) fn metrics(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": MOST_METRICS,
        "propertyNames": { "pattern": format!("^[a-z][a-z0-9_]{{0,{}}}$", LONGEST_WORD - 1) },
        "additionalProperties": generator.subschema_for::<OwnMetric>(),
    })
}
