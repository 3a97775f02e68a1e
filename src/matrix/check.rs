//! Checks the text of a matrix file: [`check`] returns a valid [`Matrix`], or all mistakes of the file.
//!
//! Checking has layers: syntax, keys and types ([`super::file`]), each env ([`super::env`]), then `exclude`, `include`
//! and the whole matrix. A layer continues even if the previous one found mistakes, but skips checks that these could
//! affect. For example, a misspelt model must not also be reported as an `exclude` without effect.

use std::collections::{BTreeSet, HashSet};

use super::env::{build, check_model, check_param_name};
use super::file::{self, EnvFile, MatrixFile, WorkerFile};
use super::keys::{self, BATCH};
use super::note::{Note, Notes, Span, Spanned};
use super::reader::{count, get, mismatch, name, nearest_word, param, parsed, unknown_key};
use super::size::is_small_enough;
use super::tree::{self, Entry, Node, Value};
use super::veil::{mask_of, without_quotes};
use super::{AxisValue, Condition, Env, Include, Matrix, Operator, Selector, SelectorField, comma_separated};
use crate::architecture::{self, NoNetwork};
use crate::job::{
    JobId, Key, PARAMETERS, ParamValue, Parameter, ParameterType, Params, Precision, parameter,
};
use crate::text::{did_you_mean, one_of};

/// Checks the text of a matrix file.
///
/// # Errors
/// All mistakes, in the order of the file.
pub fn check(source: &str) -> Result<Matrix, Vec<Note>> {
    let (tree, duplicates) = tree::parse(source).map_err(|note| vec![without_quotes(note, source)])?;
    let mut notes = Notes::behind(mask_of(&tree), duplicates);
    let file = file::read(&tree, &mut notes);
    let known = Known::new(&file, &mut notes);
    let exclude: Vec<Spanned<Selector>> =
        file.exclude.iter().filter_map(|entry| known.selector(entry, &mut notes)).collect();
    let include: Vec<Spanned<Include>> =
        file.include.iter().filter_map(|entry| known.include(entry, &mut notes)).collect();
    check_whole(&known, &exclude, &include, &mut notes);
    let envs = known.built.into_iter().flatten().collect();
    // If the name is missing, there is a note already.
    let Some(name) = file.name.filter(|_| notes.count() == 0) else {
        return Err(notes.into_sorted());
    };
    Ok(Matrix {
        name,
        description: file.description,
        envs,
        exclude: exclude.into_iter().map(|selector| selector.value).collect(),
        include: include.into_iter().map(|include| include.value).collect(),
        order: file.order,
        order_seed: file.order_seed,
        thresholds: file.thresholds,
    })
}

/// The names that entries of `exclude` and `include` can refer to.
struct Known<'a> {
    file: &'a MatrixFile,
    /// The envs in the order of the file; `None` if mistakes leave the env unknown.
    built: Vec<Option<Env>>,
}

impl<'a> Known<'a> {
    fn new(file: &'a MatrixFile, notes: &mut Notes) -> Self {
        let built = file.envs.iter().map(|env| build(env, &file.base, notes)).collect();
        Known { file, built }
    }

    fn env_names(&self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        self.file.envs.iter().map(|env| env.name.value.as_str())
    }

    /// Whether every env could be built. Only then is an unknown name certainly a mistake.
    fn is_complete(&self) -> bool {
        self.built.iter().all(Option::is_some)
    }

    /// The models of all envs, each once.
    fn models(&self) -> BTreeSet<&str> {
        let points =
            self.built.iter().flatten().flat_map(|env| &env.axes).flat_map(|axis| &axis.points).flatten();
        let models = points.filter_map(|value| match value {
            AxisValue::Model(model) => Some(model.as_str()),
            _ => None,
        });
        models.collect()
    }

