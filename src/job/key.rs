use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::placeholder::has_placeholder;
use super::{
    Device, Kind, ModelName, Name, OPS_ITERS, ParamValue, Params, Precision, Profile, parameter, placeholders,
};

/// The version of the key's form.
///
/// Changelog: 1, the first.
pub const KEY_SCHEMA: u32 = 1;

/// Everything declared about a job. The id is the hash of its canonical JSON.
///
/// It does not contain the matrix's name and path, limits, order, retries, the worker's bytes, or anything about the
/// host.
///
/// Two keys are equal if their ids are equal. A parameter at its default makes no difference, written or not.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// [`KEY_SCHEMA`] when written by this version.
    pub schema: u32,
    /// The kind of job.
    pub kind: Kind,
    /// The env's name in the matrix.
    pub env: Name,
    /// The device of the worker.
    pub device: Device,
    /// The network, by torchvision's name.
    pub model: ModelName,
    /// The batch: samples per iteration.
    pub batch: u32,
    /// The requested precision.
    pub precision: Precision,
    /// The repeat of the config, from 1.
    pub repeat: u32,
    /// The declared parameters, by name. Those of the shipped worker with their default are left out, because all
    /// parameters are passed to it anyway. Those of an external worker are all kept, because its defaults are unknown.
    /// The id is the same either way.
    #[serde(default)]
    pub params: Params,
    /// The worker program.
    #[serde(default, skip_serializing_if = "WorkerTemplate::is_shipped")]
    pub worker: WorkerTemplate,
    /// The profiler's settings in a profiled job.
    #[serde(default, skip_serializing_if = "Profile::is_default")]
    pub profile: Profile,
}

/// The worker program: the shipped one, or any other that speaks the protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerTemplate {
    /// The worker that comes with `orchestrate`.
    #[default]
    Shipped,
    /// An argv whose words can contain placeholders: `{model}`, `{batch}`, …
    Command(Arc<[String]>),
}

impl WorkerTemplate {
    /// Whether it is the shipped worker.
    pub fn is_shipped(&self) -> bool {
        *self == WorkerTemplate::Shipped
    }

    /// Whether its command contains `{name}`. The shipped worker has no command.
    pub fn asks_for(&self, name: &str) -> bool {
        self.words().any(|word| has_placeholder(word, name))
    }

    /// The names of the placeholders in its command.
    pub(super) fn placeholders(&self) -> BTreeSet<&str> {
        self.words().flat_map(placeholders).collect()
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        let words = match self {
            WorkerTemplate::Shipped => &[][..],
            WorkerTemplate::Command(words) => &words[..],
        };
        words.iter().map(String::as_str)
    }
}

impl Key {
    /// `params` without those at their default. A parameter at its default leaves the hash unchanged from before the
    /// parameter existed.
    pub fn without_defaults(mut params: Params) -> Params {
        if params.iter().any(|(name, value)| is_default(name, value)) {
            params.retain(|name, value| !is_default(name, value));
        }
        params
    }

    /// The value of the parameter `name`: as declared, otherwise its default if defaults are passed to the worker.
    /// `None` if the worker chooses, or for an undeclared parameter of an external worker, to which our defaults do not
    /// apply.
    pub fn param(&self, name: &str) -> Option<ParamValue> {
        let takes_default = || self.worker.is_shipped() || self.worker.asks_for(name);
        let default = || parameter(name).filter(|_| takes_default())?.default_value();
        self.params.get(name).cloned().or_else(default)
    }

    /// The value of the parameter `name` in the worker's call. It differs from [`Key::param`] only in profiled jobs:
    /// they request other iterations, and for `ncu` a range around them. If iterations are not passed to an external
    /// worker, a job of the kind `ops` does not request any either.
    pub fn asked(&self, name: &str) -> Option<ParamValue> {
        match (self.kind, name) {
            (Kind::Ncu, "iters") => i64::try_from(self.profiled_iters()).ok().map(ParamValue::Int),
            (Kind::Ncu, "nvtx") => Some(ParamValue::Bool(true)),
            (Kind::Perf, "iters") => {
                self.profile.iters.map(|iters| ParamValue::Int(iters.into())).or_else(|| self.param(name))
            }
            (Kind::Ops, "iters") => self.param(name).map(|iters| self.short_window(iters)),
            _ => self.param(name),
        }
    }

