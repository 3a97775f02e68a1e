//! Sentences with their claims about numbers.
//!
//! "59.6 % of the roof (at a roof from 60 %)" is true, and "60 % of the roof (at a roof from 60 %)" is not, though both
//! print the same number. So a [`Compared`] formats its numbers, with as many decimals as the comparison needs to be
//! true as printed. A [`Sentence`] keeps its comparisons as data. A test evaluates them as printed, for every kind of
//! finding, over random tables.

use std::fmt;

use crate::text::{decimals, unsigned_zero};
use crate::threshold::{Passed, Threshold};

/// With more than this number of additional decimals, two numbers count as equal.
const MOST_MORE: usize = 12;

/// The relation of a number to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Above it.
    Above,
    /// Above it, or equal.
    From,
    /// Below it.
    Below,
    /// Below it, or equal.
    UpTo,
}

impl Relation {
    /// Whether `value` has this relation to `limit`.
    pub fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Relation::Above => value > limit,
            Relation::From => value >= limit,
            Relation::Below => value < limit,
            Relation::UpTo => value <= limit,
        }
    }
}

/// The limit of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    value: f64,
    printed: Printed,
}

/// The format of a limit in a sentence.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Printed {
    /// Without zeros at its end, and with this unit.
    Trimmed(&'static str),
    /// With this number of decimals or more.
    Fixed(usize),
    /// Not printed: it is implied, as 0 is in "slower".
    Understood,
}

impl Limit {
    /// A number that is printed with `decimals` or more.
    pub fn printed(value: f64, decimals: usize) -> Self {
        Limit { value, printed: Printed::Fixed(decimals) }
    }

    /// A number that is printed without zeros at its end, with its unit and the space before it.
    pub fn with_unit(value: f64, unit: &'static str) -> Self {
        Limit { value, printed: Printed::Trimmed(unit) }
    }

    /// A number that is implied by the words.
    pub fn understood(value: f64) -> Self {
        Limit { value, printed: Printed::Understood }
    }

    fn digits(self, more: usize) -> String {
        match self.printed {
            Printed::Fixed(least) => format!("{:.*}", least + more, self.value),
            Printed::Trimmed(_) => decimals(self.value, 4 + more),
            Printed::Understood => self.value.to_string(),
        }
    }

    fn suffix(self) -> &'static str {
        match self.printed {
            Printed::Trimmed(suffix) => suffix,
            Printed::Fixed(_) | Printed::Understood => "",
        }
    }
}

/// A number beside a limit, both as they are printed.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// The number, in the unit in which it is printed.
    pub value: f64,
    /// Its relation to the limit.
    pub relation: Relation,
    /// The limit, in the same unit.
    pub limit: f64,
    /// The digits of the number.
    digits: String,
    /// Those of the limit; `None` if they are not printed.
    limit_digits: Option<String>,
    /// The unit of the limit, with the space before it.
    suffix: &'static str,
}

impl Compared {
    /// `value`, with `decimals` or more of them.
    pub fn new(value: f64, relation: Relation, limit: Limit, decimals: usize) -> Self {
        let [compared] = Self::all([(value, relation, limit)], decimals);
        compared
    }

    /// Several numbers with the same number of decimals, so that they also compare with each other.
    pub fn all<const N: usize>(all: [(f64, Relation, Limit); N], decimals: usize) -> [Self; N] {
        let at = |more: usize| {
            all.map(|(value, relation, limit)| Compared {
                value,
                relation,
                limit: limit.value,
                digits: unsigned_zero(format!("{value:.*}", decimals + more)),
                limit_digits: (limit.printed != Printed::Understood).then(|| limit.digits(more)),
                suffix: limit.suffix(),
            })
        };
        let holds = |compared: &[Self; N]| compared.iter().all(Compared::is_true_as_printed);
        (0..=MOST_MORE).map(at).find(holds).unwrap_or_else(|| at(0))
    }

    /// `value` that passed `threshold`, whose value in force is `limit`. Both are printed in the threshold's unit:
    /// shares in percent, with `decimals` or more of the number.
    pub fn passed(threshold: Threshold, value: f64, limit: f64, decimals: usize) -> Self {
        let relation = match threshold.facts().passed {
            Passed::Above => Relation::Above,
            Passed::From => Relation::From,
        };
        Self::with(threshold, value, relation, limit, decimals)
    }

