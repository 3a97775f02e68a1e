//! Draws the screen of `status --watch`: current activity first, the table of configs last. Pure.

use chrono::{DateTime, TimeDelta, Utc};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use unicode_width::UnicodeWidthStr;

use super::scene::{EndedLine, EnvLine, RunningLine, Scene};
use crate::cli::wrap::wrapped;
use crate::job::State;
use crate::text::duration_text;

/// The line of keys.
const KEYS: &str = "q leave · ↑ ↓ scroll · a all configs";

/// The most cells of a bar.
const BAR: usize = 30;

/// The visible part of the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scroll {
    /// The first visible line.
    pub(super) first: usize,
    /// The number of visible lines when it was last drawn.
    pub(super) room: usize,
    /// The number of lines of the body when it was last drawn.
    lines: usize,
}

impl Scroll {
    /// Moves by `lines`, within the body.
    pub(super) fn by(&mut self, lines: isize) {
        self.first = self.first.saturating_add_signed(lines).min(self.lines.saturating_sub(self.room));
    }
}

/// Draws `scene` at the time `now`, with the `table` of configs below.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    scene: &Scene,
    table: &str,
    now: DateTime<Utc>,
    scroll: &mut Scroll,
) {
    let area = frame.area();
    let width = usize::from(area.width);
    let head = head(scene, width);
    let heights = [Constraint::Length(rows(&head)), Constraint::Min(1), Constraint::Length(1)];
    let [above, middle, below] = Layout::vertical(heights).areas(area);
    frame.render_widget(Paragraph::new(head), above);
    let body = body(scene, table, now, width);
    *scroll = Scroll { first: scroll.first, room: middle.height.into(), lines: body.len() };
    scroll.by(0);
    let more = body.len().saturating_sub(scroll.first + scroll.room);
    let seen: Vec<Line<'_>> = body.into_iter().skip(scroll.first).take(scroll.room).collect();
    frame.render_widget(Paragraph::new(seen), middle);
    let more = if more > 0 { format!(" · {more} more lines below") } else { String::new() };
    frame.render_widget(Paragraph::new(format!("{KEYS}{more}")).style(dim()), below);
}

fn rows(lines: &[Line<'_>]) -> u16 {
    u16::try_from(lines.len()).unwrap_or(u16::MAX)
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn bold(text: String) -> Line<'static> {
    Line::styled(text, Style::new().add_modifier(Modifier::BOLD))
}

/// The jobs by state, the time left, and one bar per env.
fn head(scene: &Scene, width: usize) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'_>> =
        wrapped(&scene.headline, width).lines().map(|line| bold(line.to_owned())).collect();
    lines.extend(wrapped(&scene.time_left, width).lines().map(|line| Line::raw(line.to_owned())));
    let names = scene.envs.iter().map(|env| env.name.as_str().width()).max().unwrap_or(0);
    lines.extend(scene.envs.iter().map(|env| env_line(env, names, width)));
    lines.push(Line::default());
    lines
}

/// `cpu  ███████░░░░░  7/12  1 failed`
fn env_line(env: &EnvLine, names: usize, width: usize) -> Line<'static> {
    let (needed, done, failed) = (env.needed(), env.jobs.of(State::Done), env.jobs.of(State::Failed));
    let counts = match failed {
        0 => format!("  {done}/{needed}"),
        _ => format!("  {done}/{needed}  {failed} failed"),
    };
    let room = width.saturating_sub(names + 2 + counts.width()).min(BAR);
    let cells = |jobs: usize| (room * jobs).checked_div(needed).unwrap_or(0);
    let (full, bad) = (cells(done), cells(failed));
    Line::from(vec![
        Span::raw(format!("{:names$}  ", env.name.as_str())),
        Span::styled("█".repeat(full), Style::new().green()),
        Span::styled("█".repeat(bad), Style::new().red()),
        Span::styled("░".repeat(room - full - bad), dim()),
        Span::raw(counts),
    ])
}

