//! Builds a complete [`Env`] from an env of the file and the settings for all envs.

use std::collections::HashMap;

use super::file::{EnvFile, Overrides, SpannedList, WorkerFile};
use super::keys::PLACEHOLDERS;
use super::limits::merge_limits;
use super::note::{Notes, Span, Spanned};
use super::profile::{check_own, declares, profiles};
use super::reader::unknown_key;
use super::{Axis, AxisName, AxisValue, Env};
use crate::architecture::NETWORKS;
use crate::job::{
    DataSource, Kind, ModelName, PARAMETERS, ParamValue, Params, Precision, WorkerTemplate, parameter,
    placeholders,
};
use crate::text::{did_you_mean, one_of};

/// An axis before zipping.
struct Dimension {
    name: AxisName,
    /// Its name in the file.
    word: String,
    span: Span,
    values: Vec<Spanned<AxisValue>>,
}

/// The env of `file`, completed from `base`; `None` if there are mistakes in either.
pub(super) fn build(file: &EnvFile, base: &Overrides, notes: &mut Notes) -> Option<Env> {
    let before = notes.count();
    let worker = file.own.worker.as_ref().or(base.worker.as_ref()).unwrap_or(&WorkerFile::Shipped);
    let (params, param_axes) = merge_params(&file.own, base);
    let declared = params.iter().map(|(name, _)| *name).chain(param_axes.iter().map(|(name, _)| *name));
    let unread = file.own.unread.iter().chain(&base.unread);
    check_worker(worker, &declared.chain(unread).collect::<Vec<_>>(), notes);
    check_own(&file.own.profile, file.device, notes);
    let limits = merge_limits(&file.own.limits, &base.limits);
    file.executor.check_system(file.device, file.place.os.as_deref(), notes);
    if !file.broken && !base.broken {
        file.executor.check_time(limits.timeout, notes);
    }
    let dimensions = dimensions(file, base, worker, &param_axes, notes);
    let zip = file.own.zip.as_ref().or(base.zip.as_ref());
    let axes = join(dimensions, zip.map_or(&[], Vec::as_slice), &file.name.value, notes);
    if file.broken || base.broken || notes.count() > before {
        return None;
    }
    Some(Env {
        name: file.name.value.parse().ok()?,
        device: file.device?,
        place: file.place.clone(),
        executor: file.executor.declared.clone(),
        share: file.share,
        peaks: file.peaks.clone(),
        usd_per_hour: file.usd_per_hour,
        cloud: file.cloud.clone(),
        worker: template(worker),
        variables: file.variables.clone(),
        axes,
        params: params
            .into_iter()
            .map(|(name, value)| (name.value.clone(), value.value.clone()))
            .collect::<Params>(),
        repeats: file.own.repeats.or(base.repeats).unwrap_or_default(),
        limits,
        profiles: profiles(&file.own.profile, &base.profile, file.device?),
        ops_if_reported: matches!(worker, WorkerFile::Command(_))
            && !declares(&file.own.profile, &base.profile, Kind::Ops),
    })
}

type NamedParam<'a> = (&'a Spanned<String>, &'a Spanned<ParamValue>);
type NamedAxis<'a> = (&'a Spanned<String>, &'a SpannedList<ParamValue>);

/// A parameter of the env, fixed or as an axis, replaces that of the matrix.
fn merge_params<'a>(own: &'a Overrides, base: &'a Overrides) -> (Vec<NamedParam<'a>>, Vec<NamedAxis<'a>>) {
    let is_own_param = |name: &str| own.params.iter().any(|(own, _)| own.value == name);
    let own_axis = |name: &str| own.axes.iter().find(|(own, _)| own.value == name);
    let mut params: Vec<NamedParam<'a>> = Vec::new();
    for (name, value) in &base.params {
        if !is_own_param(&name.value) && own_axis(&name.value).is_none() {
            params.push((name, value));
        }
    }
    params.extend(own.params.iter().map(|(name, value)| (name, value)));
    let mut axes: Vec<NamedAxis<'a>> = Vec::new();
    for (name, values) in &base.axes {
        if !is_own_param(&name.value) {
            let (name, values) =
                own_axis(&name.value).map_or((name, values), |(name, values)| (name, values));
            axes.push((name, values));
        }
    }
    for (name, values) in &own.axes {
        if !axes.iter().any(|(known, _)| known.value == name.value) {
            axes.push((name, values));
        }
    }
    (params, axes)
}

