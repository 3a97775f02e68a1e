//! Effect of each axis: the throughput with each value of the axis, compared with that of its reference, over the
//! configs that differ in nothing else. For example: `compile true against false: 1.31 × [1.27, 1.35] the throughput
//! over 8 configs`.
//!
//! Networks and batches are not among these axes: a sample of another network is other work, and the growth of
//! throughput with the batch is not a single number. The reference is the default of a parameter, or else the first
//! value in the order of the matrix. A value without a result is the reference only if no value has a result.

use std::collections::HashSet;

use super::compare::{Settings, Verdict};
use super::disagreement::{Disagreement, disagreement};
use super::group::{Row, params_text};
use super::versus::{ConfigComparison, Side, Versus, ratio_texts, versus_by_name};
use crate::job::{Key, parameter};
use crate::stats::{CONFIDENCE, Interval};
use crate::text::count_text;
use crate::threads;

/// The axes that every matrix has.
const ENV: &str = "env";
const PRECISION: &str = "precision";

/// A value of an axis against the reference of that axis.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The name of the axis.
    pub axis: String,
    /// The value of the baseline.
    pub reference: String,
    /// The value that is compared with the reference.
    pub value: String,
    /// The place of `value` among the compared values of the axis, from 1.
    pub place: usize,
    /// The comparison, config by config.
    pub versus: Versus,
    /// What explains the different ratios of its configs, if they disagree.
    pub disagreement: Option<Disagreement>,
    /// Why the sides share no config, as a clause: only one of two envs has an axis.
    nothing_shared: Option<String>,
}

impl Effect {
    /// The comparisons of the configs that have a ratio.
    pub fn comparisons(&self) -> impl Iterator<Item = &ConfigComparison> {
        self.versus.lines.iter().filter_map(|line| line.result.as_ref().ok())
    }

    /// The number of configs with the verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.comparisons().filter(|comparison| comparison.verdict == verdict).count()
    }

    /// The geometric mean of the ratios with its interval. For a single config, its ratio and interval.
    pub fn ratio(&self) -> Option<(f64, Interval)> {
        let mut comparisons = self.comparisons();
        match (comparisons.next(), comparisons.next()) {
            (Some(only), None) => Some((only.ratio, only.interval)),
            (Some(_), Some(_)) => {
                let mean = self.versus.comparison.geometric_mean.ok()?;
                Some((mean.value.exp(), mean.interval(CONFIDENCE).exp()))
            }
            _ => None,
        }
    }

    /// The least and the greatest ratio of a config.
    pub fn range(&self) -> Option<[f64; 2]> {
        let ratios = || self.comparisons().map(|comparison| comparison.ratio);
        ratios().next().map(|first| [ratios().fold(first, f64::min), ratios().fold(first, f64::max)])
    }

    /// Differences between the sides other than the axis, such as `device cpu / cuda:0`.
    pub fn other_differences(&self) -> Vec<String> {
        let of_axis = |text: &str| text.strip_prefix(&self.axis).is_some_and(|rest| rest.starts_with(' '));
        let texts = self.versus.differences.iter().map(|difference| difference.text.clone());
        texts.filter(|text| !of_axis(text)).collect()
    }

    /// `compile true against false: 1.31 × [1.27, 1.35] the throughput over 8 configs, from 1.05 to 1.62`. If the
    /// configs disagree, the axis that explains it, with one ratio per value of that axis.
    pub fn text(&self) -> String {
        let Effect { axis, reference, value, .. } = self;
        let what = format!("`{axis}` {value} against {reference}");
        let configs = count_text(self.comparisons().count(), "config");
        if let (Some(disagreement), Some([least, most])) = (&self.disagreement, self.range()) {
            return match &disagreement.by {
                Some(_) => {
                    format!("{what} {}; {configs}, from {least:.3} to {most:.3}.", disagreement.text())
                }
                None => {
                    format!("{what}: its {configs} disagree, from {least:.3} to {most:.3} × the throughput.")
                }
            };
        }
        match (self.ratio(), self.range()) {
            (Some((ratio, interval)), Some([least, most])) => {
                let [ratio, low, high] = ratio_texts(ratio, interval);
                let range = match self.comparisons().count() {
                    1 => String::new(),
                    _ => format!(", from {least:.3} to {most:.3}"),
                };
                format!("{what}: {ratio} × [{low}, {high}] the throughput over {configs}{range}.")
            }
            _ => format!("{what}: no comparison, {}.", self.reason()),
        }
    }

    /// Why there is no ratio.
    fn reason(&self) -> String {
        let reasons = || self.versus.lines.iter().filter_map(|line| line.result.as_ref().err());
        if let (0, Some(reason)) = (self.comparisons().count(), &self.nothing_shared) {
            return reason.clone();
        }
        match (self.comparisons().count(), reasons().next()) {
            (0, Some(reason)) if reasons().all(|other| other == reason) => reason.clone(),
            (0, _) => "no config has enough runs of both".to_owned(),
            _ => "its configs share too few blocks".to_owned(),
        }
    }
}

