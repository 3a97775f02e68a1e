//! When jobs ran on each host, to find those that ran at the same time.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use crate::analysis::Span;

type Time = DateTime<Utc>;

/// Spans by host, indexed by time. It is made in O(n log n).
pub(super) struct Timeline<'a> {
    hosts: BTreeMap<&'a str, Host<'a>>,
}

/// The spans of one host as a balanced tree: the middle of the list is its root, and the parts on either side of it are
/// trees too.
#[derive(Default)]
struct Host<'a> {
    /// Sorted by start.
    spans: Vec<&'a Span>,
    /// For each span, the latest end in the tree whose root it is.
    latest: Vec<Time>,
}

impl<'a> Timeline<'a> {
    /// The timeline of `spans`.
    pub(super) fn of(spans: &'a [Span]) -> Self {
        let mut hosts: BTreeMap<&str, Host<'_>> = BTreeMap::new();
        for span in spans {
            hosts.entry(&span.host).or_default().spans.push(span);
        }
        for Host { spans, latest } in hosts.values_mut() {
            spans.sort_by_key(|span| span.started_at);
            *latest = spans.iter().map(|span| span.ended_at).collect();
            set_latest(latest);
        }
        Timeline { hosts }
    }

    /// The spans on `host` that begin before `to` and end after `from`, by their start. To find k of them among n takes
    /// O((k + 1) log n).
    pub(super) fn between(&self, host: &str, from: Time, to: Time) -> Vec<&'a Span> {
        let mut found = Vec::new();
        if let Some(Host { spans, latest }) = self.hosts.get(host) {
            find(spans, latest, (from, to), &mut found);
        }
        found
    }
}

/// Replaces the end at the root of each tree in `ends` by the latest end of the tree. Returns that of the whole tree.
fn set_latest(ends: &mut [Time]) -> Option<Time> {
    let (before, rest) = ends.split_at_mut(ends.len() / 2);
    let (root, after) = rest.split_first_mut()?;
    let latest = [Some(*root), set_latest(before), set_latest(after)].into_iter().flatten().max();
    *root = latest.unwrap_or(*root);
    latest
}

fn find<'a>(spans: &[&'a Span], latest: &[Time], (from, to): (Time, Time), found: &mut Vec<&'a Span>) {
    let root = spans.len() / 2;
    if latest.get(root).is_none_or(|latest| *latest <= from) {
        return;
    }
    find(&spans[..root], &latest[..root], (from, to), found);
    if spans[root].started_at < to {
        found.extend((spans[root].ended_at > from).then_some(spans[root]));
        find(&spans[root + 1..], &latest[root + 1..], (from, to), found);
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use proptest::prelude::*;

    use super::*;
    use crate::analysis::fixture;

    fn at(second: i64) -> Time {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(second)
    }

    proptest! {
        /// Clocks can be set back, so a span can end before it begins.
        #[test]
        fn what_is_found_is_what_a_look_at_every_span_finds(
            drawn in prop::collection::vec((any::<bool>(), 0..40_i64, -2..30_i64), 0..60),
            from in 0..40_i64,
            seconds in -2..30_i64,
        ) {
            let id = fixture::key("e", "m", 1, 1).id();
            let spans: Vec<Span> = drawn
                .into_iter()
                .enumerate()
                .map(|(index, (is_here, start, seconds))| Span {
                    job: id,
                    label: index.to_string(),
                    host: if is_here { "here" } else { "elsewhere" }.into(),
                    started_at: at(start),
                    ended_at: at(start + seconds),
                })
                .collect();
            let (from, to) = (at(from), at(from + seconds));
            let is_between = |span: &&Span| {
                span.host == "here" && span.started_at < to && span.ended_at > from
            };
            let mut expected: Vec<&Span> = spans.iter().filter(is_between).collect();
            expected.sort_by_key(|span| span.started_at);
            prop_assert_eq!(Timeline::of(&spans).between("here", from, to), expected);
        }
    }
}