    /// The iterations in the window of a job of the kind `ops`, whose timing jobs measure `iters`: one optimizer step.
    /// The profile follows the window, so the window only has to prove that the worker applied the settings.
    fn short_window(&self, iters: ParamValue) -> ParamValue {
        match (iters, i64::try_from(self.iterations_per_step())) {
            (ParamValue::Int(iters), Ok(of_step)) => ParamValue::Int(iters.min(of_step)),
            (iters, _) => iters,
        }
    }

    /// The iterations that share an optimizer step.
    fn iterations_per_step(&self) -> u64 {
        match self.param("grad_accum_steps") {
            Some(ParamValue::Int(steps)) => u64::try_from(steps).unwrap_or(1).max(1),
            _ => 1,
        }
    }

    /// Iterations under `ncu`, or profiled by the worker in a job of the kind `ops`: the requested ones, otherwise 1
    /// and [`OPS_ITERS`], rounded up to whole optimizer steps. The work of a step belongs to all iterations before it.
    pub fn profiled_iters(&self) -> u64 {
        let default = if self.kind == Kind::Ops { OPS_ITERS } else { 1 };
        let asked = u64::from(self.profile.iters.unwrap_or(default));
        asked.next_multiple_of(self.iterations_per_step())
    }

    /// `{env}_{model}_{precision}_bs{batch}_run{N}`, as in the seed scripts. A profiled job, of which each config has
    /// one per profiler, has the profiler's name instead of the last word.
    pub fn label(&self) -> String {
        let Key { env, precision, batch, repeat, kind, .. } = self;
        let model = self.model.file_word();
        match kind {
            Kind::Timing => format!("{env}_{model}_{precision}_bs{batch}_run{repeat}"),
            Kind::Ncu | Kind::Perf | Kind::Ops => format!("{env}_{model}_{precision}_bs{batch}_{kind}"),
        }
    }

    /// The key's config: the point of the matrix without the repeat, as the key of repeat 1. Statistics are computed
    /// over the jobs with the same config.
    pub fn config(&self) -> Key {
        Key { repeat: 1, ..self.clone() }
    }

    /// The config of the timing jobs that a profiled job belongs to.
    pub fn timing_config(&self) -> Key {
        Key { kind: Kind::Timing, profile: Profile::default(), ..self.config() }
    }

    /// The profiled job of `kind` of this config.
    pub fn profiled(&self, kind: Kind, profile: Profile) -> Key {
        Key { kind, profile, ..self.config() }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        let Key { schema, kind, env, device, model, batch, precision, repeat, params, worker, profile } =
            self;
        (batch, precision, repeat) == (&other.batch, &other.precision, &other.repeat)
            && (schema, kind, env, device, model)
                == (&other.schema, &other.kind, &other.env, &other.device, &other.model)
            && (worker, profile) == (&other.worker, &other.profile)
            && have_equal_ids(params, &other.params)
    }
}

/// Whether keys that differ only in their parameters, `one` and `other`, have the same id.
pub(super) fn have_equal_ids(one: &Params, other: &Params) -> bool {
    one == other || hashed(one).eq(hashed(other))
}

/// The part of `params` that the id hashes.
pub(super) fn hashed(params: &Params) -> impl Iterator<Item = (&str, &ParamValue)> {
    params.iter().filter(|(name, value)| !is_default(name, value))
}

fn is_default(name: &str, value: &ParamValue) -> bool {
    parameter(name).is_some_and(|parameter| parameter.has_default(value))
}

