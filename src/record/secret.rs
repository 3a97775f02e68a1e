//! Tells environment variables that probably hold a secret.

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

#[cfg(test)]
mod tests {
    use super::*;

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
