use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

/// The name of a matrix, an env or a model. Directories and files are named after it, so it cannot be a path. It has at
/// most [`Name::LONGEST`] ASCII letters, digits, `-`, `_` and `.`, and does not begin with `-` or `.`. Its clones share
/// the text, since a plan can have a million jobs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Name(Arc<str>);

impl Name {
    /// The most characters of a name. The name of a directory contains three of them and can have 255 bytes.
    pub const LONGEST: usize = 64;

    /// The rule, to complete "expected a name: …".
    pub const RULE: &'static str =
        "at most 64 letters, digits, `-`, `_` and `.`, not beginning with `-` or `.`";

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text that is not a [`Name`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a name: expected {rule}", rule = Name::RULE)]
pub struct ParseNameError(String);

impl FromStr for Name {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = text.len() <= Name::LONGEST
            && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        if fits { Ok(Name(text.into())) } else { Err(ParseNameError(text.chars().take(100).collect())) }
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.0.as_ref().to_owned()
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        *self.0 == **other
    }
}

/// So that tests can write names as literals.
#[cfg(test)]
impl From<&str> for Name {
    fn from(text: &str) -> Name {
        text.parse().expect("a test's literal is a name")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_a_path_is_no_name() {
        let longest = "x".repeat(Name::LONGEST);
        for name in ["quickstart", "mac_cpu", "vit_b_16", "0", "_", "a..b", "A-1.2", &longest] {
            assert_eq!(name.parse::<Name>().unwrap(), *name);
            let read: Name = serde_json::from_value(name.into()).unwrap();
            assert_eq!(read.to_string(), name);
            assert!(read == *name && read != *"other", "{name}");
            assert_eq!(String::from(read), name);
        }
        let too_long = format!("{longest}x");
        for text in
            ["", ".", "..", "../../pwn", "a/b", "/a", "-a", ".a", "a b", "a\0", "a\n", "é", "a\\b", &too_long]
        {
            assert!(text.parse::<Name>().is_err(), "{text:?}");
            assert!(serde_json::from_value::<Name>(text.into()).is_err(), "{text:?}");
        }
        assert!(Name::RULE.contains(&Name::LONGEST.to_string()));
    }
}
