use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name of a matrix or an env. Directories and files are named after it, so it cannot be a path.
pub type Name = Named<OfFile>;

/// The name of a model, which can have slashes, as Hugging Face writes them: `facebook/opt-125m`. In the names of files
/// it is [`ModelName::file_word`].
pub type ModelName = Named<OfModel>;

/// A text that follows a [`Rule`]. Its clones share the text, since a plan can have a million jobs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Named<R> {
    text: Arc<str>,
    rule: PhantomData<R>,
}

/// The rule for a kind of names.
pub trait Rule {
    /// The maximum number of characters. The name of a directory contains that of a matrix or env and that of a model,
    /// and can have 255 bytes.
    const LONGEST: usize;
    /// The rule, to complete "expected a name: …".
    const TEXT: &'static str;
    /// The rule as a regular expression, without the length.
    const PATTERN: &'static str;

    /// Whether `text`, which is not too long, follows the rule.
    fn fits(text: &str) -> bool;
}

/// The rule of a [`Name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfFile;

/// The rule of a [`ModelName`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfModel;

impl Rule for OfFile {
    const LONGEST: usize = 64;
    const TEXT: &'static str =
        "at most 64 ASCII letters, digits, `-`, `_` and `.`, not beginning with `-` or `.`";
    const PATTERN: &'static str = "^[A-Za-z0-9_][A-Za-z0-9._-]*$";

    fn fits(text: &str) -> bool {
        text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    }
}

impl Rule for OfModel {
    const LONGEST: usize = 96;
    const TEXT: &'static str = "at most 96 ASCII letters, digits, `-`, `_` and `.`, in up to three parts between slashes, none beginning with \
         `-` or `.`";
    const PATTERN: &'static str = "^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*){0,2}$";

    fn fits(text: &str) -> bool {
        text.split('/').count() <= 3 && text.split('/').all(OfFile::fits)
    }
}

impl<R: Rule> Named<R> {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl ModelName {
    /// The name within the name of a directory, with `--` for each slash, as in Hugging Face's cache.
    pub fn file_word(&self) -> String {
        self.text.replace('/', "--")
    }
}

/// A text that is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a name: expected {rule}")]
pub struct ParseNameError {
    text: String,
    rule: &'static str,
}

impl<R: Rule> FromStr for Named<R> {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() <= R::LONGEST && R::fits(text) {
            Ok(Named { text: text.into(), rule: PhantomData })
        } else {
            Err(ParseNameError { text: text.chars().take(100).collect(), rule: R::TEXT })
        }
    }
}

impl<R> Serialize for Named<R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de, R: Rule> Deserialize<'de> for Named<R> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl<R> Deref for Named<R> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl<R> Borrow<str> for Named<R> {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl<R> fmt::Display for Named<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl<R> From<Named<R>> for String {
    fn from(name: Named<R>) -> String {
        name.text.as_ref().to_owned()
    }
}

impl<R> PartialEq<str> for Named<R> {
    fn eq(&self, other: &str) -> bool {
        *self.text == *other
    }
}

impl<R> PartialEq<&str> for Named<R> {
    fn eq(&self, other: &&str) -> bool {
        *self.text == **other
    }
}

/// So that tests can write names as literals.
#[cfg(test)]
impl<R: Rule> From<&str> for Named<R> {
    fn from(text: &str) -> Named<R> {
        text.parse().expect("a test's literal is a name")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_not_names() {
        let longest = "x".repeat(OfFile::LONGEST);
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
        for (rule, longest) in [(OfFile::TEXT, OfFile::LONGEST), (OfModel::TEXT, OfModel::LONGEST)] {
            assert!(rule.contains(&longest.to_string()), "{rule}");
        }
    }

    #[test]
    fn models_can_have_slashes_but_are_not_paths() {
        let longest = format!("{}/{}", "x".repeat(47), "y".repeat(48));
        for name in ["resnet50", "facebook/opt-125m", "a/b/c", "org/Model_v1.5", &longest] {
            let read: ModelName = serde_json::from_value(name.into()).unwrap();
            assert_eq!(read, *name);
            assert!(read.file_word().parse::<Name>().is_ok() || name == longest, "{name}");
        }
        assert_eq!(ModelName::from("a/b/c").file_word(), "a--b--c");
        let too_long = format!("{longest}y");
        for text in [
            "", "/", "a/", "/a", "a//b", "../a", "a/..", "a/.b", "a/-b", "a/b/c/d", "a\\b", "a b/c",
            &too_long,
        ] {
            assert!(text.parse::<ModelName>().is_err(), "{text:?}");
        }
    }
}
