//! Polls announcements of the cloud provider about the machine while a job runs, such as its preemption: [`Notices`].
//!
//! A thread queries the machine's metadata service, over a link to its host only, and sleeps in between. A query takes
//! a millisecond every five seconds.
#![expect(clippy::disallowed_methods, reason = "a notice has a time")]

use std::convert::Infallible;
use std::time::Duration;

use chrono::Utc;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::host::{InCloud, MetadataService};
use crate::record::CloudNotice;

/// The time of the first query of a job. For shorter jobs, the service is only queried if they fail.
const FIRST: Duration = Duration::from_secs(1);

/// The interval between queries, as Amazon recommends. Providers announce at least half a minute ahead.
const EVERY: Duration = Duration::from_secs(5);

/// The announcements during one attempt.
#[derive(Debug)]
pub(super) struct Notices {
    /// `None` on a machine that is not in a cloud.
    service: Option<MetadataService>,
    seen: Vec<CloudNotice>,
}

impl Notices {
    /// No announcements yet, for a machine in `cloud`.
    pub(super) fn on(cloud: Option<&InCloud>) -> Notices {
        Notices { service: cloud.map(|cloud| cloud.service.clone()), seen: Vec::new() }
    }

    /// Queries repeatedly. Calls `note` with all announcements whenever there is a new one. Never ends.
    pub(super) async fn watch(&mut self, mut note: impl FnMut(&[CloudNotice])) -> Infallible {
        let mut pause = FIRST;
        loop {
            sleep(pause).await;
            if self.ask().await {
                note(&self.seen);
            }
            pause = EVERY;
        }
    }

    /// Queries once. Returns whether there is a new announcement.
    pub(super) async fn ask(&mut self) -> bool {
        let Some(service) = self.service.clone() else { return false };
        let kinds = spawn_blocking(move || service.notices()).await.unwrap_or_default();
        let before = self.seen.len();
        for kind in kinds {
            if self.seen.iter().all(|notice| notice.kind != kind) {
                self.seen.push(CloudNotice { kind, seen_at: Utc::now() });
            }
        }
        self.seen.len() > before
    }

    /// All announcements.
    pub(super) fn into_seen(self) -> Vec<CloudNotice> {
        self.seen
    }
}
