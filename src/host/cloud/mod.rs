//! The machine's place in the cloud, and its provider's announcements about it, from the machine's metadata service.
//! `run` asks for the place once per run, and for announcements while a job runs; `doctor` and `env` ask once.
//!
//! A machine asks only if its firmware is that of such a cloud, or if its environment names a service. It waits a
//! second at most, and keeps only provider, region, zone and machine type.
//!
//! | module | contents |
//! |---|---|
//! | [`answers`] | parsers of the services' answers; pure |
//! | [`http`] | one request over HTTP, bounded in time and size |
//! | [`service`] | the requests to each provider's service |
//! | [`signs`] | the services that this machine may have |

mod answers;
mod http;
mod service;
mod signs;

#[cfg(test)]
pub(super) use answers::parse_all;
pub use service::{InCloud, MetadataService};
pub use signs::{AZURE_VARIABLE, TIMEOUT_VARIABLE, probe_cloud};
