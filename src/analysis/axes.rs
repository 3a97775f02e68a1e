//! What each axis brings: the throughput with each of its values against that with its reference, over the configs that
//! differ in nothing else. It answers the question that a matrix with such an axis asks.
//!
//! Networks and batches are no such axes: a sample of another network is other work, and how throughput grows with the
//! batch is no single number. The reference is the default of a parameter, else the first value in the order of the
//! tables, which is that of the matrix. A value without any result is passed over, unless no value has one: against it,
//! nothing could be told of the others.

use std::collections::HashSet;

use super::compare::{Settings, Verdict};
use super::disagreement::{Disagreement, disagreement};
use super::group::{Row, params_text};
use super::versus::{Side, Told, Versus, ratio_texts, versus_by_name};
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
    /// The value that is compared with.
    pub reference: String,
    /// The value that is compared.
    pub value: String,
    /// Its place among those of the axis, from 1.
    pub place: usize,
    /// The comparison, config by config.
    pub versus: Versus,
    /// What explains the differences of its configs, if they do not have one ratio.
    pub disagreement: Option<Disagreement>,
    /// Why no config can be on both sides, as a sentence: only one of two envs has an axis.
    apart: Option<String>,
}

impl Effect {
    /// What is told of the configs that have a ratio.
    pub fn told(&self) -> impl Iterator<Item = &Told> {
        self.versus.lines.iter().filter_map(|line| line.told.as_ref().ok())
    }

    /// How many configs have the verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.told().filter(|told| told.verdict == verdict).count()
    }

    /// The geometric mean of the ratios with its interval; of one config, its own.
    pub fn ratio(&self) -> Option<(f64, Interval)> {
        let mut told = self.told();
        match (told.next(), told.next()) {
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
        let ratios = || self.told().map(|told| told.ratio);
        ratios().next().map(|first| [ratios().fold(first, f64::min), ratios().fold(first, f64::max)])
    }

    /// What differs between the sides beside the axis.
    pub fn other_differences(&self) -> Vec<String> {
        let of_axis = |text: &str| text.strip_prefix(&self.axis).is_some_and(|rest| rest.starts_with(' '));
        let texts = self.versus.differences.iter().map(|difference| difference.text.clone());
        texts.filter(|text| !of_axis(text)).collect()
    }

    /// `compile true against false: 1.31 × [1.27, 1.35] the throughput over 8 configs, from 1.05 to 1.62`. If the
    /// configs disagree, what explains it, with the ratio of each of its values.
    pub fn text(&self) -> String {
        let Effect { axis, reference, value, .. } = self;
        let what = format!("`{axis}` {value} against {reference}");
        let configs = count_text(self.told().count(), "config");
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
                let range = match self.told().count() {
                    1 => String::new(),
                    _ => format!(", from {least:.3} to {most:.3}"),
                };
                format!("{what}: {ratio} × [{low}, {high}] the throughput over {configs}{range}.")
            }
            _ => format!("{what}: nothing can be told, {}.", self.why_nothing()),
        }
    }

    fn why_nothing(&self) -> String {
        let reasons = || self.versus.lines.iter().filter_map(|line| line.told.as_ref().err());
        if let (0, Some(apart)) = (self.told().count(), &self.apart) {
            return apart.clone();
        }
        match (self.told().count(), reasons().next()) {
            (0, Some(reason)) if reasons().all(|other| other == reason) => reason.clone(),
            (0, _) => "no config has enough runs of both".to_owned(),
            _ => "its configs share too few blocks".to_owned(),
        }
    }
}

/// What every axis of `rows` brings: those of `parameters`, envs and precisions. `rows` are in the order of the tables.
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
        let apart = if axis == ENV { apart_by(&both, [&reference, &values[number]]) } else { None };
        Some((versus_by_name(&both[0], &both[1], Settings::default()).ok()?, apart))
    });
    let compared = values.into_iter().zip(found).filter_map(|(value, found)| Some((value, found?)));
    let effect = |(place, (value, (versus, apart)))| {
        let disagreement = disagreement(axis, &versus);
        let (axis, reference) = (axis.to_owned(), reference.clone());
        Effect { axis, reference, value, place: place + 1, versus, disagreement, apart }
    };
    compared.enumerate().map(effect).collect()
}

/// Why no config of the envs `names` is on both sides: a parameter with several values is told of one of them alone.
/// With what to type instead.
fn apart_by(sides: &[Side<'_, '_>; 2], names: [&String; 2]) -> Option<String> {
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
             does without it"
        ))
    };
    several([0, 1]).or_else(|| several([1, 0]))
}

