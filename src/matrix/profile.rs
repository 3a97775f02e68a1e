//! `profile`: the profilers that run every config once, in separate jobs.

use std::collections::BTreeMap;

use super::Matrix;
use super::keys::{self, KeyDoc, PROFILE_ITERS};
use super::note::{Notes, Spanned};
use super::reader::{check_keys, count, entries, get, list, mismatch, text};
use super::tree::{Entry, Node, Value};
use crate::job::{Device, Kind, OPS_ITERS, Profile};
use crate::metric::translate;

/// A profiler in the file.
#[derive(Clone, Copy)]
struct Profiler {
    kind: Kind,
    keys: &'static [KeyDoc],
    /// The key that lists counters, if it counts anything.
    counters: Option<&'static str>,
    /// The number of iterations that is equivalent to none, if there is one.
    iters: Option<u32>,
}

const PROFILERS: [Profiler; 3] = [
    Profiler { kind: Kind::Ncu, keys: keys::NCU, counters: Some("metrics"), iters: Some(1) },
    Profiler { kind: Kind::Perf, keys: keys::PERF, counters: Some("events"), iters: None },
    Profiler { kind: Kind::Ops, keys: keys::OPS, counters: None, iters: Some(OPS_ITERS) },
];

/// The declared `profile`; `None` for a profiler that the env disables.
#[derive(Debug, Default)]
pub(super) struct ProfileFile(BTreeMap<Kind, Spanned<Option<Profile>>>);

/// Reads `profile`.
pub(super) fn read(node: &Node, notes: &mut Notes) -> ProfileFile {
    let map = entries(node, "profilers such as `{ ncu: {}, perf: {}, ops: {} }`", notes);
    check_keys(map, &[keys::PROFILE], "`profile`", notes);
    let mut found = BTreeMap::new();
    for profiler in PROFILERS {
        let Some(node) = get(map, profiler.kind.as_str()) else { continue };
        let value = match node.value {
            Value::Bool(false) => Some(None),
            Value::Map(_) | Value::Null => Some(Some(read_profile(node, profiler, notes))),
            _ => {
                mismatch(node, "`{}`, settings such as `{ iters: 1 }`, or `false`", notes);
                None
            }
        };
        found.extend(value.map(|value| (profiler.kind, Spanned { value, span: node.span })));
    }
    ProfileFile(found)
}

fn read_profile(node: &Node, profiler: Profiler, notes: &mut Notes) -> Profile {
    let Profiler { kind, keys, counters, iters: default } = profiler;
    let map = entries(node, "the profiler's settings", notes);
    check_keys(map, &[keys], &format!("`{kind}`"), notes);
    let iters = get(map, "iters").and_then(|node| count(node, PROFILE_ITERS, notes)).map(|iters| iters.value);
    let counters = counters.map_or_else(Vec::new, |counters| read_counters(map, kind, counters, notes));
    Profile { iters: iters.filter(|iters| Some(*iters) != default), counters }
}

/// The names under the key `counters` of `map`.
fn read_counters(map: &[Entry], kind: Kind, counters: &str, notes: &mut Notes) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let items = get(map, counters).and_then(|node| list(node, &format!("a list of {counters}"), notes));
    for item in items.unwrap_or_default() {
        let Some(name) = counter(item, kind, notes) else { continue };
        if names.contains(&name) {
            notes.add(item.span, &name, format!("is in `{counters}` twice: keep one"));
        }
        names.push(name);
    }
    names
}

/// The name of a metric or event, which becomes part of a comma-separated list on the profiler's command line.
fn counter(node: &Node, kind: Kind, notes: &mut Notes) -> Option<String> {
    let what = if kind == Kind::Ncu { "a metric's name" } else { "an event's name" };
    let name = text(node, what, notes)?.value;
    if kind == Kind::Ncu && !name.contains("__") {
        let hint = translate(&name, None).map(|translation| {
            let note = translation.note.map(|note| format!(" ({note})")).unwrap_or_default();
            format!("a metric of nvprof: use `{}` instead{note}", translation.metrics.join("`, `"))
        });
        notes.add_with_hint(node.span, &name, "expected a metric's name, such as `dram__bytes.sum`", hint);
        return None;
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.-:/=".contains(c);
    if name.starts_with('-') || !name.chars().all(fits) {
        notes.add(node.span, &name, format!("expected {what}: ASCII letters, digits and `_.-:/=`"));
        return None;
    }
    Some(name)
}

/// Notes a profiler that the env declares but that cannot profile its device.
pub(super) fn check_own(own: &ProfileFile, device: Option<Device>, notes: &mut Notes) {
    let ncu = own.0.get(&Kind::Ncu).filter(|ncu| ncu.value.is_some());
    if let (Some(ncu), Some(device)) = (ncu, device)
        && !can_profile(Kind::Ncu, device)
    {
        let message = format!("profiles NVIDIA GPUs, but this env's device is `{device}`");
        notes.add(ncu.span, "ncu", message);
    }
}

/// The profilers of an env on `device`: its own, otherwise those of the matrix that can profile this device. Operators
/// are profiled unless the env or the matrix turns that off.
pub(super) fn profiles(own: &ProfileFile, base: &ProfileFile, device: Device) -> BTreeMap<Kind, Profile> {
    let declared = |kind| match declaration(own, base, kind) {
        Some(declared) => declared.value.clone(),
        None => (kind == Kind::Ops).then(Profile::default),
    };
    let kinds = PROFILERS.iter().map(|profiler| profiler.kind).filter(|kind| can_profile(*kind, device));
    kinds.filter_map(|kind| Some((kind, declared(kind)?))).collect()
}

/// Whether an env or its matrix declares the profiler `kind`, on or off.
pub(super) fn declares(own: &ProfileFile, base: &ProfileFile, kind: Kind) -> bool {
    declaration(own, base, kind).is_some()
}

/// The declaration of the profiler `kind` that applies to an env.
fn declaration<'a>(
    own: &'a ProfileFile,
    base: &'a ProfileFile,
    kind: Kind,
) -> Option<&'a Spanned<Option<Profile>>> {
    own.0.get(&kind).or_else(|| base.0.get(&kind))
}

fn can_profile(kind: Kind, device: Device) -> bool {
    match kind {
        Kind::Timing => false,
        Kind::Ncu => matches!(device, Device::Cuda(_)),
        Kind::Perf | Kind::Ops => true,
    }
}

/// No env of the matrix has a device for the profiler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{kind}` has nothing to profile in matrix `{matrix}`: no env has the device `cuda`")]
pub struct NothingToProfile {
    /// The profiler.
    pub kind: Kind,
    /// The matrix's name.
    pub matrix: String,
}

impl Matrix {
    /// The matrix with jobs of `kind` for every config whose device it can profile, with the declared or the default
    /// settings.
    ///
    /// # Errors
    /// [`NothingToProfile`] if no env has such a device.
    pub fn with_profiler(mut self, kind: Kind) -> Result<Matrix, NothingToProfile> {
        let mut found = false;
        for env in self.envs.iter_mut().filter(|env| can_profile(kind, env.device)) {
            env.profiles.entry(kind).or_default();
            env.ops_if_reported &= kind != Kind::Ops;
            found = true;
        }
        if found { Ok(self) } else { Err(NothingToProfile { kind, matrix: self.name.into() }) }
    }
}
