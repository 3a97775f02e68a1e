//! The content of a matrix file: values with their positions. Their types are checked here, their meanings later.
//!
//! [`MatrixFile`] mirrors the YAML. Values that an env does not override are absent here; [`super::check`] fills them
//! in.

use super::executor::{ExecutorFile, read_executor};
use super::keys::{self, BATCH, DEFAULT_MAX_JOBS, MAX_JOBS, ORDER_SEED};
use super::limits::{LimitsFile, read_limits};
use super::note::{Notes, Span, Spanned};
use super::profile::{self, ProfileFile};
use super::reader::{
    check_keys, check_name, count, entries, get, in_quotes, list, mismatch, name, optional_list, param,
    parsed, text, whole, word,
};
use super::repeats::read_repeats;
use super::thresholds::read_thresholds;
use super::tree::{Entry, Node, Value};
use super::variables::{Variables, read_variables};
use super::{Order, Place, RepeatRule, Share};
use crate::job::{Device, ModelName, Name, OfFile, ParamValue, Precision};
use crate::record::CloudFacts;
use crate::threshold::Thresholds;

/// A matrix file.
#[derive(Debug)]
pub(super) struct MatrixFile {
    pub(super) name: Option<Name>,
    pub(super) description: Option<String>,
    /// The settings of every env that does not override them.
    pub(super) base: Overrides,
    pub(super) envs: Vec<EnvFile>,
    pub(super) exclude: Vec<Spanned<Vec<Entry>>>,
    pub(super) include: Vec<Spanned<Vec<Entry>>>,
    pub(super) order: Order,
    pub(super) order_seed: u64,
    pub(super) max_jobs: u64,
    pub(super) thresholds: Thresholds,
}

/// One env.
#[derive(Debug)]
pub(super) struct EnvFile {
    pub(super) name: Spanned<String>,
    /// Whether a part of it could not be read.
    pub(super) broken: bool,
    pub(super) device: Option<Device>,
    pub(super) place: Place,
    pub(super) executor: ExecutorFile,
    pub(super) share: Share,
    pub(super) peaks: Option<String>,
    pub(super) usd_per_hour: Option<f64>,
    pub(super) cloud: Option<CloudFacts>,
    pub(super) variables: Variables,
    pub(super) own: Overrides,
}

/// A list and its items, each with its position.
pub(super) type SpannedList<T> = Spanned<Vec<Spanned<T>>>;

/// Settings for all envs in a matrix, or for one env.
#[derive(Debug, Default)]
pub(super) struct Overrides {
    /// Whether a part of it could not be read.
    pub(super) broken: bool,
    pub(super) models: Option<SpannedList<ModelName>>,
    pub(super) batches: Option<SpannedList<u32>>,
    pub(super) precisions: Option<SpannedList<Precision>>,
    pub(super) repeats: Option<RepeatRule>,
    pub(super) params: Vec<(Spanned<String>, Spanned<ParamValue>)>,
    pub(super) axes: Vec<(Spanned<String>, SpannedList<ParamValue>)>,
    /// Declared parameters whose values could not be read.
    pub(super) unread: Vec<Spanned<String>>,
    pub(super) zip: Option<Vec<SpannedList<String>>>,
    pub(super) limits: LimitsFile,
    pub(super) profile: ProfileFile,
    pub(super) worker: Option<WorkerFile>,
}

/// The program that trains.
#[derive(Clone, Debug)]
pub(super) enum WorkerFile {
    Shipped,
    Command(Vec<Spanned<String>>),
    /// Unknown because of mistakes, so nothing can be checked against it.
    Unknown,
}

/// Reads a matrix from its tree.
pub(super) fn read(node: &Node, notes: &mut Notes) -> MatrixFile {
    let Value::Map(top) = &node.value else {
        mismatch(node, "a matrix: a mapping with `name`, `models`, `batches` and `envs`", notes);
        return MatrixFile { envs: Vec::new(), ..read_entries(&[], &mut Notes::default()) };
    };
    check_keys(top, &[keys::MATRIX, keys::OVERRIDES], "a matrix", notes);
    let file = read_entries(top, notes);
    for required in ["name", "envs"] {
        if get(top, required).is_none() {
            notes.add(Span { length: 1, ..node.span }, required, "is missing: every matrix needs this key");
        }
    }
    file
}

