//! Numbers as tools print them for people: with thousands separators and in the notation of some locale.
//!
//! `27.595.520`, `774,725,274.73`, `27 595 520` and `33,26` are numbers here. A number such as `292,928` is ambiguous.
//! [`Notation`] therefore first learns the role of each separator from all numbers of a text, and only then reads them.

/// Separators that only ever group thousands: plain and non-breaking spaces, and apostrophes.
const ALWAYS_GROUPING: [char; 5] = [' ', '\u{a0}', '\u{202f}', '\'', '\u{2019}'];

/// The separators of a text, as far as its numbers reveal them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Notation {
    decimal: Option<char>,
    grouping: Option<char>,
}

/// Two numbers of a text contradict each other in their notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MixedNotation;

/// What a number reveals about its notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Only digits.
    Plain,
    /// This is the decimal separator.
    Decimal(char),
    /// This separates thousands.
    Grouped(char),
    /// Both occur.
    Both { grouping: char, decimal: char },
    /// One separator before exactly three digits, as in `292,928`: ambiguous.
    Either(char),
}

impl Notation {
    /// Learns the role of the separators in `text`. Texts that are not numbers are ignored.
    ///
    /// # Errors
    /// `text` contradicts an earlier number.
    pub(super) fn learn(&mut self, text: &str) -> Result<(), MixedNotation> {
        let (decimal, grouping) = match shape(text) {
            None | Some(Shape::Plain | Shape::Either(_)) => (None, None),
            Some(Shape::Decimal(separator)) => (Some(separator), None),
            Some(Shape::Grouped(separator)) => (None, Some(separator)),
            Some(Shape::Both { grouping, decimal }) => (Some(decimal), Some(grouping)),
        };
        let differs =
            |known: Option<char>, seen: Option<char>| known.is_some() && seen.is_some() && known != seen;
        if differs(self.decimal, decimal) || differs(self.grouping, grouping) {
            return Err(MixedNotation);
        }
        self.decimal = self.decimal.or(decimal);
        self.grouping = self.grouping.or(grouping);
        if self.decimal.is_some() && self.decimal == self.grouping { Err(MixedNotation) } else { Ok(()) }
    }

    /// Whether `text` is an ambiguous number, whose meaning depends on the others.
    pub(super) fn is_ambiguous(text: &str) -> bool {
        matches!(shape(text), Some(Shape::Either(_)))
    }

    /// An ambiguous number in `texts` that contradicts an earlier one, if no number decides which of them has decimals:
    /// `1.234` after `1,000`.
    pub(super) fn undecided<'a>(&self, texts: impl Iterator<Item = &'a str>) -> Option<&'a str> {
        if self.decimal.is_some() || self.grouping.is_some() {
            return None;
        }
        let mut first = None;
        texts.into_iter().find(|text| match shape(text) {
            Some(Shape::Either(separator)) => *first.get_or_insert(separator) != separator,
            _ => false,
        })
    }

    /// `text` as programs write it: digits, perhaps with a decimal point. `None` if it is not a number.
    ///
    /// If no number of the text decides the meaning of `292,928` or `27.595`, `whole` does: a value that must be whole
    /// has no decimals. A comma then always groups, because no tool here prints three decimals.
    pub(super) fn plain(&self, text: &str, whole: bool) -> Option<String> {
        let (grouping, decimal) = match shape(text)? {
            Shape::Plain => (None, None),
            Shape::Decimal(separator) => (None, Some(separator)),
            Shape::Grouped(separator) => (Some(separator), None),
            Shape::Both { grouping, decimal } => (Some(grouping), Some(decimal)),
            Shape::Either(separator) if self.is_grouping(separator, whole) => (Some(separator), None),
            Shape::Either(separator) => (None, Some(separator)),
        };
        let kept = text.chars().filter(|letter| Some(*letter) != grouping);
        Some(kept.map(|letter| if Some(letter) == decimal { '.' } else { letter }).collect())
    }

    /// Whether `separator` groups thousands in an ambiguous number.
    fn is_grouping(&self, separator: char, whole: bool) -> bool {
        match (self.decimal, self.grouping) {
            (Some(decimal), _) => decimal != separator,
            (None, Some(grouping)) => grouping == separator,
            (None, None) => whole || separator == ',',
        }
    }
}

