//! A short table for many configs: one row per env and network. Pure.

use super::overview::{ConfigView, Overview};
use crate::cli::output::{Layout, table, table_text};
use crate::job::{State, Tally};
use crate::text::significant;

/// More configs than this do not fit a screen.
pub(super) const MOST_CONFIGS: usize = 30;

/// The states that have a column if a job is in them.
const STATES: [State; 6] =
    [State::Failed, State::Running, State::Waiting, State::NotHere, State::Pruned, State::Blocked];

/// The configs of one network in one env.
struct Fold<'a> {
    configs: Vec<&'a ConfigView>,
}

/// One row per env and network of `overview`, in its order.
pub(super) fn folded_text(overview: &Overview, layout: Layout) -> String {
    let folds = folds(&overview.configs);
    let tallies: Vec<Tally> = folds.iter().map(Fold::tally).collect();
    let is_shown = |state: &&State| tallies.iter().any(|tally| tally.of(**state) > 0);
    let states: Vec<State> = STATES.iter().filter(is_shown).copied().collect();
    let mut header: Vec<String> = ["env", "model", "configs", "done"].map(str::to_owned).into();
    header.extend(states.iter().map(|state| state.text().to_owned()));
    header.push(format!("{}/s", overview.unit()));
    let mut rows = table(header, layout);
    for (fold, tally) in folds.iter().zip(&tallies) {
        let key = &fold.configs[0].key;
        let needed = tally.clone().without(State::NotNeeded).without(State::IfNeeded).jobs();
        let mut cells = vec![
            key.env.to_string(),
            key.model.to_string(),
            fold.configs.len().to_string(),
            format!("{}/{needed}", tally.of(State::Done)),
        ];
        let number = |state: &State| match tally.of(*state) {
            0 => String::new(),
            number => number.to_string(),
        };
        cells.extend(states.iter().map(number));
        cells.push(fold.throughputs());
        rows.add_row(cells);
    }
    table_text(&rows)
}

fn folds(configs: &[ConfigView]) -> Vec<Fold<'_>> {
    let mut folds: Vec<Fold<'_>> = Vec::new();
    for config in configs {
        let is_same = |fold: &&mut Fold<'_>| {
            let key = &fold.configs[0].key;
            (&key.env, &key.model) == (&config.key.env, &config.key.model)
        };
        match folds.last_mut().filter(is_same) {
            Some(fold) => fold.configs.push(config),
            None => folds.push(Fold { configs: vec![config] }),
        }
    }
    folds
}

impl Fold<'_> {
    fn tally(&self) -> Tally {
        let mut all = Tally::default();
        for config in &self.configs {
            all.join(&config.counts);
        }
        all
    }

    /// The least and the greatest throughput of its configs.
    fn throughputs(&self) -> String {
        let throughputs =
            self.configs.iter().flat_map(|config| &config.throughput).filter_map(|it| it.geometric_mean);
        let ends = throughputs.fold(None, |ends: Option<[f64; 2]>, rate| {
            let [low, high] = ends.unwrap_or([rate; 2]);
            Some([low.min(rate), high.max(rate)])
        });
        match ends.map(|ends| ends.map(|end| significant(end, 4))) {
            None => "-".to_owned(),
            Some([low, high]) if low == high => high,
            Some([low, high]) => format!("{low} to {high}"),
        }
    }
}
