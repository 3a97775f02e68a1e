//! When jobs ran on each host, to find those that ran at the same time.
//!
//! Two runs of one boot are compared by the time since that boot, which cannot be set. Runs of different boots never
//! overlap, even if their wall-clock times do. The wall clock is used only for records of older versions.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::crowd::{Company, Crowd};
use super::placed::Placed;
use crate::analysis::Span;

/// The most overlapping spans that are examined one by one. Most runs have none.
const FEW: usize = 32;

/// Spans by host, indexed by time. Built in O(n log n).
pub(super) struct Timeline<'a> {
    /// All spans of each host, by the wall clock.
    hosts: BTreeMap<&'a str, Index<'a>>,
    /// Those of each host without a boot, by the wall clock.
    older: BTreeMap<&'a str, Index<'a>>,
    /// Those of each host and boot, by the time since the boot.
    boots: BTreeMap<(&'a str, &'a str), Index<'a>>,
    /// The most microseconds of an overlap that does not count.
    least: i64,
}

/// Spans as a balanced tree: the middle of the list is its root, and the parts on either side of it are trees too.
#[derive(Default)]
struct Index<'a> {
    /// Sorted by start.
    spans: Vec<Placed<'a>>,
    /// For each span, the latest end in the tree whose root it is.
    latest: Vec<i64>,
    /// Built when a span has many overlapping ones.
    crowd: OnceCell<Crowd<'a>>,
}

impl<'a> Timeline<'a> {
    /// The timeline of `spans`. Only overlaps of more than `least_s` seconds count.
    pub(super) fn of(spans: &'a [Span], least_s: f64) -> Self {
        let (hosts, older, boots) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut timeline = Timeline { hosts, older, boots, least: most_micros(least_s) };
        for span in spans {
            let by_wall_clock = by_wall_clock(span);
            timeline.hosts.entry(&span.host.hostname).or_default().spans.push(by_wall_clock);
            match since_boot(span) {
                Some((boot, placed)) => {
                    timeline.boots.entry((&span.host.hostname, boot)).or_default().spans.push(placed);
                }
                None => timeline.older.entry(&span.host.hostname).or_default().spans.push(by_wall_clock),
            }
        }
        let Timeline { hosts, older, boots, .. } = &mut timeline;
        hosts.values_mut().chain(older.values_mut()).chain(boots.values_mut()).for_each(Index::sort);
        timeline
    }

    /// The spans that overlap `span` on its host: the first by label, the seconds of its overlap, and their number.
    /// Spans of the same job or with one of the `allowed` labels do not count. Takes O(log² n) for any number of them.
    pub(super) fn beside(&self, span: &Span, allowed: &[String]) -> Option<(&'a Span, f64, usize)> {
        let parts = self.parts(span);
        let found: Vec<(Company<'a>, Placed<'_>)> = parts
            .into_iter()
            .filter_map(|(index, of)| Some((index.company(of, self.least, allowed)?, of)))
            .collect();
        let count = found.iter().map(|(company, _)| company.count).sum();
        let (company, of) = found.into_iter().min_by_key(|(company, _)| company.first.rank())?;
        Some((company.first.span, of.overlap(&company.first) as f64 / 1e6, count))
    }

    /// The indexes that can contain overlaps of `span`, each with its place there.
    fn parts<'b>(&'b self, span: &'b Span) -> Vec<(&'b Index<'a>, Placed<'b>)> {
        let host = span.host.hostname.as_str();
        let parts = match since_boot(span) {
            Some((boot, placed)) => {
                [(self.boots.get(&(host, boot)), placed), (self.older.get(host), by_wall_clock(span))]
            }
            None => [(self.hosts.get(host), by_wall_clock(span)), (None, by_wall_clock(span))],
        };
        parts.into_iter().filter_map(|(index, placed)| Some((index?, placed))).collect()
    }
}

fn by_wall_clock(span: &Span) -> Placed<'_> {
    let micros = |time: DateTime<Utc>| time.timestamp_micros();
    Placed { from: micros(span.started_at), to: micros(span.ended_at), span }
}

/// Also returns the boot.
fn since_boot(span: &Span) -> Option<(&str, Placed<'_>)> {
    let (boot, (from, to)) = span.host.boot_id.as_deref().zip(span.since_boot_s)?;
    // Microseconds since a boot are far below 2^53.
    let micros = |seconds: f64| (seconds * 1e6) as i64;
    Some((boot, Placed { from: micros(from), to: micros(to), span }))
}

