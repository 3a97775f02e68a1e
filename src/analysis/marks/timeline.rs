//! When jobs ran on each host, to find those that ran at the same time.
//!
//! Two runs of one boot are compared by the time since it, which nobody can set. Runs of different boots were never at
//! the same time, whatever the wall clock says. Only for records of older versions is it asked.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use crate::analysis::Span;

/// Spans by host, indexed by time. It is made in O(n log n).
pub(super) struct Timeline<'a> {
    /// All spans of each host, by the wall clock.
    hosts: BTreeMap<&'a str, Index<'a>>,
    /// Those of each host and boot, by the time since the boot.
    boots: BTreeMap<(&'a str, &'a str), Index<'a>>,
}

/// A span that was beside another one.
pub(super) struct Beside<'a> {
    pub(super) span: &'a Span,
    /// For how long.
    pub(super) seconds: f64,
}

/// Spans as a balanced tree: the middle of the list is its root, and the parts on either side of it are trees too.
#[derive(Default)]
struct Index<'a> {
    /// Sorted by start.
    spans: Vec<Placed<'a>>,
    /// For each span, the latest end in the tree whose root it is.
    latest: Vec<i64>,
}

/// A span by one clock, in microseconds.
#[derive(Clone, Copy)]
struct Placed<'a> {
    from: i64,
    to: i64,
    span: &'a Span,
}

impl<'a> Placed<'a> {
    fn by_wall_clock(span: &'a Span) -> Placed<'a> {
        let micros = |time: DateTime<Utc>| time.timestamp_micros();
        Placed { from: micros(span.started_at), to: micros(span.ended_at), span }
    }

    /// Also returns the boot.
    fn since_boot(span: &'a Span) -> Option<(&'a str, Placed<'a>)> {
        let (boot, from, to) = span.since_boot.as_ref()?;
        // A host that was never restarted counts to far less than 2^53.
        let micros = |seconds: f64| (seconds * 1e6) as i64;
        Some((boot, Placed { from: micros(*from), to: micros(*to), span }))
    }
}

impl<'a> Timeline<'a> {
    /// The timeline of `spans`.
    pub(super) fn of(spans: &'a [Span]) -> Self {
        let mut timeline = Timeline { hosts: BTreeMap::new(), boots: BTreeMap::new() };
        for span in spans {
            timeline.hosts.entry(&span.host).or_default().spans.push(Placed::by_wall_clock(span));
            if let Some((boot, placed)) = Placed::since_boot(span) {
                timeline.boots.entry((&span.host, boot)).or_default().spans.push(placed);
            }
        }
        timeline.hosts.values_mut().chain(timeline.boots.values_mut()).for_each(Index::sort);
        timeline
    }

    /// The spans that overlap with `span`, on the same host. To find k of them among n takes O((k + 1) log n).
    pub(super) fn beside(&self, span: &Span) -> Vec<Beside<'a>> {
        let by_wall_clock = self.hosts.get(span.host.as_str());
        let by_wall_clock =
            by_wall_clock.map(|index| index.beside(Placed::by_wall_clock(span))).unwrap_or_default();
        let Some((boot, placed)) = Placed::since_boot(span) else { return by_wall_clock };
        let same_boot = self.boots.get(&(span.host.as_str(), boot));
        let mut found = same_boot.map(|index| index.beside(placed)).unwrap_or_default();
        found.extend(by_wall_clock.into_iter().filter(|other| other.span.since_boot.is_none()));
        found
    }
}

impl<'a> Index<'a> {
    fn sort(&mut self) {
        self.spans.sort_by_key(|placed| placed.from);
        self.latest = self.spans.iter().map(|placed| placed.to).collect();
        set_latest(&mut self.latest);
    }

    /// Those that begin before the end of `of` and end after its start, by their start.
    fn beside(&self, of: Placed<'_>) -> Vec<Beside<'a>> {
        let mut found = Vec::new();
        find(&self.spans, &self.latest, (of.from, of.to), &mut found);
        let beside = |placed: &Placed<'a>| Beside {
            span: placed.span,
            seconds: (of.to.min(placed.to) - of.from.max(placed.from)) as f64 / 1e6,
        };
        found.iter().map(beside).collect()
    }
}

