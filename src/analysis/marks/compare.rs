//! Marks of rows: the scatter of their runs, and undeclared differences from the rows of other envs.

use std::collections::{BTreeMap, BTreeSet};

use super::constants::constants;
use super::repeats::autocorrelated;
use super::{Mark, Threshold, Thresholds};
use crate::analysis::Run;
use crate::analysis::group::Row;
use crate::analysis::libraries::is_same;
use crate::job::{Device, Key, ModelName, Name, Precision};
use crate::stats;

/// The name, in a mark, of the library that multiplied bf16 on a processor.
const BF16_PRODUCTS: &str = "bf16 products";

/// The marks of each of `rows`, in their order. `varying` are the parameters with a separate column in tables, so their
/// differences are visible there.
pub fn row_marks(rows: &[Row<'_>], varying: &[String], thresholds: &Thresholds) -> Vec<Vec<Mark>> {
    let differing = settings_differ(rows, varying);
    let following = autocorrelated(rows, thresholds);
    let marks = |((row, following), differing): ((&Row<'_>, Option<Mark>), Vec<Mark>)| {
        let mut found: Vec<Mark> = high_variation(row, thresholds).into_iter().chain(following).collect();
        found.extend(differing);
        found
    };
    rows.iter().zip(following).zip(differing).map(marks).collect()
}

/// The confidence of an interval whose ends are one-sided bounds at 95 %.
const BOUNDS_CONFIDENCE: f64 = 0.90;

/// A row whose runs scatter significantly beyond the threshold: the lower bound decides. The scatter of few runs is
/// uncertain, so that of three runs must be almost twice the threshold. Two runs are too few.
fn high_variation(row: &Row<'_>, thresholds: &Thresholds) -> Option<Mark> {
    let rates: Vec<f64> = row.runs.iter().filter(|run| run.counts()).filter_map(Run::samples_per_s).collect();
    scatters(&rates, thresholds)
}

pub(super) fn scatters(rates: &[f64], thresholds: &Thresholds) -> Option<Mark> {
    let at_least = stats::variation_interval(rates, BOUNDS_CONFIDENCE).ok()?.low;
    let (cv, n) = (stats::coefficient_of_variation(rates).ok()?, rates.len());
    let threshold = thresholds.of(Threshold::HighVariation);
    (at_least > threshold).then_some(Mark::HighVariation { cv, at_least, n, threshold })
}

/// Rows that would be compared with the same others, and that differ from these in the same facts.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Alike<'a> {
    env: &'a Name,
    is_on_processor: bool,
    /// The [`comparable`] facts without a column.
    facts: BTreeMap<String, String>,
}

/// Rows of the same network, batch and precision are compared.
type Compared<'a> = (&'a ModelName, u32, Precision);

