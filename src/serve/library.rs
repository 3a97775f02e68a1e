//! Renders and caches the pages of a store, each once for all of its viewers.
#![expect(clippy::disallowed_methods, reason = "pages are rendered again after a pause")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::address::Address;
use super::directories::Directories;
use super::logs::{Piece, logs_of, read_piece, sizes};
use super::pages::{Pages, Shown};
use super::source::{JobView, Report, Source};
use super::viewers::{News, Viewers};
use crate::files::AttemptDir;
use crate::report::File;

/// The least time between two versions of a page.
const PAUSE: Duration = Duration::from_secs(2);

/// At most one part in this many of the time is spent rendering a page, because a worker needs the processors.
const SHARE: u32 = 20;

/// The most cached pages.
const MOST: usize = 16;

/// The pages of a store.
pub(super) struct Library<S> {
    source: S,
    pages: Pages,
    directories: Arc<Directories>,
    viewers: Arc<Viewers>,
    entries: HashMap<Address, Entry>,
    /// Counts the readings of the store; 0 before the first one.
    reading: u64,
    /// Why the store cannot be read.
    trouble: Option<String>,
}

/// A cached page.
struct Entry {
    shown: Arc<Shown>,
    /// The reading of the store that it shows; `None` if its report is older than its other parts.
    reading: Option<u64>,
    effort: Effort,
    report: Option<MadeReport>,
    job: Option<OpenJob>,
}

/// The time at which a page or report was made, and how long that took.
#[derive(Clone, Copy)]
struct Effort {
    began: Instant,
    took: Duration,
}

impl Effort {
    /// Whether it is too early to make it again.
    fn is_young(&self) -> bool {
        self.began.elapsed() < PAUSE.max(self.took * SHARE)
    }
}

/// The report of a plan.
struct MadeReport {
    report: Result<Report, String>,
    /// The number of [`Source::results`] that it shows.
    results: u64,
    effort: Effort,
}

/// A job, and the attempt whose logs are shown.
struct OpenJob {
    view: JobView,
    attempt: Option<AttemptDir>,
    /// Whether the attempt is the last one of a job that is running.
    is_running: bool,
}

impl<S: Source> Library<S> {
    /// The pages of the store of `source`, for `viewers`.
    pub(super) fn new(
        source: S,
        pages: Pages,
        directories: Arc<Directories>,
        viewers: Arc<Viewers>,
    ) -> Library<S> {
        let entries = HashMap::new();
        Library { source, pages, directories, viewers, entries, reading: 0, trouble: None }
    }

    /// The page at `address`, current or a moment old. `None` if there is none.
    pub(super) fn page(&mut self, address: &Address) -> Option<Arc<Shown>> {
        self.refresh();
        let entry = self.entry(address)?;
        match entry.job.take() {
            None => Some(Arc::clone(&entry.shown)),
            // Its logs can grow without any other change.
            Some(job) => {
                let shown = self.job_page(address, &job);
                self.entries.get_mut(address)?.job = Some(job);
                Some(shown)
            }
        }
    }

    /// The file at `path` beside the report of `plan`.
    pub(super) fn file(&mut self, plan: &str, path: &str) -> Option<Vec<u8>> {
        self.refresh();
        let entry = self.entry(&Address::Plan(plan.to_owned()))?;
        let Some(MadeReport { report: Ok(Report::Files(files)), .. }) = &entry.report else { return None };
        let found = files.iter().skip(1).find(|file| file.path == path).map(|file| file.contents.clone());
        found.or_else(|| self.source.table(plan, path))
    }

    /// Polls the store, once for all pages, and wakes the viewers of those that have changed.
    pub(super) fn poll(&mut self) {
        self.refresh();
        for address in self.viewers.addresses() {
            self.announce(&address);
        }
    }

    /// The state of the page at `address`, for a new viewer of it.
    pub(super) fn joined(&mut self, address: &Address) {
        self.refresh();
        self.announce(address);
    }

    /// Reads the store again if it has changed.
    fn refresh(&mut self) {
        if self.reading == 0 || self.source.has_changed() {
            self.reading += 1;
            self.trouble = self.source.read().err();
        }
    }

    /// Wakes the viewers of `address` if its page has changed, or a log of it has grown.
    fn announce(&mut self, address: &Address) {
        let Some(entry) = self.entry(address) else { return };
        let mut news = News { version: entry.shown.version, ..News::default() };
        if let Some(OpenJob { view, attempt, is_running }) = &entry.job {
            let (dir, attempt, is_running) = (view.dir.clone(), attempt.clone(), *is_running);
            let root = self.directories.store().root();
            news.logs = attempt.map(|attempt| sizes(root, &attempt)).unwrap_or_default();
            news.sensors = if is_running { self.source.sensors(&dir) } else { String::new() };
        }
        self.viewers.announce(address, news);
    }

