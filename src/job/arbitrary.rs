//! Generates any key that a matrix can declare, for property tests.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;

use super::{
    DataSource, Device, Finite, KEY_SCHEMA, Key, Kind, ModelName, Name, OPS_ITERS, PARAMETERS, ParamValue,
    Parameter, ParameterType, Params, Precision, Profile, WorkerTemplate, parameter,
};

/// Words that a reader could misread, or that a printer must escape.
const TREACHEROUS: &[&str] = &[
    "true",
    "null",
    "~",
    "1",
    "1.0",
    "-0",
    "1e3",
    "0x1F",
    ".nan",
    "{\"folder\":\"a\"}",
    "{ synthetic: true }",
    "synthetic",
    "\\",
    "\"",
    "\\u0041",
    "e\u{301}",
    "\u{e9}",
    "\u{feff}",
    "\u{2028}",
    "\u{ffff}",
    "\u{10ffff}",
    " a ",
];

/// Any key, of the shipped worker or another one, of every kind.
pub(crate) fn key() -> impl Strategy<Value = Key> {
    let base = (name(), device(), 1..=1_000_000_u32, select(Precision::ALL.to_vec()), 1..=1_000_u32);
    (base, prop_oneof![shipped(), external()], profile()).prop_map(
        |(base, (model, params, worker), profile)| {
            let (env, device, batch, precision, repeat) = base;
            let key = Key {
                schema: KEY_SCHEMA,
                kind: Kind::Timing,
                env,
                device,
                model,
                batch,
                precision,
                repeat,
                params: Key::without_defaults(params),
                worker,
                profile: Profile::default(),
            };
            match profile {
                Some((Kind::Ncu, _)) if !matches!(device, Device::Cuda(_)) => key,
                Some((kind, profile)) => key.profiled(kind, profile),
                None => key,
            }
        },
    )
}

/// Any finite float, from random bits or as people write it.
pub(crate) fn finite() -> impl Strategy<Value = Finite> {
    let bits = any::<u64>().prop_map(f64::from_bits);
    let subnormal = (0..1_u64 << 52, any::<bool>()).prop_map(|(bits, negative)| {
        let value = f64::from_bits(bits);
        if negative { -value } else { value }
    });
    let whole = any::<i64>().prop_map(|value| value as f64);
    let short = (any::<i16>(), -30..30_i32).prop_map(|(digits, power)| f64::from(digits) * 10f64.powi(power));
    let edges = select(vec![0.0, -0.0, 1.0, 1e16, 1e-5, 1e-6, 2f64.powi(63), f64::MAX, f64::MIN_POSITIVE]);
    prop_oneof![4 => bits, 1 => subnormal, 1 => whole, 2 => short, 1 => edges]
        .prop_map(|value| Finite::new(value).or(Finite::new(1.0)).expect("1 is finite"))
}

fn name() -> impl Strategy<Value = Name> {
    "[A-Za-z0-9_][A-Za-z0-9._-]{0,63}".prop_map(|text| text.as_str().into())
}

fn model() -> impl Strategy<Value = ModelName> {
    "[A-Za-z0-9_][A-Za-z0-9._-]{0,30}(/[A-Za-z0-9_][A-Za-z0-9._-]{0,30}){0,2}"
        .prop_map(|text| text.as_str().into())
}

fn device() -> impl Strategy<Value = Device> {
    prop_oneof![
        Just(Device::Cpu),
        Just(Device::Mps),
        Just(Device::Cuda(0)),
        any::<u32>().prop_map(Device::Cuda)
    ]
}

type Program = (ModelName, Params, WorkerTemplate);

/// The shipped worker trains its own networks and takes its own parameters.
fn shipped() -> impl Strategy<Value = Program> {
    let model = select(vec!["resnet18", "vgg16", "mobilenet_v2", "vit_b_16"]).prop_map(ModelName::from);
    // Not every network accepts images of every size.
    (model, known_params(&["input_size"]))
        .prop_map(|(model, params)| (model, params, WorkerTemplate::Shipped))
}

/// Another worker takes any parameter in its command.
fn external() -> impl Strategy<Value = Program> {
    let own = btree_map("p_[a-z0-9_]{0,6}", scalar(), 0..5);
    (model(), vec(command_word(), 1..5), own, known_params(&[])).prop_map(|(model, mut words, own, known)| {
        words.extend(own.keys().map(|name| format!("--{name}={{{name}}}")));
        let known = known.iter().map(|(name, value)| (name.to_owned(), value.clone()));
        let params = own.into_iter().chain(known).collect();
        (model, params, WorkerTemplate::Command(words.into()))
    })
}

