//! A job: one config, one repeat, one kind.
//! Every room may call it, because it depends on none.
//! It never contains observations: a key is the declaration of a job, without facts about a host or a run.
//!
//! [`Key`] is everything *declared* about a job. The [`JobId`] is the hash of its canonical JSON, and names the job's
//! directory in the store. So changing a declared value makes another job. Changing anything else (the matrix's name,
//! the order, the host, the worker's bytes) does not.
//!
//! A [`Job`] is a key with its id. It can only be made from a key, so the two always agree.

#[cfg(test)]
pub(crate) mod arbitrary;
mod canonical;
mod config;
mod declared;
mod finite;
mod id;
mod key;
mod misread;
mod name;
mod parameter;
mod parameter_type;
mod params;
mod passed;
mod placeholder;
mod profile;
mod repeats;
mod state;
mod value;
mod varying;
mod word;

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use config::ConfigOf;
pub use declared::{Declared, DeclaredEnv};
pub use finite::Finite;
pub use id::{JobId, ParseJobIdError};
pub use key::{KEY_SCHEMA, Key, WorkerTemplate};
pub use name::{ModelName, Name, Named, OfFile, OfModel, ParseNameError, Rule};
pub use parameter::{
    Declaration, Need, PARAMETERS, Parameter, Reported, SYNTHETIC_FLAG, Splits, WrongParameter, parameter,
};
pub use parameter_type::{ParameterDefault, ParameterType};
pub use params::Params;
pub use placeholder::{Part, parts, placeholders};
pub use profile::{OPS_ITERS, Profile};
pub use repeats::Repeats;
pub use state::{State, Tally};
pub use value::{DataSource, ParamValue};
pub use varying::{distinction, varying_parameters};
pub use word::{Device, Kind, Optimizer, Precision, UnknownWord};

/// One job: a [`Key`] and its id. Copies share the key. In JSON it is its key, from which the id follows.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    key: Arc<Key>,
    id: JobId,
}

impl Job {
    /// The job that `key` declares.
    pub fn new(key: Key) -> Self {
        let id = key.id();
        Job { key: Arc::new(key), id }
    }

    /// Everything declared about the job.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// SHA-256 of the key's canonical JSON.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// [`Key::label`].
    pub fn label(&self) -> String {
        self.key.label()
    }

    /// The job's directory below the store: `<label>-<12 hex of id>`.
    pub fn dir_name(&self) -> String {
        format!("{}-{}", self.label(), self.id.short())
    }
}

impl Serialize for Job {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.key.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Job {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Key::deserialize(deserializer).map(Job::new)
    }
}

impl From<Key> for Job {
    fn from(key: Key) -> Self {
        Job::new(key)
    }
}
