//! Fetches results from a host into the store. Each job directory is taken as a whole, once its seals are verified.
#![expect(clippy::disallowed_methods, reason = "fetched files are inspected outside of the store")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::cli::output::warn;
use crate::files::JobDir;
use crate::queue::{HostQuestion, SshHost};
use crate::store::{Fetching, Had, JobFate, Merge, MergedJob, Store, record_digest, unpack};
use crate::text::with_causes;

/// Fetches all results of `host` that this store lacks according to `question`. A new success replaces an old one if
/// the name of its directory is in `reruns`. Returns the digests of all records that this store has or has rejected.
///
/// # Errors
/// Why not everything could be fetched, as a sentence. Results taken before the error are kept.
pub(super) async fn fetch(
    host: &SshHost,
    store: &Store,
    mut question: HostQuestion,
    reruns: &BTreeSet<String>,
) -> Result<Had, String> {
    loop {
        let pulled = begin(store).await?;
        let archive = pulled.path().join("archive");
        let wrong =
            |error: io::Error| format!("the results that {} sends cannot be saved: {error}", host.name());
        let file = File::create_new(&archive).map_err(wrong)?;
        host.fetch(&question, &file).await.map_err(|error| error.to_string())?;
        let (first, again) = (pulled.path().join("first"), pulled.path().join("again"));
        fs::create_dir(&first).and_then(|()| fs::create_dir(&again)).map_err(wrong)?;
        File::open(&archive)
            .and_then(|archive| unpack(archive, &first))
            .map_err(|error| format!("the results that {} sent cannot be read: {error}", host.name()))?;
        let mut seen = Vec::new();
        for entry in fs::read_dir(&first).map_err(|error| error.to_string())?.flatten() {
            let dir = JobDir::at(entry.path());
            let name = dir.name();
            seen.extend(record_digest(&dir).map(|digest| (name.clone(), digest)));
            if reruns.contains(&name) {
                fs::rename(entry.path(), again.join(&name)).map_err(|error| error.to_string())?;
            }
        }
        let busy =
            [(&first, false), (&again, true)].map(|(directory, replace)| take(store, directory, replace));
        let [first, again] = busy;
        let busy: BTreeSet<String> = first?.into_iter().chain(again?).collect();
        seen.retain(|(name, _)| !busy.contains(name));
        let mut is_new = false;
        for (name, digest) in seen {
            is_new |= question.had.entry(name).or_default().insert(digest);
        }
        if !is_new {
            return Ok(question.had);
        }
    }
}

/// The interval of checks whether another `orchestrate` still fetches. Signals are handled in between.
const LOOK: Duration = Duration::from_millis(100);

/// Creates a directory for the fetched results, as soon as no other `orchestrate` is fetching.
async fn begin(store: &Store) -> Result<Fetching, String> {
    loop {
        if let Some(place) = store.begin_fetch().map_err(|error| with_causes(&error))? {
            return Ok(place);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Merges the results in `directory` into `store`. Returns the names of job directories that are busy.
fn take(store: &Store, directory: &Path, replace: bool) -> Result<Vec<String>, String> {
    let other = Store::at(directory).map_err(|error| with_causes(&error))?;
    let merge = Merge::begin(store, replace).map_err(|error| with_causes(&error))?;
    let merged = merge.merge(&other, &mut |_, _| {}).map_err(|error| with_causes(&error))?;
    let mut busy = Vec::new();
    for MergedJob { directory, what, .. } in merged.jobs {
        match what {
            JobFate::Busy(_) => busy.push(directory),
            JobFate::Damaged(why) => warn(&format!("{directory}: its result arrived damaged: {why}")),
            JobFate::Conflict => {
                warn(&format!("{directory}: it succeeded on the host too; this store keeps its own result"));
            }
            JobFate::Taken
            | JobFate::Replaced(_)
            | JobFate::AlreadyHere
            | JobFate::Kept(_)
            | JobFate::Unfinished(_) => {}
        }
    }
    Ok(busy)
}
