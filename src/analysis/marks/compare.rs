//! Doubts about rows: how far their runs scatter, and whether they are comparable with the rows of other envs.

use std::collections::{BTreeMap, BTreeSet};

use super::{Mark, Threshold, Thresholds};
use crate::analysis::circumstances::Circumstances;
use crate::analysis::group::Row;
use crate::job::{Device, Name};

/// The doubts about each of `rows`, in their order. `varying` are the parameters that have a column of their own in
/// tables, so their differences are visible.
pub fn row_marks(rows: &[Row<'_>], varying: &[String], thresholds: &Thresholds) -> Vec<Vec<Mark>> {
    let marks = |row: &Row<'_>| {
        let mut found = Vec::from_iter(high_variation(row, thresholds));
        found.extend(settings_differ(row, rows, varying));
        found
    };
    rows.iter().map(marks).collect()
}

fn high_variation(row: &Row<'_>, thresholds: &Thresholds) -> Option<Mark> {
    let statistics = row.statistics.as_ref().ok()?;
    let (cv, n, threshold) = (statistics.cv.ok()?, statistics.n, thresholds.of(Threshold::HighVariation));
    (cv > threshold).then_some(Mark::HighVariation { cv, n, threshold })
}

/// Marks a row for each other env with rows of the same network, batch and precision, if all of them differ in
/// settings. The mark names the differences from the nearest row.
fn settings_differ(row: &Row<'_>, rows: &[Row<'_>], varying: &[String]) -> Vec<Mark> {
    let mut by_env: BTreeMap<&Name, Vec<String>> = BTreeMap::new();
    for other in rows.iter().filter(|other| is_beside(row, other)) {
        let Some(differences) = differences(row, other, varying) else { continue };
        let nearest = by_env.entry(&other.config.env).or_insert_with(|| differences.clone());
        if differences.len() < nearest.len() {
            *nearest = differences;
        }
    }
    by_env
        .into_iter()
        .filter(|(_, differences)| !differences.is_empty())
        .map(|(env, differences)| Mark::SettingsDiffer { env: env.clone(), differences })
        .collect()
}

/// Whether a reader would compare the two.
fn is_beside(row: &Row<'_>, other: &Row<'_>) -> bool {
    let (this, that) = (&row.config, &other.config);
    this.env != that.env
        && (&this.model, this.batch, this.precision) == (&that.model, that.batch, that.precision)
}

/// The differences in circumstances that should be equal on all machines and have no column. `None` if a row has no
/// result. What only one of the two knows cannot be compared.
fn differences(row: &Row<'_>, other: &Row<'_>, varying: &[String]) -> Option<Vec<String>> {
    let (ours, theirs) = (row.circumstances.as_ref()?, other.circumstances.as_ref()?);
    // Compute threads belong to the host: with an accelerator they only feed it.
    let both_compute = [row, other].iter().all(|row| row.config.device == Device::Cpu);
    let is_said =
        |name: &str| varying.iter().any(|said| said == name) || (name == "threads" && !both_compute);
    let (ours, theirs) = (comparable(ours), comparable(theirs));
    let names: BTreeSet<&String> = ours.keys().filter(|name| !is_said(name)).collect();
    let differ = |name: &String| {
        let (this, that) = (ours.get(name)?, theirs.get(name)?);
        (this != that).then(|| format!("{name} {this} / {that}"))
    };
    Some(names.into_iter().filter_map(differ).collect())
}

/// What should be equal in a comparison of machines: settings, libraries, the power source.
fn comparable(circumstances: &Circumstances) -> BTreeMap<String, String> {
    let effective = &circumstances.effective;
    let mut facts: BTreeMap<String, String> = circumstances.versions.clone();
    let settings = effective.settings.iter();
    facts.extend(settings.map(|(name, setting)| (name.to_owned(), setting.to_string())));
    facts.extend(effective.tf32.map(|tf32| ("tf32".to_owned(), tf32.to_string())));
    facts.extend(circumstances.power_source.clone().map(|source| ("power source".to_owned(), source)));
    facts
}
