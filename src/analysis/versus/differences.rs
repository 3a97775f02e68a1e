//! What differs between the sides beside the throughput: what is declared, then what was observed.

use super::meet::Pair;
use super::terms::Terms;

/// Something that differs between the sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its name and its values on both sides: `compile false / true`. Of a secret, only its name.
    pub text: String,
    /// In how many of the compared configs.
    pub configs: usize,
}

/// What was declared differently, then what was observed to differ, by how many configs it concerns.
pub(super) fn differences(terms: &Terms<'_>, pairs: &[Pair<'_, '_>]) -> Vec<Difference> {
    let declared = terms.differing.iter().map(|(name, from, to)| format!("{name} {from} / {to}"));
    let mut found: Vec<Difference> = declared.map(|text| Difference { text, configs: pairs.len() }).collect();
    let declared = found.len();
    for pair in pairs {
        let circumstances = pair.from.circumstances.as_ref().zip(pair.to.circumstances.as_ref());
        let Some((from, to)) = circumstances else { continue };
        for text in from.differences(to) {
            match found.iter().position(|known| known.text == text) {
                // What was declared so is told.
                Some(place) if place < declared => {}
                Some(place) => found[place].configs += 1,
                None => found.push(Difference { text, configs: 1 }),
            }
        }
    }
    found[declared..].sort_by_key(|difference| std::cmp::Reverse(difference.configs));
    found
}
