//! The place of a point with counted bytes below the roofs of its device.

use std::fmt;

use super::{AT_ROOF, Bound, Class, Evidence, FAR_FROM_ROOF};
use crate::analysis::claim::{Compared, Limit, Relation, Sentence};
use crate::analysis::peaks::Range;

/// The place of a point below its roofs. The throughput scatters, and a roof might only be known as a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// The attained FLOP/s.
    pub attained: Range,
    /// The peak, in FLOP/s.
    pub peak: Range,
    /// The FLOP/s that the bandwidth allows at its intensity.
    pub allowed: Range,
}

/// The region of a point below two exactly known roofs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Region {
    /// At a roof or far from both: the bound is decided.
    Bound(Bound),
    /// Not at a roof, and not far from both.
    Between,
    /// The roof, the bytes or the FLOPs are wrong, and it is unknown which.
    Above,
}

impl Region {
    pub(super) fn of(of_compute: f64, of_memory: f64) -> Region {
        let highest = of_compute.max(of_memory);
        if highest > 1.0 {
            Region::Above
        } else if highest < FAR_FROM_ROOF {
            Region::Bound(Bound::Latency)
        } else if highest < AT_ROOF {
            Region::Between
        } else if of_compute >= of_memory {
            Region::Bound(Bound::Compute)
        } else {
            Region::Bound(Bound::Memory)
        }
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Region::Bound(bound) => bound.fmt(f),
            Region::Between => f.write_str("between its roofs"),
            Region::Above => f.write_str("above its roof"),
        }
    }
}

impl Place {
    /// Its share of the peak.
    pub fn of_compute(&self) -> Range {
        self.attained.over(self.peak)
    }

    /// Its share of the FLOP/s that the bandwidth allows.
    pub fn of_memory(&self) -> Range {
        self.attained.over(self.allowed)
    }

    /// The class from its regions; unknown if its ranges touch more than one. Its bytes must have been counted.
    pub(in crate::analysis) fn class(&self) -> Class {
        let regions = self.regions();
        let (bound, start) = match regions[..] {
            [Region::Bound(bound)] => (bound, String::new()),
            [region] => (Bound::Unknown, format!("it is {region}: ")),
            _ => {
                let words: Vec<String> = regions.iter().map(Region::to_string).collect();
                let could = words.join(" or ");
                (Bound::Unknown, format!("{}, and it could be {could}: ", self.vague()))
            }
        };
        let text = format!("{start}with the bytes that ncu counted it reaches {self}");
        let evidence = if bound == Bound::Unknown { Evidence::Nothing } else { Evidence::Counters };
        Class::shown(bound, evidence, Sentence::new(text, self.claims()))
    }

    /// The comparisons of its shares with each limit.
    pub(in crate::analysis) fn claims(&self) -> Vec<Compared> {
        let ends = [self.of_compute(), self.of_memory()].map(Range::ends).concat();
        ends.into_iter().flat_map(sides).collect()
    }

    /// Every region that its ranges touch, from the least share to the most, even without an end in it.
    pub(super) fn regions(&self) -> Vec<Region> {
        let Place { attained, peak, allowed } = *self;
        let lower_roof = Range { low: peak.low.min(allowed.low), high: peak.high.min(allowed.high) };
        let highest = attained.over(lower_roof);
        let touched = [
            (Region::Bound(Bound::Latency), highest.low < FAR_FROM_ROOF),
            (Region::Between, highest.low < AT_ROOF && highest.high >= FAR_FROM_ROOF),
            (Region::Bound(Bound::Memory), self.can_be_at_memory_roof()),
            (Region::Bound(Bound::Compute), self.can_be_at_compute_roof()),
            (Region::Above, highest.high > 1.0),
        ];
        touched.into_iter().filter_map(|(region, is_touched)| is_touched.then_some(region)).collect()
    }

    /// Whether it could be at the compute roof and not above any: that roof is then no higher than the other.
    fn can_be_at_compute_roof(&self) -> bool {
        let Place { attained, peak, allowed } = *self;
        peak.low <= allowed.high
            && attained.low <= peak.high.min(allowed.high)
            && attained.high / peak.low >= AT_ROOF
    }

    /// Whether it could be at the memory roof and not above any: that roof is then lower than the other.
    fn can_be_at_memory_roof(&self) -> bool {
        let Place { attained, peak, allowed } = *self;
        allowed.low.max(attained.low) < peak.high
            && attained.low <= allowed.high
            && attained.high / allowed.low >= AT_ROOF
    }

    /// Which of its numbers are only known as ranges.
    fn vague(&self) -> &'static str {
        match (self.peak.is_wide() || self.allowed.is_wide(), self.attained.is_wide()) {
            (true, true) => "a roof and the throughput are only known as ranges",
            (false, true) => "the throughput scatters",
            _ => "a roof is only known as a range",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |share: Range| match share.ends().map(percent) {
            [low, high] if low == high => high,
            [low, high] => format!("{low} to {high}"),
        };
        let (compute, memory) = (text(self.of_compute()), text(self.of_memory()));
        write!(f, "{compute} % of the compute roof and {memory} % of the memory roof")
    }
}

/// The bound from shares of the two roofs; unknown unless all ends of the ranges agree.
pub(in crate::analysis) fn of_shares(of_compute: Range, of_memory: Range) -> Bound {
    let ends =
        of_compute.ends().into_iter().flat_map(|one| of_memory.ends().map(|other| Region::of(one, other)));
    let mut regions: Vec<Region> = ends.collect();
    regions.dedup();
    match regions[..] {
        [Region::Bound(bound)] => bound,
        _ => Bound::Unknown,
    }
}

/// The comparisons of `share`, in percent, with every limit.
pub(in crate::analysis) fn sides(share: f64) -> [Compared; 3] {
    let limits = [
        (FAR_FROM_ROOF, Relation::From, Relation::Below),
        (AT_ROOF, Relation::From, Relation::Below),
        (1.0, Relation::Above, Relation::UpTo),
    ];
    let side = |(limit, beyond, within): (f64, Relation, Relation)| {
        let relation = if beyond.holds(share, limit) { beyond } else { within };
        (100.0 * share, relation, Limit::understood(100.0 * limit))
    };
    Compared::all(limits.map(side), 0)
}

/// `share` in percent, with enough decimals to be on the right side of every limit.
pub(in crate::analysis) fn percent(share: f64) -> String {
    let [digits, ..] = sides(share);
    digits.number().to_owned()
}
