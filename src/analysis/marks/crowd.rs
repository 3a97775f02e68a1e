//! An index of spans of which very many can overlap. Overlaps are counted without examining each span.

use super::placed::Placed;

/// Spans indexed by time and by name. Built in O(n log n); a query takes O(log² n).
#[derive(Debug)]
pub(super) struct Crowd<'a> {
    /// By label, then by job.
    ranked: Vec<Placed<'a>>,
    /// The starts of all spans, sorted.
    starts: Vec<i64>,
    /// The ends of all spans, sorted.
    ends: Vec<i64>,
    /// Level `n` has the spans in blocks of 2ⁿ neighbours. Each block is sorted by start, with pairs of a start and
    /// the latest end in its block up to there.
    levels: Vec<Vec<(i64, i64)>>,
}

/// The condition of a long enough overlap: a start before one time and an end after another.
#[derive(Clone, Copy, Debug)]
struct Window {
    starts_before: i64,
    ends_after: i64,
}

/// The spans that overlap another one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Company<'a> {
    /// The first of them by label, then by job.
    pub(super) first: Placed<'a>,
    /// How many there are.
    pub(super) count: usize,
}

impl<'a> Crowd<'a> {
    /// The crowd of those `spans` that last longer than `least` microseconds. Shorter ones cannot overlap for as long.
    pub(super) fn of(spans: &[Placed<'a>], least: i64) -> Crowd<'a> {
        let mut ranked: Vec<Placed<'a>> =
            spans.iter().filter(|placed| placed.lasts(least)).copied().collect();
        ranked.sort_by_key(Placed::rank);
        let sorted = |time: fn(&Placed<'a>) -> i64| {
            let mut times: Vec<i64> = ranked.iter().map(time).collect();
            times.sort_unstable();
            times
        };
        Crowd {
            starts: sorted(|placed| placed.from),
            ends: sorted(|placed| placed.to),
            levels: levels(&ranked),
            ranked,
        }
    }

    /// Those that overlap with `of` for more than `least` microseconds, without its own job and the `allowed` labels.
    pub(super) fn company(&self, of: Placed<'_>, least: i64, allowed: &[String]) -> Option<Company<'a>> {
        if !of.lasts(least) {
            return None;
        }
        let window =
            Window { starts_before: of.to.saturating_sub(least), ends_after: of.from.saturating_add(least) };
        // Each lasts longer than `least`, so a span that ends too early also starts early enough.
        let early = self.ends.partition_point(|end| *end <= window.ends_after);
        let all = self.starts.partition_point(|start| *start < window.starts_before) - early;
        let count = all - self.left_out(of, window, allowed);
        let first = self.first(window, 0, |placed| self.behind(placed, of, allowed))?;
        Some(Company { first, count })
    }

    /// The number of spans in `window` of the job of `of` or with one of the `allowed` labels.
    fn left_out(&self, of: Placed<'_>, window: Window, allowed: &[String]) -> usize {
        let mut labels: Vec<&str> = allowed.iter().map(String::as_str).collect();
        labels.sort_unstable();
        labels.dedup();
        let own = (!labels.contains(&of.span.label.as_str())).then(|| {
            let begin = self.ranked.partition_point(|placed| placed.rank() < of.rank());
            (begin, self.ranked.partition_point(|placed| placed.rank() <= of.rank()))
        });
        let of_label = |label: &str| {
            let begin = self.ranked.partition_point(|placed| placed.span.label.as_str() < label);
            (begin, self.ranked.partition_point(|placed| placed.span.label.as_str() <= label))
        };
        let ranges = labels.into_iter().map(of_label).chain(own);
        ranges
            .map(|(begin, end)| self.ranked[begin..end].iter().filter(|placed| window.has(placed)).count())
            .sum()
    }

    /// If `placed` is left out, the rank after all spans that are left out for the same reason.
    fn behind(&self, placed: &Placed<'_>, of: Placed<'_>, allowed: &[String]) -> Option<usize> {
        let label = placed.span.label.as_str();
        if allowed.iter().any(|allowed| allowed == label) {
            Some(self.ranked.partition_point(|other| other.span.label.as_str() <= label))
        } else if placed.span.job == of.span.job {
            Some(self.ranked.partition_point(|other| other.rank() <= placed.rank()))
        } else {
            None
        }
    }

    /// The first in `window` from `rank` on for which `behind` returns `None`.
    fn first(
        &self,
        window: Window,
        mut rank: usize,
        behind: impl Fn(&Placed<'a>) -> Option<usize>,
    ) -> Option<Placed<'a>> {
        loop {
            let placed = &self.ranked[self.next(self.levels.len().checked_sub(1)?, 0, rank, window)?];
            match behind(placed) {
                Some(next) => rank = next,
                None => return Some(*placed),
            }
        }
    }

    /// The first rank in `window` that is in this block and not below `rank`.
    fn next(&self, level: usize, block: usize, rank: usize, window: Window) -> Option<usize> {
        let (begin, end) = (block << level, ((block + 1) << level).min(self.ranked.len()));
        let times = self.levels[level].get(begin..end)?;
        let early = times.partition_point(|(start, _)| *start < window.starts_before);
        let has_some = early.checked_sub(1).is_some_and(|last| times[last].1 > window.ends_after);
        match level {
            _ if end <= rank || !has_some => None,
            0 => Some(begin),
            _ => {
                let half = |block| self.next(level - 1, block, rank, window);
                half(2 * block).or_else(|| half(2 * block + 1))
            }
        }
    }
}

impl Window {
    fn has(self, placed: &Placed<'_>) -> bool {
        placed.from < self.starts_before && placed.to > self.ends_after
    }
}

/// The starts and latest ends of `ranked` in blocks of 1, 2, 4, … until one block has all spans; empty without spans.
fn levels(ranked: &[Placed<'_>]) -> Vec<Vec<(i64, i64)>> {
    let mut levels = Vec::new();
    let mut times: Vec<(i64, i64)> = ranked.iter().map(|placed| (placed.from, placed.to)).collect();
    let mut length = 1;
    while !times.is_empty() {
        times.chunks_mut(length).for_each(|block| block.sort_unstable());
        let mut level = times.clone();
        for block in level.chunks_mut(length) {
            let mut latest = i64::MIN;
            for (_, end) in block {
                latest = latest.max(*end);
                *end = latest;
            }
        }
        levels.push(level);
        if length >= ranked.len() {
            break;
        }
        length *= 2;
    }
    levels
}
