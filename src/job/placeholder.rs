//! Placeholders in a worker's command.

/// The names in braces that `word` of a worker's command holds: `{` then lower-case letters, digits and `_`, then `}`.
/// Other braces mean themselves.
pub fn placeholders(word: &str) -> impl Iterator<Item = &str> {
    word.split('{').skip(1).filter_map(|rest| {
        let (name, _) = rest.split_once('}')?;
        let is_name = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        is_name.then_some(name)
    })
}