fn template(worker: &WorkerFile) -> WorkerTemplate {
    match worker {
        WorkerFile::Shipped | WorkerFile::Unknown => WorkerTemplate::Shipped,
        WorkerFile::Command(words) => {
            WorkerTemplate::Command(words.iter().map(|word| word.value.clone()).collect())
        }
    }
}

/// Checks the names of parameters against the worker, and the placeholders of its command against the parameters.
fn check_worker(worker: &WorkerFile, names: &[&Spanned<String>], notes: &mut Notes) {
    for name in names {
        check_param_name(name, worker, notes);
    }
    let WorkerFile::Command(words) = worker else { return };
    for word in words {
        for placeholder in placeholders(&word.value) {
            let is_defined = PLACEHOLDERS.contains(&placeholder)
                || names.iter().any(|name| name.value == placeholder)
                || parameter(placeholder).is_some_and(|known| known.default_value().is_some());
            if !is_defined {
                undefined_placeholder(placeholder, word.span, names, notes);
            }
        }
    }
}

/// Checks that `worker` has a parameter called `name`.
pub(super) fn check_param_name(name: &Spanned<String>, worker: &WorkerFile, notes: &mut Notes) {
    let known = PARAMETERS.iter().map(|parameter| parameter.name());
    if parameter(&name.value).is_some() {
        return;
    }
    match worker {
        WorkerFile::Unknown => {}
        WorkerFile::Command(_) if PLACEHOLDERS.contains(&name.value.as_str()) => taken_name(name, notes),
        WorkerFile::Shipped => unknown_key(name.span, &name.value, "a parameter of the worker", known, notes),
        WorkerFile::Command(words) => {
            let used: Vec<&str> = words.iter().flat_map(|word| placeholders(&word.value)).collect();
            if !used.contains(&name.value.as_str()) {
                let message =
                    format!("is not used: no word of `worker.command` contains `{{{}}}`", name.value);
                let hint = did_you_mean(&name.value, known.chain(used));
                notes.add_with_hint(name.span, &name.value, message, hint);
            }
        }
    }
}

/// Notes a parameter with the name of a reserved placeholder: its value would never be used.
fn taken_name(name: &Spanned<String>, notes: &mut Notes) {
    let own = match name.value.as_str() {
        "model" => "one of `models`",
        "batch" => "one of `batches`",
        "precision" => "one of `precisions`",
        "repeat" => "the number of the repeat",
        "device" => "the `device` of the env",
        _ => "set by orchestrate for each job",
    };
    let message = format!("cannot be a parameter: `{{{}}}` is {own}", name.value);
    let hint = format!("a parameter of your worker needs another name, such as `own_{}`", name.value);
    notes.add_with_hint(name.span, &name.value, message, Some(hint));
}

fn undefined_placeholder(placeholder: &str, span: Span, names: &[&Spanned<String>], notes: &mut Notes) {
    let word = format!("{{{placeholder}}}");
    if parameter(placeholder).is_some() {
        notes.add(span, &word, "has no default: give it a value under `params` or `axes`");
        return;
    }
    let known = PLACEHOLDERS.iter().copied().chain(names.iter().map(|name| name.value.as_str()));
    let hint = did_you_mean(placeholder, known.chain(PARAMETERS.iter().map(|parameter| parameter.name())));
    let message = format!(
        "nothing defines this placeholder: expected {}, or the name of a parameter",
        one_of(PLACEHOLDERS.iter().copied())
    );
    notes.add_with_hint(span, &word, message, hint);
}