    /// The cached page at `address`, made again if the store was read since and its pause is over. `None` if there is
    /// no such page.
    fn entry(&mut self, address: &Address) -> Option<&mut Entry> {
        let reading = self.reading;
        let is_current = |entry: &Entry| entry.reading == Some(reading) || entry.effort.is_young();
        if !self.entries.get(address).is_some_and(is_current) {
            let old = self.entries.remove(address);
            if let Some(entry) = self.make(address, old.and_then(|entry| entry.report)) {
                self.make_room();
                self.entries.insert(address.clone(), entry);
            }
        }
        self.entries.get_mut(address)
    }

    fn make(&mut self, address: &Address, report: Option<MadeReport>) -> Option<Entry> {
        let began = Instant::now();
        let reading = Some(self.reading);
        let entry = |shown| {
            let effort = Effort { began, took: began.elapsed() };
            Entry { shown, reading, effort, report: None, job: None }
        };
        match (&self.trouble, address) {
            (Some(trouble), _) => Some(entry(self.pages.trouble(address, trouble))),
            (None, Address::Index) => Some(entry(self.pages.index(&self.source.index()))),
            (None, Address::Plan(name)) => {
                let (shown, report) = self.plan(name, report)?;
                let results = self.source.results(name);
                let reading = reading.filter(|_| report.results == results);
                let entry = entry(shown);
                // The report has a separate pause.
                let is_new = report.effort.began >= began;
                let took = entry.effort.took.saturating_sub(if is_new {
                    report.effort.took
                } else {
                    Duration::ZERO
                });
                Some(Entry { reading, effort: Effort { began, took }, report: Some(report), ..entry })
            }
            (None, Address::Job { name, attempt }) => {
                let job = self.job(name, *attempt)?;
                let shown = self.job_page(address, &job);
                Some(Entry { job: Some(job), ..entry(shown) })
            }
        }
    }

    /// Removes the oldest page without viewers if there are too many.
    fn make_room(&mut self) {
        if self.entries.len() < MOST {
            return;
        }
        let unseen = self.entries.iter().filter(|(address, _)| !self.viewers.has(address));
        let oldest = unseen.min_by_key(|(_, entry)| entry.effort.began).map(|(address, _)| address.clone());
        if let Some(address) = oldest {
            self.entries.remove(&address);
        }
    }

    /// The page of a plan, with its report: the `old` one if that is current, or too young to be made again.
    fn plan(&mut self, name: &str, old: Option<MadeReport>) -> Option<(Arc<Shown>, MadeReport)> {
        let progress = self.source.progress(name)?;
        let results = self.source.results(name);
        let is_kept = |old: &MadeReport| old.results == results || old.effort.is_young();
        let report = old.filter(is_kept).unwrap_or_else(|| {
            let began = Instant::now();
            let report = self.source.report(name);
            MadeReport { report, results, effort: Effort { began, took: began.elapsed() } }
        });
        let shown = match (&progress.problem, &report.report) {
            (Some(why), _) | (None, Ok(Report::NoResults(why)) | Err(why)) => self.pages.plan(&progress, why),
            (None, Ok(Report::Files(files))) => self.pages.report(&progress, &text_of(files)),
        };
        Some((shown, report))
    }

    /// The job whose directory is called `name`, with its attempt `number`, or its last one.
    fn job(&mut self, name: &str, number: Option<u32>) -> Option<OpenJob> {
        let view = self.source.job(name)?;
        let mut attempts = view.dir.attempts().unwrap_or_default();
        let last = attempts.last().map(AttemptDir::number);
        let attempt = match number {
            None => attempts.pop(),
            Some(number) => Some(attempts.into_iter().find(|dir| dir.number() == number)?),
        };
        let is_running = view.is_running && attempt.as_ref().map(AttemptDir::number) == last;
        Some(OpenJob { view, attempt, is_running })
    }

    fn job_page(&mut self, address: &Address, job: &OpenJob) -> Arc<Shown> {
        let OpenJob { view, attempt, is_running } = job;
        let root = self.directories.store().root();
        let logs = attempt.as_ref().map(|dir| pieces(root, dir)).unwrap_or_default();
        let sensors = if *is_running { self.source.sensors(&view.dir) } else { String::new() };
        self.pages.job(address, view, attempt.as_ref().map(AttemptDir::number), &logs, &sensors)
    }
}

/// The ends of the logs in `dir` that exist.
fn pieces(root: &Path, dir: &AttemptDir) -> Vec<(String, Piece)> {
    let piece = |(name, path): (String, PathBuf)| Some((name, read_piece(root, &path, None).ok()?));
    logs_of(dir).into_iter().filter_map(piece).collect()
}

