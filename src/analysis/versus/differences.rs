//! The differences between the sides other than the throughput: the declared ones, then the observed ones.

use super::meet::Pair;
use super::terms::Terms;

/// A difference between the sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The name of what differs and its values on both sides: `compile false / true`. For a secret, only its name.
    pub text: String,
    /// The number of compared configs with the difference.
    pub configs: usize,
}

/// The declared differences, then the observed ones. Those of the most configs come first among the observed ones.
pub(super) fn differences(terms: &Terms<'_>, pairs: &[Pair<'_, '_>]) -> Vec<Difference> {
    let declared = terms.differing.iter().map(|(name, from, to)| format!("{name} {from} / {to}"));
    let mut found: Vec<Difference> = declared.map(|text| Difference { text, configs: pairs.len() }).collect();
    let declared = found.len();
    for pair in pairs {
        let circumstances = pair.from.circumstances.as_ref().zip(pair.to.circumstances.as_ref());
        let Some((from, to)) = circumstances else { continue };
        for text in from.differences(to) {
            match found.iter().position(|known| known.text == text) {
                // The declared difference is already listed.
                Some(place) if place < declared => {}
                Some(place) => found[place].configs += 1,
                None => found.push(Difference { text, configs: 1 }),
            }
        }
    }
    found[declared..].sort_by_key(|difference| std::cmp::Reverse(difference.configs));
    found
}
