//! Transfers results from one store to another as a tar archive of whole job directories.
//!
//! The sender omits results that the receiver has, which it recognises by the digests of their records. The receiver
//! does not trust the archive: it unpacks it beside the store, and [`super::Merge`] checks every seal before it takes a
//! result.
#![expect(clippy::disallowed_methods, reason = "an archive is made of files")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::directory::Store;
use super::merge::is_sound;
use crate::files::{AttemptDir, FILE_LIMIT, JobDir, open_regular, read_regular};
use crate::job::Job;

/// The digests (SHA-256) of records that the receiver has, by the name of the job's directory.
pub type Had = BTreeMap<String, BTreeSet<String>>;

/// The line before an archive. The output of a starting shell can precede it.
const BEGINNING: &[u8] = b"orchestrate: an archive follows\n";

/// How many bytes of the output of a shell are skipped at most.
const NOISE: u64 = 1 << 20;

/// The digest of the current record of the job in `dir`; `None` if there is no readable one.
pub fn record_digest(dir: &JobDir) -> Option<String> {
    let bytes = read_regular(&dir.record(), FILE_LIMIT).ok()?;
    Some(hex::encode(Sha256::digest(bytes)))
}

impl Store {
    /// How many of `jobs` have a record that is not in `had`. Does not verify the records.
    pub fn new_results<'a>(&self, jobs: impl Iterator<Item = &'a Job>, had: &Had) -> usize {
        jobs.filter(|job| is_new(&self.job_dir(job), had)).count()
    }

    /// Writes an archive of the directories of those of `jobs` that have a sound result which is not in `had`, until
    /// their files have more than `limit` bytes. Returns the number of directories.
    ///
    /// # Errors
    /// A file cannot be read, or `out` cannot be written.
    pub fn pack<'a>(
        &self,
        jobs: impl Iterator<Item = &'a Job>,
        had: &Had,
        limit: u64,
        mut out: impl Write,
    ) -> io::Result<usize> {
        out.write_all(BEGINNING)?;
        let mut archive = tar::Builder::new(out);
        let (mut directories, mut bytes) = (0, 0);
        for dir in jobs.map(|job| self.job_dir(job)) {
            if bytes > limit {
                break;
            }
            if !is_new(&dir, had) || !is_sound(&dir) {
                continue;
            }
            for path in finished_files(&dir)? {
                let name = Path::new(&dir.name()).join(path.strip_prefix(dir.path()).unwrap_or(&path));
                let file = open_regular(&path)?;
                bytes += append(&mut archive, &name, &file, &file.metadata()?)?;
            }
            directories += 1;
        }
        archive.into_inner()?.flush()?;
        Ok(directories)
    }
}

/// Appends `file` with the length that it had in `seen`: a process that outlived its attempt may still write to it.
/// Returns its length in bytes.
fn append(
    archive: &mut tar::Builder<impl Write>,
    name: &Path,
    file: &File,
    seen: &Metadata,
) -> io::Result<u64> {
    let mut header = tar::Header::new_gnu();
    header.set_metadata(seen);
    // A file that was cut meanwhile breaks its seal, so the receiver rejects it.
    let bytes = file.take(seen.len()).chain(io::repeat(0)).take(seen.len());
    archive.append_data(&mut header, name, bytes)?;
    Ok(seen.len())
}

fn is_new(dir: &JobDir, had: &Had) -> bool {
    record_digest(dir).is_some_and(|digest| had.get(&dir.name()).is_none_or(|had| !had.contains(&digest)))
}

/// The files of a job, except those of attempts that are running or were cut off: these can change during the reading.
fn finished_files(dir: &JobDir) -> io::Result<Vec<PathBuf>> {
    let decides = dir.load_record().ok().flatten().map_or(0, |record| record.attempt);
    let is_open = |attempt: &AttemptDir| attempt.number() > decides && !attempt.record().exists();
    let open: Vec<AttemptDir> = dir.attempts()?.into_iter().filter(is_open).collect();
    let mut files = files_below(dir.path())?;
    files.retain(|path| !open.iter().any(|attempt| path.starts_with(attempt.path())));
    Ok(files)
}

/// All regular files below `directory`, except the job's lock.
fn files_below(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() && entry.path() != directory.join("lock") {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Unpacks an archive of [`Store::pack`] into `directory`.
///
/// # Errors
/// It is not an archive, is cut off, names a path outside of `directory`, or cannot be written.
pub fn unpack(archive: impl Read, directory: &Path) -> io::Result<()> {
    let mut archive = io::BufReader::new(archive);
    skip_noise(&mut archive)?;
    let mut archive = tar::Archive::new(archive);
    for entry in archive.entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_file() {
            return Err(io::Error::other("the archive contains something other than regular files"));
        }
        if !entry.unpack_in(directory)? {
            return Err(io::Error::other("the archive names a path outside of its directory"));
        }
    }
    Ok(())
}

/// Reads until the line that begins an archive.
fn skip_noise(archive: &mut impl BufRead) -> io::Result<()> {
    let mut skipped = 0;
    loop {
        let mut line = Vec::new();
        let read = archive.by_ref().take(NOISE).read_until(b'\n', &mut line)?;
        skipped += read as u64;
        if line.ends_with(BEGINNING) {
            return Ok(());
        }
        if read == 0 || skipped > NOISE {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "there is no archive"));
        }
    }
}

/// An archive of `files`, which are paths relative to `root`. [`unpack`] writes them to the same relative paths.
///
/// # Errors
/// A file cannot be read.
pub fn pack_files(root: &Path, files: &[PathBuf]) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(BEGINNING.to_vec());
    for path in files {
        let file = File::open(root.join(path))?;
        append(&mut archive, path, &file, &file.metadata()?)?;
    }
    archive.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changes_while_it_is_packed_does_not_damage_others() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let write = |name: &str, text: &str| fs::write(here.path().join(name), text).unwrap();
        for name in ["grows", "shrinks", "stays"] {
            write(name, "as it was seen");
        }
        let mut archive = tar::Builder::new(BEGINNING.to_vec());
        for name in ["grows", "shrinks", "stays"] {
            let file = open_regular(&here.path().join(name)).unwrap();
            let seen = file.metadata().unwrap();
            match name {
                "grows" => write(name, "as it was seen, and more"),
                "shrinks" => write(name, "as"),
                _ => {}
            }
            append(&mut archive, Path::new(name), &file, &seen).unwrap();
        }
        unpack(&archive.into_inner().unwrap()[..], there.path()).unwrap();
        let read = |name| fs::read_to_string(there.path().join(name)).unwrap();
        assert_eq!((read("grows").as_str(), read("stays").as_str()), ("as it was seen", "as it was seen"));
        assert_eq!(read("shrinks").trim_end_matches('\0'), "as");
    }
}
