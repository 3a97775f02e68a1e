//! Writes the cache: [`write_cache`] replaces `runs/.cache/inventory`.
#![expect(clippy::disallowed_methods, reason = "the cache is a file of the store")]

use std::env;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

use super::entry::Entry;
use super::parts::{WrittenParts, to_piece, write_piece};
use super::path_of;
use super::stamps::{Stamp, Stamps};
use crate::files::JobDir;
use crate::record::Record;
use crate::threads;

/// The program that wrote the cache. Building the program again changes its stamp.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Build {
    version: String,
    program: Stamp,
}

impl Build {
    /// `None` if the program's file does not exist any more.
    pub(super) fn of_this_program() -> Option<Build> {
        let program = Stamp::at(&env::current_exe().ok()?).ok()?;
        Some(Build { version: env!("CARGO_PKG_VERSION").to_owned(), program })
    }
}

/// A job to be cached.
#[derive(Debug)]
pub(in crate::store) struct Kept {
    /// The index of its directory among those that were read.
    pub(in crate::store) place: usize,
    /// Taken before it was read.
    pub(in crate::store) stamps: Stamps,
    /// Its record without the parts that inventories do not use.
    pub(in crate::store) record: Arc<Record>,
}

/// This many jobs are read fast enough without a cache.
const FEW: usize = 64;

/// Whether to write the cache again, if `new` of `all` jobs are not in it. Writing it for every new job would take more
/// time than reading that job.
pub(in crate::store) fn is_worth_writing(new: usize, all: usize) -> bool {
    new > FEW.max(all / 20)
}

/// Minimum age of cached files. A more recent file could change again without another stamp: the clocks of file systems
/// tick every two seconds or faster.
pub(in crate::store) const TICK: Duration = Duration::from_secs(2);

/// Number of entries that are serialised together.
const BATCH: usize = 512;

/// Writes the cache of the store at `root` with those of `jobs` whose files have not changed for `age`. `dirs` are
/// sorted by name. Does nothing while another process writes the cache.
///
/// # Errors
/// It cannot be written, for example in another user's store. The old cache remains.
pub(in crate::store) fn write_cache(
    root: &Path,
    dirs: &[JobDir],
    jobs: &[Kept],
    age: Duration,
) -> io::Result<()> {
    let Some(build) = Build::of_this_program() else { return Ok(()) };
    let path = path_of(root);
    let directory = path.parent().unwrap_or(root);
    fs::create_dir_all(directory)?;
    let lock = File::options().create(true).append(true).open(directory.join("lock"))?;
    if lock.try_lock().is_err() {
        return Ok(());
    }
    let tmp = path.with_extension("tmp");
    let mut out = Hashed { out: BufWriter::new(replace_file(&tmp)?), hasher: XxHash3_128::new() };
    // By the clock of the file system, which also stamps the jobs.
    let now = Stamp::of(&out.out.get_ref().metadata()?).newest_ns();
    let settled = now.saturating_sub(i64::try_from(age.as_nanos()).unwrap_or(i64::MAX));
    write_piece(b'b', &build, &mut out)?;
    let mut parts = WrittenParts::default();
    for some in jobs.chunks(BATCH) {
        let settled = some.iter().filter(|kept| kept.stamps.newest_ns() <= settled);
        // Parts are written before the first entry that refers to them, so entries can be serialised in parallel.
        let entries = settled.map(|Kept { place, stamps, record }| {
            Entry::of(dirs[*place].name(), *stamps, record, &mut parts, &mut out)
        });
        let entries = entries.collect::<io::Result<Vec<Entry>>>()?;
        for piece in threads::each(entries.len(), |number| to_piece(b'j', &entries[number])) {
            out.write_all(&piece?)?;
        }
    }
    let Hashed { mut out, hasher } = out;
    out.write_all(b"s")?;
    out.write_all(&hasher.finish_128().to_le_bytes())?;
    out.flush()?;
    fs::rename(&tmp, &path)
}

/// Creates an empty file at `path`. Removes an existing file or link first, so that no link is followed.
fn replace_file(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => File::create_new(path),
    }
}

/// A file whose bytes are hashed as they are written.
struct Hashed {
    out: BufWriter<File>,
    hasher: XxHash3_128,
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write_all(bytes)?;
        self.hasher.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
