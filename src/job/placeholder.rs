//! Placeholders in a worker's command.

/// A part of a word of a worker's command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Literal text.
    Text(&'a str),
    /// The name of a placeholder, without its braces.
    Placeholder(&'a str),
}

/// The parts of `word`, none of them empty. A placeholder is a name in braces: lower-case ASCII letters, digits and
/// `_`, not beginning with a digit. Other braces are literal, so a word can contain JSON.
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

/// Whether [`placeholders`] has `name`, without finding the others. A name has no braces, so no placeholder begins
/// within another one.
pub(super) fn has_placeholder(word: &str, name: &str) -> bool {
    let begins_at = |at: usize| word[at + 1..].strip_prefix(name).is_some_and(|rest| rest.starts_with('}'));
    word.match_indices('{').any(|(at, _)| begins_at(at)) && is_name(name)
}

/// The name of the placeholder that `text` begins with.
fn placeholder_at(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix('{')?.split_once('}')?;
    is_name(name).then_some(name)
}

fn is_name(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c == '_';
    text.starts_with(is_letter) && text.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn braces_around_anything_but_a_name_are_literal() {
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

        #[test]
        fn a_placeholder_is_found_by_its_name(word in "[{}ab2 ]{0,12}", name in "[{}ab2 ]{0,2}") {
            let is_among = placeholders(&word).any(|placeholder| placeholder == name);
            prop_assert_eq!(has_placeholder(&word, &name), is_among);
        }
    }
}