fn read_entries(top: &[Entry], notes: &mut Notes) -> MatrixFile {
    let order = get(top, "order").and_then(|node| word(node, keys::ORDERS, notes)).map_or_else(
        Order::default,
        |word| match word {
            "sequential" => Order::Sequential,
            "random" => Order::Random,
            _ => Order::Interleaved,
        },
    );
    let seed = get(top, "order_seed").and_then(|node| whole(node, ORDER_SEED, notes));
    let max_jobs = get(top, "max_jobs").and_then(|node| whole(node, MAX_JOBS, notes));
    MatrixFile {
        name: get(top, "name").and_then(|node| name(node, "a matrix's name", notes)).map(|name| name.value),
        description: get(top, "description").and_then(|node| description(node, notes)),
        base: read_overrides(top, notes),
        envs: get(top, "envs").map_or_else(Vec::new, |node| read_envs(node, notes)),
        exclude: read_selectors(
            get(top, "exclude"),
            "a list of conditions such as `{ model: vgg16 }`",
            notes,
        ),
        include: read_selectors(
            get(top, "include"),
            "a list of configs such as `{ model: vgg16, batch: 8 }`",
            notes,
        ),
        order,
        order_seed: seed.map_or(0, |seed| seed.value.unsigned_abs()),
        max_jobs: max_jobs.map_or(DEFAULT_MAX_JOBS, |jobs| jobs.value.unsigned_abs()),
        thresholds: get(top, "thresholds")
            .map_or_else(Thresholds::default, |node| read_thresholds(node, notes)),
    }
}

fn description(node: &Node, notes: &mut Notes) -> Option<String> {
    match &node.value {
        Value::Text(text) => Some(text.trim().to_owned()),
        Value::Null => None,
        _ => {
            mismatch(node, "a sentence", notes);
            None
        }
    }
}

fn read_selectors(node: Option<&Node>, expected: &str, notes: &mut Notes) -> Vec<Spanned<Vec<Entry>>> {
    let items = node.map_or(&[][..], |node| optional_list(node, expected, notes));
    let mut selectors = Vec::new();
    for item in items {
        match &item.value {
            Value::Map(entries) if !entries.is_empty() => {
                selectors.push(Spanned { value: entries.clone(), span: item.span });
            }
            _ => mismatch(item, expected, notes),
        }
    }
    selectors
}

fn read_overrides(map: &[Entry], notes: &mut Notes) -> Overrides {
    let before = notes.count();
    let mut unread = Vec::new();
    let words = Precision::ALL.map(Precision::as_str);
    let precision = "`fp32`, `tf32`, `amp` or `bf16`";
    let mut own = Overrides {
        broken: false,
        models: read_list(get(map, "models"), "a list of models", notes, |node, notes| {
            name(node, "a model's name", notes)
        }),
        batches: read_list(get(map, "batches"), "a list of batch sizes", notes, |node, notes| {
            count(node, BATCH, notes)
        }),
        precisions: read_list(get(map, "precisions"), "a list of precisions", notes, |node, notes| {
            parsed(node, &words, precision, notes)
        }),
        repeats: get(map, "repeats").and_then(|node| read_repeats(node, notes)),
        params: read_params(get(map, "params"), &mut unread, notes),
        axes: read_axes(get(map, "axes"), &mut unread, notes),
        unread,
        zip: get(map, "zip").map(|node| read_zip(node, notes)),
        limits: get(map, "limits").map_or_else(LimitsFile::default, |node| read_limits(node, notes)),
        profile: get(map, "profile").map_or_else(ProfileFile::default, |node| profile::read(node, notes)),
        worker: get(map, "worker").map(|node| read_worker(node, notes)),
    };
    for (axis, _) in &own.axes {
        if own.params.iter().any(|(param, _)| param.value == axis.value) {
            notes.add(axis.span, &axis.value, "is an axis here and a parameter under `params`: keep one");
        }
    }
    own.broken = notes.count() > before;
    own
}

