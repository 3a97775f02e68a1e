//! `status --watch` on a terminal: a screen of its own, which follows the run and scrolls. In the end, what was there
//! before is there again.
//!
//! [`scene`] says what is shown, [`draw`] where; both are pure.

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

/// How often keys are asked for.
const KEYS_PERIOD: Duration = Duration::from_millis(100);

/// How often the sensors of running jobs are read, and the screen is drawn anew.
const DRAW_PERIOD: Duration = Duration::from_secs(1);

/// Shows the screen until nothing is left to run, or until the user leaves. Then prints what `status` would, so that it
/// stays. `None` if the terminal can have no screen.
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

/// What the store held when it was read last, and what is seen of it.
struct View {
    overview: Overview,
    running: Vec<Job>,
    scene: Scene,
    extent: Extent,
    scroll: Scroll,
    /// All that `status` prints, for a screen of this width. To make it takes long if there are many configs.
    table: Option<(u16, Extent, String)>,
}

/// Returns how it ended, and what was seen last.
#[expect(clippy::disallowed_methods, reason = "who watches does so in time")]
fn follow(look: &mut Look<'_>, mut terminal: DefaultTerminal) -> Result<(Exit, Option<Overview>), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Whatever ends the program, the terminal gets its own screen back.
        let mut end = Ends::of_the_program()?;
        let (mut seen, sighting) = look.see()?;
        let mut view = View::new(sighting, Extent::Short, Scroll::default());
        loop {
            if view.overview.is_settled() {
                return Ok((Exit::Done, Some(view.overview)));
            }
            view.look_at_running(&look.store);
            terminal.draw(|frame| {
                view.set_table(frame.area().width);
                let table = view.table.as_ref().map_or("", |(_, _, text)| text);
                draw(frame, &view.scene, table, Utc::now(), &mut view.scroll);
            })?;
            tokio::select! {
                is_left = view.obey_keys() => if is_left? { return Ok((Exit::Done, Some(view.overview))) },
                () = end.comes() => return Ok((Exit::Interrupted, None)),
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

    /// Reads what the directories of running jobs show.
    fn look_at_running(&mut self, store: &Store) {
        let live = |job: &Job| {
            let attempts = store.job_dir(job).attempts().unwrap_or_default();
            let Some(attempt) = attempts.last() else { return Live::default() };
            let started_at = Attempt::load(attempt).ok().map(|attempt| attempt.started_at);
            Live { started_at, samples: last_samples(&attempt.telemetry()) }
        };
        self.scene.set_running(self.running.iter().map(|job| (job, live(job))), &self.overview.varying);
    }

    /// Makes the table anew if the screen has another width, or another extent was asked for.
    fn set_table(&mut self, width: u16) {
        if self.table.as_ref().is_none_or(|(known, extent, _)| (*known, *extent) != (width, self.extent)) {
            let text = render::text(&self.overview, self.extent, Layout::Lines(Some(width)));
            self.table = Some((width, self.extent, text));
        }
    }

    /// Obeys the keys until the screen has to be drawn again. Returns whether the user leaves.
    #[expect(clippy::disallowed_methods, reason = "who watches does so in time")]
    async fn obey_keys(&mut self) -> io::Result<bool> {
        let began = Instant::now();
        while began.elapsed() < DRAW_PERIOD {
            let mut has_changed = false;
            while event::poll(Duration::ZERO)? {
                match event::read()? {
                    Event::Key(key) if is_leave(key) => return Ok(true),
                    Event::Key(key) => has_changed |= self.obey(key),
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

    /// Returns whether `key` means something.
    fn obey(&mut self, key: KeyEvent) -> bool {
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

/// `q`, Escape and Ctrl-C, which is a key on such a screen.
fn is_leave(key: KeyEvent) -> bool {
    let is_ctrl_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    is_ctrl_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
}

/// The signals that end a program.
struct Ends {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Ends {
    fn of_the_program() -> io::Result<Ends> {
        Ok(Ends {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn comes(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
