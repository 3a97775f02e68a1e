//! The directories of jobs by their names.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::files::JobDir;
use crate::store::Store;

/// The most directories in the cache.
const MOST: usize = 256;

/// Finds the directories of jobs in a store. A name is looked up in the listing of the store and never becomes a path.
/// Found directories are cached, so that polling a growing log does not list the store each time.
#[derive(Debug)]
pub(super) struct Directories {
    store: Store,
    found: Mutex<HashMap<String, JobDir>>,
}

impl Directories {
    /// The directories of `store`.
    pub(super) fn of(store: Store) -> Directories {
        Directories { store, found: Mutex::default() }
    }

    /// The store.
    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// The directory called `name`; `None` if the store lists none.
    pub(super) fn find(&self, name: &str) -> Option<JobDir> {
        let known = || self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dir) = known().get(name) {
            return Some(dir.clone());
        }
        let dir = self.store.job_dirs().ok()?.into_iter().find(|dir| dir.name() == name)?;
        let mut known = known();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(name.to_owned(), dir.clone());
        Some(dir)
    }
}
