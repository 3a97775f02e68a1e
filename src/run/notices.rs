//! What the provider of a machine in the cloud announces while a job runs on it: that it takes the machine away, say.
//!
//! The machine's metadata service is asked, over a link that leaves the machine no further than its host, by a thread
//! that sleeps in between. One round takes a millisecond every five seconds.
#![expect(clippy::disallowed_methods, reason = "a notice is seen at a moment")]

use std::convert::Infallible;
use std::time::Duration;

use chrono::Utc;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::host::{InCloud, MetadataService};
use crate::record::CloudNotice;

/// When a job is asked about first. Shorter ones are many, and only those that fail are asked about.
const FIRST: Duration = Duration::from_secs(1);

/// The time between two rounds, as Amazon recommends it. A provider announces half a minute ahead, at least.
const EVERY: Duration = Duration::from_secs(5);

/// What was announced during one attempt.
#[derive(Debug)]
pub(super) struct Notices {
    /// `None` on a machine that is in no cloud.
    service: Option<MetadataService>,
    seen: Vec<CloudNotice>,
}

impl Notices {
    /// None yet, on the machine that is in `cloud`.
    pub(super) fn on(cloud: Option<&InCloud>) -> Notices {
        Notices { service: cloud.map(|cloud| cloud.service.clone()), seen: Vec::new() }
    }

    /// Asks again and again. Calls `note` with all that was announced, each time when it is more. Never ends.
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

    /// Asks what is announced now. Returns whether something is new.
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

    /// What was announced.
    pub(super) fn into_seen(self) -> Vec<CloudNotice> {
        self.seen
    }
}
