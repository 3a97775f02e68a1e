//! The text and escape sequences that show lines and the bars below them on a terminal. Pure.
//!
//! Between two paintings, the cursor is at the beginning of the first bar. A resized terminal may wrap its lines again,
//! but it leaves the cursor at its letter. Each painting therefore erases everything below the cursor, however many
//! rows that is, and nothing above it.

use std::time::Duration;

use ratatui::crossterm::style::Stylize;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::plan::TimeLeft;

/// Erases everything from the cursor on.
const ERASE_BELOW: &str = "\x1b[J";

/// The widest bar of all jobs, and that of the running one, in columns.
const WIDEST: (usize, usize) = (30, 20);

/// The narrowest bar that is drawn.
const NARROWEST: usize = 5;

/// The numbers of all jobs.
#[derive(Clone, Debug, Default)]
pub(super) struct Overall {
    pub(super) past: u64,
    pub(super) all: u64,
    /// Further numbers of jobs, after `3/45 jobs`: ` · 1 failed`.
    pub(super) tally: String,
    /// The estimated time left; `None` if unknown.
    pub(super) left: Option<TimeLeft>,
}

/// The running job, or the current wait.
#[derive(Clone, Debug)]
pub(super) struct Current {
    pub(super) title: String,
    pub(super) phase: String,
    /// The iterations: done, and in total.
    pub(super) iterations: Option<(u32, u32)>,
    pub(super) elapsed: Duration,
}

/// The output that prints `lines` and replaces the earlier bars below them by `bars`.
pub(super) fn frame(lines: &[String], bars: &[String]) -> String {
    let lines: String = lines.iter().map(|line| format!("{}\r\n", line.replace('\n', "\r\n"))).collect();
    let back = match bars.len() {
        0 | 1 => String::new(),
        rows => format!("\x1b[{}A", rows - 1),
    };
    format!("\r{ERASE_BELOW}{lines}{}{back}\r", bars.join("\r\n"))
}

/// The bar of all jobs, in `width` columns: `━━━╸──── 3/45 jobs · 1 failed · left: about 2m`.
pub(super) fn overall_bar(Overall { past, all, tally, left }: &Overall, width: usize) -> String {
    let left = left.map(|left| format!(" · left: {left}")).unwrap_or_default();
    let text = cut(&format!("{past}/{all} jobs{tally}{left}"), width);
    let bar = match width.saturating_sub(text.width() + 1).min(WIDEST.0) {
        0..NARROWEST => return text,
        room => bar_text(share(*past, *all), room),
    };
    format!("{}{} {text}", bar.0.green(), bar.1.dim())
}

/// The bar of the running job, in `width` columns: `  cpu_m_fp32_bs4_run1 · measuring 3/20 ━━╸──── 5s`.
pub(super) fn current_bar(current: &Current, width: usize) -> String {
    let Current { title, phase, iterations, elapsed } = current;
    let elapsed = humantime::format_duration(Duration::from_secs(elapsed.as_secs()));
    let phase = if phase.is_empty() { String::new() } else { format!(" · {phase}") };
    let Some((done, of)) = iterations else {
        let rest = format!("{phase} · {elapsed}");
        return cut(&format!("  {}{rest}", cut(title, width.saturating_sub(rest.width() + 2))), width);
    };
    let (before, after) = (format!("{phase} {done}/{of} "), elapsed.to_string());
    let texts = before.width() + after.width() + 2;
    match width.saturating_sub(texts + title.width() + 1).min(WIDEST.1) {
        0..NARROWEST => {
            cut(&format!("  {}{before}· {after}", cut(title, width.saturating_sub(texts + 2))), width)
        }
        room => {
            let (done, open) = bar_text(share((*done).into(), (*of).into()), room);
            format!("  {title}{before}{}{} {after}", done.cyan(), open.dim())
        }
    }
}

/// `past` ÷ `all`, from 0 to 1.
fn share(past: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { (past as f64 / all as f64).min(1.0) }
}

/// The part of a bar of `width` columns that is done, and the rest.
fn bar_text(share: f64, width: usize) -> (String, String) {
    let done = (share * width as f64).floor() as usize;
    let head = if share > 0.0 && done < width { "╸" } else { "" };
    (format!("{}{head}", "━".repeat(done)), "─".repeat(width - done - head.chars().count()))
}

