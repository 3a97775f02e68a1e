//! `profile`: the profilers that run every config once, in separate jobs.

use std::collections::BTreeMap;

use super::Matrix;
use super::keys::{self, KeyDoc, PROFILE_ITERS};
use super::note::{Notes, Spanned};
use super::reader::{check_keys, count, entries, get, list, mismatch, text};
use super::tree::{Node, Value};
use crate::job::{Device, Kind, Profile};
use crate::metric::translate;

/// The profilers: kind, keys, and the key that lists counters.
const PROFILERS: [(Kind, &[KeyDoc], &str); 2] =
    [(Kind::Ncu, keys::NCU, "metrics"), (Kind::Perf, keys::PERF, "events")];

/// The declared `profile`; `None` for a profiler that the env disables.
#[derive(Debug, Default)]
pub(super) struct ProfileFile(BTreeMap<Kind, Spanned<Option<Profile>>>);

/// Reads `profile`.
pub(super) fn read(node: &Node, notes: &mut Notes) -> ProfileFile {
    let map = entries(node, "profilers such as `{ ncu: {}, perf: {} }`", notes);
    check_keys(map, &[keys::PROFILE], "`profile`", notes);
    let mut found = BTreeMap::new();
    for (kind, keys, counters) in PROFILERS {
        let Some(node) = get(map, kind.as_str()) else { continue };
        let value = match node.value {
            Value::Bool(false) => Some(None),
            Value::Map(_) | Value::Null => Some(Some(read_profile(node, kind, keys, counters, notes))),
            _ => {
                mismatch(node, "`{}`, settings such as `{ iters: 1 }`, or `false`", notes);
                None
            }
        };
        found.extend(value.map(|value| (kind, Spanned { value, span: node.span })));
    }
    ProfileFile(found)
}

fn read_profile(
    node: &Node,
    kind: Kind,
    keys: &'static [KeyDoc],
    counters: &str,
    notes: &mut Notes,
) -> Profile {
    let map = entries(node, "the profiler's settings", notes);
    check_keys(map, &[keys], &format!("`{kind}`"), notes);
    let iters = get(map, "iters").and_then(|node| count(node, PROFILE_ITERS, notes)).map(|iters| iters.value);
    let mut names: Vec<String> = Vec::new();
    let items = get(map, counters).and_then(|node| list(node, &format!("a list of {counters}"), notes));
    for item in items.unwrap_or_default() {
        let Some(name) = counter(item, kind, notes) else { continue };
        if names.contains(&name) {
            notes.add(item.span, &name, format!("is in `{counters}` twice: keep one"));
        }
        names.push(name);
    }
    // `ncu` measures one iteration by default.
    Profile { iters: iters.filter(|iters| kind != Kind::Ncu || *iters != 1), counters: names }
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

/// The profilers of an env on `device`: its own, else those of the matrix that can profile this device.
pub(super) fn profiles(own: &ProfileFile, base: &ProfileFile, device: Device) -> BTreeMap<Kind, Profile> {
    let said = |kind| own.0.get(&kind).or_else(|| base.0.get(&kind))?.value.clone();
    let kinds = PROFILERS.iter().map(|(kind, ..)| *kind).filter(|kind| can_profile(*kind, device));
    kinds.filter_map(|kind| Some((kind, said(kind)?))).collect()
}

fn can_profile(kind: Kind, device: Device) -> bool {
    match kind {
        Kind::Timing => false,
        Kind::Ncu => matches!(device, Device::Cuda(_)),
        Kind::Perf => true,
    }
}

/// A profiler that has nothing to profile.
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
            found = true;
        }
        if found { Ok(self) } else { Err(NothingToProfile { kind, matrix: self.name.into() }) }
    }
}