fn body(scene: &Scene, table: &str, now: DateTime<Utc>, width: usize) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = Vec::new();
    let mut part = |heading: &str, texts: Vec<String>| {
        if !texts.is_empty() {
            lines.push(bold(heading.to_owned()));
            let texts = texts
                .iter()
                .flat_map(|text| wrapped(text, width).lines().map(str::to_owned).collect::<Vec<_>>());
            lines.extend(texts.map(Line::raw));
            lines.push(Line::default());
        }
    };
    part("running", scene.running.iter().map(|job| running_text(job, now)).collect());
    part("last failures", scene.failures.iter().map(|job| ended_text(job, now)).collect());
    part("last results", scene.results.iter().map(|job| ended_text(job, now)).collect());
    part("configs", table.lines().map(str::to_owned).collect());
    lines
}

fn running_text(job: &RunningLine, now: DateTime<Utc>) -> String {
    let since = job.started_at.map(|start| format!(" for {}", time_text(now - start))).unwrap_or_default();
    let sensors = if job.sensors.is_empty() { String::new() } else { format!(": {}", job.sensors) };
    format!("{}{since}{sensors}", job.label)
}

fn ended_text(job: &EndedLine, now: DateTime<Utc>) -> String {
    format!("{} {}, {} ago", job.label, job.what, time_text(now - job.ended_at))
}

/// `12s`, `3m 20s`. Negative times, which clocks of two hosts can cause, become 0.
fn time_text(time: TimeDelta) -> String {
    match time.num_seconds().max(0) {
        seconds @ ..60 => format!("{seconds}s"),
        seconds => duration_text(seconds as f64),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::job::Tally;

    fn scene() -> Scene {
        let now = DateTime::UNIX_EPOCH;
        let jobs = |done: usize, failed: usize, waiting: usize| {
            let states = [(State::Done, done), (State::Failed, failed), (State::Waiting, waiting)];
            states.into_iter().flat_map(|(state, n)| std::iter::repeat_n(state, n)).collect::<Tally>()
        };
        let ended = |label: &str, what: &str, seconds| EndedLine {
            label: label.into(),
            what: what.into(),
            ended_at: now - TimeDelta::seconds(seconds),
        };
        Scene {
            headline: "gpus: 30 jobs: 19 done, 2 failed, 1 running, 8 waiting".into(),
            time_left: "time left: about 3m 20s".into(),
            envs: vec![
                EnvLine { name: "a100".into(), jobs: jobs(15, 0, 0) },
                EnvLine { name: "t4".into(), jobs: jobs(4, 2, 9) },
            ],
            running: vec![RunningLine {
                label: "t4_resnet50_bf16_bs64_run1 fused=true".into(),
                started_at: Some(now - TimeDelta::seconds(75)),
                sensors: "1.5 processors busy, GPU 61 °C, 70 W".into(),
            }],
            failures: vec![ended(
                "t4_vit_b16_fp32_bs64_run1",
                "ran out of memory: tried to allocate 2.00 GiB",
                30,
            )],
            results: vec![
                ended("t4_resnet50_bf16_bs32_run1", "839.1 images/s in 12.1s", 76),
                ended("t4_resnet50_bf16_bs16_run1", "701.0 images/s in 11.0s", 90),
            ],
        }
    }

    fn drawn(width: u16, height: u16, scroll: &mut Scroll) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let table: String = (1..=40).map(|number| format!("config {number}\n")).collect();
        terminal.draw(|frame| draw(frame, &scene(), &table, DateTime::UNIX_EPOCH, scroll)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn draws_current_activity_first_on_a_small_screen() {
        insta::assert_snapshot!("small", drawn(60, 20, &mut Scroll::default()));
        insta::assert_snapshot!("usual", drawn(80, 24, &mut Scroll::default()));
    }

    #[test]
    fn scrolling_stops_at_the_end() {
        let mut scroll = Scroll::default();
        drawn(80, 24, &mut scroll);
        scroll.by(1000);
        let end = drawn(80, 24, &mut scroll);
        assert!(end.contains("config 40") && !end.contains("more lines below"), "{end}");
        scroll.by(-1000);
        assert_eq!(scroll.first, 0);
        // A larger screen needs no scrolling.
        scroll.by(1000);
        drawn(80, 100, &mut scroll);
        assert_eq!(scroll.first, 0);
    }
}
