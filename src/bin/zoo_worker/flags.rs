//! The flags by name.

use std::collections::BTreeMap;

/// Flags, each with the word after it. A flag before another flag, or at the end, has an empty value.
pub(crate) struct Flags(BTreeMap<String, String>);

impl Flags {
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Self {
        let mut flags = BTreeMap::new();
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            if let Some(name) = word.strip_prefix("--") {
                let value = words.next_if(|next| !next.starts_with("--")).unwrap_or_default();
                flags.insert(name.to_owned(), value);
            }
        }
        Flags(flags)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        self.text(name)?.parse().ok()
    }
}