/// A list with at least one item, each read by `item`.
fn read_list<T>(
    node: Option<&Node>,
    expected: &str,
    notes: &mut Notes,
    mut item: impl FnMut(&Node, &mut Notes) -> Option<Spanned<T>>,
) -> Option<SpannedList<T>> {
    let node = node?;
    let items = list(node, expected, notes)?;
    let value = items.iter().filter_map(|node| item(node, notes)).collect();
    Some(Spanned { value, span: node.span })
}

/// The parameters and their values. Those whose values cannot be read go to `unread`.
fn read_params(
    node: Option<&Node>,
    unread: &mut Vec<Spanned<String>>,
    notes: &mut Notes,
) -> Vec<(Spanned<String>, Spanned<ParamValue>)> {
    let Some(node) = node else { return Vec::new() };
    let mut params = Vec::new();
    for (key, node) in entries(node, "parameters and their values", notes) {
        match param(&key.value, node, notes) {
            Some(value) => params.push((key.clone(), value)),
            None => unread.push(key.clone()),
        }
    }
    params
}

/// The parameters with lists of values. Those whose lists cannot be read go to `unread`.
fn read_axes(
    node: Option<&Node>,
    unread: &mut Vec<Spanned<String>>,
    notes: &mut Notes,
) -> Vec<(Spanned<String>, SpannedList<ParamValue>)> {
    let Some(node) = node else { return Vec::new() };
    let map = entries(node, "parameters with lists of values", notes);
    let mut axes = Vec::new();
    for (key, node) in map {
        let own = match key.value.as_str() {
            "model" | "models" => Some("models"),
            "batch" | "batches" => Some("batches"),
            "precision" | "precisions" => Some("precisions"),
            "repeat" | "repeats" => Some("repeats"),
            _ => None,
        };
        if let Some(own) = own {
            notes.add(key.span, &key.value, format!("has its own key: write `{own}:` beside `axes`"));
            continue;
        }
        let values =
            read_list(Some(node), "a list of values", notes, |node, notes| param(&key.value, node, notes));
        match values {
            Some(values) => axes.push((key.clone(), values)),
            None => unread.push(key.clone()),
        }
    }
    axes
}

fn read_zip(node: &Node, notes: &mut Notes) -> Vec<SpannedList<String>> {
    let expected = "a list of groups of axes, such as `[[batches, grad_accum_steps]]`";
    let groups = optional_list(node, expected, notes);
    let mut read = Vec::new();
    for group in groups {
        match &group.value {
            Value::List(names) if names.len() >= 2 => {
                let names =
                    names.iter().filter_map(|node| text(node, "the name of an axis", notes)).collect();
                read.push(Spanned { value: names, span: group.span });
            }
            Value::List(_) => {
                notes.add(group.span, "zip", "a group needs at least two axes that vary together");
            }
            _ => mismatch(group, expected, notes),
        }
    }
    read
}

fn read_worker(node: &Node, notes: &mut Notes) -> WorkerFile {
    let map = match &node.value {
        Value::Text(text) if text == "shipped" => return WorkerFile::Shipped,
        Value::Map(map) => map,
        _ => {
            mismatch(node, "`{ command: [program, argument, …], result: json }`, or `shipped`", notes);
            return WorkerFile::Unknown;
        }
    };
    check_keys(map, &[keys::WORKER], "`worker`", notes);
    if let Some(node) = get(map, "result") {
        word(node, &["json"], notes);
    }
    if get(map, "command").is_none() {
        let message = "`command` is missing: expected the program and its arguments";
        notes.add(Span { length: 1, ..node.span }, "worker", message);
    }
    let before = notes.count();
    match read_list(get(map, "command"), "a list: the program and its arguments", notes, argument) {
        Some(words) if notes.count() == before => WorkerFile::Command(words.value),
        _ => WorkerFile::Unknown,
    }
}