/// The page among the `files` of a report.
fn text_of(files: &[File]) -> String {
    files.first().map(|page| String::from_utf8_lossy(&page.contents).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;
    use crate::files::JobDir;
    use crate::serve::source::{Index, Progress};
    use crate::store::Store;

    /// A store with the plan `t`. It counts readings and reports.
    #[derive(Default)]
    struct Fake {
        has_changed: bool,
        is_unreadable: bool,
        results: u64,
        reads: usize,
        reports: usize,
    }

    impl Source for Fake {
        fn has_changed(&mut self) -> bool {
            std::mem::take(&mut self.has_changed)
        }
        fn read(&mut self) -> Result<(), String> {
            self.reads += 1;
            if self.is_unreadable { Err("it <cannot> be read".to_owned()) } else { Ok(()) }
        }
        fn results(&self, _: &str) -> u64 {
            self.results
        }
        fn index(&mut self) -> Index {
            Index { plans: self.progress("t").into_iter().collect(), ..Index::default() }
        }
        fn progress(&mut self, plan: &str) -> Option<Progress> {
            (plan == "t").then(|| Progress { name: "t".to_owned(), done: self.reads, ..Progress::default() })
        }
        fn report(&mut self, _: &str) -> Result<Report, String> {
            self.reports += 1;
            let text = format!("<head></head>\n<body>\n<main>results {}</main>\n</body>", self.results);
            Ok(Report::Files(vec![File { path: "report.html".to_owned(), contents: text.into_bytes() }]))
        }
        fn table(&mut self, _: &str, _: &str) -> Option<Vec<u8>> {
            None
        }
        fn job(&mut self, _: &str) -> Option<JobView> {
            None
        }
        fn sensors(&mut self, _: &JobDir) -> String {
            String::new()
        }
    }

    fn library() -> Library<Fake> {
        let directories = Arc::new(Directories::of(Store::at(Path::new("nowhere")).unwrap()));
        Library::new(Fake::default(), Pages::built_in().unwrap(), directories, Arc::default())
    }

    fn plan() -> Address {
        Address::Plan("t".to_owned())
    }

    /// As if all pages had been made long ago.
    fn age(library: &mut Library<Fake>) {
        let long_ago = Instant::now().checked_sub(PAUSE * 2).unwrap();
        for entry in library.entries.values_mut() {
            entry.effort = Effort { began: long_ago, took: Duration::ZERO };
            if let Some(report) = &mut entry.report {
                report.effort = entry.effort;
            }
        }
    }

    #[test]
    fn a_page_is_rendered_once_per_change() {
        let mut library = library();
        assert_eq!(library.source.reads, 0, "nothing was requested yet");
        let first = library.page(&plan()).unwrap();
        for _ in 0..200 {
            assert_eq!(library.page(&plan()).unwrap().version, first.version);
        }
        age(&mut library);
        library.page(&plan());
        assert_eq!((library.source.reads, library.source.reports), (1, 1));
        // Another part has changed: only the bar is made again, not the report.
        library.source.has_changed = true;
        assert_ne!(library.page(&plan()).unwrap().version, first.version);
        assert_eq!((library.source.reads, library.source.reports), (2, 1));
        library.source = Fake { has_changed: true, results: 1, ..library.source };
        age(&mut library);
        assert!(library.page(&plan()).unwrap().html.contains("results 1"));
        assert_eq!((library.source.reads, library.source.reports), (3, 2));
    }

    #[test]
    fn a_changed_page_is_rendered_after_the_pause() {
        let mut library = library();
        let first = library.page(&plan()).unwrap();
        library.source = Fake { has_changed: true, results: 1, ..library.source };
        assert_eq!(library.page(&plan()).unwrap().version, first.version);
        assert_eq!((library.source.reads, library.source.reports), (2, 1));
        age(&mut library);
        assert!(library.page(&plan()).unwrap().html.contains("results 1"));
    }

    #[test]
    fn rejects_unknown_names_and_reports_an_unreadable_store() {
        let mut library = library();
        assert!(library.page(&Address::Plan("u".to_owned())).is_none());
        assert!(library.page(&Address::Job { name: "j".to_owned(), attempt: None }).is_none());
        assert!(library.file("t", "figures/x.svg").is_none());
        library.source = Fake { has_changed: true, is_unreadable: true, ..library.source };
        age(&mut library);
        let shown = library.page(&plan()).unwrap();
        assert_eq!(shown.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(shown.html.contains("it &lt;cannot&gt; be read"), "{}", shown.html);
        library.source = Fake { has_changed: true, is_unreadable: false, ..library.source };
        age(&mut library);
        assert_eq!(library.page(&plan()).unwrap().status, StatusCode::OK);
    }

    #[test]
    fn old_pages_without_viewers_are_removed() {
        let mut library = library();
        let watched = Viewers::join(&library.viewers, plan());
        library.page(&plan());
        let kept = Arc::clone(&library.entries[&plan()].shown);
        for number in 0..2 * MOST {
            library.make_room();
            let began = Instant::now();
            let effort = Effort { began, took: Duration::ZERO };
            let entry = Entry { shown: Arc::clone(&kept), reading: None, effort, report: None, job: None };
            library.entries.insert(Address::Plan(number.to_string()), entry);
        }
        assert_eq!(library.entries.len(), MOST);
        assert!(library.entries.contains_key(&plan()));
        drop(watched);
    }
}
