//! Passes the requests for pages to the thread that renders them.
#![expect(clippy::disallowed_methods, reason = "the store is polled")]

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::address::Address;
use super::directories::Directories;
use super::library::Library;
use super::pages::Shown;
use super::source::Source;
use super::viewers::{Viewer, Viewers};

/// The interval of polling the store while there are viewers. Halving it doubles the cost of live pages for a worker.
const PERIOD: Duration = Duration::from_secs(2);

/// A request to the thread.
enum Ask {
    /// A page.
    Page(Address, oneshot::Sender<Option<Arc<Shown>>>),
    /// A file beside the report of a plan.
    File(String, String, oneshot::Sender<Option<Vec<u8>>>),
    /// The state of this page, for a new viewer of it.
    Joined(Address),
}

/// The sending side of the channel to the thread.
#[derive(Clone, Debug)]
pub(super) struct Desk {
    asks: Sender<Ask>,
    viewers: Arc<Viewers>,
    directories: Arc<Directories>,
}

impl Desk {
    /// Starts a thread that renders the pages of `library` for `viewers`.
    ///
    /// # Errors
    /// The system has no more threads.
    pub(super) fn open<S: Source + 'static>(
        directories: Arc<Directories>,
        viewers: Arc<Viewers>,
        library: Library<S>,
    ) -> io::Result<Desk> {
        let (asks, questions) = channel();
        let watched = Arc::clone(&viewers);
        thread::Builder::new()
            .name("library".to_owned())
            .spawn(move || answer(library, &watched, &questions))?;
        Ok(Desk { asks, viewers, directories })
    }

    /// The page at `address`; `None` if there is none.
    pub(super) async fn page(&self, address: Address) -> Option<Arc<Shown>> {
        let (reply, answer) = oneshot::channel();
        self.asks.send(Ask::Page(address, reply)).ok()?;
        answer.await.ok()?
    }

    /// The file at `path` beside the report of `plan`; `None` if there is none.
    pub(super) async fn file(&self, plan: String, path: String) -> Option<Vec<u8>> {
        let (reply, answer) = oneshot::channel();
        self.asks.send(Ask::File(plan, path, reply)).ok()?;
        answer.await.ok()?
    }

    /// A viewer of the page at `address`; `None` if there is no such page.
    pub(super) async fn watch(&self, address: Address) -> Option<Viewer> {
        self.page(address.clone()).await?;
        let viewer = Viewers::join(&self.viewers, address.clone());
        self.asks.send(Ask::Joined(address)).ok()?;
        Some(viewer)
    }

    /// The directories of jobs.
    pub(super) fn directories(&self) -> Arc<Directories> {
        Arc::clone(&self.directories)
    }
}

/// Answers until the last desk is dropped. It sleeps while there are no viewers and no requests.
fn answer<S: Source>(mut library: Library<S>, viewers: &Viewers, questions: &Receiver<Ask>) {
    let mut polled = Instant::now();
    loop {
        let asked = match viewers.is_empty() {
            true => questions.recv().map_err(RecvTimeoutError::from),
            false => questions.recv_timeout(PERIOD.saturating_sub(polled.elapsed())),
        };
        match asked {
            // The connection may have been closed meanwhile.
            Ok(Ask::Page(address, reply)) => drop(reply.send(library.page(&address))),
            Ok(Ask::File(plan, path, reply)) => drop(reply.send(library.file(&plan, &path))),
            Ok(Ask::Joined(address)) => library.joined(&address),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if polled.elapsed() >= PERIOD {
            library.poll();
            polled = Instant::now();
        }
    }
}