#[cfg(test)]
impl Key {
    /// A timing job for tests that need any job: network `m` at batch 4 on the processor.
    pub(crate) fn example() -> Key {
        Key {
            schema: KEY_SCHEMA,
            kind: Kind::Timing,
            env: "cpu".into(),
            device: Device::Cpu,
            model: "m".into(),
            batch: 4,
            precision: Precision::Fp32,
            repeat: 1,
            params: Params::new(),
            worker: WorkerTemplate::Shipped,
            profile: Profile::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{DataSource, Finite, Job};

    fn key() -> Key {
        Key {
            schema: KEY_SCHEMA,
            kind: Kind::Timing,
            env: "mac_mps".into(),
            device: Device::Mps,
            model: "resnet50".into(),
            batch: 32,
            precision: Precision::Fp32,
            repeat: 2,
            params: Params::from([
                ("warmup".into(), ParamValue::Int(5)),
                ("data".into(), ParamValue::Data(DataSource::Folder("data/imagenet-mini".into()))),
            ]),
            worker: WorkerTemplate::Shipped,
            profile: Profile::default(),
        }
    }

    /// If this test fails, every existing store would be measured again. Do not change the expected value.
    #[test]
    fn golden_id() {
        assert_eq!(
            key().canonical_json(),
            r#"{"batch":32,"device":"mps","env":"mac_mps","kind":"timing","model":"resnet50","params":{"data":{"folder":"data/imagenet-mini"},"warmup":5},"precision":"fp32","repeat":2,"schema":1}"#
        );
        assert_eq!(
            Job::new(key()).dir_name(),
            format!("mac_mps_resnet50_fp32_bs32_run2-{}", key().id().short())
        );
        assert_eq!(
            key().id().to_string(),
            "4d402d80fedcaace7f65b05ad5efc34fccb351442e45a85583780795f10a0b28"
        );
    }

    /// The same for a custom worker and for numbers whose layout differs between printers of floats.
    #[test]
    fn golden_id_of_a_command_and_of_numbers() {
        let numbers = [("a", 1e-5), ("b", 1e-6), ("c", 1e15), ("d", 1e16), ("e", -0.0), ("f", 0.1)];
        let float =
            |(name, value): (&str, f64)| (name.into(), ParamValue::Float(Finite::new(value).unwrap()));
        let key = Key {
            params: numbers.map(float).into(),
            worker: WorkerTemplate::Command(["python".into(), "train.py".into(), "--lr={a}".into()].into()),
            ..key()
        };
        let json = key.canonical_json();
        assert_eq!(
            &json[json.find(r#"{"a""#).unwrap()..],
            r#"{"a":0.00001,"b":1e-6,"c":1000000000000000.0,"d":1e+16,"e":-0.0,"f":0.1},"precision":"fp32","repeat":2,"schema":1,"worker":{"command":["python","train.py","--lr={a}"]}}"#
        );
        assert_eq!(key.id().to_string(), "5350fe5868f635920e00b58846d212adeb96332fa38a5826695f59735d11f5fd");
    }

    #[test]
    fn every_field_changes_the_id() {
        type Change = fn(&mut Key);
        let changes: &[(&str, Change)] = &[
            ("schema", |key| key.schema += 1),
            ("kind: perf", |key| key.kind = Kind::Perf),
            ("kind: ops", |key| key.kind = Kind::Ops),
            ("env", |key| key.env = "other".into()),
            ("device", |key| key.device = Device::Cuda(1)),
            ("model", |key| key.model = "vgg16".into()),
            ("batch", |key| key.batch += 1),
            ("precision", |key| key.precision = Precision::Amp),
            ("repeat", |key| key.repeat += 1),
            ("params: changed", |key| drop(key.params.insert("warmup".into(), ParamValue::Int(6)))),
            ("params: added", |key| drop(key.params.insert("channels_last".into(), ParamValue::Bool(true)))),
            ("params: removed", |key| drop(key.params.remove("data"))),
            ("worker", |key| key.worker = WorkerTemplate::Command(["python".into()].into())),
            ("profile: iterations", |key| key.profile.iters = Some(2)),
            ("profile: counters", |key| key.profile.counters.push("cycles".into())),
        ];
        let mut seen = vec![key().id()];
        for (name, change) in changes {
            let mut changed = key();
            change(&mut changed);
            assert!(!seen.contains(&changed.id()), "{name} does not change the id");
            assert_ne!(changed, key(), "{name}");
            seen.push(changed.id());
        }
    }

    #[test]
    fn a_parameter_at_its_default_does_not_change_the_id() {
        for parameter in super::super::PARAMETERS {
            let Some(default) = parameter.default_value() else { continue };
            let mut explicit = key();
            if explicit.params.contains_key(parameter.name()) {
                continue;
            }
            explicit.params.insert(parameter.name().into(), default);
            assert_eq!((explicit.id(), &explicit), (key().id(), &key()), "{}", parameter.name());
        }
    }

    #[test]
    fn a_profiled_job_belongs_to_its_timing_config() {
        let profile = Profile { iters: Some(3), counters: vec!["cycles".into()] };
        let perf = key().profiled(Kind::Perf, profile.clone());
        assert_eq!(perf.timing_config(), key().config());
        assert_eq!(perf.label(), "mac_mps_resnet50_fp32_bs32_perf");
        assert_eq!(
            (perf.param("iters"), perf.asked("iters")),
            (key().param("iters"), Some(ParamValue::Int(3)))
        );
        assert_eq!(key().profiled(Kind::Perf, Profile::default()).asked("iters"), key().param("iters"));
        let ncu = key().profiled(Kind::Ncu, Profile::default());
        assert_eq!(
            (ncu.asked("iters"), ncu.asked("nvtx")),
            (Some(ParamValue::Int(1)), Some(ParamValue::Bool(true)))
        );
        let mut accumulating = ncu.clone();
        accumulating.params.insert("grad_accum_steps".into(), ParamValue::Int(4));
        assert_eq!(accumulating.asked("iters"), Some(ParamValue::Int(4)));
        for (asked, whole) in [(4, 4), (5, 8), (8, 8), (9, 12)] {
            accumulating.profile.iters = Some(asked);
            assert_eq!(accumulating.asked("iters"), Some(ParamValue::Int(whole)), "{asked}");
        }
        assert_eq!(ncu.asked("warmup"), key().param("warmup"));
        assert_eq!((key().asked("iters"), key().asked("nvtx")), (key().param("iters"), key().param("nvtx")));
    }

    #[test]
    fn a_job_that_profiles_operators_measures_one_optimizer_step() {
        let ops = |iters: Option<u32>, params: &[(&str, i64)]| {
            let mut ops = key().profiled(Kind::Ops, Profile { iters, ..Profile::default() });
            for (name, value) in params {
                ops.params.insert((*name).into(), ParamValue::Int(*value));
            }
            (ops.profiled_iters(), ops.asked("iters").expect("it is passed to the shipped worker"))
        };
        let whole = |value| ParamValue::Int(value);
        assert_eq!(ops(None, &[]), (3, whole(1)), "100 iterations by default");
        assert_eq!(ops(Some(8), &[]), (8, whole(1)));
        assert_eq!(
            ops(None, &[("iters", 2), ("grad_accum_steps", 4)]),
            (4, whole(2)),
            "a timing job has no more"
        );
        assert_eq!(ops(None, &[("grad_accum_steps", 4)]), (4, whole(4)), "whole optimizer steps");
        assert_eq!(ops(Some(5), &[("grad_accum_steps", 4)]), (8, whole(4)));
        let external = Key { worker: WorkerTemplate::Command(["train".into()].into()), ..key() };
        let external = external.profiled(Kind::Ops, Profile::default());
        assert_eq!((external.asked("iters"), external.profiled_iters()), (None, 3));
        assert_eq!(external.label(), "mac_mps_resnet50_fp32_bs32_ops");
        assert_eq!(external.timing_config(), Key { worker: external.worker.clone(), ..key() }.config());
    }

    #[test]
    fn a_key_survives_its_own_json() {
        let read: Key = serde_json::from_str(&serde_json::to_string_pretty(&key()).unwrap()).unwrap();
        assert_eq!(read, key());
        assert_eq!(read.id(), key().id());
        assert_eq!(key().id().to_string().parse(), Ok(key().id()));
    }

    /// The type of a value depends only on its form.
    #[test]
    fn the_form_of_a_value_decides_its_type() {
        let float = |value| ParamValue::Float(Finite::new(value).unwrap());
        for (json, value) in [
            ("true", ParamValue::Bool(true)),
            ("1", ParamValue::Int(1)),
            ("-9223372036854775808", ParamValue::Int(i64::MIN)),
            ("9007199254740993", ParamValue::Int(9007199254740993)),
            ("1.0", float(1.0)),
            ("-0.0", float(-0.0)),
            ("1e3", float(1000.0)),
            (r#""true""#, ParamValue::Text("true".into())),
            (r#""1""#, ParamValue::Text("1".into())),
            (r#""synthetic""#, ParamValue::Text("synthetic".into())),
            (r#""{\"folder\":\"a\"}""#, ParamValue::Text(r#"{"folder":"a"}"#.into())),
            (r#"{"folder":"a"}"#, ParamValue::Data(DataSource::Folder("a".into()))),
            (r#""\u0000\ud83d\ude00""#, ParamValue::Text("\0😀".into())),
        ] {
            assert_eq!(serde_json::from_str::<ParamValue>(json).unwrap(), value, "{json}");
        }
        for wrong in [
            "null",
            "[1]",
            "9223372036854775808",
            "1e999",
            r#""\ud800""#,
            r#"{"folder":"a","synthetic":true}"#,
            r#"{"number":1}"#,
        ] {
            assert!(serde_json::from_str::<ParamValue>(wrong).is_err(), "{wrong}");
        }
        let error = serde_json::from_str::<ParamValue>("null").unwrap_err().to_string();
        assert!(error.contains("expected a word, a finite number"), "{error}");
    }
}