/// `text`, cut to `width` columns with a `…` if necessary.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut used = 1;
    let fits = |letter: &char| {
        used += letter.width().unwrap_or(0);
        used <= width
    };
    let kept: String = text.chars().take_while(fits).collect();
    if width == 0 { kept } else { format!("{kept}…") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::terminal::Terminal;
    use super::*;

    fn overall(past: u64) -> Overall {
        Overall { past, all: 45, tally: " · 1 failed".to_owned(), left: None }
    }

    fn current(iterations: Option<(u32, u32)>) -> Current {
        Current {
            title: "cpu_resnet18_fp32_bs16_run1".to_owned(),
            phase: "measuring".to_owned(),
            iterations,
            elapsed: Duration::from_millis(65_400),
        }
    }

    /// `bar` without colours.
    fn shown(bar: String) -> String {
        let mut parts = bar.split('\x1b');
        let first = parts.next().unwrap_or_default();
        parts.fold(first.to_owned(), |text, part| text + part.split_once('m').expect("a colour").1)
    }

    #[test]
    fn bars_become_narrower_before_their_texts_are_cut() {
        let of_width = |width| shown(overall_bar(&overall(15), width));
        assert_eq!(of_width(80), "━━━━━━━━━━╸─────────────────── 15/45 jobs · 1 failed");
        assert_eq!(of_width(30), "━━╸───── 15/45 jobs · 1 failed");
        assert_eq!(of_width(22), "15/45 jobs · 1 failed");
        assert_eq!(of_width(12), "15/45 jobs …");
        let of_width = |width| shown(current_bar(&current(Some((3, 20))), width));
        assert_eq!(of_width(80), "  cpu_resnet18_fp32_bs16_run1 · measuring 3/20 ━━━╸──────────────── 1m 5s");
        assert_eq!(of_width(60), "  cpu_resnet18_fp32_bs16_run1 · measuring 3/20 ━╸───── 1m 5s");
        assert_eq!(of_width(50), "  cpu_resnet18_fp32_bs16… · measuring 3/20 · 1m 5s");
        let waiting = Current { phase: String::new(), ..current(None) };
        assert_eq!(shown(current_bar(&waiting, 80)), "  cpu_resnet18_fp32_bs16_run1 · 1m 5s");
    }

    #[test]
    fn bar_is_full_when_all_is_done() {
        assert_eq!(bar_text(0.0, 4), (String::new(), "────".to_owned()));
        assert_eq!(bar_text(1.0, 4), ("━━━━".to_owned(), String::new()));
        assert_eq!(bar_text(share(7, 0), 1).1, "─");
    }

    proptest! {
        #[test]
        fn a_bar_never_needs_a_second_row(
            width in 1..120_usize,
            past in 0..2000_u64,
            title in "[a-z_é漢]{0,60}",
            iterations in prop::option::of((0..500_u32, 1..500_u32)),
        ) {
            prop_assert!(shown(overall_bar(&overall(past), width)).width() <= width);
            let current = Current { title, ..current(iterations) };
            prop_assert!(shown(current_bar(&current, width)).width() <= width.max(3));
        }

        /// Once, a line was erased if the terminal became wider, because wrapped bars then took fewer rows.
        #[test]
        fn resizing_keeps_all_lines_and_leaves_no_bars(
            steps in prop::collection::vec((0..3_usize, 10..200_usize), 1..20),
        ) {
            let mut terminal = Terminal::new(80);
            let mut printed = Vec::new();
            for (number, (lines, width)) in steps.into_iter().enumerate() {
                let new: Vec<String> =
                    (0..lines).map(|line| format!("[{number}] line {line} {}", "x".repeat(width))).collect();
                let room = terminal.columns() - 1;
                let bars = [overall_bar(&overall(number as u64), room), current_bar(&current(None), room)];
                terminal.write(&frame(&new, &bars));
                printed.extend(new);
                prop_assert_eq!(&terminal.lines()[..printed.len()], &printed[..]);
                prop_assert_eq!(terminal.lines().len(), printed.len() + bars.len());
                terminal.resize(width);
            }
            terminal.write(&frame(&["the end".to_owned()], &[]));
            printed.extend(["the end".to_owned(), String::new()]);
            prop_assert_eq!(terminal.lines(), printed);
        }
    }
}
