//! Lines of shell in a matrix, which run before an env's jobs start on other machines.

use super::mask::{is_like_a_variable, is_part_of_a_name};
use super::note::Notes;
use super::reader::{list, text};
use super::tree::{Node, Value};
use crate::record::{contains_password, looks_secret};

/// The items of a list that can be missing, each read by `item`.
pub(super) fn texts(
    node: Option<&Node>,
    expected: &str,
    notes: &mut Notes,
    item: fn(&Node, &mut Notes) -> Option<String>,
) -> Vec<String> {
    let Some(node) = node.filter(|node| !matches!(node.value, Value::Null)) else { return Vec::new() };
    let items = list(node, expected, notes).unwrap_or_default();
    items.iter().filter_map(|node| item(node, notes)).collect()
}

/// Comments at the beginning of a script that `sbatch` takes for options.
const DIRECTIVES: [&str; 2] = ["#SBATCH", "#PBS"];

/// One line of shell. Its value is saved as clear text, so it must not contain a secret.
pub(super) fn shell_line(node: &Node, notes: &mut Notes) -> Option<String> {
    let expected = "one line of shell without control characters, such as `module load cuda/12`";
    let line = text(node, expected, notes)?;
    if contains_password("", &line.value) || sets_secret(&line.value) || passes_secret(&line.value) {
        let message = "contains a secret, but lines of `setup` are saved as clear text";
        let hint = "move it into a file that only you can read, and load that: `. ~/secrets.sh`".to_owned();
        notes.add_with_hint(line.span, &line.value, message, Some(hint));
        return None;
    }
    if DIRECTIVES.iter().any(|directive| line.value.trim_start().starts_with(directive)) {
        notes.add(line.span, &line.value, "is an option of `sbatch`: write it under `options`");
        return None;
    }
    let backslashes = line.value.len() - line.value.trim_end_matches('\\').len();
    if backslashes % 2 == 1 {
        let message = "ends in `\\`, which would join the next line to it";
        notes.add_with_hint(line.span, &line.value, message, Some("write both as one line".to_owned()));
        return None;
    }
    Some(line.value)
}

/// The endings of options whose value is the location of a secret.
const LOCATION_ENDINGS: [&str; 5] = ["command", "dir", "env", "file", "path"];

/// Words in the name of an option for a secret key. Other keys are for sorting or lookups.
const OF_SECRET_KEYS: [&str; 4] = ["access", "api", "private", "secret"];

/// Whether `line` has an option that looks like a secret with a literal value: `--token=x`, or `--api-key x`.
fn passes_secret(line: &str) -> bool {
    let mut words = line.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix("--") else { continue };
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, words.peek().copied().filter(|next| !next.starts_with('-'))),
        };
        let is_place = LOCATION_ENDINGS.iter().any(|end| name.ends_with(end));
        let is_other_key = name.ends_with("key") && !OF_SECRET_KEYS.iter().any(|word| name.contains(word));
        let is_named = !is_place && !is_other_key && looks_secret(&name.replace('-', "_"));
        if is_named && value.is_some_and(is_plain) {
            return true;
        }
    }
    false
}

/// Whether a value is literal, unlike an expansion of the shell such as `$(cat file)`.
fn is_plain(value: &str) -> bool {
    let value = value.trim_start_matches(['"', '\'']);
    value.starts_with(|first: char| !first.is_whitespace() && !"$`;&|)>".contains(first))
}

/// Whether `line` assigns a literal value to a variable that looks like a secret.
fn sets_secret(line: &str) -> bool {
    line.match_indices('=').any(|(at, _)| {
        let name = line[..at].rsplit(|letter| !is_part_of_a_name(letter)).next().unwrap_or_default();
        is_plain(&line[at + 1..]) && is_like_a_variable(name) && looks_secret(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_with_a_literal_secret_is_found() {
        for line in
            ["wandb login --token=x", "hf login --token x", "a --api-key='x' b", "a --db-password=\"x\""]
        {
            assert!(passes_secret(line), "{line}");
        }
        for line in [
            "a --token=$(cat t)",
            "a --token \"$T\"",
            "a --token",
            "a --token --quiet",
            "a --token-file=t",
            "a --password-file t",
            "a --max-tokens=5",
            "sort --key=1 b",
            "a --partition=gpu --time 2",
            "a token=x",
        ] {
            assert!(!passes_secret(line), "{line}");
        }
    }
}
