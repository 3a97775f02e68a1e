//! Numbers as tools print them for people: with thousands separators, and in the notation of some locale.
//!
//! `27.595.520`, `774,725,274.73`, `27 595 520` and `33,26` are numbers here. One number alone may be read two ways
//! (`292,928`), so [`Notation`] first learns from all numbers of a text which mark does what, and then reads them.

/// Marks that stand for thousands and never for the decimal point: spaces, plain and unbreakable, and apostrophes.
const ALWAYS_GROUPING: [char; 5] = [' ', '\u{a0}', '\u{202f}', '\'', '\u{2019}'];

/// Which mark a text uses for what, as far as its numbers tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Notation {
    decimal: Option<char>,
    grouping: Option<char>,
}

/// Two numbers of one text that cannot be of one notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MixedNotation;

/// What a number shows of its notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Digits alone.
    Plain,
    /// This mark is the decimal point.
    Decimal(char),
    /// This mark groups thousands.
    Grouped(char),
    /// Both occur.
    Both { grouping: char, decimal: char },
    /// One mark before exactly three digits: `292,928`.
    Either(char),
}

impl Notation {
    /// Takes in what `text` shows. A text that is no number shows nothing.
    ///
    /// # Errors
    /// `text` is a number of another notation than those before.
    pub(super) fn learn(&mut self, text: &str) -> Result<(), MixedNotation> {
        let (decimal, grouping) = match shape(text) {
            None | Some(Shape::Plain | Shape::Either(_)) => (None, None),
            Some(Shape::Decimal(mark)) => (Some(mark), None),
            Some(Shape::Grouped(mark)) => (None, Some(mark)),
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

    /// `text` in the notation of programs: digits, perhaps with a decimal point. `None` if it is no such number.
    ///
    /// Where nothing in the whole text tells what `292,928` or `27.595` means, `whole` decides: a value that can only
    /// be whole has no decimals. A comma is then never taken for a decimal point, for no tool here prints three decimals.
    pub(super) fn plain(&self, text: &str, whole: bool) -> Option<String> {
        let (grouping, decimal) = match shape(text)? {
            Shape::Plain => (None, None),
            Shape::Decimal(mark) => (None, Some(mark)),
            Shape::Grouped(mark) => (Some(mark), None),
            Shape::Both { grouping, decimal } => (Some(grouping), Some(decimal)),
            Shape::Either(mark) if self.is_grouping(mark, whole) => (Some(mark), None),
            Shape::Either(mark) => (None, Some(mark)),
        };
        let kept = text.chars().filter(|mark| Some(*mark) != grouping);
        Some(kept.map(|mark| if Some(mark) == decimal { '.' } else { mark }).collect())
    }

    /// What `mark` does in a number that does not show it itself.
    fn is_grouping(&self, mark: char, whole: bool) -> bool {
        match (self.decimal, self.grouping) {
            (Some(decimal), _) => decimal != mark,
            (None, Some(grouping)) => grouping == mark,
            (None, None) => whole || mark == ',',
        }
    }
}

/// What `text` shows, or `None` if it is no number: digits with marks between them.
fn shape(text: &str) -> Option<Shape> {
    if !text.starts_with(|mark: char| mark.is_ascii_digit())
        || !text.ends_with(|mark: char| mark.is_ascii_digit())
    {
        return None;
    }
    let marks: Vec<char> = text.chars().filter(|mark| !mark.is_ascii_digit()).collect();
    let known = |mark: &char| matches!(mark, '.' | ',') || ALWAYS_GROUPING.contains(mark);
    if !marks.iter().all(known) {
        return None;
    }
    let (last, earlier) = match marks.split_last() {
        None => return Some(Shape::Plain),
        Some((last, earlier)) => (*last, earlier),
    };
    let (before, after) = text.rsplit_once(last)?;
    match earlier.first() {
        None => one_mark(last, before, after),
        Some(first) if earlier.iter().any(|mark| mark != first) => None,
        Some(first) if *first == last => is_grouped(text, last).then_some(Shape::Grouped(last)),
        Some(first) => {
            let decimal = !ALWAYS_GROUPING.contains(&last) && is_grouped(before, *first);
            decimal.then_some(Shape::Both { grouping: *first, decimal: last })
        }
    }
}

/// The shape of a number with one mark.
fn one_mark(mark: char, before: &str, after: &str) -> Option<Shape> {
    let could_group = after.len() == 3 && before.len() <= 3 && !before.starts_with('0');
    match (ALWAYS_GROUPING.contains(&mark), could_group) {
        (true, true) => Some(Shape::Grouped(mark)),
        (true, false) => None,
        (false, true) => Some(Shape::Either(mark)),
        (false, false) => Some(Shape::Decimal(mark)),
    }
}

/// Whether `mark` parts the digits of `text` into one to three and then threes.
fn is_grouped(text: &str, mark: char) -> bool {
    let mut groups = text.split(mark);
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
    fn a_number_that_shows_its_notation_needs_no_other() {
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
    fn what_is_no_number_is_not_read() {
        for text in [
            "",
            "n/a",
            "-3",
            "1e9",
            ",5",
            "5,",
            "1,23,456",
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
    fn the_other_numbers_tell_what_a_mark_means() {
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
    fn two_notations_in_one_text_are_refused() {
        for (first, second) in [("33.26", "33,26"), ("1,048,576", "1.048.576"), ("33.26", "27.595.520")] {
            let mut notation = Notation::default();
            notation.learn(first).unwrap();
            assert_eq!(notation.learn(second), Err(MixedNotation), "{first}, then {second}");
        }
    }
}
