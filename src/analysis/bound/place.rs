//! Where a point with counted bytes lies below the roofs of its device.

use std::fmt;

use super::{AT_ROOF, Bound, Class, Evidence, FAR_FROM_ROOF};
use crate::analysis::claim::{Compared, Limit, Relation, Sentence};
use crate::analysis::peaks::Range;

/// Where a point lies below its roofs. The throughput scatters, and a roof may only be known as a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// The FLOP/s that were attained.
    pub attained: Range,
    /// The peak, in FLOP/s.
    pub peak: Range,
    /// The FLOP/s that the bandwidth allows at its intensity.
    pub allowed: Range,
}

/// Where a point lies below two roofs that are exactly known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Region {
    /// At or far from the roofs.
    Told(Bound),
    /// Neither at a roof nor far from both.
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
            Region::Told(Bound::Latency)
        } else if highest < AT_ROOF {
            Region::Between
        } else if of_compute >= of_memory {
            Region::Told(Bound::Compute)
        } else {
            Region::Told(Bound::Memory)
        }
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Region::Told(bound) => bound.fmt(f),
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

    /// Its share of what the bandwidth allows.
    pub fn of_memory(&self) -> Range {
        self.attained.over(self.allowed)
    }

    /// The bound that it shows, if its bytes were counted, and why. All ends of its ranges must show the same.
    pub(in crate::analysis) fn class(&self) -> Class {
        let regions = self.regions();
        let (bound, start) = match regions[..] {
            [Region::Told(bound)] => (bound, String::new()),
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

    /// On which side of each limit its shares lie.
    pub(in crate::analysis) fn claims(&self) -> Vec<Compared> {
        let ends = [self.of_compute(), self.of_memory()].map(Range::ends).concat();
        ends.into_iter().flat_map(sides).collect()
    }

    /// Every region that its ranges touch, from the least share to the most. One of them can lie between all ends.
    pub(super) fn regions(&self) -> Vec<Region> {
        let Place { attained, peak, allowed } = *self;
        let lower_roof = Range { low: peak.low.min(allowed.low), high: peak.high.min(allowed.high) };
        let highest = attained.over(lower_roof);
        let touched = [
            (Region::Told(Bound::Latency), highest.low < FAR_FROM_ROOF),
            (Region::Between, highest.low < AT_ROOF && highest.high >= FAR_FROM_ROOF),
            (Region::Told(Bound::Memory), self.can_be_at_memory_roof()),
            (Region::Told(Bound::Compute), self.can_be_at_compute_roof()),
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

    /// What of it is only known as a range.
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

/// What shares of the two roofs show: all their ends must show the same.
pub(in crate::analysis) fn of_shares(of_compute: Range, of_memory: Range) -> Bound {
    let ends =
        of_compute.ends().into_iter().flat_map(|one| of_memory.ends().map(|other| Region::of(one, other)));
    let mut regions: Vec<Region> = ends.collect();
    regions.dedup();
    match regions[..] {
        [Region::Told(bound)] => bound,
        _ => Bound::Unknown,
    }
}

/// On which side of every limit `share` lies, in percent.
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

/// `share` in percent, with as many decimals as show on which side of every limit it is.
pub(in crate::analysis) fn percent(share: f64) -> String {
    let [digits, ..] = sides(share);
    digits.number().to_owned()
}
