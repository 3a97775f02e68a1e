//! Pairs each row of the first side with the row of the same config on the second side.

use std::collections::{BTreeSet, HashMap};

use super::apart::NotCompared;
use super::terms::Terms;
use crate::analysis::group::Row;

/// The largest relative difference in FLOPs per sample between the sides: the precision of printed FLOPs.
const SAME_WORK: f64 = 1e-3;

/// Two rows that are compared.
#[derive(Clone, Debug)]
pub(super) struct Pair<'r, 'a> {
    /// The name of the config, without the terms that differ between the sides.
    pub(super) name: String,
    pub(super) from: &'r Row<'a>,
    pub(super) to: &'r Row<'a>,
}

/// The pairs of rows to compare, and the configs that are not compared, each with its reason.
pub(super) type Paired<'r, 'a> = (Vec<Pair<'r, 'a>>, Vec<(String, NotCompared)>);

/// Pairs the rows of two sides. Pairs are in the order of the first side.
pub(super) fn pair_rows<'r, 'a>(
    terms: &Terms<'_>,
    from: &[&'r Row<'a>],
    to: &[&'r Row<'a>],
) -> Paired<'r, 'a> {
    let (mut pairs, mut unpaired) = (Vec::new(), Vec::new());
    for Config { name, sides } in configs(terms, from, to) {
        match of_config(&name, &sides) {
            Ok((found, others)) => {
                pairs.extend(found);
                unpaired.extend(others);
            }
            Err(why) => unpaired.push((name, why)),
        }
    }
    (pairs, unpaired)
}

/// A config with its rows on either side.
struct Config<'r, 'a> {
    name: String,
    sides: [Vec<&'r Row<'a>>; 2],
}

fn configs<'r, 'a>(terms: &Terms<'_>, from: &[&'r Row<'a>], to: &[&'r Row<'a>]) -> Vec<Config<'r, 'a>> {
    let (mut found, mut places): (Vec<Config<'r, 'a>>, HashMap<Vec<String>, usize>) = Default::default();
    for (side, rows) in [from, to].into_iter().enumerate() {
        for row in rows {
            let place = *places.entry(terms.common(&row.config)).or_insert_with(|| {
                found.push(Config { name: terms.name(&row.config), sides: [Vec::new(), Vec::new()] });
                found.len() - 1
            });
            found[place].sides[side].push(row);
        }
    }
    found
}

/// Pairs the rows of one config: the only row of each side, or the rows of each machine.
fn of_config<'r, 'a>(name: &str, sides: &[Vec<&'r Row<'a>>; 2]) -> Result<Paired<'r, 'a>, NotCompared> {
    let mut counting: [Vec<&'r Row<'a>>; 2] = Default::default();
    for (place, rows) in sides.iter().enumerate() {
        if rows.is_empty() {
            return Err(NotCompared::OnlyOn { place: 1 - place });
        }
        counting[place] = rows.iter().copied().filter(|row| row.statistics.is_ok()).collect();
        if counting[place].is_empty() {
            return Err(NotCompared::NoRun { place, why: reasons(rows) });
        }
    }
    let [from, to] = counting;
    if let ([from], [to]) = (&from[..], &to[..]) {
        return comparable(from, to).map(|()| (vec![Pair { name: name.to_owned(), from, to }], Vec::new()));
    }
    by_machine(name, &from, &to)
}

/// Pairs the rows of a config that has several rows on a side, machine by machine.
fn by_machine<'r, 'a>(
    name: &str,
    from: &[&'r Row<'a>],
    to: &[&'r Row<'a>],
) -> Result<Paired<'r, 'a>, NotCompared> {
    let is_any_common = from.iter().any(|row| !on_machine_of(row, to).is_empty());
    let alone = |place: usize| match is_any_common {
        true => NotCompared::OnlyHere { place },
        false => NotCompared::NoCommonMachine,
    };
    let name_on = |row: &Row<'_>| format!("{name} on {}", host(row));
    let (mut pairs, mut unpaired) = (Vec::new(), Vec::new());
    for row in from {
        let name = name_on(row);
        let [ours, theirs] = [from, to].map(|rows| on_machine_of(row, rows));
        let ambiguous = [ours, theirs.clone()].into_iter().enumerate().find(|(_, rows)| rows.len() > 1);
        match (ambiguous, &theirs[..]) {
            (Some((place, rows)), _) => return Err(several(place, &rows)),
            (None, [other]) => match comparable(row, other) {
                Ok(()) => pairs.push(Pair { name, from: row, to: other }),
                Err(why) => unpaired.push((name, why)),
            },
            (None, _) => unpaired.push((name, alone(0))),
        }
    }
    let others = to.iter().filter(|row| on_machine_of(row, from).is_empty());
    unpaired.extend(others.map(|row| (name_on(row), alone(1))));
    Ok((pairs, unpaired))
}

/// The reasons why no run of `rows` counts, joined by `; `.
fn reasons(rows: &[&Row<'_>]) -> String {
    let reasons: BTreeSet<&String> = rows.iter().filter_map(|row| row.statistics.as_ref().err()).collect();
    reasons.into_iter().cloned().collect::<Vec<_>>().join("; ")
}

fn host<'r>(row: &'r Row<'_>) -> &'r str {
    row.circumstances.as_ref().map_or("an unknown host", |found| found.host())
}

/// The `rows` that ran on the machine of `row`.
fn on_machine_of<'r, 'a>(row: &Row<'a>, rows: &[&'r Row<'a>]) -> Vec<&'r Row<'a>> {
    let facts = |row: &Row<'a>| Some(row.runs.first()?.cell.record()?.provenance.host.clone());
    let Some(own) = facts(row) else { return Vec::new() };
    rows.iter().copied().filter(|other| facts(other).is_some_and(|host| host.is_machine_of(&own))).collect()
}

fn several(place: usize, rows: &[&Row<'_>]) -> NotCompared {
    let differing = match rows {
        [one, other, ..] => {
            let pair = one.circumstances.as_ref().zip(other.circumstances.as_ref());
            pair.map(|(one, other)| one.differences(other).join(", "))
        }
        _ => None,
    };
    NotCompared::Several { place, rows: rows.len(), differing: differing.unwrap_or_default() }
}

/// Checks that samples have the same unit and the same FLOPs in both rows.
pub(in crate::analysis) fn comparable(from: &Row<'_>, to: &Row<'_>) -> Result<(), NotCompared> {
    let [unit, other] = [from, to].map(|row| row.unit().to_string());
    if unit != other {
        return Err(NotCompared::OtherUnit { from: unit, to: other });
    }
    let work = |row: &Row<'_>| row.cost.as_ref().ok().map(|cost| cost.training_flops() / 1e9);
    match (work(from), work(to)) {
        (Some(from), Some(to)) if (from / to - 1.0).abs() > SAME_WORK => {
            Err(NotCompared::OtherWork { from, to })
        }
        _ => Ok(()),
    }
}