    /// The same for a number that might not have passed it.
    pub fn with(threshold: Threshold, value: f64, relation: Relation, limit: f64, decimals: usize) -> Self {
        let scale = threshold.facts().unit.scale();
        Self::new(scale * value, relation, threshold_limit(threshold, limit), decimals)
    }

    /// The digits of the number, without a unit.
    pub fn number(&self) -> &str {
        &self.digits
    }

    /// The limit with its unit, if it is printed.
    pub fn limit(&self) -> String {
        format!("{}{}", self.limit_digits.as_deref().unwrap_or_default(), self.suffix)
    }

    /// Whether the comparison is true for the printed numbers.
    pub fn is_true_as_printed(&self) -> bool {
        let read = |digits: &str| digits.parse::<f64>().ok();
        let limit = self.limit_digits.as_deref().map_or(Some(self.limit), read);
        read(&self.digits).zip(limit).is_some_and(|(value, limit)| self.relation.holds(value, limit))
    }

    /// Whether `text` contains the printed numbers.
    pub fn is_in(&self, text: &str) -> bool {
        let is_printed = |digits: &str| contains_number(digits, text);
        is_printed(&self.digits) && self.limit_digits.as_deref().is_none_or(is_printed)
    }
}

/// `threshold` as a limit, at its value in force.
pub(super) fn threshold_limit(threshold: Threshold, in_force: f64) -> Limit {
    let unit = threshold.facts().unit;
    Limit::with_unit(unit.scale() * in_force, unit.suffix())
}

/// Whether `text` contains the number `digits`, and not as a part of another number.
fn contains_number(digits: &str, text: &str) -> bool {
    let is_digit = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_digit());
    text.match_indices(digits).any(|(at, _)| {
        let (mut before, mut after) = (text[..at].chars().rev(), text[at + digits.len()..].chars());
        let goes_on = |letter: Option<char>, further: Option<char>| {
            is_digit(letter) || (letter == Some('.') && is_digit(further))
        };
        let (first, last) = ((before.next(), before.next()), (after.next(), after.next()));
        !goes_on(first.0, first.1) && !goes_on(last.0, last.1)
    })
}

/// A claim of a sentence.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// A number has a relation to a limit.
    Number(Compared),
    /// Two values differ, as in `name this / that`.
    Differ(String),
}

impl Claim {
    /// A number that is greater than 0.
    pub fn some(number: usize) -> Self {
        Claim::part(number, Limit::understood(1.0), Relation::From)
    }

    /// A number that is greater than 1.
    pub fn several(number: usize) -> Self {
        Claim::part(number, Limit::understood(2.0), Relation::From)
    }

    /// `part` of `whole`.
    pub fn of(part: usize, whole: usize) -> Self {
        Claim::part(part, Limit::printed(whole as f64, 0), Relation::UpTo)
    }

    fn part(number: usize, limit: Limit, relation: Relation) -> Self {
        Claim::Number(Compared::new(number as f64, relation, limit, 0))
    }

    /// Whether it is true as printed in `text`, its sentence.
    pub fn is_true_in(&self, text: &str) -> bool {
        match self {
            Claim::Number(compared) => compared.is_in(text) && compared.is_true_as_printed(),
            Claim::Differ(values) => {
                let differ = |(one, other): (&str, &str)| !one.ends_with(&format!(" {other}"));
                text.contains(values) && values.split_once(" / ").is_none_or(differ)
            }
        }
    }
}

impl From<Compared> for Claim {
    fn from(compared: Compared) -> Self {
        Claim::Number(compared)
    }
}

/// A sentence or a clause, with its claims.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sentence {
    /// The text.
    pub text: String,
    /// The claims.
    pub claims: Vec<Claim>,
}

impl Sentence {
    /// `text` without claims.
    pub fn plain(text: impl Into<String>) -> Self {
        Sentence { text: text.into(), claims: Vec::new() }
    }

    /// `text`, which prints the numbers of `claims`.
    pub fn new<C: Into<Claim>>(text: impl Into<String>, claims: impl IntoIterator<Item = C>) -> Self {
        Sentence { text: text.into(), claims: claims.into_iter().map(Into::into).collect() }
    }