/// Marks each of `rows` for each other env with rows of the same network, batch and precision, if all of them differ in
/// settings. The mark names the differences from the nearest row, the first of those that are equally near.
///
/// Most rows of an env are equal in this respect, so kinds of rows are compared instead of rows. A row without a result
/// has no mark.
fn settings_differ(rows: &[Row<'_>], varying: &[String]) -> Vec<Vec<Mark>> {
    let envs: BTreeSet<&Name> = rows.iter().map(|row| &row.config.env).collect();
    if envs.len() < 2 {
        return vec![Vec::new(); rows.len()];
    }
    // For each kind of rows, the index of its first row, which represents all of them.
    let mut kinds: BTreeMap<Compared<'_>, BTreeMap<Alike<'_>, usize>> = BTreeMap::new();
    let mut first_alike: Vec<Option<usize>> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let Key { model, batch, precision, .. } = &row.config;
        let kinds = kinds.entry((model, *batch, *precision)).or_default();
        first_alike.push(alike(row, varying).map(|alike| *kinds.entry(alike).or_insert(index)));
    }
    let mut marks: BTreeMap<usize, Vec<Mark>> = BTreeMap::new();
    for kinds in kinds.values() {
        let mut by_row: Vec<(&Alike<'_>, usize)> = kinds.iter().map(|(kind, first)| (kind, *first)).collect();
        by_row.sort_by_key(|(_, first)| *first);
        marks.extend(by_row.iter().map(|(kind, first)| (*first, differences_from(kind, &by_row))));
    }
    let of_row = |first: Option<usize>| marks.get(&first?).cloned();
    first_alike.into_iter().map(|first| of_row(first).unwrap_or_default()).collect()
}

/// The kind of `row`; `None` if it has no result.
fn alike<'a>(row: &'a Row<'_>, varying: &[String]) -> Option<Alike<'a>> {
    let mut facts = comparable(row)?;
    facts.retain(|name, _| !varying.contains(name));
    Some(Alike { env: &row.config.env, is_on_processor: row.config.device == Device::Cpu, facts })
}

/// The marks of the rows of `kind`, one for each other env whose rows among `others` all differ.
fn differences_from(kind: &Alike<'_>, others: &[(&Alike<'_>, usize)]) -> Vec<Mark> {
    let mut by_env: BTreeMap<&Name, Vec<String>> = BTreeMap::new();
    for (other, _) in others.iter().filter(|(other, _)| other.env != kind.env) {
        let differences = differences(kind, other);
        let nearest = by_env.entry(other.env).or_insert_with(|| differences.clone());
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

/// The differences in circumstances that should be equal on all machines and have no column. Facts of only one of the
/// two are not compared.
fn differences(one: &Alike<'_>, other: &Alike<'_>) -> Vec<String> {
    // Compute threads are only compared on processors: an accelerator is merely fed by them.
    let both_compute = one.is_on_processor && other.is_on_processor;
    // oneDNN multiplies bf16 wherever the processor supports it. Elsewhere, workers can choose.
    let is_chosen = |name: &str, this: &str, that: &str| match name {
        "threads" => both_compute,
        BF16_PRODUCTS => this != "onednn" && that != "onednn",
        _ => true,
    };
    let differ = |(name, this): (&String, &String)| {
        let that = other.facts.get(name)?;
        let differs = !is_same(name, this, that) && is_chosen(name, this, that);
        differs.then(|| format!("{name} {this} / {that}"))
    };
    one.facts.iter().filter_map(differ).collect()
}

/// Facts that should be equal in a comparison of machines: settings, libraries, the constants of the optimizer, the
/// library that multiplied bf16, the power source. `None` if `row` has no result.
fn comparable(row: &Row<'_>) -> Option<BTreeMap<String, String>> {
    let circumstances = row.circumstances.as_ref()?;
    let effective = &circumstances.effective;
    let mut facts = circumstances.libraries();
    // The phrase is not a circumstance, so that another wording does not split a row. The first one represents all.
    let mut details = row.runs.iter().filter_map(|run| Some(&run.cell.success()?.1.details));
    let phrase = details.clone().find_map(|it| it.optimizer.as_deref());
    facts.extend(phrase.into_iter().flat_map(constants));
    let products = details.find_map(|it| it.bf16_products.clone());
    facts.extend(products.map(|products| (BF16_PRODUCTS.to_owned(), products)));
    let settings = effective.settings.iter();
    facts.extend(settings.map(|(name, setting)| (name.to_owned(), setting.to_string())));
    facts.extend(effective.tf32.map(|tf32| ("tf32".to_owned(), tf32.to_string())));
    facts.extend(circumstances.power_source.clone().map(|source| ("power source".to_owned(), source)));
    Some(facts)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::analysis::fixture::{StudyBuilder, key};
    use crate::analysis::{Study, analyse};
    use crate::job::Key;

    /// The definition: each row against each other one.
    fn defined(row: &Row<'_>, rows: &[Row<'_>], varying: &[String]) -> Vec<Mark> {
        let mut by_env: BTreeMap<&Name, Vec<String>> = BTreeMap::new();
        for other in rows {
            let (this, that) = (&row.config, &other.config);
            let is_beside = this.env != that.env
                && (&this.model, this.batch, this.precision) == (&that.model, that.batch, that.precision);
            let (true, Some(ours), Some(theirs)) = (is_beside, comparable(row), comparable(other)) else {
                continue;
            };
            let both_compute = this.device == Device::Cpu && that.device == Device::Cpu;
            let differences = Vec::from_iter(ours.iter().filter_map(|(name, this)| {
                let is_visible = varying.contains(name) || (name == "threads" && !both_compute);
                let that = theirs.get(name).filter(|that| *that != this && !is_visible)?;
                Some(format!("{name} {this} / {that}"))
            }));
            let nearest = by_env.entry(&that.env).or_insert_with(|| differences.clone());
            if differences.len() < nearest.len() {
                *nearest = differences;
            }
        }
        let differing = by_env.into_iter().filter(|(_, differences)| !differences.is_empty());
        differing.map(|(env, differences)| Mark::SettingsDiffer { env: env.clone(), differences }).collect()
    }

    /// A run of each row: its env, batch, declared steps, device, threads, layout and whether it failed.
    type Drawn = (u8, u32, i64, bool, u8, bool, bool);

    fn study(drawn: &[Drawn]) -> Study {
        let mut builder = StudyBuilder::new();
        for ((env, batch, steps, is_gpu, threads, channels_last, failed), repeat) in drawn.iter().zip(1..) {
            let mut key = Key {
                device: if *is_gpu { Device::Cuda(0) } else { Device::Cpu },
                ..key(["a", "b", "c"][usize::from(*env)], "resnet18", *batch, repeat)
            };
            key.params.insert("grad_accum_steps".into(), crate::job::ParamValue::Int(*steps));
            builder = builder.run_with(key, 10.0, |record| {
                let settings = &mut record.measurement.as_mut().unwrap().effective.settings;
                settings.set("threads", *threads);
                settings.set("channels_last", *channels_last);
                if *failed {
                    record.outcome = crate::record::Outcome::Signalled { signal: 9 };
                }
            });
        }
        builder.build()
    }

    proptest! {
        #[test]
        fn rows_are_compared_by_the_definition(
            drawn in prop::collection::vec(
                (0..3_u8, 1..3_u32, 1..3_i64, any::<bool>(), 1..3_u8, any::<bool>(), prop::bool::weighted(0.2)),
                0..14,
            ),
        ) {
            let study = study(&drawn);
            let analysis = analyse(&study);
            let expected: Vec<Vec<Mark>> =
                analysis.rows.iter().map(|row| defined(row, &analysis.rows, &analysis.varying)).collect();
            prop_assert_eq!(settings_differ(&analysis.rows, &analysis.varying), expected);
        }
    }
}
