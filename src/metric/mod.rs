//! The names of GPU metrics: their meaning, synonyms, and the replacements of outdated names.
//! The matrix calls it to check names, `record::ncu` to choose and parse metrics. It depends on no other room. It
//! never contains a value and never asks a device: the metrics of a device are an argument.

mod name;
mod translate;

pub use name::{
    BadCapability, Capability, CoreFormat, CoreOperation, Meaning, TensorPath, core_bases, disjoint_paths,
    split_names,
};
pub use translate::{Translation, UnknownMetric, translate, unknown_metrics};
