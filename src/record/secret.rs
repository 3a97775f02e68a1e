//! Recognises environment variables that probably contain a secret, and keeps values of secrets out of records.

use serde_json::Value;

use super::Outcome;
use super::password::passwords;
use super::said::{CUT, one_line};

/// Stands for the value of a secret variable wherever it could be read.
pub const SET: &str = "set";

/// How a part of a secret's name ends.
const SECRET_WORDS: [&str; 11] = [
    "TOKEN",
    "KEY",
    "APIKEY",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASS",
    "PWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "CREDENTIALS",
];

/// Whether the environment variable `name` looks like a secret: `HF_TOKEN`, `WANDB_API_KEY`, `DB_PASSWORD2`. Values of
/// such variables are neither written nor printed. `TOKENIZERS_PARALLELISM` and `MAX_TOKENS` do not look like secrets.
pub fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let is_secret = |word: &str| SECRET_WORDS.iter().any(|secret| word.ends_with(secret));
    name.split('_').any(|word| is_secret(word.trim_end_matches(|letter: char| letter.is_ascii_digit())))
}

/// The shortest value that is searched for in the output of a worker. Shorter ones occur by chance.
const LEAST_BYTES: usize = 4;

/// `outcome` with [`SET`] in the place of the secret `values`, which can be in the worker's error message.
///
/// # Panics
/// An outcome cannot be serialised and read back. All can.
pub fn without_secrets<'a>(outcome: &Outcome, values: impl Iterator<Item = &'a str>) -> Outcome {
    fn hide(value: &mut Value, secrets: &[String]) {
        match value {
            Value::String(text) => *text = without(text, secrets),
            Value::Array(values) => values.iter_mut().for_each(|value| hide(value, secrets)),
            Value::Object(entries) => {
                // The kind of the outcome does not come from the worker.
                entries
                    .iter_mut()
                    .filter(|(name, _)| !["kind", "cause"].contains(&name.as_str()))
                    .for_each(|(_, value)| hide(value, secrets));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut json = serde_json::to_value(outcome).expect("an outcome has string keys");
    hide(&mut json, &forms_in_messages(values));
    serde_json::from_value(json).expect("an outcome can be read back")
}

/// `text`, written by a worker, with [`SET`] in the place of the secret `values`.
pub fn text_without_secrets<'a>(text: &str, values: impl Iterator<Item = &'a str>) -> String {
    without(text, &forms_in_messages(values))
}

/// The forms of the secret `values` in messages: each value, each line of it and each password in it, both unchanged
/// and on one line. The longest are first, so that replacing a part does not leave the rest.
fn forms_in_messages<'a>(values: impl Iterator<Item = &'a str>) -> Vec<String> {
    // With this name, an address can lack its scheme.
    let parts = |value: &'a str| value.lines().chain(passwords("PROXY", value));
    let texts = values.flat_map(|value| std::iter::once(value).chain(parts(value)));
    let forms = texts.flat_map(|text| [text.to_owned(), one_line(text)]);
    let mut forms: Vec<String> = forms.filter(|form| form.len() >= LEAST_BYTES).collect();
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    forms
}

/// `text` with [`SET`] in the place of each of `secrets`, and of the beginning of one where the text is cut off.
fn without(text: &str, secrets: &[String]) -> String {
    let text = secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), SET));
    let Some(kept) = text.strip_suffix(CUT) else { return text };
    let begun = |secret: &String| {
        let ends = secret.char_indices().map(|(end, _)| end).filter(|end| *end >= LEAST_BYTES);
        ends.rev().find(|end| kept.ends_with(&secret[..*end]))
    };
    match secrets.iter().filter_map(begun).max() {
        Some(length) => format!("{}{SET}{CUT}", &kept[..kept.len() - length]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_removed_from_the_message_of_an_outcome() {
        let said = |message: &str| Outcome::Exited { code: 3, message: Some(message.to_owned()) };
        let kept =
            without_secrets(&said("401 for token s3kr3t, s3kr3t; exited"), ["s3kr3t", "ex"].into_iter());
        assert_eq!(kept, said("401 for token set, set; exited"));
        let kept = without_secrets(&Outcome::Succeeded, ["succeeded"].into_iter());
        assert_eq!(kept, Outcome::Succeeded);
    }

    #[test]
    fn a_secret_is_recognised_in_the_form_of_messages() {
        let said = |message: &str| Outcome::Exited { code: 3, message: Some(message.to_owned()) };
        for (message, values, shown) in [
            ("key hush1 hush2.", &["hush1  hush2"][..], "key set."),
            ("key hush1 hush2.", &["hush1\thush2 "], "key set."),
            ("key hush2.", &["hush1\nhush2\n"], "key set."),
            ("hushes and hush", &["hush", "hushes"], "set and set"),
            ("key hushhu …", &["hushhush"], "key set …"),
            ("key éhu …", &["éhush"], "key set …"),
            ("key hus …", &["hush"], "key hus …"),
            ("no http://a:hush@b by hush", &["http://a:hush@b"], "no set by set"),
        ] {
            assert_eq!(without_secrets(&said(message), values.iter().copied()), said(shown));
        }
    }

    #[test]
    fn secrets_are_distinguished_from_settings() {
        for secret in [
            "HF_TOKEN",
            "hf_token",
            "WANDB_API_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "DB_PASSWORD",
            "PGPASSWORD",
            "MYSQL_PWD",
            "HF_TOKEN2",
            "KEY1_OF_TWO",
        ] {
            assert!(looks_secret(secret), "{secret}");
        }
        for setting in [
            "TOKENIZERS_PARALLELISM",
            "MAX_TOKENS",
            "OMP_NUM_THREADS",
            "NCCL_ALGO",
            "KEYS",
            "PASSES",
            "TORCHINDUCTOR_CACHE_DIR",
            "NAP",
        ] {
            assert!(!looks_secret(setting), "{setting}");
        }
    }
}
