//! The order in which a matrix declares the values of its axes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ModelName, Name, ParamValue, Precision};

/// The envs of a matrix, and the values of their axes, in its order. Tables, figures and lists show rows in it:
/// resnet18 before resnet152 and `small` before `large`. It is not part of any key.
///
/// It is empty for plans of older versions. Values that it lacks come last, sorted by value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Declared {
    /// The envs.
    pub envs: Vec<DeclaredEnv>,
}

/// The values of the axes of an env.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeclaredEnv {
    /// Its name.
    pub name: Name,
    /// The networks.
    pub models: Vec<ModelName>,
    /// The precisions.
    pub precisions: Vec<Precision>,
    /// The batches.
    pub batches: Vec<u32>,
    /// The values of the parameters that have several, by name.
    pub params: BTreeMap<String, Vec<ParamValue>>,
}

impl Declared {
    /// Whether it has no envs.
    pub fn is_empty(&self) -> bool {
        self.envs.is_empty()
    }
}