    fn worker(&self, env: &'a EnvFile) -> &'a WorkerFile {
        env.own.worker.as_ref().or(self.file.base.worker.as_ref()).unwrap_or(&WorkerFile::Shipped)
    }

    /// Whether any env can have a parameter called `name`.
    fn has_param(&self, name: &str) -> bool {
        let overrides = || self.file.envs.iter().map(|env| &env.own).chain([&self.file.base]);
        parameter(name).is_some()
            || overrides().any(|own| {
                own.params
                    .iter()
                    .map(|(param, _)| param)
                    .chain(own.axes.iter().map(|(axis, _)| axis))
                    .any(|known| known.value == name)
            })
    }

    fn selector(&self, entry: &Spanned<Vec<Entry>>, notes: &mut Notes) -> Option<Spanned<Selector>> {
        let before = notes.count();
        let mut parts = Vec::new();
        for (key, node) in &entry.value {
            let field = SelectorField::named(&key.value);
            match &field {
                SelectorField::Repeat => {
                    notes.add(
                        key.span,
                        "repeat",
                        "`exclude` removes a config with all its repeats: change `repeats` instead",
                    );
                    continue;
                }
                SelectorField::Param(name) if !self.has_param(name) => {
                    let known =
                        keys::names(keys::EXCLUDE).chain(PARAMETERS.iter().map(|parameter| parameter.name()));
                    unknown_key(key.span, &key.value, "a part of a condition", known, notes);
                    continue;
                }
                _ => {}
            }
            parts.extend(self.condition(&field, &key.value, node, notes).map(|condition| (field, condition)));
        }
        (notes.count() == before).then_some(Spanned { value: Selector { parts }, span: entry.span })
    }

    fn condition(
        &self,
        field: &SelectorField,
        name: &str,
        node: &Node,
        notes: &mut Notes,
    ) -> Option<Condition> {
        let (operator, values) = match &node.value {
            Value::Text(text) if Operator::strip(text).is_some() => {
                let (operator, rest) = Operator::strip(text)?;
                let values = comma_separated(rest);
                (operator, values.into_iter().map(|value| Spanned { value, span: node.span }).collect())
            }
            Value::List(items) => (Operator::Equal, self.values(field, name, items, notes)?),
            _ => (Operator::Equal, self.values(field, name, std::slice::from_ref(node), notes)?),
        };
        if matches!(operator, Operator::Compare(_)) && !is_number(field) {
            notes.add(node.span, &node.value.word(), format!("compares numbers; `{name}` is not one"));
            return None;
        }
        let before = notes.count();
        for value in &values {
            self.check_value(field, operator, value, notes);
        }
        if notes.count() > before {
            return None;
        }
        let condition = Condition::new(operator, values.into_iter().map(|value| value.value).collect());
        if condition.is_none() {
            mismatch(
                node,
                "a value, a list of values, or a comparison such as `\">= 64\"` or `\"!= vgg16\"`",
                notes,
            );
        }
        condition
    }

    fn values(
        &self,
        field: &SelectorField,
        name: &str,
        items: &[Node],
        notes: &mut Notes,
    ) -> Option<Vec<Spanned<ParamValue>>> {
        let read = |node: &Node, notes: &mut Notes| match field {
            SelectorField::Batch | SelectorField::Repeat => {
                let batch = count(node, BATCH, notes)?;
                Some(Spanned { value: ParamValue::Int(batch.value.into()), span: batch.span })
            }
            SelectorField::Param(name) => param(name, node, notes),
            SelectorField::Env | SelectorField::Model | SelectorField::Precision => {
                let word = super::reader::text(node, &format!("the name of a {name}"), notes)?;
                Some(Spanned { value: ParamValue::Text(word.value), span: word.span })
            }
        };
        let values: Vec<_> = items.iter().filter_map(|node| read(node, notes)).collect();
        (values.len() == items.len()).then_some(values)
    }

    /// Checks that the names in a condition exist.
    fn check_value(
        &self,
        field: &SelectorField,
        operator: Operator,
        value: &Spanned<ParamValue>,
        notes: &mut Notes,
    ) {
        let word = value.value.to_string();
        let mut unknown = |what: &str, known: &[&str]| {
            if !known.contains(&word.as_str()) {
                let hint = did_you_mean(&word, known.iter().copied());
                let message =
                    format!("is not {what} of this matrix: expected {}", one_of(known.iter().copied()));
                notes.add_with_hint(value.span, &word, message, hint);
            }
        };
        match field {
            SelectorField::Env => unknown("an env", &self.env_names().collect::<Vec<_>>()),
            SelectorField::Model if self.is_complete() => {
                unknown("a model", &self.models().into_iter().collect::<Vec<_>>())
            }
            SelectorField::Precision => unknown("a precision", &Precision::ALL.map(Precision::as_str)),
            SelectorField::Param(name) => {
                if let Some(parameter) = parameter(name)
                    && !may_follow(operator, parameter, &value.value)
                {
                    let message = format!("`{name}` expects {}", parameter.expected());
                    notes.add_with_hint(value.span, &word, message, nearest_word(parameter, &word));
                }
            }
            SelectorField::Batch if !matches!(value.value, ParamValue::Int(_)) => {
                notes.add(value.span, &word, "expected a batch size");
            }
            _ => {}
        }
    }

    fn include(&self, entry: &Spanned<Vec<Entry>>, notes: &mut Notes) -> Option<Spanned<Include>> {
        let before = notes.count();
        let map = &entry.value;
        let index = self.include_env(entry, notes)?;
        let (env, built) = (&self.file.envs[index], self.built[index].as_ref());
        let worker = self.worker(env);
        let model = get(map, "model").and_then(|node| name(node, "a model's name", notes));
        if let Some(model) = &model {
            check_model(model, worker, notes);
        }
        let batch = get(map, "batch").and_then(|node| count(node, BATCH, notes));
        let repeats = get(map, "repeats").and_then(|node| super::repeats::read_repeats(node, notes));
        for required in ["model", "batch"] {
            if get(map, required).is_none() {
                notes.add(Span { length: 1, ..entry.span }, "include", format!("`{required}` is missing"));
            }
        }
        let precision = self.include_precision(entry, built, notes);
        let params = include_params(map, worker, notes);
        let built = built.filter(|_| notes.count() == before)?;
        let include = Include {
            env: built.name.clone(),
            model: model?.value,
            batch: batch?.value,
            precision: precision?,
            params,
            repeats: repeats.unwrap_or(built.repeats),
        };
        Some(Spanned { value: include, span: entry.span })
    }

    /// The index of the env that an entry of `include` is for.
    fn include_env(&self, entry: &Spanned<Vec<Entry>>, notes: &mut Notes) -> Option<usize> {
        let names: Vec<&str> = self.env_names().collect();
        let Some(node) = get(&entry.value, "env") else {
            if names.len() != 1 {
                let message = format!("`env` is missing: expected {}", one_of(names));
                notes.add(Span { length: 1, ..entry.span }, "include", message);
                return None;
            }
            return Some(0);
        };
        let word = node.value.word();
        let index = names.iter().position(|name| *name == word);
        if index.is_none() {
            let hint = did_you_mean(&word, names.iter().copied());
            let message = format!("is not an env of this matrix: expected {}", one_of(names));
            notes.add_with_hint(node.span, &word, message, hint);
        }
        index
    }

    /// The precision of an entry of `include`: the declared one, otherwise the only one of its env.
    fn include_precision(
        &self,
        entry: &Spanned<Vec<Entry>>,
        env: Option<&Env>,
        notes: &mut Notes,
    ) -> Option<Precision> {
        let words = Precision::ALL.map(Precision::as_str);
        if let Some(node) = get(&entry.value, "precision") {
            let precision = parsed(node, &words, "`fp32`, `tf32`, `amp` or `bf16`", notes)?;
            return Some(precision.value);
        }
        let mut precisions: Vec<Precision> = env?
            .axes
            .iter()
            .flat_map(|axis| axis.points.iter().flatten())
            .filter_map(|value| match value {
                AxisValue::Precision(precision) => Some(*precision),
                _ => None,
            })
            .collect();
        precisions.dedup();
        if let [only] = precisions[..] {
            return Some(only);
        }
        let message = "`precision` is missing: its env has more than one";
        notes.add(Span { length: 1, ..entry.span }, "include", message);
        None
    }
}

/// The parameters in an entry of `include`: all keys that have no other meaning.
fn include_params(map: &[Entry], worker: &WorkerFile, notes: &mut Notes) -> Params {
    let mut params = Params::new();
    for (key, node) in map {
        if keys::names(keys::INCLUDE).any(|name| name == key.value) {
            continue;
        }
        let own = keys::names(keys::INCLUDE);
        if let Some(hint) = did_you_mean(&key.value, own).filter(|_| parameter(&key.value).is_none()) {
            notes.add_with_hint(key.span, &key.value, "is not a key of a config", Some(hint));
            continue;
        }
        check_param_name(key, worker, notes);
        if let Some(value) = param(&key.value, node, notes) {
            params.insert(key.value.as_str().into(), value.value);
        }
    }
    params
}

/// Whether `value` is valid after `operator`. A bound may be outside the parameter's range, and a word can be the name
/// of a source of images.
fn may_follow(operator: Operator, parameter: Parameter, value: &ParamValue) -> bool {
    match operator {
        Operator::Equal | Operator::NotEqual => {
            parameter.kind() == ParameterType::Data || parameter.accept(value.clone()).is_ok()
        }
        Operator::Compare(_) => true,
    }
}

/// Whether a field contains numbers. Parameters that only an external worker knows can contain anything.
fn is_number(field: &SelectorField) -> bool {
    match field {
        SelectorField::Batch | SelectorField::Repeat => true,
        SelectorField::Env | SelectorField::Model | SelectorField::Precision => false,
        SelectorField::Param(name) => parameter(name).is_none_or(|known| known.kind().is_number()),
    }
}

/// Why the shipped worker has no network for the images of `key`. Unknown networks are reported elsewhere.
fn no_network(key: &Key) -> Option<String> {
    let size = |name: &str| match key.param(name) {
        Some(ParamValue::Int(value)) => u32::try_from(value).ok(),
        _ => None,
    };
    let shape = || size("input_size").zip(size("classes"));
    let (input_size, classes) = key.worker.is_shipped().then(shape)??;
    match architecture::check(&key.model, input_size, classes) {
        Err(NoNetwork::UnknownName(_)) | Ok(_) => None,
        Err(error) => Some(error.to_string()),
    }
}

/// Mistakes that only the whole matrix shows: too many jobs, excludes without effect, duplicate configs, envs without
/// configs.
fn check_whole(
    known: &Known<'_>,
    exclude: &[Spanned<Selector>],
    include: &[Spanned<Include>],
    notes: &mut Notes,
) {
    let envs: Vec<_> =
        known.built.iter().zip(&known.file.envs).map(|(env, file)| (env.as_ref(), &file.name)).collect();
    if !is_small_enough(&envs, include, known.file.max_jobs, notes) {
        return;
    }
    let mut hits = vec![false; exclude.len()];
    for (env, file) in known.built.iter().zip(&known.file.envs) {
        let Some(env) = env else { continue };
        let product = check_product(env, &file.name, exclude, &mut hits, notes);
        let added = check_included(env, include, exclude, notes);
        let may_be_included = known.file.include.len() > include.len();
        if product + added == 0 && !may_be_included {
            let message = "has no configs left: `exclude` removes all of them";
            notes.add(file.name.span, &file.name.value, message);
        }
    }
    for (selector, _) in exclude.iter().zip(hits).filter(|(_, hit)| !hit) {
        if known.is_complete() {
            let span = Span { length: 1, ..selector.span };
            notes.add(span, "exclude", "excludes nothing: no config meets all of these conditions");
        }
    }
}

/// The number of configs of `env` that are not excluded. `hits` collects the selectors that exclude a config.
fn check_product(
    env: &Env,
    name: &Spanned<String>,
    exclude: &[Spanned<Selector>],
    hits: &mut [bool],
    notes: &mut Notes,
) -> usize {
    let mut configs = 0;
    let mut impossible = BTreeSet::new();
    for key in env.product() {
        let mut is_kept = true;
        for (hit, selector) in hits.iter_mut().zip(exclude) {
            let matches = selector.value.matches(&key);
            *hit |= matches;
            is_kept &= !matches;
        }
        if is_kept {
            configs += 1;
            impossible.extend(no_network(&key));
        }
    }
    for reason in impossible {
        notes.add(name.span, &name.value, format!("has impossible configs: {reason}"));
    }
    configs
}

/// Checks the configs that `include` adds to `env`, and counts them.
fn check_included(
    env: &Env,
    include: &[Spanned<Include>],
    exclude: &[Spanned<Selector>],
    notes: &mut Notes,
) -> usize {
    let include: Vec<_> = include.iter().filter(|include| include.value.env == env.name).collect();
    let mut ids = if include.is_empty() { HashSet::new() } else { kept_ids(env, exclude) };
    for include in &include {
        let key = env.included(&include.value).key;
        let span = Span { length: 1, ..include.span };
        if let Some(reason) = no_network(&key) {
            notes.add(span, "include", format!("is impossible: {reason}"));
        }
        if !ids.insert(key.id()) {
            notes.add(span, "include", "this config is already in the matrix: remove it here");
        }
    }
    include.len()
}

/// The ids of the configs of `env` that are not excluded.
fn kept_ids(env: &Env, exclude: &[Spanned<Selector>]) -> HashSet<JobId> {
    let is_kept = |key: &Key| !exclude.iter().any(|selector| selector.value.matches(key));
    env.product().filter(is_kept).map(|key| key.id()).collect()
}
