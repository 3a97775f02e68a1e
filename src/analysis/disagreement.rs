//! Disagreement: configs of an effect whose ratios differ, and the setting that explains the differences.

use indexmap::IndexMap;

use super::compare::{Compared, Comparison};
use super::versus::{Versus, ratio_texts};
use crate::job::Key;
use crate::stats::Interval;

/// The least share of the spread of the ratios that an explanation accounts for.
const EXPLAINS: f64 = 0.75;

/// How many values of an explanation are named.
const GROUPS: usize = 6;

/// Configs without a common ratio.
#[derive(Clone, Debug)]
pub struct Disagreement {
    /// The name of the setting that explains it, and the ratio for each of its values, in the order of the rows. `None`
    /// without an explanation.
    pub by: Option<(String, Vec<Group>)>,
}

impl Disagreement {
    /// ``depends on `env`: 1.75 × [1.72, 1.78] for a100, 0.90 × [0.85, 0.95] for t4``, or
    /// `differs from config to config`.
    pub fn text(&self) -> String {
        let Some((name, groups)) = &self.by else { return "differs from config to config".to_owned() };
        let more = groups.len().saturating_sub(GROUPS);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let texts: Vec<String> = groups.iter().take(GROUPS).map(Group::text).collect();
        format!("depends on `{name}`: {}{more}", texts.join(", "))
    }
}

/// The configs with one value of the explanation.
#[derive(Clone, Debug)]
pub struct Group {
    /// The value.
    pub value: String,
    /// The number of configs.
    pub configs: usize,
    /// The geometric mean of their ratios.
    pub ratio: f64,
    /// Its interval; `None` if they share too few blocks.
    pub interval: Option<Interval>,
}

impl Group {
    fn text(&self) -> String {
        let ratio = match self.interval {
            Some(interval) => {
                let [ratio, low, high] = ratio_texts(self.ratio, interval);
                format!("{ratio} × [{low}, {high}]")
            }
            None => format!("{:.3} ×", self.ratio),
        };
        format!("{ratio} for {}", self.value)
    }
}

/// A config with a ratio: its place in the comparison, the result, and its key.
type Member<'v> = (usize, &'v Compared, &'v Key);

/// The disagreement of the configs of `versus`, two values of `axis`, if they [disagree](Comparison::disagrees).
pub fn disagreement(axis: &str, versus: &Versus) -> Option<Disagreement> {
    let comparison = &versus.comparison;
    let configs = comparison.configs.iter().zip(&versus.keys).enumerate();
    let members: Vec<Member<'_>> =
        configs.filter_map(|(place, (config, key))| Some((place, config.as_ref().ok()?, key))).collect();
    comparison.disagrees().then(|| Disagreement { by: explanation(axis, &members, comparison) })
}

/// The setting that explains most of the spread of the ratios of `members`, if it explains enough.
fn explanation(axis: &str, members: &[Member<'_>], comparison: &Comparison) -> Option<(String, Vec<Group>)> {
    let total = spread(members.iter().collect());
    let candidates = names(members).into_iter().filter(|name| name != axis).filter_map(|name| {
        let groups = grouped(&name, members);
        let is_one = (2..members.len()).contains(&groups.len());
        let left: f64 = groups.values().cloned().map(spread).sum();
        let freedom = members.len().saturating_sub(groups.len());
        (is_one && left <= (1.0 - EXPLAINS) * total).then_some((left / freedom as f64, name))
    });
    let (_, name) = candidates.reduce(|best, other| if other.0 < best.0 { other } else { best })?;
    let groups =
        grouped(&name, members).into_iter().map(|(value, its)| group(value, &its, comparison)).collect();
    Some((name, groups))
}

fn group(value: String, members: &[&Member<'_>], comparison: &Comparison) -> Group {
    let logs: Vec<f64> = members.iter().map(|(_, config, _)| config.log_ratio.value).collect();
    let places: Vec<usize> = members.iter().map(|(place, ..)| *place).collect();
    let interval = match members {
        [(_, only, _)] => Some(only.interval),
        _ => comparison.mean_of(&places).ok().map(|mean| mean.interval(comparison.settings.confidence).exp()),
    };
    let ratio = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
    Group { value, configs: members.len(), ratio, interval }
}

/// The settings that can explain differences of `members`: env, network, precision, batch, and the parameters.
fn names(members: &[Member<'_>]) -> Vec<String> {
    let parameters = members.iter().flat_map(|(_, _, key)| key.params.keys().map(ToString::to_string));
    let mut names: Vec<String> = ["env", "model", "precision", "batch"].map(str::to_owned).into();
    for name in parameters {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn value(name: &str, key: &Key) -> String {
    match name {
        "env" => key.env.to_string(),
        "model" => key.model.to_string(),
        "precision" => key.precision.to_string(),
        "batch" => key.batch.to_string(),
        parameter => key.param(parameter).map_or_else(|| "-".to_owned(), |value| value.to_string()),
    }
}

fn grouped<'m, 'v>(name: &str, members: &'m [Member<'v>]) -> IndexMap<String, Vec<&'m Member<'v>>> {
    let mut groups: IndexMap<String, Vec<&Member<'_>>> = IndexMap::new();
    for member in members {
        groups.entry(value(name, member.2)).or_default().push(member);
    }
    groups
}

/// The sum of the squares of their distances from their mean.
fn spread(members: Vec<&Member<'_>>) -> f64 {
    let logs: Vec<f64> = members.iter().map(|(_, config, _)| config.log_ratio.value).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    logs.iter().map(|log| (log - mean).powi(2)).sum()
}