    /// The same with more claims.
    #[must_use]
    pub fn claiming<C: Into<Claim>>(mut self, claims: impl IntoIterator<Item = C>) -> Self {
        self.claims.extend(claims.into_iter().map(Into::into));
        self
    }

    /// The same claims with another text.
    #[must_use]
    pub fn reworded(self, words: impl FnOnce(&str) -> String) -> Self {
        Sentence { text: words(&self.text), claims: self.claims }
    }

    /// Several clauses as one.
    pub fn joined(clauses: impl IntoIterator<Item = Sentence>, separator: &str) -> Self {
        let (texts, claims): (Vec<String>, Vec<Vec<Claim>>) =
            clauses.into_iter().map(|clause| (clause.text, clause.claims)).unzip();
        Sentence { text: texts.join(separator), claims: claims.concat() }
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<&str> for Sentence {
    fn from(text: &str) -> Self {
        Sentence::plain(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn share(value: f64, decimals: usize) -> [String; 2] {
        let compared = Compared::passed(Threshold::HighVariation, value, 0.05, decimals);
        [compared.number().to_owned(), compared.limit()]
    }

    /// A regression test: "5.0 % (threshold 5 %)" was printed.
    #[test]
    fn a_number_is_printed_on_its_own_side_of_the_limit() {
        assert_eq!(share(0.0501, 1), ["5.01", "5 %"]);
        assert_eq!(share(0.0543, 1), ["5.4", "5 %"]);
        assert_eq!(share(0.2, 0), ["20", "5 %"]);
        let near = Compared::new(59.96, Relation::Below, Limit::printed(60.0, 0), 0);
        assert_eq!((near.number(), near.limit().as_str()), ("59.96", "60.00"));
        let limit = Limit::printed(0.254_8, 2);
        let near = Compared::new(0.2549, Relation::Above, limit, 3);
        assert_eq!((near.number(), near.limit().as_str()), ("0.255", "0.25"));
        let low = Compared::new(-0.004, Relation::Below, Limit::understood(0.0), 0);
        assert_eq!((low.number(), low.limit().as_str()), ("-0.004", ""));
    }

    #[test]
    fn numbers_that_belong_together_have_the_same_decimals() {
        let from_zero = Limit::understood(0.0);
        let [size, low] =
            Compared::all([(12.4, Relation::Above, from_zero), (0.04, Relation::Above, from_zero)], 0);
        assert_eq!((size.number(), low.number()), ("12.40", "0.04"));
    }

    #[test]
    fn false_claims_are_rejected() {
        assert!(!Compared::new(4.0, Relation::Above, Limit::printed(5.0, 0), 0).is_true_as_printed());
        assert!(!Claim::of(4, 3).is_true_in("4 of 3"));
        assert!(Claim::of(3, 3).is_true_in("3 of 3") && !Claim::of(3, 3).is_true_in("2 of 13, 3.5"));
        assert!(!Claim::some(0).is_true_in("0 rows"));
        assert!(Claim::Differ("threads 1 / 2".to_owned()).is_true_in("in threads 1 / 2."));
        assert!(!Claim::Differ("threads 1 / 1".to_owned()).is_true_in("in threads 1 / 1."));
        assert!(Claim::Differ("threads 11 / 1".to_owned()).is_true_in("in threads 11 / 1."));
    }

    proptest! {
        #[test]
        fn every_true_comparison_is_true_as_printed(
            limit in -1e3..1e3f64,
            away in 1e-9..1e3f64,
            decimals in 0..4usize,
            fixed in 0..4usize,
        ) {
            for (value, relation) in [
                (limit + away, Relation::Above),
                (limit + away, Relation::From),
                (limit - away, Relation::Below),
                (limit - away, Relation::UpTo),
            ] {
                for limit in [Limit::printed(limit, fixed), Limit::understood(limit)] {
                    let compared = Compared::new(value, relation, limit, decimals);
                    prop_assert!(compared.is_true_as_printed(), "{compared:?}");
                    let read: f64 = compared.number().parse().unwrap();
                    prop_assert!((read - value).abs() <= 0.5 * 10f64.powi(-(decimals as i32)) + 1e-9);
                }
            }
        }
    }
}