/// `seconds` in whole microseconds, rounded down.
fn most_micros(seconds: f64) -> i64 {
    let rounded = (seconds * 1e6).round() as i64;
    if rounded as f64 / 1e6 > seconds { rounded - 1 } else { rounded }
}

impl<'a> Index<'a> {
    fn sort(&mut self) {
        self.spans.sort_by_key(|placed| placed.from);
        self.latest = self.spans.iter().map(|placed| placed.to).collect();
        set_latest(&mut self.latest);
    }

    fn company(&self, of: Placed<'_>, least: i64, allowed: &[String]) -> Option<Company<'a>> {
        match self.overlapping(of, FEW) {
            Some(few) => company_of(&few, of, least, allowed),
            None => self.crowd.get_or_init(|| Crowd::of(&self.spans, least)).company(of, least, allowed),
        }
    }

    /// Spans that begin before the end of `of` and end after its start, by their start; `None` if there are more than
    /// `most`. Finding k of n takes O((k + 1) log n).
    fn overlapping(&self, of: Placed<'_>, most: usize) -> Option<Vec<Placed<'a>>> {
        let mut found = Vec::new();
        find(&self.spans, &self.latest, (of.from, of.to), most, &mut found);
        (found.len() <= most).then_some(found)
    }
}

/// As [`Crowd::company`], by examining each of `spans`.
fn company_of<'a>(
    spans: &[Placed<'a>],
    of: Placed<'_>,
    least: i64,
    allowed: &[String],
) -> Option<Company<'a>> {
    let is_foreign =
        |other: &&Placed<'a>| other.span.job != of.span.job && !allowed.contains(&other.span.label);
    let counts = spans.iter().filter(|other| of.overlap(other) > least).filter(is_foreign);
    let first = counts.clone().min_by_key(|placed| placed.rank())?;
    Some(Company { first: *first, count: counts.count() })
}

/// Replaces the end at the root of each tree in `ends` by the latest end of the tree. Returns the latest of all.
fn set_latest(ends: &mut [i64]) -> Option<i64> {
    let (before, rest) = ends.split_at_mut(ends.len() / 2);
    let (root, after) = rest.split_first_mut()?;
    let latest = [Some(*root), set_latest(before), set_latest(after)].into_iter().flatten().max();
    *root = latest.unwrap_or(*root);
    latest
}

/// Adds overlapping spans to `found`, until there are more than `most`.
fn find<'a>(
    spans: &[Placed<'a>],
    latest: &[i64],
    (from, to): (i64, i64),
    most: usize,
    found: &mut Vec<Placed<'a>>,
) {
    let root = spans.len() / 2;
    if found.len() > most || latest.get(root).is_none_or(|latest| *latest <= from) {
        return;
    }
    find(&spans[..root], &latest[..root], (from, to), most, found);
    if spans[root].from < to {
        found.extend((spans[root].to > from).then_some(spans[root]));
        find(&spans[root + 1..], &latest[root + 1..], (from, to), most, found);
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use proptest::prelude::*;

    use super::*;
    use crate::analysis::fixture;
    use crate::record::HostFacts;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(second)
    }

    /// A span by the wall clock, and since a boot if there is one.
    fn span(label: usize, host: &str, (start, end): (i64, i64), boot: Option<(&str, f64, f64)>) -> Span {
        let boot_id = boot.map(|(boot, ..)| boot.to_owned());
        Span {
            job: fixture::key("e", "m", 1, 1).id(),
            label: label.to_string(),
            host: HostFacts { hostname: host.into(), boot_id, ..HostFacts::default() }.into(),
            started_at: at(start),
            ended_at: at(end),
            since_boot_s: boot.map(|(_, start, end)| (start, end)),
        }
    }

    /// Labels and seconds of the overlaps of the first of `spans`.
    fn beside_first(spans: &[Span]) -> Vec<(&str, f64)> {
        let timeline = Timeline::of(spans, 0.0);
        let parts = timeline.parts(&spans[0]).into_iter();
        let found = parts.flat_map(|(index, of)| {
            let all = index.overlapping(of, usize::MAX).unwrap().into_iter();
            all.map(move |other| (other.span.label.as_str(), of.overlap(&other) as f64 / 1e6))
        });
        found.filter(|(label, _)| *label != "0").collect()
    }

    #[test]
    fn a_changed_wall_clock_causes_no_overlap() {
        let first = span(0, "here", (100, 200), Some(("boot", 1000.0, 1100.0)));
        // Two hours later, after the clock was set back by as much; and a real overlap.
        let later = span(1, "here", (100, 200), Some(("boot", 8200.0, 8300.0)));
        let beside = span(2, "here", (9000, 9100), Some(("boot", 1090.0, 1190.0)));
        let of_another_boot = span(3, "here", (100, 200), Some(("other", 1000.0, 1100.0)));
        let elsewhere = span(4, "there", (100, 200), Some(("boot", 1000.0, 1100.0)));
        // An older record has only the wall clock.
        let older = span(5, "here", (195, 300), None);
        let spans = [first, later, beside, of_another_boot, elsewhere, older];
        assert_eq!(beside_first(&spans), [("2", 10.0), ("5", 5.0)]);
        let older_first = [span(0, "here", (195, 300), None), spans[1].clone()];
        assert_eq!(beside_first(&older_first), [("1", 5.0)]);
    }

    #[test]
    fn many_overlaps_are_counted_and_the_first_is_named() {
        let numbered = |number: usize, boot| {
            let job = fixture::key("e", "m", 1, u32::try_from(number).unwrap() + 1).id();
            Span { job, ..span(number + 1000, "here", (0, 10), boot) }
        };
        let boot = || Some(("boot", 5.0, 15.0));
        let spans: Vec<Span> = (0..3 * FEW).map(|number| numbered(number, boot())).collect();
        let older: Vec<Span> = (3 * FEW..3 * FEW + 2).map(|number| numbered(number, None)).collect();
        let all = [spans, older].concat();
        let timeline = Timeline::of(&all, 1.0);
        let beside = |index: usize, allowed: &[String]| {
            timeline
                .beside(&all[index], allowed)
                .map(|(first, seconds, count)| (first.label.as_str(), seconds, count))
        };
        assert_eq!(beside(0, &[]), Some(("1001", 10.0, 3 * FEW + 1)));
        assert_eq!(beside(5, &[]), Some(("1000", 10.0, 3 * FEW + 1)));
        let allowed = ["1000".to_owned(), "1001".to_owned(), "1000".to_owned()];
        assert_eq!(beside(5, &allowed), Some(("1002", 10.0, 3 * FEW - 1)));
        assert_eq!(beside(3 * FEW, &[]), Some(("1000", 10.0, 3 * FEW + 1)), "an older record");
        assert!(Timeline::of(&all, 10.0).beside(&all[0], &[]).is_none(), "not longer than the threshold");
        assert_eq!(
            Timeline::of(&all, 9.999_999).beside(&all[0], &[]).map(|found| found.2),
            Some(3 * FEW + 1)
        );
    }

    proptest! {
        /// Clocks can be set back, so a span can end before it begins.
        #[test]
        fn finds_the_same_overlaps_as_examining_every_span(
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
                span.host.hostname == "here" && span.started_at < to && span.ended_at > from
            };
            let mut expected: Vec<&Span> = spans.iter().filter(is_between).collect();
            expected.sort_by_key(|span| span.started_at);
            let timeline = Timeline::of(&spans, 0.0);
            let mut found: Vec<Placed<'_>> = Vec::new();
            for (index, of) in timeline.parts(&asked) {
                found.extend(index.overlapping(of, usize::MAX).unwrap());
            }
            prop_assert_eq!(found.iter().map(|placed| placed.span).collect::<Vec<_>>(), expected);
        }

        /// The definition examines each span. Labels are not unique, and some are allowed.
        #[test]
        fn counts_a_crowd_as_examining_each_span_does(
            drawn in prop::collection::vec((0..4_usize, 1..4_u32, 0..40_i64, -2..30_i64), 0..80),
            least in 0..6_i64,
            allowed in prop::collection::vec(0..5_usize, 0..3),
        ) {
            let spans: Vec<Span> = drawn
                .into_iter()
                .map(|(label, repeat, start, seconds)| {
                    // Jobs can have the same label, but a job has only one.
                    let job = fixture::key(&format!("e{label}"), "m", 1, repeat).id();
                    Span { job, ..span(label, "here", (start, start + seconds), None) }
                })
                .collect();
            let allowed: Vec<String> = allowed.iter().map(usize::to_string).collect();
            let placed: Vec<Placed<'_>> = spans.iter().map(by_wall_clock).collect();
            let least = least * 1_000_000;
            let crowd = Crowd::of(&placed, least);
            for of in &placed {
                let seen = |company: Option<Company<'_>>| {
                    company.map(|Company { first, count }| (first.span.label.clone(), first.span.job, count))
                };
                let expected = seen(company_of(&placed, *of, least, &allowed));
                prop_assert_eq!(seen(crowd.company(*of, least, &allowed)), expected);
            }
        }
    }
}
