//! Values in a matrix arrive in the key unchanged: numbers bit by bit, and texts of any script.

use proptest::prelude::*;

use super::check;
use crate::job::{DataSource, Key, Kind, ParamValue, WorkerTemplate, arbitrary};

/// `text` as a double-quoted YAML string: letters unchanged, everything else escaped.
fn quoted(text: &str) -> String {
    let letter = |c: char| match c {
        c if c.is_alphanumeric() => c.to_string(),
        c => format!("\\U{:08x}", u32::from(c)),
    };
    format!("\"{}\"", text.chars().map(letter).collect::<String>())
}

/// `value` as YAML. A float has several spellings, of which `style` chooses one.
fn yaml_value(value: &ParamValue, style: u8) -> String {
    match value {
        ParamValue::Bool(value) => value.to_string(),
        ParamValue::Int(value) => value.to_string(),
        ParamValue::Float(value) => match style % 3 {
            0 => value.canonical(),
            1 => format!("{:e}", value.get()),
            _ => format!("{:?}", value.get()),
        },
        ParamValue::Text(text) => quoted(text),
        ParamValue::Data(DataSource::Synthetic) => "{ synthetic: true }".to_owned(),
        ParamValue::Data(DataSource::Folder(folder)) => format!("{{ folder: {} }}", quoted(folder)),
    }
}

/// A matrix of one config that declares `key`.
fn yaml(key: &Key, style: u8) -> String {
    let Key { env, device, model, batch, precision, repeat, params, worker, profile, kind, schema: _ } = key;
    let mut text = format!(
        "name: m\nmodels: [{}]\nbatches: [{batch}]\nprecisions: [{precision}]\nrepeats: {repeat}\n\
         envs: {{ {}: {{ device: \"{device}\" }} }}\nparams:\n",
        quoted(model),
        quoted(env),
    );
    for (name, value) in params.iter() {
        text += &format!("  {name}: {}\n", yaml_value(value, style));
    }
    if let WorkerTemplate::Command(words) = worker {
        let words: Vec<String> = words.iter().map(|word| quoted_command(word)).collect();
        text += &format!("worker: {{ command: [{}], result: json }}\n", words.join(", "));
    }
    let counters = match kind {
        Kind::Timing => return text,
        Kind::Ncu => "metrics",
        Kind::Perf => "events",
        Kind::Ops => "",
    };
    let names: Vec<String> = profile.counters.iter().map(|name| quoted(name)).collect();
    let iters = profile.iters.map(|iters| format!("iters: {iters}, ")).unwrap_or_default();
    let counters =
        if names.is_empty() { String::new() } else { format!("{counters}: [{}]", names.join(", ")) };
    text + &format!("profile: {{ {kind}: {{ {iters}{counters} }} }}\n")
}

/// A word of a command; placeholders stay unchanged.
fn quoted_command(word: &str) -> String {
    if word.contains('{') { format!("\"{word}\"") } else { quoted(word) }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// `just identity` runs this for a million keys.
    #[test]
    fn a_matrix_reproduces_the_key_it_was_written_from(key in arbitrary::key(), style: u8) {
        let text = yaml(&key, style);
        let matrix = check(&text).map_err(|notes| TestCaseError::fail(format!("{text}\n{notes:#?}")))?;
        let config = matrix.configs().next().expect("a matrix has a config");
        let declared = match key.kind {
            Kind::Timing => Key { repeat: config.repeats.max, ..config.key },
            kind @ (Kind::Ncu | Kind::Perf | Kind::Ops) => {
                config.profiled().find(|key| key.kind == kind).expect("its profiler is declared")
            }
        };
        prop_assert_eq!(declared.id(), key.id(), "{}", text);
        prop_assert_eq!(declared, key);
    }
}
