//! Keys seen as their configs, to group jobs.

use std::hash::{Hash, Hasher};

use super::key::{hashed, have_equal_ids};
use super::{Key, Kind, Profile};

const NOT_PROFILED: &Profile = &Profile { iters: None, counters: Vec::new() };

/// A key without its repeat, for maps that group jobs by config. It only borrows the key, so it is made, compared and
/// hashed without copying the key or computing its id.
///
/// Two are equal if [`Key::config`] of their keys is.
#[derive(Clone, Copy, Debug)]
pub struct ConfigOf<'a> {
    key: &'a Key,
    kind: Kind,
    profile: &'a Profile,
    /// `None` means any batch.
    batch: Option<u32>,
}

impl<'a> ConfigOf<'a> {
    /// The config of `key`.
    pub fn new(key: &'a Key) -> Self {
        ConfigOf { key, kind: key.kind, profile: &key.profile, batch: Some(key.batch) }
    }

    /// The config of the timing jobs that `key` belongs to, as [`Key::timing_config`].
    pub fn timing(key: &'a Key) -> Self {
        ConfigOf { kind: Kind::Timing, profile: NOT_PROFILED, ..ConfigOf::new(key) }
    }

    /// The config regardless of its batch.
    pub fn of_any_batch(key: &'a Key) -> Self {
        ConfigOf { batch: None, ..ConfigOf::new(key) }
    }
}

impl PartialEq for ConfigOf<'_> {
    fn eq(&self, other: &Self) -> bool {
        // Exhaustive, so that a new field of a key is compared here too.
        let Key {
            schema,
            env,
            device,
            model,
            precision,
            params,
            worker,
            kind: _,
            batch: _,
            repeat: _,
            profile: _,
        } = self.key;
        (self.batch, self.kind, precision) == (other.batch, other.kind, &other.key.precision)
            && (schema, env, device, model)
                == (&other.key.schema, &other.key.env, &other.key.device, &other.key.model)
            && (worker, self.profile) == (&other.key.worker, other.profile)
            && have_equal_ids(params, &other.key.params)
    }
}

impl Eq for ConfigOf<'_> {}

impl Hash for ConfigOf<'_> {
    /// Hashes the fields that distinguish the configs of a matrix.
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.batch, self.kind, &self.key.env, &self.key.model, self.key.precision).hash(state);
        for parameter in hashed(&self.key.params) {
            parameter.hash(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, RandomState};

    use proptest::prelude::*;

    use super::*;
    use crate::job::arbitrary;

    /// `key` with one of its fields as in `other`, or with all but that one.
    fn mixed(key: &Key, other: &Key, field: usize) -> Key {
        let Key { schema, kind, env, device, model, batch, precision, repeat, params, worker, profile } =
            other.clone();
        let key = key.clone();
        match field {
            0 => Key { schema, ..key },
            1 => Key { kind, ..key },
            2 => Key { env, ..key },
            3 => Key { device, ..key },
            4 => Key { model, ..key },
            5 => Key { batch, ..key },
            6 => Key { precision, ..key },
            7 => Key { repeat, ..key },
            8 => Key { params, ..key },
            9 => Key { worker, ..key },
            _ => Key { profile, ..key },
        }
    }

    fn with_default(mut key: Key) -> Key {
        key.params.insert("warmup".into(), crate::job::ParamValue::Int(10));
        key
    }

    proptest! {
        #[test]
        fn configs_are_equal_as_their_keys_are(
            key in arbitrary::key(),
            other in arbitrary::key(),
            field in 0..11_usize,
            schema in 1..3_u32,
        ) {
            let other = Key { schema, ..other };
            let hashes = RandomState::new();
            for (a, b) in [
                (key.clone(), mixed(&key, &other, field)),
                (Key { params: [].into(), ..key.clone() }, with_default(Key { params: [].into(), ..key.clone() })),
                (key, other),
            ] {
                let without_batch = |key: &Key| Key { batch: 0, ..key.config() };
                for ([one, two], is_equal) in [
                    ([&a, &b].map(ConfigOf::new), a.config() == b.config()),
                    ([&a, &b].map(ConfigOf::timing), a.timing_config() == b.timing_config()),
                    ([&a, &b].map(ConfigOf::of_any_batch), without_batch(&a) == without_batch(&b)),
                ] {
                    prop_assert_eq!(one == two, is_equal, "{:?} {:?}", one, two);
                    prop_assert!(!is_equal || hashes.hash_one(one) == hashes.hash_one(two));
                }
            }
        }
    }
}