/// The env's axes, the slowest-varying first.
fn dimensions(
    file: &EnvFile,
    base: &Overrides,
    worker: &WorkerFile,
    param_axes: &[NamedAxis<'_>],
    notes: &mut Notes,
) -> Vec<Dimension> {
    let mut dimensions = Vec::new();
    let models = file.own.models.as_ref().or(base.models.as_ref());
    if let Some(models) = required(models, "models", "[resnet50]", file, base, notes) {
        check_models(models, worker, notes);
        dimensions
            .push(dimension(AxisName::Model, "models", models, |model| AxisValue::Model(model.clone())));
    }
    let batches = file.own.batches.as_ref().or(base.batches.as_ref());
    if let Some(batches) = required(batches, "batches", "[16, 32]", file, base, notes) {
        dimensions.push(dimension(AxisName::Batch, "batches", batches, |batch| AxisValue::Batch(*batch)));
    }
    let default = Spanned {
        value: vec![Spanned { value: Precision::Fp32, span: file.name.span }],
        span: file.name.span,
    };
    let precisions = file.own.precisions.as_ref().or(base.precisions.as_ref()).unwrap_or(&default);
    dimensions.push(dimension(AxisName::Precision, "precisions", precisions, |precision| {
        AxisValue::Precision(*precision)
    }));
    for (name, values) in param_axes {
        let axis = AxisName::Param(name.value.as_str().into());
        dimensions.push(dimension(axis, &name.value, values, |value| AxisValue::Param(value.clone())));
    }
    dimensions
}

/// Notes a missing list that every env needs, unless it exists but could not be read.
fn required<'a, T>(
    list: Option<&'a T>,
    key: &str,
    example: &str,
    file: &EnvFile,
    base: &Overrides,
    notes: &mut Notes,
) -> Option<&'a T> {
    if list.is_none() && !file.own.broken && !base.broken {
        let message =
            format!("has no `{key}`: write `{key}: {example}` here, or at the top level for all envs");
        notes.add(file.name.span, &file.name.value, message);
    }
    list
}

fn dimension<T>(
    name: AxisName,
    word: &str,
    list: &SpannedList<T>,
    value: impl Fn(&T) -> AxisValue,
) -> Dimension {
    let values =
        list.value.iter().map(|item| Spanned { value: value(&item.value), span: item.span }).collect();
    Dimension { name, word: word.to_owned(), span: list.span, values }
}

fn check_models(models: &SpannedList<ModelName>, worker: &WorkerFile, notes: &mut Notes) {
    models.value.iter().for_each(|model| check_model(model, worker, notes));
}

/// Checks that the shipped worker knows `model`. Other workers can know any model.
pub(super) fn check_model(model: &Spanned<ModelName>, worker: &WorkerFile, notes: &mut Notes) {
    if matches!(worker, WorkerFile::Shipped) && !NETWORKS.contains(&model.value.as_str()) {
        let message = "is not a network of the shipped worker";
        let closest =
            did_you_mean(&model.value, NETWORKS.iter().copied()).map(|closest| format!("{closest} "));
        let hint = format!("{}`orchestrate complexity --all` lists them", closest.unwrap_or_default());
        notes.add_with_hint(model.span, &model.value, message, Some(hint));
    }
}

/// The axes of an env. Zipped dimensions become one axis in the position of the first one.
fn join(
    mut dimensions: Vec<Dimension>,
    zip: &[SpannedList<String>],
    env: &str,
    notes: &mut Notes,
) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::new();
    let groups = check_zip(&dimensions, zip, env, notes);
    while !dimensions.is_empty() {
        let group = groups.iter().find(|group| group.contains(&dimensions[0].word));
        let (joined, rest): (Vec<_>, Vec<_>) = match group {
            Some(group) => dimensions.into_iter().partition(|dimension| group.contains(&dimension.word)),
            None => {
                let rest = dimensions.split_off(1);
                (dimensions, rest)
            }
        };
        axes.extend(zipped(joined, zip, notes));
        dimensions = rest;
    }
    axes
}