/// Replaces the end at the root of each tree in `ends` by the latest end of the tree. Returns that of the whole tree.
fn set_latest(ends: &mut [i64]) -> Option<i64> {
    let (before, rest) = ends.split_at_mut(ends.len() / 2);
    let (root, after) = rest.split_first_mut()?;
    let latest = [Some(*root), set_latest(before), set_latest(after)].into_iter().flatten().max();
    *root = latest.unwrap_or(*root);
    latest
}

fn find<'a>(spans: &[Placed<'a>], latest: &[i64], (from, to): (i64, i64), found: &mut Vec<Placed<'a>>) {
    let root = spans.len() / 2;
    if latest.get(root).is_none_or(|latest| *latest <= from) {
        return;
    }
    find(&spans[..root], &latest[..root], (from, to), found);
    if spans[root].from < to {
        found.extend((spans[root].to > from).then_some(spans[root]));
        find(&spans[root + 1..], &latest[root + 1..], (from, to), found);
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use proptest::prelude::*;

    use super::*;
    use crate::analysis::fixture;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(second)
    }

    /// A span by the wall clock, and since a boot if there is one.
    fn span(label: usize, host: &str, (start, end): (i64, i64), boot: Option<(&str, f64, f64)>) -> Span {
        Span {
            job: fixture::key("e", "m", 1, 1).id(),
            label: label.to_string(),
            host: host.into(),
            started_at: at(start),
            ended_at: at(end),
            since_boot: boot.map(|(boot, start, end)| (boot.to_owned(), start, end)),
        }
    }

    /// Labels and seconds of those beside the first of `spans`, itself left out.
    fn beside_first(spans: &[Span]) -> Vec<(&str, f64)> {
        let found = Timeline::of(spans).beside(&spans[0]);
        let others = found.into_iter().filter(|it| it.span.label != "0");
        others.map(|it| (it.span.label.as_str(), it.seconds)).collect()
    }

    #[test]
    fn a_clock_that_was_set_moves_no_run_beside_another() {
        let first = span(0, "here", (100, 200), Some(("boot", 1000.0, 1100.0)));
        // Two hours later, after the clock was set back by as much; and really beside it.
        let later = span(1, "here", (100, 200), Some(("boot", 8200.0, 8300.0)));
        let beside = span(2, "here", (9000, 9100), Some(("boot", 1090.0, 1190.0)));
        let of_another_boot = span(3, "here", (100, 200), Some(("other", 1000.0, 1100.0)));
        let elsewhere = span(4, "there", (100, 200), Some(("boot", 1000.0, 1100.0)));
        // Of an older record only the wall clock is known.
        let older = span(5, "here", (195, 300), None);
        let spans = [first, later, beside, of_another_boot, elsewhere, older];
        assert_eq!(beside_first(&spans), [("2", 10.0), ("5", 5.0)]);
        let older_first = [span(0, "here", (195, 300), None), spans[1].clone()];
        assert_eq!(beside_first(&older_first), [("1", 5.0)]);
    }

    proptest! {
        /// Clocks can be set back, so a span can end before it begins.
        #[test]
        fn what_is_found_is_what_a_look_at_every_span_finds(
            drawn in prop::collection::vec((any::<bool>(), 0..40_i64, -2..30_i64), 0..60),
            from in 0..40_i64,
            seconds in -2..30_i64,
        ) {
            let spans: Vec<Span> = drawn
                .into_iter()
                .enumerate()
                .map(|(index, (is_here, start, seconds))| {
                    span(index, if is_here { "here" } else { "elsewhere" }, (start, start + seconds), None)
                })
                .collect();
            let asked = span(99, "here", (from, from + seconds), None);
            let (from, to) = (asked.started_at, asked.ended_at);
            let is_between = |span: &&Span| {
                span.host == "here" && span.started_at < to && span.ended_at > from
            };
            let mut expected: Vec<&Span> = spans.iter().filter(is_between).collect();
            expected.sort_by_key(|span| span.started_at);
            let timeline = Timeline::of(&spans);
            let found: Vec<&Span> = timeline.beside(&asked).into_iter().map(|it| it.span).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
