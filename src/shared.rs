//! A value that many owners share, [`Shared`], such as the host of ten thousand records.
//! Any room may call it.
//! Changing one copy never changes the others.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value that is stored once and shared by all of its copies (copy on write). A copy that is changed gets a separate
/// value first.
///
/// [`Recent::share`] merges equal values.
#[derive(Clone, Debug, Default)]
pub struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    /// The only copy of `value`.
    pub fn new(value: T) -> Shared<T> {
        Shared(Arc::new(value))
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Shared::new(value)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

/// Copies of one value are equal without a comparison, even if the value is not equal to itself, such as one with a
/// NaN. Files of `orchestrate` cannot contain such a value.
impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || *self.0 == *other.0
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Shared::new)
    }
}

/// The most recent values, to share them with equal ones that follow.
///
/// Jobs with common values are neighbours in a store, since their directories have similar names. So a few values are
/// enough, and searching them is fast.
#[derive(Debug)]
pub struct Recent<T> {
    /// The most recent value first.
    values: Vec<T>,
}

/// How many values are remembered.
const REMEMBERED: usize = 8;

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Recent { values: Vec::new() }
    }
}

impl<T: Clone + PartialEq> Recent<T> {
    /// Replaces `value` by a copy of an equal recent one, if there is one. Copies of a `T` must share their content.
    pub fn share(&mut self, value: &mut T) {
        match self.values.iter().position(|recent| recent == value) {
            Some(0) => {}
            Some(place) => self.values[..=place].rotate_right(1),
            None => {
                self.values.truncate(REMEMBERED - 1);
                self.values.insert(0, value.clone());
            }
        }
        value.clone_from(&self.values[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changing_a_copy_does_not_change_the_others() {
        let one = Shared::new(vec![1]);
        let mut other = one.clone();
        other.push(2);
        assert_eq!((one.as_slice(), other.as_slice()), (&[1][..], &[1, 2][..]));
        assert_eq!(serde_json::to_string(&other).unwrap(), "[1,2]");
        assert_eq!(serde_json::from_str::<Shared<Vec<i32>>>("[1,2]").unwrap(), other);
    }

    #[test]
    fn equal_values_are_merged_and_others_are_not() {
        let mut recent = Recent::default();
        let mut shared = |value: i32| {
            let mut value = Shared::new(value);
            recent.share(&mut value);
            value
        };
        let first = shared(1);
        let others: Vec<Shared<i32>> = (2..=REMEMBERED as i32).map(&mut shared).collect();
        assert!(Arc::ptr_eq(&first.0, &shared(1).0));
        for (other, value) in others.iter().zip(2..) {
            assert!(Arc::ptr_eq(&other.0, &shared(value).0) && **other == value, "{value}");
        }
        // One more than are remembered: the least recent one, 1, is forgotten.
        shared(100);
        let again = shared(1);
        assert!(!Arc::ptr_eq(&first.0, &again.0) && first == again);
    }
}
