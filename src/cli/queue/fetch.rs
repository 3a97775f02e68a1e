//! Fetches results from a host into the store: each directory as a whole, after its seals were checked, or not at all.
#![expect(clippy::disallowed_methods, reason = "what was fetched is looked at beside the store")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::cli::output::warn;
use crate::files::JobDir;
use crate::queue::{HostQuestion, SshHost};
use crate::store::{Fetching, Had, Merge, MergedJob, Store, What, record_digest, unpack};
use crate::text::with_causes;

/// Fetches all that `host` has and `question` says that this store has not. Of the jobs with a directory in `reruns`,
/// a new success replaces an old one. Returns what this store has, or has seen, then.
///
/// # Errors
/// Why not everything could be fetched, as a sentence. What was taken until then stays.
pub(super) async fn fetch(
    host: &SshHost,
    store: &Store,
    mut question: HostQuestion,
    reruns: &BTreeSet<String>,
) -> Result<Had, String> {
    loop {
        let pulled = begin(store).await?;
        let archive = pulled.path().join("archive");
        let wrong = |error: io::Error| format!("what {} sends cannot be kept: {error}", host.name());
        let file = File::create_new(&archive).map_err(wrong)?;
        host.fetch(&question, &file).await.map_err(|error| error.to_string())?;
        let (first, again) = (pulled.path().join("first"), pulled.path().join("again"));
        fs::create_dir(&first).and_then(|()| fs::create_dir(&again)).map_err(wrong)?;
        File::open(&archive)
            .and_then(|archive| unpack(archive, &first))
            .map_err(|error| format!("what {} sent cannot be read: {error}", host.name()))?;
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

/// How often to look whether another `orchestrate` still fetches. Meanwhile, signals are heard.
const LOOK: Duration = Duration::from_millis(100);

/// A place for what is fetched.
async fn begin(store: &Store) -> Result<Fetching, String> {
    loop {
        if let Some(place) = store.begin_fetch().map_err(|error| with_causes(&error))? {
            return Ok(place);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Takes the results in `directory`. Returns the directories that could not be taken now.
fn take(store: &Store, directory: &Path, replace: bool) -> Result<Vec<String>, String> {
    let other = Store::at(directory).map_err(|error| with_causes(&error))?;
    let merge = Merge::begin(store, replace).map_err(|error| with_causes(&error))?;
    let merged = merge.bring(&other, &mut |_, _| {}).map_err(|error| with_causes(&error))?;
    let mut busy = Vec::new();
    for MergedJob { directory, what, .. } in merged.jobs {
        match what {
            What::Busy(_) => busy.push(directory),
            What::Damaged(why) => warn(&format!("{directory}: its result arrived damaged: {why}")),
            What::Conflict => {
                warn(&format!("{directory}: it succeeded over there too; this store keeps its own result"));
            }
            What::Taken | What::Replaced(_) | What::AlreadyHere | What::Kept(_) | What::Unfinished(_) => {}
        }
    }
    Ok(busy)
}
