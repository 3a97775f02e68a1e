//! How fast each network trains at best, and what limits it where something shows that.

use std::collections::BTreeMap;

use super::known::{Known, some_of};
use super::measured::distinct;
use crate::analysis::bound::Bound;
use crate::analysis::group::Row;
use crate::analysis::printed::{TOO_FEW, Throughput};

/// How many envs are told, and how many networks of each.
const SHOWN: usize = 4;

pub(super) fn sentences(known: Known<'_, '_>) -> Vec<String> {
    let envs = distinct(known.results().map(|(row, _)| row.config.env.to_string()));
    if envs.is_empty() {
        return vec!["There is none: no config has a throughput.".to_owned()];
    }
    let mut told: Vec<String> = envs.iter().take(SHOWN).map(|env| of_env(env, envs.len(), known)).collect();
    if envs.len() > SHOWN {
        told.push(format!("The table has {} more envs.", envs.len() - SHOWN));
    }
    told.extend(limits(known));
    told
}

/// `Highest median on cpu (95 % interval): resnet18 10.03 images/s (9.86 to 10.16) at batch 16, fp32; …`
fn of_env(env: &str, envs: usize, known: Known<'_, '_>) -> String {
    let rows: Vec<&Row<'_>> =
        known.results().map(|(row, _)| row).filter(|row| *row.config.env == *env).collect();
    let models = distinct(rows.iter().map(|row| row.config.model.to_string()));
    let hosts = distinct(rows.iter().filter_map(|row| host(row)).map(str::to_owned));
    let best = |model: &String| {
        let of_model = rows.iter().filter(|row| *row.config.model == **model);
        of_model.copied().reduce(|best, row| if row.median() > best.median() { row } else { best })
    };
    let best = models.iter().take(SHOWN).filter_map(best);
    let clauses: Vec<String> = best.map(|row| clause(row, hosts.len() > 1)).collect();
    let more = match models.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("; {more} more in the table"),
    };
    let place = if envs > 1 { format!(" on {env}") } else { String::new() };
    format!("Highest median{place} (95 % interval): {}{more}.", clauses.join("; "))
}

/// `resnet18 10.03 images/s (9.86 to 10.16) at batch 16, fp32`, and the host if `names_host`.
fn clause(row: &Row<'_>, names_host: bool) -> String {
    let config = &row.config;
    let Ok(statistics) = &row.statistics else { return format!("{} without a throughput", config.model) };
    let Throughput { median, interval, .. } = Throughput::of(statistics);
    let scatter = if interval == TOO_FEW { format!("n = {}", statistics.n) } else { interval };
    let settings = format!("{}{}{}", config.precision, row.distinction, place(row, names_host));
    format!("{} {median} {}/s ({scatter}) at batch {}, {settings}", config.model, row.unit(), config.batch)
}

/// ` (2 of 2), on node-2`: of a config with several rows, which one it is. Such a row, too, has its host named.
fn place(row: &Row<'_>, names_host: bool) -> String {
    let (number, of) = row.part;
    let part = if of > 1 { format!(" ({number} of {of})") } else { String::new() };
    let host = host(row).filter(|_| names_host || of > 1);
    format!("{part}{}", host.map(|host| format!(", on {host}")).unwrap_or_default())
}

/// The host that `row` ran on; `None` if no run has a result.
fn host<'r>(row: &'r Row<'_>) -> Option<&'r str> {
    row.circumstances.as_ref().map(|found| found.host())
}

/// `What limits them: host-bound in 2 of 7 rows.`; nothing if no row shows what limits it.
fn limits(known: Known<'_, '_>) -> Option<String> {
    let all = known.results().count();
    let mut by_bound: BTreeMap<String, usize> = BTreeMap::new();
    for (_, class) in known.results().filter(|(_, class)| class.bound() != Bound::Unknown) {
        *by_bound.entry(class.bound().to_string()).or_default() += 1;
    }
    let clause = |(bound, number): (&String, &usize)| format!("{bound} in {}", some_of(*number, all, "row"));
    let clauses: Vec<String> = by_bound.iter().map(clause).collect();
    (!clauses.is_empty()).then(|| format!("What limits them: {}.", clauses.join("; ")))
}
