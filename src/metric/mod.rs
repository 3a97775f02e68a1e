//! The names of a GPU's metrics: what they mean, which mean the same, and what to ask for instead of an outdated one.
//! The matrix calls it to check names, `record::ncu` to choose and read metrics; it knows nobody.
//! It never holds a value and never asks a device: what a device offers is an argument.

mod name;
mod translate;

pub use name::{
    BadCapability, Capability, CoreFormat, CoreOperation, Meaning, TensorPath, core_bases, disjoint_paths,
    split_names,
};
pub use translate::{Translation, UnknownMetric, translate, unknown_metrics};
