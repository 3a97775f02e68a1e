//! The bars of a run on a terminal, and the lines above them.
//!
//! A thread of its own paints them, at most ten times a second. So a job that takes a few milliseconds waits for no
//! terminal, and whoever watches sees as much.
#![expect(clippy::disallowed_methods, reason = "a display needs the clock")]

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::clean::printable;
use crate::event::{Event, Narrator};
use crate::plan::TimeLeft;

/// The shortest time between two paintings.
const PERIOD: Duration = Duration::from_millis(100);

/// The longest time between two paintings: the elapsed time is shown in seconds.
const TICK: Duration = Duration::from_secs(1);

/// Two bars: one for all jobs, one for the running job.
#[derive(Debug)]
pub(super) struct Bars {
    board: Arc<Board>,
    painter: Option<JoinHandle<()>>,
}

/// What is to be painted, and the bells for the painter.
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
    current: Option<Current>,
    /// How many times the running job, or what is waited for, has changed.
    turn: u64,
    has_changed: bool,
    is_over: bool,
    /// Whether the painter waits for a change. It need not be woken if it is only resting.
    is_idle: bool,
}

#[derive(Clone, Debug, Default)]
struct Overall {
    past: u64,
    all: u64,
    tally: String,
    /// The estimated end of the run, and the number of jobs without an estimate.
    deadline: Option<(Instant, TimeLeft)>,
}

#[derive(Clone, Debug)]
struct Current {
    title: String,
    phase: String,
    iterations: Option<(u32, u32)>,
}

impl Bars {
    /// Bars on `target`.
    pub(super) fn on(target: ProgressDrawTarget) -> Bars {
        let board = Arc::new(Board::default());
        let shared = Arc::clone(&board);
        let painter = thread::Builder::new().name("bars".to_owned());
        // Without a thread there are no bars, but the lines are printed at the end.
        let painter = painter.spawn(move || Painter::new(target).paint_until_over(&shared)).ok();
        Bars { board, painter }
    }

    /// Prints a line above the bars.
    pub(super) fn print(&self, text: &str) {
        self.change(|scene| scene.lines.push(text.to_owned()));
    }

    /// Shows what `event` changes, of which `narrator` was told.
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
        let deadline = is_new_estimate.then(|| {
            let left = narrator.time_left();
            (Instant::now() + Duration::try_from_secs_f64(left.seconds).unwrap_or_default(), left)
        });
        let current = narrator.current().map(|current| Current {
            title: printable(&current.title).into_owned(),
            phase: current.phase.clone(),
            iterations: current.iterations,
        });
        self.change(|scene| {
            let (tally, deadline) = (narrator.tally(), deadline.or(scene.overall.deadline));
            scene.overall = Overall { past: past as u64, all: all as u64, tally, deadline };
            scene.current = current;
            scene.turn += u64::from(is_new_turn);
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

/// Prints what is left and removes the bars.
impl Drop for Bars {
    fn drop(&mut self) {
        self.board.scene().is_over = true;
        self.board.changed.notify_one();
        self.board.over.notify_one();
        match self.painter.take() {
            Some(painter) => drop(painter.join()),
            None => Painter::new(ProgressDrawTarget::stderr()).paint_until_over(&self.board),
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

/// Paints on the terminal. It ignores all errors: if a write fails, nobody watches any more.
struct Painter {
    both: MultiProgress,
    overall: ProgressBar,
    current: ProgressBar,
    deadline: Arc<Mutex<Option<(Instant, TimeLeft)>>>,
    /// The turn that is shown.
    turn: u64,
    nothing: ProgressStyle,
    plain: ProgressStyle,
    phase: ProgressStyle,
    iterations: ProgressStyle,
}

impl Painter {
    fn new(target: ProgressDrawTarget) -> Painter {
        let both = MultiProgress::with_draw_target(target);
        let deadline = Arc::default();
        let overall = both.add(ProgressBar::no_length().with_style(overall_style(Arc::clone(&deadline))));
        let current = both.add(ProgressBar::no_length());
        Painter {
            both,
            overall,
            current,
            deadline,
            turn: 0,
            nothing: style("{msg}"),
            plain: style("  {msg} · {elapsed}"),
            phase: style("  {msg} · {prefix} · {elapsed}"),
            iterations: style("  {msg} · {prefix} {pos}/{len} {bar:20.cyan/dim} {elapsed}"),
        }
    }

    fn paint_until_over(mut self, board: &Board) {
        loop {
            let mut scene = board.wait();
            let lines = std::mem::take(&mut scene.lines);
            let (overall, current) = (scene.overall.clone(), scene.current.clone());
            let (turn, is_over) = (scene.turn, scene.is_over);
            drop(scene);
            if !lines.is_empty() {
                let _ = self.both.println(lines.join("\n"));
            }
            if is_over {
                self.current.finish_and_clear();
                return self.overall.finish_and_clear();
            }
            self.paint_overall(overall);
            if turn != self.turn {
                self.turn = turn;
                self.current.reset();
            }
            self.paint_current(current);
            board.rest();
        }
    }

    fn paint_overall(&self, Overall { past, all, tally, deadline }: Overall) {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = deadline;
        self.overall.set_length(all);
        self.overall.set_position(past);
        self.overall.set_message(tally);
        self.overall.tick();
    }

    fn paint_current(&self, current: Option<Current>) {
        let Some(Current { title, phase, iterations }) = current else {
            self.current.set_style(self.nothing.clone());
            return self.current.set_message("");
        };
        let style = match iterations {
            Some((done, of)) => {
                self.current.set_length(of.into());
                self.current.set_position(done.into());
                &self.iterations
            }
            None if phase.is_empty() => &self.plain,
            None => &self.phase,
        };
        self.current.set_style(style.clone());
        self.current.set_message(title);
        self.current.set_prefix(phase);
        self.current.tick();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .expect("the templates of this module are well-formed")
        .progress_chars("━╸─")
}

fn overall_style(deadline: Arc<Mutex<Option<(Instant, TimeLeft)>>>) -> ProgressStyle {
    let left = move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
        let deadline = *deadline.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((at, left)) = deadline else { return };
        let seconds = at.saturating_duration_since(Instant::now()).as_secs_f64();
        // Writing to a string cannot fail, and the line is redrawn anyway.
        let _ = write!(out, "{}", TimeLeft { seconds, ..left });
    };
    style("{bar:30.green/dim} {pos}/{len} jobs{msg} · left: {left}").with_key("left", left)
}
