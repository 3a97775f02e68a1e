//! The fastest config of each network, with its interval and, if known, its limit.

use std::collections::BTreeMap;

use super::known::{Known, some_of};
use super::measured::distinct;
use crate::analysis::bound::{Bound, Class};
use crate::analysis::group::Row;
use crate::analysis::printed::{TOO_FEW, Throughput};

/// The most networks that are named.
const SHOWN: usize = 3;

pub(super) fn sentences(known: Known<'_, '_>) -> Vec<String> {
    let models = distinct(known.results().map(|(row, _)| row.config.model.to_string()));
    if models.is_empty() {
        return vec!["No config has a throughput.".to_owned()];
    }
    let best: Vec<Best> = models.iter().take(SHOWN).filter_map(|model| Best::of(model, known)).collect();
    let more = match models.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("; {more} more in the table"),
    };
    let is_one = best.iter().all(|it| it.settings == best[0].settings);
    let head = if is_one { best[0].settings.as_str() } else { "" };
    let clause = |it: &Best| if is_one { it.clause("") } else { it.clause(&it.settings) };
    let clauses: Vec<String> = best.iter().map(clause).collect();
    let mut found = vec![format!("Fastest (95 % interval){head}: {}{more}.", clauses.join("; "))];
    found.extend(limits(known));
    found
}

/// The fastest row of a network in any env.
struct Best {
    /// `resnet18 10.03 images/s (9.86 to 10.16) at batch 16`
    rate: String,
    /// `, fp32 compile=true, on cpu`
    settings: String,
    /// `, kernel-bound`
    limit: String,
}

impl Best {
    fn of(model: &str, known: Known<'_, '_>) -> Option<Best> {
        let rows = known.results().filter(|(row, _)| row.config.model == *model);
        let (row, class) =
            rows.reduce(
                |best, other| if other.0.samples_per_s() > best.0.samples_per_s() { other } else { best },
            )?;
        let statistics = row.statistics.as_ref().ok()?;
        let Throughput { geometric_mean, interval, .. } = Throughput::of(statistics);
        let scatter = if interval == TOO_FEW { format!("n = {}", statistics.n) } else { interval };
        Some(Best {
            rate: format!(
                "{model} {geometric_mean} {}/s ({scatter}) at batch {}",
                row.unit(),
                row.config.batch
            ),
            settings: format!(", {}{}{}", row.config.precision, row.distinction, place(row, known)),
            limit: limit(class),
        })
    }

    fn clause(&self, settings: &str) -> String {
        format!("{}{settings}{}", self.rate, self.limit)
    }
}

/// `, kernel-bound`; empty if the limit is unknown.
fn limit(class: &Class) -> String {
    match class.bound() {
        Bound::Unknown => String::new(),
        Bound::Mixed => ", limits mixed".to_owned(),
        bound => format!(", {bound}"),
    }
}

/// ` (2 of 2), on h100 of node-2`: the number of the row if its config has several rows, and the env if there are
/// several. The host is named if the env has several hosts or the config several rows.
fn place(row: &Row<'_>, known: Known<'_, '_>) -> String {
    let envs = distinct(known.results().map(|(row, _)| row.config.env.to_string()));
    let of_env = known.results().filter(|(other, _)| other.config.env == row.config.env);
    let hosts = distinct(of_env.filter_map(|(row, _)| host(row)).map(str::to_owned));
    let (number, of) = row.part;
    let part = if of > 1 { format!(" ({number} of {of})") } else { String::new() };
    let env = Some(row.config.env.as_str()).filter(|_| envs.len() > 1);
    let host = host(row).filter(|_| hosts.len() > 1 || of > 1);
    let words: Vec<&str> = env.into_iter().chain(host).collect();
    if words.is_empty() { part } else { format!("{part}, on {}", words.join(" of ")) }
}

/// The host that `row` ran on; `None` if no run has a result.
fn host<'r>(row: &'r Row<'_>) -> Option<&'r str> {
    row.circumstances.as_ref().map(|found| found.host())
}

/// `Limits: host-bound in 2 of 7 rows.`; `None` if all limits are unknown.
fn limits(known: Known<'_, '_>) -> Option<String> {
    let limits = limits_text(known.rows, known.classes);
    (!limits.is_empty()).then(|| format!("Limits: {limits}."))
}

/// `host-bound in 2 of 7 rows; mixed in 1 of 7 rows`, of the rows with a throughput. Empty if all limits are unknown.
pub fn limits_text(rows: &[Row<'_>], classes: &[Class]) -> String {
    let results = || rows.iter().zip(classes).filter(|(row, _)| row.statistics.is_ok());
    let mut by_bound: BTreeMap<String, usize> = BTreeMap::new();
    for (_, class) in results().filter(|(_, class)| class.bound() != Bound::Unknown) {
        *by_bound.entry(class.bound().to_string()).or_default() += 1;
    }
    let all = results().count();
    let clause = |(bound, number): (&String, &usize)| format!("{bound} in {}", some_of(*number, all, "row"));
    by_bound.iter().map(clause).collect::<Vec<_>>().join("; ")
}