fn known_params(without: &'static [&'static str]) -> impl Strategy<Value = Params> {
    let names: Vec<&str> =
        PARAMETERS.iter().map(|parameter| parameter.name()).filter(|name| !without.contains(name)).collect();
    let value = |name: &'static str| (Just(name), known_value(parameter(name).expect("it is in the table")));
    vec(select(names).prop_flat_map(value), 0..5)
        .prop_map(|params| params.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn known_value(parameter: Parameter) -> BoxedStrategy<ParamValue> {
    match parameter.kind() {
        ParameterType::Bool => any::<bool>().prop_map(ParamValue::Bool).boxed(),
        ParameterType::Int { min, max } => (min..=max).prop_map(ParamValue::Int).boxed(),
        ParameterType::Number { min, max } => (min..=max)
            .prop_map(move |number| {
                let number = Finite::new(number).expect("a range has finite ends");
                parameter.accept(ParamValue::Float(number)).expect("it is within the range")
            })
            .boxed(),
        ParameterType::Word(words) => {
            select(words).prop_map(|word| ParamValue::Text(word.to_owned())).boxed()
        }
        ParameterType::Data => {
            let folder = text().prop_map(DataSource::Folder);
            prop_oneof![Just(DataSource::Synthetic), folder].prop_map(ParamValue::Data).boxed()
        }
    }
}

/// Any value of a parameter that only an external worker knows.
fn scalar() -> impl Strategy<Value = ParamValue> {
    let edges = select(vec![0, -1, i64::MIN, i64::MAX, (1 << 53) + 1]);
    prop_oneof![
        any::<bool>().prop_map(ParamValue::Bool),
        prop_oneof![any::<i64>(), edges].prop_map(ParamValue::Int),
        finite().prop_map(ParamValue::Float),
        text().prop_map(ParamValue::Text),
    ]
}

/// Any valid text of a parameter: of any script, without control characters, not empty.
fn text() -> impl Strategy<Value = String> {
    let any_script = vec(letter_unless(char::is_control), 1..12)
        .prop_map(|letters| letters.into_iter().collect::<String>());
    prop_oneof![any_script, select(TREACHEROUS).prop_map(str::to_owned)]
}

/// Any letter, or an `x` instead of an `unwanted` one. A filter would reject too many.
fn letter_unless(unwanted: fn(char) -> bool) -> impl Strategy<Value = char> {
    any::<char>().prop_map(move |c| if unwanted(c) { 'x' } else { c })
}

/// Any word of a command, including control characters, but without braces, which would be placeholders.
fn command_word() -> impl Strategy<Value = String> {
    let letter = letter_unless(|c| matches!(c, '\0' | '{' | '}'));
    let control = select(vec!['\u{1}', '\t', '\n', '\r', '\u{1b}', '\u{7f}', '\u{85}', '\u{9f}']);
    vec(prop_oneof![8 => letter, 1 => control], 0..8).prop_map(|letters| letters.into_iter().collect())
}

/// Iterations of a job of the kind `ops`, other than the default.
fn ops_iters() -> impl Strategy<Value = Option<u32>> {
    proptest::option::of((1..=1_000_000_u32).prop_map(|iters| if iters == OPS_ITERS { 4 } else { iters }))
}

fn profile() -> impl Strategy<Value = Option<(Kind, Profile)>> {
    let iters = || proptest::option::of(2..=1_000_000_u32);
    let counters = |pattern| {
        vec(pattern, 0..3).prop_map(|mut names: Vec<String>| {
            names.sort();
            names.dedup();
            names
        })
    };
    let profile = |(iters, counters)| Profile { iters, counters };
    prop_oneof![
        2 => Just(None),
        1 => (iters(), counters("[a-z]{1,4}__[a-z0-9_.:/=-]{0,9}"))
            .prop_map(move |said| Some((Kind::Ncu, profile(said)))),
        1 => (iters(), counters("[a-z0-9_.:/=][a-z0-9_.:/=-]{0,9}"))
            .prop_map(move |said| Some((Kind::Perf, profile(said)))),
        1 => ops_iters().prop_map(|iters| Some((Kind::Ops, Profile { iters, ..Profile::default() }))),
    ]
}
