//! The scatter of the numbers.

use super::known::{Known, some_of};
use crate::analysis::claim::{Compared, Limit, Relation};
use crate::analysis::findings::FindingKind;
use crate::analysis::group::Row;
use crate::stats;
use crate::text::{capitalised, significant};

/// The interval of a row as a share of its throughput.
struct Width<'k, 'a> {
    row: &'k Row<'a>,
    /// Half the interval ÷ the geometric mean.
    half: f64,
}

pub(super) fn sentences(known: Known<'_, '_>) -> Vec<String> {
    let all = known.results().count();
    if all == 0 {
        return vec!["No row has a throughput.".to_owned()];
    }
    let widths: Vec<Width<'_, '_>> = known.results().filter_map(|(row, _)| width(row)).collect();
    let (exact, wide): (Vec<_>, Vec<_>) = widths.into_iter().partition(|width| width.half == 0.0);
    let few = all - exact.len() - wide.len();
    let mut sentences = Vec::from_iter(scatter(&wide, all));
    if few > 0 {
        sentences.push(capitalised(&format!("{} too few runs for an interval (n < 3).", have(few, all))));
    }
    if !exact.is_empty() {
        sentences.push(capitalised(&format!("{} runs of identical throughput.", have(exact.len(), all))));
    }
    let resolution = known.findings.iter().filter(|finding| finding.kind == FindingKind::Resolution);
    sentences.extend(resolution.map(|finding| finding.text.clone()));
    sentences
}

fn width<'k, 'a>(row: &'k Row<'a>) -> Option<Width<'k, 'a>> {
    let statistics = row.statistics.as_ref().ok()?;
    let interval = statistics.interval.as_ref().ok()?;
    Some(Width { row, half: (interval.high - interval.low) / 2.0 / statistics.geometric_mean })
}

/// `all 7 rows have`, `the only row has`
fn have(number: usize, all: usize) -> String {
    format!("{} {}", some_of(number, all, "row"), if number == 1 { "has" } else { "have" })
}

/// The median and the largest width of the intervals of `wide`.
fn scatter(wide: &[Width<'_, '_>], all: usize) -> Option<String> {
    let halves: Vec<f64> = wide.iter().map(|width| 100.0 * width.half).collect();
    let widest = wide.iter().reduce(|most, width| if width.half > most.half { width } else { most })?;
    let have = have(wide.len(), all);
    let label = widest.row.label();
    let most = 100.0 * widest.half;
    if wide.len() == 1 {
        let size = significant(most, 2);
        return Some(capitalised(&format!("{have} a 95 % interval: ± {size} % ({label}).")));
    }
    let median = stats::median(&halves).ok()?;
    let size = Compared::new(median, Relation::UpTo, Limit::printed(most, 1), 1);
    let text = format!(
        "{have} a 95 % interval: ± {} % in the median, ± {} % at most ({label}).",
        size.number(),
        size.limit()
    );
    Some(capitalised(&text))
}