/// The place of the reference among `values`.
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

/// What of a config has to be equal on both sides. An env decides about much else, such as its device, so of two envs
/// only network, precision and batch are asked, and what else differs is said.
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
            "a mean of what disagrees says nothing"
        );
        let text = texts(&self::study(&[(4, 1.20), (16, 1.21)]).build()).concat();
        assert!(text.starts_with("`compile` true against false: 1.20"), "{text}");
        assert!(text.ends_with("the throughput over 2 configs, from 1.200 to 1.210."), "{text}");
    }

    /// A mean of 1.75 on one device and 0.90 on another is the ratio of neither.
    #[test]
    fn where_configs_disagree_what_tells_them_apart_is_said() {
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
    fn networks_batches_and_what_has_one_value_are_no_axes() {
        let study = StudyBuilder::new()
            .runs("cpu", "resnet18", 4, &[8.0, 8.1, 8.2])
            .runs("cpu", "resnet18", 16, &[10.0, 10.1, 9.9])
            .runs("cpu", "vgg16", 4, &[1.0, 1.1, 1.2]);
        assert_eq!(texts(&study.build()), [""; 0]);
    }

    /// Two axes that were paired, so that none differs alone.
    #[test]
    fn an_axis_that_never_differs_alone_says_nothing() {
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
    fn too_few_runs_tell_nothing_and_the_reason_is_said() {
        let study = StudyBuilder::new()
            .run_with(compiled("cpu", 4, 1, false), 100.0, |_| {})
            .run_with(compiled("cpu", 4, 1, true), 130.0, |_| {})
            .build();
        let [text] = &texts(&study)[..] else { panic!("one axis") };
        assert!(text.starts_with("`compile` true against false: nothing can be told, "), "{text}");
    }

    /// The reference of a parameter of the shipped worker is its default, wherever that stands.
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

    /// "the second side" would be taken for what stands second in the sentence.
    #[test]
    fn a_value_that_never_ran_is_named() {
        let study = StudyBuilder::new()
            .runs("cpu", "resnet18", 4, &[10.0, 10.1, 10.2])
            .not_run(key("gpu", "resnet18", 4, 1), "it never ran")
            .build();
        let said = "`env` gpu against cpu: nothing can be told, no run counts with env=gpu: it never ran.";
        assert_eq!(texts(&study), [said]);
    }

    /// One env with eager and compiled runs, and one that knows neither, as in the example with PyTorch.
    #[test]
    fn an_axis_that_only_one_env_has_is_named_with_what_compares_them() {
        for [compiling, other] in [["a", "b"], ["b", "a"]] {
            let mut study = StudyBuilder::new().runs(other, "resnet18", 4, &[10.0, 10.1, 10.2]);
            for repeat in 1..=3 {
                for compile in [false, true] {
                    study = study.run_with(compiled(compiling, 4, repeat, compile), 10.0, |_| {});
                }
            }
            let said = format!(
                "`env` b against a: nothing can be told, only {compiling} has `compile`, so no config is in both: \
                 `orchestrate compare 'env={compiling} compile=false' {other}` does without it."
            );
            assert_eq!(texts(&study.build())[0], said);
        }
    }

    /// Several rows of a side have to be chosen from, which nobody can do in a report.
    #[test]
    fn no_reason_advises_what_only_compare_can_do() {
        let mut study = StudyBuilder::new().runs("a", "resnet18", 4, &[10.0, 10.1, 10.2]);
        for (governor, repeats) in [("performance", 1..=3), ("powersave", 4..=6)] {
            for repeat in repeats {
                study = study.run_with(key("b", "resnet18", 4, repeat), 10.0, |record| {
                    record.provenance.host.governor = Some(governor.into());
                });
            }
        }
        let [text] = &texts(&study.build())[..] else { panic!("one axis") };
        let start = "`env` b against a: nothing can be told, its runs with env=b are 2 rows, which differ in governor";
        assert!(text.starts_with(start), "{text}");
        assert!(!text.contains("choose") && !text.contains("side"), "{text}");
    }

    /// Runs with these values of `name`, three with each number and none without one.
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
    fn a_value_without_a_result_is_no_reference_unless_none_has_one() {
        let text = |value: &str| ParamValue::Text(value.to_owned());
        let values = [(text("a"), None), (text("b"), Some(100.0)), (text("c"), Some(120.0))];
        let found = texts(&with_values("mode", &values));
        let never = "nothing can be told, no run counts with";
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
        assert_eq!(start(augment(None, None)), true_first, "nothing ran");
    }

    #[test]
    fn envs_are_compared_and_what_else_differs_is_listed() {
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
