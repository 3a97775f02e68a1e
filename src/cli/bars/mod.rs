//! The bars of a run on a terminal, and the lines above them.
//!
//! A separate thread paints them, at most ten times a second, so that jobs of a few milliseconds never wait for the
//! terminal. [`paint`] makes the text for the terminal.
#![expect(clippy::disallowed_methods, reason = "a display needs the clock")]

mod paint;
#[cfg(test)]
mod terminal;

use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::output::stderr_width;
use crate::clean::printable;
use crate::event::{Event, Narrator};
use crate::plan::TimeLeft;
use paint::{Current, Overall, current_bar, frame, overall_bar};

/// The shortest time between two paintings.
const PERIOD: Duration = Duration::from_millis(100);

/// The longest time between two paintings: the elapsed time is shown in seconds.
const TICK: Duration = Duration::from_secs(1);

/// The columns of a terminal whose width is unknown.
const USUAL_WIDTH: u16 = 80;

/// Two bars: one for all jobs, one for the running job.
#[derive(Debug)]
pub(super) struct Bars {
    board: Arc<Board>,
    painter: Option<JoinHandle<()>>,
}

/// The scene, and the condition variables that wake the painter.
#[derive(Debug, Default)]
struct Board {
    scene: Mutex<Scene>,
    changed: Condvar,
    over: Condvar,
}

#[derive(Debug, Default)]
struct Scene {
    /// Lines that are not printed yet.
    lines: Vec<String>,
    overall: Overall,
    /// The end of the run by the estimate in `overall`.
    deadline: Option<Instant>,
    current: Option<Current>,
    /// When the running job or wait last changed.
    since: Option<Instant>,
    has_changed: bool,
    is_over: bool,
    /// Whether the painter waits for a change. A resting painter need not be woken.
    is_idle: bool,
}

impl Bars {
    /// Bars on the terminal `out`.
    pub(super) fn on(out: impl Write + Send + 'static) -> Bars {
        let board = Arc::new(Board::default());
        let shared = Arc::clone(&board);
        let painter = thread::Builder::new().name("bars".to_owned());
        // If no thread can be created, there are no bars, and the lines are printed at the end.
        let painter = painter.spawn(move || Painter { out }.paint_until_over(&shared)).ok();
        Bars { board, painter }
    }

    /// Prints a line above the bars.
    pub(super) fn print(&self, text: &str) {
        self.change(|scene| scene.lines.push(text.to_owned()));
    }

    /// Updates the bars after `event`, which `narrator` has already processed.
    pub(super) fn update(&self, narrator: &Narrator, event: &Event<'_>) {
        let (past, all) = narrator.position();
        let is_new_estimate = matches!(
            event,
            Event::Began { .. }
                | Event::Needed { .. }
                | Event::Started { .. }
                | Event::Ended { .. }
                | Event::Left { .. }
        );
        let is_new_turn = matches!(
            event,
            Event::Started { .. }
                | Event::Waiting(_)
                | Event::CoolingDown(_)
                | Event::Gated { first: true, .. }
        );
        let now = Instant::now();
        let estimate = is_new_estimate.then(|| {
            let left = narrator.time_left();
            (left, now + Duration::try_from_secs_f64(left.seconds).unwrap_or_default())
        });
        let current = narrator.current().map(|current| Current {
            title: printable(&current.title).into_owned(),
            phase: current.phase.clone(),
            iterations: current.iterations,
            elapsed: Duration::ZERO,
        });
        self.change(|scene| {
            let (left, deadline) = estimate.unzip();
            let left = left.or(scene.overall.left);
            scene.overall = Overall { past: past as u64, all: all as u64, tally: narrator.tally(), left };
            scene.deadline = deadline.or(scene.deadline);
            scene.current = current;
            scene.since = if is_new_turn { Some(now) } else { scene.since.or(Some(now)) };
        });
    }

    fn change(&self, change: impl FnOnce(&mut Scene)) {
        let mut scene = self.board.scene();
        change(&mut scene);
        scene.has_changed = true;
        if scene.is_idle {
            self.board.changed.notify_one();
        }
    }
}

/// Prints the remaining lines and removes the bars.
impl Drop for Bars {
    fn drop(&mut self) {
        self.board.scene().is_over = true;
        self.board.changed.notify_one();
        self.board.over.notify_one();
        match self.painter.take() {
            Some(painter) => drop(painter.join()),
            None => Painter { out: std::io::stderr() }.paint_until_over(&self.board),
        }
    }
}

impl Board {
    fn scene(&self) -> MutexGuard<'_, Scene> {
        self.scene.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change, but not longer than [`TICK`].
    fn wait(&self) -> MutexGuard<'_, Scene> {
        let mut scene = self.scene();
        scene.is_idle = true;
        let is_still = |scene: &mut Scene| !scene.has_changed && !scene.is_over;
        let waited = self.changed.wait_timeout_while(scene, TICK, is_still);
        let (mut scene, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (scene.is_idle, scene.has_changed) = (false, false);
        scene
    }

    /// Waits for [`PERIOD`], or until it is over.
    fn rest(&self) {
        let waited = self.over.wait_timeout_while(self.scene(), PERIOD, |scene| !scene.is_over);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Scene {
    /// The bars in `width` columns.
    fn bars(&self, width: usize) -> Vec<String> {
        let now = Instant::now();
        let left = self.overall.left.map(|left| TimeLeft {
            seconds: self.deadline.map_or(0.0, |at| at.saturating_duration_since(now).as_secs_f64()),
            ..left
        });
        let mut bars = vec![overall_bar(&Overall { left, ..self.overall.clone() }, width)];
        bars.extend(self.current.clone().map(|current| {
            let elapsed = self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
            current_bar(&Current { elapsed, ..current }, width)
        }));
        bars
    }
}

/// Paints on the terminal. Ignores all errors: if a write fails, the terminal is gone.
struct Painter<W> {
    out: W,
}

impl<W: Write> Painter<W> {
    fn paint_until_over(mut self, board: &Board) {
        loop {
            let mut scene = board.wait();
            let lines = std::mem::take(&mut scene.lines);
            // A bar in the last column makes some terminals begin another row.
            let width = usize::from(stderr_width().unwrap_or(USUAL_WIDTH)) - 1;
            let (bars, is_over) = (scene.bars(width), scene.is_over);
            drop(scene);
            let bars = if is_over { Vec::new() } else { bars };
            let _ = self.out.write_all(frame(&lines, &bars).as_bytes()).and_then(|()| self.out.flush());
            if is_over {
                return;
            }
            board.rest();
        }
    }
}
