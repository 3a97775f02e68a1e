//! The viewers of each page, and the channels that notify them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::address::Address;

/// The state of a page that its viewers are notified of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// The version of the page; 0 before it is known.
    pub(super) version: u64,
    /// The sizes of the logs of a job, in bytes.
    pub(super) logs: BTreeMap<String, u64>,
    /// The last readings of the sensors for a running job.
    pub(super) sensors: String,
}

/// The pages with viewers. Each has one channel for all of its viewers.
#[derive(Debug, Default)]
pub(super) struct Viewers {
    watched: Mutex<HashMap<Address, watch::Sender<News>>>,
}

/// An open page. Dropping it ends the view.
#[derive(Debug)]
pub(super) struct Viewer {
    news: watch::Receiver<News>,
    address: Address,
    viewers: Arc<Viewers>,
}

impl Viewers {
    /// Another viewer of the page at `address`.
    pub(super) fn join(viewers: &Arc<Viewers>, address: Address) -> Viewer {
        let mut watched = viewers.watched();
        let channel = watched.entry(address.clone()).or_insert_with(|| watch::channel(News::default()).0);
        Viewer { news: channel.subscribe(), address, viewers: Arc::clone(viewers) }
    }

    /// The pages with viewers.
    pub(super) fn addresses(&self) -> Vec<Address> {
        self.watched().keys().cloned().collect()
    }

    /// Whether there are no viewers.
    pub(super) fn is_empty(&self) -> bool {
        self.watched().is_empty()
    }

    /// Whether the page at `address` has a viewer.
    pub(super) fn has(&self, address: &Address) -> bool {
        self.watched().contains_key(address)
    }

    /// Wakes the viewers of `address` if the news differ from the last ones.
    pub(super) fn announce(&self, address: &Address, news: News) {
        if let Some(channel) = self.watched().get(address) {
            channel.send_if_modified(|known| {
                let differs = *known != news;
                *known = news;
                differs
            });
        }
    }

    fn watched(&self) -> MutexGuard<'_, HashMap<Address, watch::Sender<News>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Viewer {
    /// The last news.
    pub(super) fn news(&mut self) -> News {
        self.news.borrow_and_update().clone()
    }

    /// Waits for other news. `None` if there will be none.
    pub(super) async fn changed(&mut self) -> Option<()> {
        self.news.changed().await.ok()
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let mut watched = self.viewers.watched();
        if watched.get(&self.address).is_some_and(|channel| channel.receiver_count() <= 1) {
            watched.remove(&self.address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_page_is_watched_until_its_last_viewer_leaves() {
        let viewers = Arc::new(Viewers::default());
        let plan = || Address::Plan("a".to_owned());
        let (mut one, other) = (Viewers::join(&viewers, plan()), Viewers::join(&viewers, plan()));
        let third = Viewers::join(&viewers, Address::Index);
        assert_eq!(viewers.addresses().len(), 2);
        drop((other, third));
        assert_eq!(viewers.addresses(), [plan()]);
        viewers.announce(&plan(), News { version: 7, ..News::default() });
        one.changed().await.unwrap();
        assert_eq!(one.news().version, 7);
        viewers.announce(&Address::Index, News::default());
        drop(one);
        assert!(viewers.is_empty());
    }
}