/// The shape of `text`; `None` if it is not a number: digits with separators between them.
fn shape(text: &str) -> Option<Shape> {
    if !text.starts_with(|letter: char| letter.is_ascii_digit())
        || !text.ends_with(|letter: char| letter.is_ascii_digit())
    {
        return None;
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Shape::Plain);
    }
    let separators: Vec<char> = text.chars().filter(|letter| !letter.is_ascii_digit()).collect();
    let is_known = |separator: &char| matches!(separator, '.' | ',') || ALWAYS_GROUPING.contains(separator);
    if !separators.iter().all(is_known) {
        return None;
    }
    let (last, earlier) = match separators.split_last() {
        None => return Some(Shape::Plain),
        Some((last, earlier)) => (*last, earlier),
    };
    let (before, after) = text.rsplit_once(last)?;
    match earlier.first() {
        None => one_separator(last, before, after),
        Some(first) if earlier.iter().any(|separator| separator != first) => None,
        Some(first) if *first == last => is_grouped(text, last).then_some(Shape::Grouped(last)),
        Some(first) => {
            let decimal = !ALWAYS_GROUPING.contains(&last) && is_grouped(before, *first);
            decimal.then_some(Shape::Both { grouping: *first, decimal: last })
        }
    }
}

/// The shape of a number with one separator.
fn one_separator(separator: char, before: &str, after: &str) -> Option<Shape> {
    let could_group = after.len() == 3 && before.len() <= 3 && !before.starts_with('0');
    match (ALWAYS_GROUPING.contains(&separator), could_group) {
        (true, true) => Some(Shape::Grouped(separator)),
        (true, false) => None,
        (false, true) => Some(Shape::Either(separator)),
        (false, false) => Some(Shape::Decimal(separator)),
    }
}

/// Whether `separator` splits `text` into groups of three digits, after a first group of one to three.
fn is_grouped(text: &str, separator: char) -> bool {
    let mut groups = text.split(separator);
    let first = groups.next().unwrap_or_default();
    (1..=3).contains(&first.len()) && groups.all(|group| group.len() == 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(all: &[&str], text: &str, whole: bool) -> Option<String> {
        let mut notation = Notation::default();
        for other in all {
            notation.learn(other).unwrap();
        }
        notation.plain(text, whole)
    }

    #[test]
    fn an_unambiguous_number_needs_no_other_numbers() {
        for (text, expected) in [
            ("0", "0"),
            ("11904", "11904"),
            ("774,725,274.73", "774725274.73"),
            ("774.725.274,73", "774725274.73"),
            ("27.595.520", "27595520"),
            ("27 595 520", "27595520"),
            ("27\u{202f}595\u{202f}520,5", "27595520.5"),
            ("1'234'567", "1234567"),
            ("33,26", "33.26"),
            ("0.123", "0.123"),
            ("1234.567", "1234.567"),
            ("77.969567", "77.969567"),
        ] {
            assert_eq!(read(&[], text, true).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_not_a_number_is_not_read() {
        for text in [
            "",
            "n/a",
            "-3",
            "1e9",
            ",5",
            "5,",
            "1,23,456",
            "1 2,4.5",
            "1,2.4,567",
            "1,2345,678",
            "1.2.3,4",
            "2021-Nov-08",
            "1 23",
            "1,234 567",
        ] {
            assert_eq!(read(&[], text, true), None, "{text}");
        }
    }

    #[test]
    fn other_numbers_decide_the_meaning_of_an_ambiguous_one() {
        for (all, text, whole, expected) in [
            (&["33.26"][..], "292,928", true, "292928"),
            (&["33.26"], "27.595", true, "27.595"),
            (&["33,26"], "27.595", false, "27595"),
            (&["33,26"], "292,928", true, "292.928"),
            (&["1,048,576"], "33.260", false, "33.260"),
            (&["1.048.576"], "33.260", false, "33260"),
            (&["1 048 576"], "33.260", false, "33.260"),
            (&["7", "12,345"], "292,928", false, "292928"),
            (&[], "27.595", true, "27595"),
            (&[], "27.595", false, "27.595"),
        ] {
            assert_eq!(read(all, text, whole).as_deref(), Some(expected), "{text} among {all:?}");
        }
    }

    #[test]
    fn two_separators_in_ambiguous_numbers_are_undecided() {
        let undecided = |learned: &str, texts: &[&'static str]| {
            let mut notation = Notation::default();
            notation.learn(learned).unwrap();
            notation.undecided(texts.iter().copied())
        };
        assert_eq!(undecided("7", &["1,000", "12", "1.234"]), Some("1.234"));
        assert_eq!(undecided("7", &["1,000", "2,000"]), None);
        assert_eq!(undecided("33.26", &["1,000", "1.234"]), None, "the point is the decimal one");
        assert_eq!(undecided("1,048,576", &["1,000", "1.234"]), None, "the comma groups");
    }

    #[test]
    fn mixed_notations_are_refused() {
        for (first, second) in [("33.26", "33,26"), ("1,048,576", "1.048.576"), ("33.26", "27.595.520")] {
            let mut notation = Notation::default();
            notation.learn(first).unwrap();
            assert_eq!(notation.learn(second), Err(MixedNotation), "{first}, then {second}");
        }
    }
}
