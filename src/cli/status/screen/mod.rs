//! `status --watch` on a terminal: a full-screen view, which follows the run and scrolls. The former contents of the
//! terminal are restored at the end.
//!
//! [`scene`] has the contents, [`draw`] the layout; both are pure.

mod draw;
mod scene;

use std::io;
use std::time::{Duration, Instant};

use chrono::Utc;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::look::{Look, Sighting};
use super::overview::Overview;
use super::render::{self, Extent};
use crate::cli::output::{Layout, print};
use crate::cli::{Exit, Failure};
use crate::job::Job;
use crate::plan::{NotDone, Standing};
use crate::store::{Attempt, Store, last_samples};

use draw::{Scroll, draw};
pub(in crate::cli) use scene::sensors;
use scene::{Live, Scene};

/// The interval of reading keys.
const KEYS_PERIOD: Duration = Duration::from_millis(100);

/// The interval of reading the sensors of running jobs and drawing the screen.
const DRAW_PERIOD: Duration = Duration::from_secs(1);

/// Shows the screen until nothing is left to run, or until the user quits. Then prints the output of `status`, which
/// remains on the terminal. `None` if the terminal does not support a screen.
pub(super) fn watch(look: &mut Look<'_>) -> Option<Result<Exit, Failure>> {
    let terminal = ratatui::try_init().ok()?;
    let followed = follow(look, terminal);
    ratatui::restore();
    Some(followed.and_then(|(exit, last)| {
        if let Some(overview) = last {
            print(&look.text(&overview))?;
        }
        Ok(exit)
    }))
}

/// The last reading of the store, and how it is shown.
struct View {
    overview: Overview,
    running: Vec<Job>,
    scene: Scene,
    extent: Extent,
    scroll: Scroll,
    /// The output of `status` for a screen of this width, cached because many configs take long to format.
    table: Option<(u16, Extent, String)>,
}

/// Returns the exit code and the last overview.
#[expect(clippy::disallowed_methods, reason = "watching measures time")]
fn follow(look: &mut Look<'_>, mut terminal: DefaultTerminal) -> Result<(Exit, Option<Overview>), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // The signals are caught, so that the terminal is restored however the program ends.
        let mut end = EndSignals::listen()?;
        let (mut seen, sighting) = look.see()?;
        let mut view = View::new(sighting, Extent::Short, Scroll::default());
        loop {
            if view.overview.is_settled() {
                return Ok((Exit::Done, Some(view.overview)));
            }
            view.read_running(&look.store);
            terminal.draw(|frame| {
                view.set_table(frame.area().width);
                let table = view.table.as_ref().map_or("", |(_, _, text)| text);
                draw(frame, &view.scene, table, Utc::now(), &mut view.scroll);
            })?;
            tokio::select! {
                is_quit = view.handle_keys() => if is_quit? { return Ok((Exit::Done, Some(view.overview))) },
                () = end.next() => return Ok((Exit::Interrupted, None)),
            }
            if seen.is_over(&look.store) {
                let (next, sighting) = look.see()?;
                (seen, view) = (next, View::new(sighting, view.extent, view.scroll));
            }
        }
    })
}

impl View {
    fn new(sighting: Sighting, extent: Extent, scroll: Scroll) -> View {
        let Sighting { overview, running, ids, inventory } = sighting;
        let ended = ids.iter().filter_map(|id| match inventory.jobs.get(id)? {
            Standing::Done(record) | Standing::NotDone(NotDone::Failed(record)) => Some(&**record),
            Standing::NotDone(_) => None,
        });
        let scene = Scene::new(&overview, ended);
        View { overview, running, scene, extent, scroll, table: None }
    }

    /// Reads the start times and sensors of running jobs from their directories.
    fn read_running(&mut self, store: &Store) {
        let live = |job: &Job| {
            let attempts = store.job_dir(job).attempts().unwrap_or_default();
            let Some(attempt) = attempts.last() else { return Live::default() };
            let started_at = Attempt::load(attempt).ok().map(|attempt| attempt.started_at);
            Live { started_at, samples: last_samples(&attempt.telemetry()) }
        };
        self.scene.set_running(self.running.iter().map(|job| (job, live(job))), &self.overview.varying);
    }

    /// Formats the table again if the width of the screen or the extent has changed.
    fn set_table(&mut self, width: u16) {
        if self.table.as_ref().is_none_or(|(known, extent, _)| (*known, *extent) != (width, self.extent)) {
            let text = render::text(&self.overview, self.extent, Layout::Lines(Some(width)));
            self.table = Some((width, self.extent, text));
        }
    }

    /// Handles keys until the screen has to be drawn again. Returns whether the user quits.
    #[expect(clippy::disallowed_methods, reason = "watching measures time")]
    async fn handle_keys(&mut self) -> io::Result<bool> {
        let began = Instant::now();
        while began.elapsed() < DRAW_PERIOD {
            let mut has_changed = false;
            while event::poll(Duration::ZERO)? {
                match event::read()? {
                    Event::Key(key) if is_quit_key(key) => return Ok(true),
                    Event::Key(key) => has_changed |= self.handle_key(key),
                    Event::Resize(..) => has_changed = true,
                    _ => {}
                }
            }
            if has_changed {
                break;
            }
            tokio::time::sleep(KEYS_PERIOD).await;
        }
        Ok(false)
    }

    /// Handles `key`. Returns whether it has a meaning.
    fn handle_key(&mut self, key: KeyEvent) -> bool {
        let page = isize::try_from(self.scroll.room).unwrap_or(isize::MAX);
        match key.code {
            _ if key.kind == KeyEventKind::Release => return false,
            KeyCode::Down | KeyCode::Char('j') => self.scroll.by(1),
            KeyCode::Up | KeyCode::Char('k') => self.scroll.by(-1),
            KeyCode::PageDown | KeyCode::Char(' ') => self.scroll.by(page),
            KeyCode::PageUp => self.scroll.by(-page),
            KeyCode::Home | KeyCode::Char('g') => self.scroll.by(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.scroll.by(isize::MAX),
            KeyCode::Char('a') => self.extent = self.extent.other(),
            _ => return false,
        }
        true
    }
}

/// Whether `key` is `q`, Escape or Ctrl-C, which is an ordinary key in raw mode.
fn is_quit_key(key: KeyEvent) -> bool {
    let is_ctrl_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    is_ctrl_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
}

/// The signals that end a program.
struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl EndSignals {
    fn listen() -> io::Result<EndSignals> {
        Ok(EndSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
