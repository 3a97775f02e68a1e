//! The repeats of a config as jobs. The common part of their ids is hashed once.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::canonical::write_number;
use super::{Job, JobId, Key};

/// A config whose repeats become jobs.
#[derive(Clone, Debug)]
pub struct Repeats {
    config: Key,
    /// The hash of the canonical JSON before the repeat.
    before: Sha256,
    /// The canonical JSON after the repeat.
    after: String,
}

impl Repeats {
    /// The repeats of the config of `key`, regardless of its repeat.
    pub fn of(key: Key) -> Repeats {
        let (mut before, mut after) = (String::with_capacity(512), String::new());
        key.write_before_repeat(key.batch, &mut before);
        key.write_after_repeat(&mut after);
        Repeats { config: key, before: Sha256::new_with_prefix(before), after }
    }

    /// The job of this repeat.
    pub fn job(&self, repeat: u32) -> Job {
        Job { key: Arc::new(Key { repeat, ..self.config.clone() }), id: self.id(repeat) }
    }

    fn id(&self, repeat: u32) -> JobId {
        let mut rest = String::with_capacity(16 + self.after.len());
        write_number(repeat, &mut rest);
        rest.push_str(&self.after);
        JobId::from_hash(self.before.clone().chain_update(rest))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job::arbitrary;

    proptest! {
        #[test]
        fn a_repeat_is_the_job_of_its_key(
            key in arbitrary::key(),
            schema in any::<u32>(),
            repeats in prop::collection::vec(any::<u32>(), 1..4),
        ) {
            let key = Key { schema, ..key };
            let all = Repeats::of(key.clone());
            for repeat in repeats {
                let (found, expected) = (all.job(repeat), Job::new(Key { repeat, ..key.clone() }));
                prop_assert_eq!((found.id(), found.key()), (expected.id(), expected.key()));
            }
        }
    }
}
