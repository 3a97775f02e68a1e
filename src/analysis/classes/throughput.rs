//! The class by the throughput: the share of the compute roof that a row attains, for any traffic.

use crate::analysis::bound::{AT_ROOF, Bound, Class, Evidence, percent, sides};
use crate::analysis::claim::{Compared, Sentence};
use crate::analysis::group::Row;
use crate::analysis::peaks::Range;
use crate::analysis::roofline::{Point, rates};

/// The class by the share of the compute roof that `row` attains. `None` if that is unknown or inconclusive. It does
/// not depend on traffic, but by `modelled` bytes the row might be at the memory roof as well.
pub(super) fn by_throughput(row: &Row<'_>, modelled: Option<&Point>) -> Option<Class> {
    let share = share_of_compute(row)?;
    let (range, mut claims) = shares_text(share);
    let mut text = format!("it attains {range} % of the compute roof");
    if share.low > 1.0 {
        let why = Sentence::new(format!("{text}, which is above the roof"), claims);
        return Some(Class::unknown(why));
    }
    let of_memory = modelled.map(|point| point.place.attained.over(point.place.allowed));
    if let Some(of_memory) = of_memory.filter(|share| share.high >= AT_ROOF) {
        let (range, more) = shares_text(of_memory);
        text += &format!(
            ", and may be at the memory roof as well: if data moved once per layer, that would be {range} % of it"
        );
        claims.extend(more);
    }
    (share.low >= AT_ROOF)
        .then(|| Class::shown(Bound::Compute, Evidence::Throughput, Sentence::new(text, claims)))
}

/// A share of a roof in percent, with its comparisons.
pub(super) fn shares_text(share: Range) -> (String, Vec<Compared>) {
    let [low, high] = share.ends().map(percent);
    let text = if low == high { high } else { format!("{low} to {high}") };
    (text, share.ends().into_iter().flat_map(sides).collect())
}

/// FLOP/s ÷ the compute ceiling, with the scatter of the throughput and the range of the ceiling.
pub(super) fn share_of_compute(row: &Row<'_>) -> Option<Range> {
    let flops = row.cost.as_ref().ok()?.training_flops();
    let ceiling = row.ceilings()?.ceiling(row.config.precision)?;
    Some(rates(row)?.times(flops).over(ceiling.flops_per_s))
}
