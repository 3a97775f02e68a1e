//! The fastest config of each network in each env, for the terminal and the page.

use super::analyse::Analysis;
use super::fastest::settings;
use super::group::Row;
use super::printed::{TOO_FEW, Throughput};

/// The digits of a share of the peak.
const DIGITS: usize = 2;

/// A line of a table of the fastest configs.
#[derive(Debug)]
pub struct Leader<'a> {
    /// The fastest row of its network and env.
    pub row: &'a Row<'a>,
    /// The settings that distinguish it from others of its network: the parameters that vary, and the host.
    pub settings: String,
    /// The numbers, or the reason why there is no result.
    pub measured: Result<Measured, &'a str>,
}

/// The numbers of a leader, in words.
#[derive(Debug)]
pub struct Measured {
    /// The throughput.
    pub rate: String,
    /// Its interval, or the number of runs if they are too few for one.
    pub interval: String,
    /// The share of the peak in percent, if it is known.
    pub share: Option<String>,
    /// Its limit.
    pub limit: String,
}

/// A line per env and network, in the order of the rows.
pub fn leaders<'a>(analysis: &'a Analysis<'_>) -> impl Iterator<Item = Leader<'a>> {
    analysis.fastest.iter().map(|index| {
        let row = &analysis.rows[*index];
        let measured = row.statistics.as_ref().map_err(String::as_str).map(|statistics| {
            let Throughput { geometric_mean: rate, interval } = Throughput::of(statistics);
            let interval = if interval == TOO_FEW { format!("n = {}", statistics.n) } else { interval };
            let share = row.share_of_peak().map(|share| share.times(100.0).text(DIGITS));
            Measured { rate, interval, share, limit: analysis.classes[*index].bound().to_string() }
        });
        Leader { row, settings: settings(*index, &analysis.rows, &analysis.lines), measured }
    })
}