/// The effects of all axes of `rows`: envs, precisions and `parameters`. `rows` are in the order of the tables.
pub fn effects(rows: &[Row<'_>], parameters: &[String]) -> Vec<Effect> {
    let names = [ENV, PRECISION].into_iter().chain(parameters.iter().map(String::as_str));
    names.flat_map(|axis| effects_of(axis, rows)).collect()
}

fn effects_of(axis: &str, rows: &[Row<'_>]) -> Vec<Effect> {
    let mut values = values(axis, rows);
    if values.len() < 2 {
        return Vec::new();
    }
    let place = reference(axis, &values, rows);
    let reference = values.remove(place);
    let found = threads::each(values.len(), |number| {
        let both = sides(axis, [&reference, &values[number]], rows)?;
        let nothing_shared =
            if axis == ENV { nothing_shared(&both, [&reference, &values[number]]) } else { None };
        Some((versus_by_name(&both[0], &both[1], Settings::default()).ok()?, nothing_shared))
    });
    let compared = values.into_iter().zip(found).filter_map(|(value, found)| Some((value, found?)));
    let effect = |(place, (value, (versus, nothing_shared)))| {
        let disagreement = disagreement(axis, &versus);
        let (axis, reference) = (axis.to_owned(), reference.clone());
        Effect { axis, reference, value, place: place + 1, versus, disagreement, nothing_shared }
    };
    compared.enumerate().map(effect).collect()
}

/// Why the envs `names` share no config: only one of them has a parameter, with several values. The text ends with the
/// command that compares them without it.
fn nothing_shared(sides: &[Side<'_, '_>; 2], names: [&String; 2]) -> Option<String> {
    let several = |[own, other]: [usize; 2]| {
        let values = |place: usize, name: &str| -> HashSet<String> {
            let of_rows = sides[place].rows.iter().filter_map(|row| value(name, &row.config));
            of_rows.collect()
        };
        let first = &sides[own].rows.first()?.config;
        let mut parameters = first.params.keys().map(ToString::to_string);
        let name = parameters.find(|name| values(own, name).len() > 1 && values(other, name).is_empty())?;
        let (own, other, known) = (names[own], names[other], value(&name, first)?);
        Some(format!(
            "only {own} has `{name}`, so no config is in both: `orchestrate compare 'env={own} {name}={known}' {other}` \
             compares them without it"
        ))
    };
    several([0, 1]).or_else(|| several([1, 0]))
}

/// The index of the reference among `values`.
fn reference(axis: &str, values: &[String], rows: &[Row<'_>]) -> usize {
    let with_result = rows.iter().filter(|row| row.statistics.is_ok());
    let measured: HashSet<String> = with_result.filter_map(|row| value(axis, &row.config)).collect();
    let can_be = |value: &String| measured.is_empty() || measured.contains(value);
    let default = parameter(axis).and_then(|parameter| parameter.default_value());
    let default = default.map(|default| default.to_string()).filter(can_be);
    let is_default = |value: &String| default.as_ref() == Some(value);
    let place = values.iter().position(is_default).or_else(|| values.iter().position(can_be));
    place.unwrap_or(0)
}

/// The values of `axis`, in the order of `rows`.
fn values(axis: &str, rows: &[Row<'_>]) -> Vec<String> {
    let mut seen = HashSet::new();
    let all = rows.iter().filter_map(|row| value(axis, &row.config));
    all.filter(|value| seen.insert(value.clone())).collect()
}

fn value(axis: &str, key: &Key) -> Option<String> {
    match axis {
        ENV => Some(key.env.to_string()),
        PRECISION => Some(key.precision.to_string()),
        parameter => key.param(parameter).map(|value| value.to_string()),
    }
}

/// The rows of both values of `axis`, without those whose config is on one side alone; `None` if no config is on both.
fn sides<'r, 'a>(axis: &str, values: [&String; 2], rows: &'r [Row<'a>]) -> Option<[Side<'r, 'a>; 2]> {
    let of = |wanted: &String| -> Vec<(String, &'r Row<'a>)> {
        let of_value = rows.iter().filter(|row| value(axis, &row.config).as_ref() == Some(wanted));
        of_value.map(|row| (rest(axis, &row.config), row)).collect()
    };
    let both = values.map(of);
    let [ours, theirs] = [0, 1].map(|place| both[place].iter().map(|(rest, _)| rest).collect::<HashSet<_>>());
    let shared: HashSet<String> = ours.intersection(&theirs).map(|rest| (*rest).clone()).collect();
    if shared.is_empty() {
        return None;
    }
    let mut named = both.into_iter().zip(values).map(|(rows, value)| {
        let rows = rows.into_iter().filter(|(rest, _)| shared.contains(rest)).map(|(_, row)| row);
        Side { name: format!("{axis}={value}"), rows: rows.collect() }
    });
    Some([named.next()?, named.next()?])
}

/// The part of a config that must be equal on both sides. An env also determines other settings, such as the device, so
/// configs of two envs are matched by network, precision and batch only. [`Effect::other_differences`] lists the rest.
fn rest(axis: &str, key: &Key) -> String {
    let Key { env, model, precision, batch, .. } = key;
    match axis {
        ENV => format!("{model} {precision} {batch}"),
        PRECISION => format!("{env} {model} {batch} {}", params_text(key)),
        parameter => {
            let mut others = key.clone();
            others.params.remove(parameter);
            format!("{env} {model} {precision} {batch} {}", params_text(&others))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture::{StudyBuilder, key};
    use crate::analysis::{Study, analyse};
    use crate::job::{ParamValue, Precision};

    fn compiled(env: &str, batch: u32, repeat: u32, compile: bool) -> Key {
        let mut key = key(env, "resnet18", batch, repeat);
        key.params.insert("compile".into(), ParamValue::Bool(compile));
        key
    }

    /// Batches with three runs of either value of `compile`, and the ratio of their throughputs.
    fn study(batches: &[(u32, f64)]) -> StudyBuilder {
        let mut study = StudyBuilder::new();
        for (batch, ratio) in batches {
            for (repeat, noise) in (1..).zip([1.0, 1.001, 0.999]) {
                study = study
                    .run_with(compiled("cpu", *batch, repeat, false), 100.0 * noise, |_| {})
                    .run_with(compiled("cpu", *batch, repeat, true), 100.0 * ratio * noise, |_| {});
            }
        }
        study
    }

    fn texts(study: &Study) -> Vec<String> {
        analyse(study).axes.iter().map(Effect::text).collect()
    }

    #[test]
    fn the_ratio_is_the_geometric_mean_over_the_configs_that_differ_in_nothing_else() {
        let study = study(&[(4, 1.1), (16, 1.3)]).build();
        let analysis = analyse(&study);
        let [effect] = &analysis.axes[..] else { panic!("{:?}", analysis.axes) };
        assert_eq!(
            (effect.axis.as_str(), effect.reference.as_str(), effect.value.as_str()),
            ("compile", "false", "true")
        );
        let (ratio, interval) = effect.ratio().unwrap();
        assert!((ratio - (1.1f64 * 1.3).sqrt()).abs() < 1e-9, "{ratio}");
        assert!(interval.low < ratio && ratio < interval.high);
        assert!(
            (effect.range().unwrap()[0] - 1.1).abs() < 1e-9
                && (effect.range().unwrap()[1] - 1.3).abs() < 1e-9
        );
        let text = effect.text();
        assert_eq!(
            text,
            "`compile` true against false: its 2 configs disagree, from 1.100 to 1.300 × the throughput.",
            "the mean of configs that disagree is meaningless"
        );
        let text = texts(&self::study(&[(4, 1.20), (16, 1.21)]).build()).concat();
        assert!(text.starts_with("`compile` true against false: 1.20"), "{text}");
        assert!(text.ends_with("the throughput over 2 configs, from 1.200 to 1.210."), "{text}");
    }

    /// A mean of 1.75 on one device and 0.90 on another is the ratio of neither.
    #[test]
    fn the_axis_that_explains_a_disagreement_is_named() {
        let mut study = StudyBuilder::new();
        for (env, ratio) in [("a100", 1.75), ("t4", 0.9)] {
            for (batch, (repeat, noise)) in [4, 8, 16]
                .into_iter()
                .flat_map(|batch| (1..).zip([1.0, 1.001, 0.999]).map(move |it| (batch, it)))
            {
                study = study.run_with(compiled(env, batch, repeat, false), 100.0 * noise, |_| {}).run_with(
                    compiled(env, batch, repeat, true),
                    100.0 * ratio * noise,
                    |_| {},
                );
            }
        }
        let text = texts(&study.build()).into_iter().find(|text| text.starts_with("`compile`")).unwrap();
        assert!(text.starts_with("`compile` true against false depends on `env`: 1.75"), "{text}");
        assert!(
            text.contains(" for a100, 0.9") && text.contains(" for t4; 6 configs, from 0.900 to 1.750."),
            "{text}"
        );
    }

    #[test]
    fn networks_batches_and_constant_parameters_are_not_axes() {
        let study = StudyBuilder::new()
            .runs("cpu", "resnet18", 4, &[8.0, 8.1, 8.2])
            .runs("cpu", "resnet18", 16, &[10.0, 10.1, 9.9])
            .runs("cpu", "vgg16", 4, &[1.0, 1.1, 1.2]);
        assert_eq!(texts(&study.build()), [""; 0]);
    }

    #[test]
    fn two_axes_that_always_change_together_have_no_effect() {
        let mut study = StudyBuilder::new();
        for repeat in 1..=3 {
            let mut other = compiled("cpu", 4, repeat, true);
            other.precision = Precision::Amp;
            study = study.run_with(compiled("cpu", 4, repeat, false), 100.0, |_| {}).run_with(
                other,
                130.0,
                |_| {},
            );
        }
        assert_eq!(texts(&study.build()), [""; 0]);
    }

    #[test]
    fn too_few_runs_give_a_reason_instead_of_a_ratio() {
        let study = StudyBuilder::new()
            .run_with(compiled("cpu", 4, 1, false), 100.0, |_| {})
            .run_with(compiled("cpu", 4, 1, true), 130.0, |_| {})
            .build();
        let [text] = &texts(&study)[..] else { panic!("one axis") };
        assert!(text.starts_with("`compile` true against false: no comparison, "), "{text}");
    }

    /// For a parameter of the shipped worker, the reference is the default, in any position.
    #[test]
    fn a_default_is_the_reference() {
        let mut study = StudyBuilder::new();
        for (augment, rate) in [(false, 120.0), (true, 100.0)] {
            for repeat in 1..=3 {
                let mut key = key("cpu", "resnet18", 4, repeat);
                key.params.insert("augment".into(), ParamValue::Bool(augment));
                study = study.run_with(key, rate + f64::from(repeat) / 10.0, |_| {});
            }
        }
        let [text] = &texts(&study.build())[..] else { panic!("one axis") };
        assert!(text.starts_with("`augment` false against true: 1.1996 × ["), "{text}");
    }

    /// A reader would take "the second side" for the second value in the sentence.
    #[test]
    fn a_value_that_never_ran_is_named() {
        let study = StudyBuilder::new()
            .runs("cpu", "resnet18", 4, &[10.0, 10.1, 10.2])
            .not_run(key("gpu", "resnet18", 4, 1), "it never ran")
            .build();
        let text = "`env` gpu against cpu: no comparison, no run counts with env=gpu: it never ran.";
        assert_eq!(texts(&study), [text]);
    }

    /// One env has eager and compiled runs, the other has no such axis, as in the example with PyTorch.
    #[test]
    fn an_axis_that_only_one_env_has_is_named_with_a_command_that_compares_them() {
        for [compiling, other] in [["a", "b"], ["b", "a"]] {
            let mut study = StudyBuilder::new().runs(other, "resnet18", 4, &[10.0, 10.1, 10.2]);
            for repeat in 1..=3 {
                for compile in [false, true] {
                    study = study.run_with(compiled(compiling, 4, repeat, compile), 10.0, |_| {});
                }
            }
            let text = format!(
                "`env` b against a: no comparison, only {compiling} has `compile`, so no config is in both: \
                 `orchestrate compare 'env={compiling} compile=false' {other}` compares them without it."
            );
            assert_eq!(texts(&study.build())[0], text);
        }
    }

    /// Of several rows of a side, a user of `compare` can choose one. A reader of a report cannot.
    #[test]
    fn reasons_in_reports_do_not_advise_options_of_compare() {
        let mut study = StudyBuilder::new().runs("a", "resnet18", 4, &[10.0, 10.1, 10.2]);
        for (governor, repeats) in [("performance", 1..=3), ("powersave", 4..=6)] {
            for repeat in repeats {
                study = study.run_with(key("b", "resnet18", 4, repeat), 10.0, |record| {
                    record.provenance.host.governor = Some(governor.into());
                });
            }
        }
        let [text] = &texts(&study.build())[..] else { panic!("one axis") };
        let start =
            "`env` b against a: no comparison, its runs with env=b are 2 rows, which differ in governor";
        assert!(text.starts_with(start), "{text}");
        assert!(!text.contains("choose") && !text.contains("side"), "{text}");
    }

    /// A study with three runs per value of `name` that has a throughput, and without results for the other values.
    fn with_values(name: &str, values: &[(ParamValue, Option<f64>)]) -> Study {
        let mut study = StudyBuilder::new();
        for (value, per_s) in values {
            for (repeat, noise) in (1..).zip([1.0, 1.001, 0.999]) {
                let mut key = key("cpu", "resnet18", 4, repeat);
                key.params.insert(name.into(), value.clone());
                study = match per_s {
                    Some(per_s) => study.run_with(key, per_s * noise, |_| {}),
                    None => study.not_run(key, "it never ran"),
                };
            }
        }
        study.build()
    }

    #[test]
    fn the_reference_has_a_result_if_any_value_has_one() {
        let text = |value: &str| ParamValue::Text(value.to_owned());
        let values = [(text("a"), None), (text("b"), Some(100.0)), (text("c"), Some(120.0))];
        let found = texts(&with_values("mode", &values));
        let never = "no comparison, no run counts with";
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with(&format!("`mode` a against b: {never} mode=a: it never ran")),
            "{found:?}"
        );
        assert!(found[1].starts_with("`mode` c against b: 1.200"), "{found:?}");
        let augment = |off: Option<f64>, on: Option<f64>| {
            texts(&with_values("augment", &[(ParamValue::Bool(false), off), (ParamValue::Bool(true), on)]))
        };
        let start = |found: Vec<String>| found[0].split(':').next().map(str::to_owned);
        let [true_first, false_first] = ["`augment` false against true", "`augment` true against false"]
            .map(|text| Some(text.to_owned()));
        assert_eq!(start(augment(Some(1.0), Some(1.0))), true_first, "it is the default");
        assert_eq!(start(augment(Some(1.0), None)), false_first, "the default never ran");
        assert_eq!(start(augment(None, None)), true_first, "neither ran");
    }

    #[test]
    fn envs_are_an_axis_and_come_before_parameters() {
        let mut study = study(&[(4, 1.1)]);
        for (repeat, compile) in [(1, false), (2, false), (3, false), (1, true), (2, true), (3, true)] {
            let rate = 200.0 + f64::from(repeat);
            study = study.run_with(compiled("gpu", 4, repeat, compile), rate, |_| {});
        }
        let study = study.build();
        let analysis = analyse(&study);
        let axes: Vec<&str> = analysis.axes.iter().map(|effect| effect.axis.as_str()).collect();
        assert_eq!(axes, ["env", "compile"]);
        assert!(analysis.axes[0].text().contains("its 2 configs disagree"), "{}", analysis.axes[0].text());
    }
}
