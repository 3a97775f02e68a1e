//! A change since a job ran, and its text.

use serde::{Deserialize, Serialize};

/// The value of a variable that a worker does not get.
pub(super) const NOT_SET: &str = "not set";

/// A change since a job ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// What changed: `worker`, `processor`, `device`, `driver`, the file name of a library or of another program, `$`
    /// and the name of a variable, or the name of a parameter.
    pub what: String,
    /// The full old value; `set` if it is secret. Older versions wrote a digest of a secret.
    pub from: String,
    /// The full new value; `set` if it is secret.
    pub to: String,
}

impl Change {
    /// `worker 1f06d7c03a5b → 9e2b77f01c44`. Hashes are cut to 12 digits.
    pub fn text(&self) -> String {
        match self.what.strip_prefix('$') {
            Some(_) => format!("{} {} → {}", self.what, visible(&self.from), visible(&self.to)),
            None => format!("{} {} → {}", self.what, shortened(&self.from), shortened(&self.to)),
        }
    }
}

/// The value of a variable, quoted if it is empty or has invisible characters.
fn visible(value: &str) -> String {
    let is_plain = !value.is_empty() && !value.contains(char::is_control);
    if is_plain { value.to_owned() } else { format!("{value:?}") }
}

/// All of `changes` as one phrase.
pub fn changes_text(changes: &[Change]) -> String {
    changes.iter().map(Change::text).collect::<Vec<_>>().join("; ")
}

/// `text` with every SHA-256 in it cut to its first 12 digits.
fn shortened(text: &str) -> String {
    let short = |word: &str| {
        let is_hash = word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_hash { word[..12].to_owned() } else { word.to_owned() }
    };
    text.split(' ').map(short).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hashes_are_shortened() {
        let text = |what: &str, from: &str, to: &str| {
            Change { what: what.into(), from: from.into(), to: to.into() }.text()
        };
        assert_eq!(text("worker", &"ab".repeat(32), "unknown"), "worker abababababab → unknown");
        assert_eq!(text("$NAP", "0.2", ""), "$NAP 0.2 → \"\"");
        assert_eq!(text("$NAP", NOT_SET, "a\nb"), "$NAP not set → \"a\\nb\"");
        assert_eq!(text("$HASH", &"ab".repeat(32), "x"), format!("$HASH {} → x", "ab".repeat(32)));
    }
}