/// The valid groups of `zip`, by the names of their axes.
fn check_zip(
    dimensions: &[Dimension],
    zip: &[SpannedList<String>],
    env: &str,
    notes: &mut Notes,
) -> Vec<Vec<String>> {
    let mut groups: Vec<Vec<String>> = Vec::new();
    for group in zip {
        let before = notes.count();
        let mut words: Vec<String> = Vec::new();
        for word in &group.value {
            let known = dimensions.iter().map(|dimension| dimension.word.as_str());
            if !known.clone().any(|name| name == word.value) {
                let message = format!("is not an axis of env `{env}`: expected {}", one_of(known.clone()));
                notes.add_with_hint(word.span, &word.value, message, did_you_mean(&word.value, known));
            } else if words.contains(&word.value) || groups.iter().any(|group| group.contains(&word.value)) {
                notes.add(word.span, &word.value, "is already zipped: an axis can be in one group only");
            }
            words.push(word.value.clone());
        }
        if notes.count() == before {
            groups.push(words);
        }
    }
    groups
}

/// One axis from dimensions that vary together, which must have the same length. Its points must differ.
fn zipped(joined: Vec<Dimension>, zip: &[SpannedList<String>], notes: &mut Notes) -> Option<Axis> {
    let first = joined.first()?;
    for other in &joined[1..] {
        if other.values.len() != first.values.len() {
            let message = format!(
                "has {} values, but `{}` in the same `zip` group has {}: both must have the same number",
                other.values.len(),
                first.word,
                first.values.len()
            );
            notes.add(other.span, &other.word, message);
            return None;
        }
    }
    // A group with mistakes might have been meant to distinguish equal values.
    let is_zipped = zip.iter().flat_map(|group| &group.value).any(|word| word.value == first.word);
    let is_alone = joined.len() == 1 && is_zipped;
    let mut points: Vec<Vec<AxisValue>> = Vec::new();
    let mut by_call: HashMap<Vec<CallWord>, Vec<usize>> = HashMap::new();
    for (index, value) in first.values.iter().enumerate() {
        let point: Vec<AxisValue> =
            joined.iter().map(|dimension| dimension.values[index].value.clone()).collect();
        let same_call = by_call.entry(point.iter().map(CallWord::of).collect()).or_default();
        if same_call.iter().any(|other| points[*other] == point) && !is_alone {
            notes.add(value.span, &shown(&value.value), format!("is in `{}` twice: keep one", first.word));
        } else if !same_call.is_empty() && !is_alone {
            let message =
                format!("results in the same worker command as another value of `{}`: keep one", first.word);
            notes.add(value.span, &shown(&value.value), message);
        }
        same_call.push(points.len());
        points.push(point);
    }
    let names = joined.into_iter().map(|dimension| dimension.name).collect();
    (!points.is_empty()).then_some(Axis { names, points })
}

/// A value as a word of a worker's command: `1`, `1.0` and `"1"` are the same word.
#[derive(PartialEq, Eq, Hash)]
enum CallWord {
    Word(String),
    /// Synthetic data and a folder called `synthetic` have the same text, but the shipped worker distinguishes them.
    Data(DataSource),
}

impl CallWord {
    fn of(value: &AxisValue) -> CallWord {
        match value {
            AxisValue::Param(ParamValue::Data(source)) => CallWord::Data(source.clone()),
            _ => CallWord::Word(shown(value)),
        }
    }
}

fn shown(value: &AxisValue) -> String {
    match value {
        AxisValue::Model(model) => model.to_string(),
        AxisValue::Batch(batch) => batch.to_string(),
        AxisValue::Precision(precision) => precision.to_string(),
        AxisValue::Param(value) => value.to_string(),
    }
}
