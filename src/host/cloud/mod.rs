//! Where in the cloud this machine is, and what its provider announces about it, asked of the machine's own metadata
//! service. `run` asks once per run where it is, and what is announced while a job runs; `doctor` and `env` ask once.
//!
//! Only a machine that looks like one of such a cloud asks, or one whose environment names a service. It waits a second
//! at most, and keeps nothing but provider, region, zone and machine type.
//!
//! | module | what it is |
//! |---|---|
//! | [`answers`] | what the services answer, parsed; pure |
//! | [`http`] | one question over HTTP, bounded in time and size |
//! | [`service`] | what each provider's service is asked |
//! | [`signs`] | which services this machine may have |

mod answers;
mod http;
mod service;
mod signs;

#[cfg(test)]
pub(super) use answers::parse_all;
pub use service::{InCloud, MetadataService};
pub use signs::{AZURE_VARIABLE, TIMEOUT_VARIABLE, probe_cloud};
