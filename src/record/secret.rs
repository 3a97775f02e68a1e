//! Tells environment variables that probably hold a secret, and keeps values of secrets out of records.

use serde_json::Value;

use super::Outcome;

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

/// Whether the environment variable `name` looks like a secret: `HF_TOKEN`, `WANDB_API_KEY`, `DB_PASSWORD`. Values of
/// such variables are neither written nor printed. `TOKENIZERS_PARALLELISM` and `MAX_TOKENS` do not look like secrets.
pub fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let is_secret = |word: &str| SECRET_WORDS.iter().any(|secret| word.ends_with(secret));
    name.split('_').any(is_secret)
}

/// The shortest value that is looked for in what a worker said. Every text contains a shorter one by chance.
const LEAST_BYTES: usize = 4;

/// `outcome` with [`SET`] in the place of the secret `values`, which a worker can have printed with its last words.
///
/// # Panics
/// An outcome cannot be read as it is written. All can.
pub fn without_secrets<'a>(outcome: &Outcome, values: impl Iterator<Item = &'a str> + Clone) -> Outcome {
    fn hide<'a>(value: &mut Value, secrets: &(impl Iterator<Item = &'a str> + Clone)) {
        match value {
            Value::String(text) => {
                for secret in secrets.clone().filter(|secret| secret.len() >= LEAST_BYTES) {
                    *text = text.replace(secret, SET);
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| hide(value, secrets)),
            Value::Object(entries) => {
                // What kind of outcome it is was never said by a worker.
                entries
                    .iter_mut()
                    .filter(|(name, _)| !["kind", "cause"].contains(&name.as_str()))
                    .for_each(|(_, value)| hide(value, secrets));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut json = serde_json::to_value(outcome).expect("an outcome has string keys");
    hide(&mut json, &values);
    serde_json::from_value(json).expect("an outcome can be read back")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_worker_printed_last_holds_no_secret() {
        let said = |message: &str| Outcome::Exited { code: 3, message: Some(message.to_owned()) };
        let kept =
            without_secrets(&said("401 for token s3kr3t, s3kr3t; exited"), ["s3kr3t", "ex"].into_iter());
        assert_eq!(kept, said("401 for token set, set; exited"));
        let kept = without_secrets(&Outcome::Succeeded, ["succeeded"].into_iter());
        assert_eq!(kept, Outcome::Succeeded);
    }

    #[test]
    fn secrets_are_told_from_settings() {
        for secret in [
            "HF_TOKEN",
            "hf_token",
            "WANDB_API_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "DB_PASSWORD",
            "PGPASSWORD",
            "MYSQL_PWD",
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
