//! Placeholders in a worker's command.

/// A part of a word of a worker's command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Literal text.
    Text(&'a str),
    /// The name of a placeholder, without its braces.
    Placeholder(&'a str),
}

/// The parts of `word`, none of them empty. A placeholder is a name in braces: lower-case letters, digits and `_`, not
/// beginning with a digit. Other braces are literal, so a word can contain JSON.
pub fn parts(word: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let (name, length) = match placeholder_at(rest) {
            Some(name) => (Some(name), name.len() + 2),
            None => {
                let next = rest.match_indices('{').find(|(at, _)| placeholder_at(&rest[*at..]).is_some());
                (None, next.map_or(rest.len(), |(at, _)| at))
            }
        };
        let (text, behind) = rest.split_at(length);
        rest = behind;
        name.map(Part::Placeholder).or_else(|| (!text.is_empty()).then_some(Part::Text(text)))
    })
}

/// The names of the placeholders in `word`.
pub fn placeholders(word: &str) -> impl Iterator<Item = &str> {
    parts(word).filter_map(|part| match part {
        Part::Placeholder(name) => Some(name),
        Part::Text(_) => None,
    })
}

/// The name of the placeholder that `text` begins with.
fn placeholder_at(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix('{')?.split_once('}')?;
    let is_letter = |c: char| c.is_ascii_lowercase() || c == '_';
    let is_name = name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit());
    is_name.then_some(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn braces_around_anything_but_a_name_mean_themselves() {
        let found = |word: &'static str| parts(word).collect::<Vec<_>>();
        assert_eq!(
            found("--out={out}.json"),
            [Part::Text("--out="), Part::Placeholder("out"), Part::Text(".json")]
        );
        assert_eq!(found("{a}{b_2}"), [Part::Placeholder("a"), Part::Placeholder("b_2")]);
        assert_eq!(found("{{a}}"), [Part::Text("{"), Part::Placeholder("a"), Part::Text("}")]);
        for itself in [r#"{"batch": 3}"#, "{}", "{2}", "{Model}", "{a b}", "{a", "a}", "{é}"] {
            assert_eq!(found(itself), [Part::Text(itself)]);
        }
        assert_eq!(found(""), []);
    }

    proptest! {
        #[test]
        fn the_parts_of_a_word_are_the_word(word in "[{}a_2é\"]{0,12}") {
            let text = |part| match part {
                Part::Text(text) => text.to_owned(),
                Part::Placeholder(name) => format!("{{{name}}}"),
            };
            prop_assert_eq!(parts(&word).map(text).collect::<String>(), word);
        }
    }
}
