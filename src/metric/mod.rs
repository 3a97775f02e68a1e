//! The names of GPU metrics: what they mean, which ones mean the same, and what replaces an outdated name.
//! The matrix calls it to check names, `record::ncu` to choose and parse metrics. It depends on no other room. It
//! never holds a value and never asks a device: what a device offers is an argument.

mod name;
mod translate;

pub use name::{
    BadCapability, Capability, CoreFormat, CoreOperation, Meaning, TensorPath, core_bases, disjoint_paths,
    split_names,
};
pub use translate::{Translation, UnknownMetric, translate, unknown_metrics};
