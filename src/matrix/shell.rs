//! Lines of shell in a matrix: what an env does before its jobs start on other machines.

use super::mask::{is_like_a_variable, is_part_of_a_name};
use super::note::Notes;
use super::reader::{list, text};
use super::tree::{Node, Value};
use crate::record::{holds_password, looks_secret};

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

/// One line of shell. Its value is saved as clear text, so it may hold no secret.
pub(super) fn shell_line(node: &Node, notes: &mut Notes) -> Option<String> {
    let expected = "one line of shell without control characters, such as `module load cuda/12`";
    let line = text(node, expected, notes)?;
    if holds_password("", &line.value) || sets_secret(&line.value) {
        let message = "holds a secret, but lines of `setup` are saved as clear text";
        let hint = "move it into a file that only you can read, and load that: `. ~/secrets.sh`".to_owned();
        notes.add_with_hint(line.span, &line.value, message, Some(hint));
        return None;
    }
    if DIRECTIVES.iter().any(|directive| line.value.trim_start().starts_with(directive)) {
        notes.add(line.span, &line.value, "is an option of `sbatch`: write it under `options`");
        return None;
    }
    Some(line.value)
}

/// Whether `line` gives a plain value to a variable that looks like a secret. What the shell itself finds out, such as
/// `$(cat file)`, is no plain value.
fn sets_secret(line: &str) -> bool {
    line.match_indices('=').any(|(at, _)| {
        let name = line[..at].rsplit(|letter| !is_part_of_a_name(letter)).next().unwrap_or_default();
        let value = line[at + 1..].trim_start_matches(['"', '\'']);
        let is_plain = value.starts_with(|first: char| !first.is_whitespace() && !"$`;&|)".contains(first));
        is_plain && is_like_a_variable(name) && looks_secret(name)
    })
}