/// A word of a command. Numbers and switches keep their spelling.
fn argument(node: &Node, notes: &mut Notes) -> Option<Spanned<String>> {
    match &node.value {
        Value::Int(_) | Value::Float(_) | Value::Bool(_) => {
            Some(Spanned { value: node.value.word(), span: node.span })
        }
        Value::Text(text) if !text.contains('\0') => Some(Spanned { value: text.clone(), span: node.span }),
        _ => {
            let hint = match &node.value {
                Value::Map(_) => Some("a placeholder needs quotes: \"{model}\"".to_owned()),
                Value::Unkept(text) => Some(in_quotes(text)),
                _ => None,
            };
            notes.add_with_hint(node.span, &node.value.word(), "expected a word of the command", hint);
            None
        }
    }
}

fn read_envs(node: &Node, notes: &mut Notes) -> Vec<EnvFile> {
    let map = entries(node, "the envs by name, such as `cpu: { device: cpu }`", notes);
    if map.is_empty() && matches!(node.value, Value::Map(_) | Value::Null) {
        notes.add(node.span, "envs", "is empty: expected at least one env, such as `cpu: { device: cpu }`");
    }
    map.iter().map(|(name, node)| read_env(name, node, notes)).collect()
}

fn read_env(name: &Spanned<String>, node: &Node, notes: &mut Notes) -> EnvFile {
    let before = notes.count();
    check_name::<OfFile>(name, "an env's name", notes);
    let map = entries(node, "an env: a mapping, at least `{ device: cpu }`", notes);
    check_keys(map, &[keys::ENV, keys::OVERRIDES], "an env", notes);
    if get(map, "device").is_none() && matches!(node.value, Value::Map(_) | Value::Null) {
        notes.add(
            name.span,
            &name.value,
            "`device` is missing: every env needs `cpu`, `mps`, `cuda` or `cuda:<index>`",
        );
    }
    let own = read_overrides(map, notes);
    let device = get(map, "device").and_then(|node| {
        // No suggestion: `gpu` differs from `cpu` in one letter.
        parsed(node, &[], "`cpu`, `mps`, `cuda` or `cuda:<index>`", notes)
    });
    let share = get(map, "share").and_then(|node| word(node, keys::SHARES, notes));
    let peaks = get(map, "peaks").and_then(|node| {
        self::name::<OfFile>(node, "the name of a file in `peaks/`, without `.yaml`", notes)
    });
    let mut env = EnvFile {
        name: name.clone(),
        broken: false,
        device: device.map(|device| device.value),
        place: Place {
            host: get(map, "host").and_then(|node| text(node, "a host's name", notes)).map(|host| host.value),
            os: get(map, "os").and_then(|node| word(node, keys::SYSTEMS, notes)).map(str::to_owned),
        },
        executor: get(map, "where").map_or_else(ExecutorFile::default, |node| read_executor(node, notes)),
        share: if share == Some("device") { Share::Device } else { Share::Nothing },
        peaks: peaks.map(|peaks| peaks.value.into()),
        usd_per_hour: get(map, "usd_per_hour").and_then(|node| price(node, notes)),
        cloud: get(map, "cloud").and_then(|node| read_cloud(node, notes)),
        variables: read_variables(map, notes),
        own,
    };
    env.broken = notes.count() > before;
    env.own.broken |= !matches!(node.value, Value::Map(_) | Value::Null);
    env
}

fn price(node: &Node, notes: &mut Notes) -> Option<f64> {
    match node.value {
        Value::Float(value) if value.get() >= 0.0 => Some(value.get()),
        // The conversion is exact far beyond any price.
        Value::Int(value @ 0..=1_000_000) => Some(value as f64),
        _ => {
            mismatch(node, "US dollars per hour, a number of at least 0", notes);
            None
        }
    }
}

fn read_cloud(node: &Node, notes: &mut Notes) -> Option<CloudFacts> {
    let map = entries(node, "a place in the cloud such as `{ provider: gcp, zone: us-east1-b }`", notes);
    check_keys(map, &[keys::CLOUD], "`cloud`", notes);
    let mut of = |key, expected| Some(text(get(map, key)?, expected, notes)?.value);
    let cloud = CloudFacts {
        provider: of("provider", "the provider's name"),
        region: of("region", "the region's name"),
        zone: of("zone", "the zone's name"),
        instance: of("instance", "the machine type's name"),
    };
    (cloud != CloudFacts::default()).then_some(cloud)
}
