//! The words of closed vocabularies in `measurement.json`, as its schema has them.

use schemars::{Schema, SchemaGenerator, json_schema};

use crate::job::Precision;

/// A device, as [`crate::job::Device`] reads it.
pub(super) fn device(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": "^(cpu|mps|cuda(:[0-9]{1,9})?)$" })
}

/// A precision.
pub(super) fn precision(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": Precision::ALL.map(Precision::as_str) })
}

/// The kind of a failure: any word, of which two mean something.
pub(super) fn failure_kind(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "examples": ["out_of_memory", "unsupported"] })
}
