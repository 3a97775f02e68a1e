//! Hints at variables of the user's environment that a failed worker did not get and might need: [`missed`].

use crate::job::Name;
use crate::record::{Outcome, looks_secret};

/// The most names that a sentence lists.
const MOST: usize = 8;

/// A sentence about the `dropped` variables, which a worker of `env` that failed with `outcome` did not get: those that
/// its message names, or else all.
pub(super) fn missed(env: &Name, outcome: &Outcome, dropped: &[&str]) -> Option<String> {
    sentence(env, reason(outcome)?, dropped)
}

/// The message of a failed worker; `None` if the attempt ended in a way that a missing variable cannot explain.
fn reason(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Exited { message, .. } => Some(message.as_deref().unwrap_or_default()),
        Outcome::BadOutput { message } | Outcome::Unsupported { message } => Some(message),
        Outcome::Succeeded
        | Outcome::Signalled { .. }
        | Outcome::TimedOut { .. }
        | Outcome::OutOfMemory { .. }
        | Outcome::FailedToSpawn { .. }
        | Outcome::SettingMismatch { .. }
        | Outcome::Interrupted { .. }
        | Outcome::NotProfiled(_) => None,
    }
}

/// Prefixes of variables that often configure a training, the most likely first. A worker inherits many of these,
/// unless its env blocks them.
const TUNED: [&str; 12] = [
    "OMP_",
    "MKL_",
    "KMP_",
    "NCCL_",
    "TORCH",
    "PYTORCH_",
    "TRITON_",
    "CUDA",
    "CUDNN_",
    "HF_",
    "TRANSFORMERS_",
    "WANDB_",
];

/// The sort key of `name`: the index of its prefix in [`TUNED`].
fn rank(name: &str) -> usize {
    TUNED.iter().position(|beginning| name.starts_with(beginning)).unwrap_or(TUNED.len())
}

fn sentence(env: &Name, reason: &str, dropped: &[&str]) -> Option<String> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words: Vec<&str> = reason.split(|c| !is_letter(c)).collect();
    let named: Vec<&str> = dropped.iter().copied().filter(|name| words.contains(name)).collect();
    let list = |names: &[&str]| {
        let mut names = names.to_vec();
        names.sort_by_key(|name| (rank(name), *name));
        let shown = names.iter().take(MOST).map(|name| format!("${name}")).collect::<Vec<_>>().join(", ");
        let more = names.len().saturating_sub(MOST);
        if more > 0 { format!("{shown} and {more} more") } else { shown }
    };
    let key = |names: &[&str]| if names.iter().any(|name| looks_secret(name)) { "secret" } else { "pass" };
    match (&named[..], dropped) {
        ([], []) => None,
        ([], all) => Some(format!(
            "the worker of env `{env}` does not get these variables of your environment: {}; if it needs one, list it \
             under `pass` of the env, or under `secret`",
            list(all)
        )),
        (named, _) => {
            let (is, it) = if named.len() == 1 { ("is", "it") } else { ("are", "them") };
            Some(format!(
                "{} {is} set in your environment, but not passed on to the worker of env `{env}`: list {it} under `{}`",
                list(named),
                key(named)
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_in_the_message_are_reported_before_all_others() {
        let hint = |reason: &str, dropped: &[&str]| sentence(&"gpu".into(), reason, dropped);
        assert_eq!(hint("no", &[]), None);
        assert_eq!(
            hint("KeyError: 'DATA_ROOT'", &["DATA", "DATA_ROOT", "ROOT"]).unwrap(),
            "$DATA_ROOT is set in your environment, but not passed on to the worker of env `gpu`: list it under `pass`"
        );
        assert!(hint("HF_TOKEN is not set", &["HF_TOKEN"]).unwrap().ends_with("list it under `secret`"));
        let tuned = [
            "AWS_REGION",
            "EDITOR_X",
            "HF_TOKEN_PATH",
            "NCCL_DEBUG",
            "OMP_PROC_BIND",
            "TORCH_LOGS",
            "WANDB_MODE",
        ];
        let in_order = hint("no such file", &tuned).unwrap();
        let order = "$OMP_PROC_BIND, $NCCL_DEBUG, $TORCH_LOGS, $HF_TOKEN_PATH, $WANDB_MODE, $AWS_REGION, $EDITOR_X; if";
        assert!(in_order.contains(order), "{in_order}");
        let names = ["A", "B", "C", "D", "E", "F", "G", "H", "I", "J"];
        let all = hint("no such file", &names).unwrap();
        assert!(all.contains("of your environment: $A, $B, $C, $D, $E, $F, $G, $H and 2 more; if"), "{all}");
    }
}
