//! Pieces of the logs of a job.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::clean::{lines_of_log, printable, whole_letters};
use crate::files::{AttemptDir, Below, open_below};
use crate::job::Kind;

/// The most bytes of a log that are read at a time, from its end.
pub(super) const TAIL: u64 = 64 << 10;

/// A piece of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The byte at which it begins. It differs from the requested one if too much was skipped.
    pub(super) from: u64,
    /// The byte after its last one, at which the next piece begins.
    pub(super) end: u64,
    /// The size of the whole log, in bytes.
    pub(super) size: u64,
    /// Its text, without escape sequences and control characters.
    pub(super) text: String,
}

/// The logs of the attempt in `dir`, by name, whether they exist or not.
pub(super) fn logs_of(dir: &AttemptDir) -> Vec<(String, PathBuf)> {
    let profiles = [Kind::Ncu, Kind::Perf].into_iter().filter_map(|kind| dir.profile(kind));
    let own = [dir.stderr(), dir.stdout(), dir.time(), dir.measurement()];
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    own.into_iter().chain(profiles).map(|path| (name(&path), path)).collect()
}

/// The sizes of the logs in `dir` that exist, in bytes. `root` is the store.
pub(super) fn sizes(root: &Path, dir: &AttemptDir) -> BTreeMap<String, u64> {
    let Ok(at) = Below::open(root, dir.path()) else { return BTreeMap::new() };
    let sized = |(name, _): (String, PathBuf)| at.size(name.as_ref()).map(|size| (name, size));
    logs_of(dir).into_iter().filter_map(sized).collect()
}

/// The piece of the log at `path` in the store at `root` that begins at the byte `from`, or its end if `from` is
/// `None`. If more than [`TAIL`] follows `from`, or the log is shorter than that, it is the end, too.
///
/// # Errors
/// It does not exist, cannot be read, or is reached through a symbolic link.
pub(super) fn read_piece(root: &Path, path: &Path, from: Option<u64>) -> io::Result<Piece> {
    let mut file = open_below(root, path)?;
    let size = file.metadata()?.len();
    let asked = from.filter(|from| *from <= size && size - from <= TAIL);
    let begin = asked.unwrap_or(size.saturating_sub(TAIL));
    let mut bytes = read_at(&mut file, begin)?;
    let cut = if asked.is_none() && begin > 0 { cut_line(&bytes) } else { 0 };
    bytes.drain(..cut);
    bytes.truncate(whole_letters(&bytes));
    let from = begin + cut as u64;
    let text = printable(&lines_of_log(&bytes)).into_owned();
    Ok(Piece { from, end: from + bytes.len() as u64, size, text })
}

fn read_at(file: &mut File, begin: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(begin))?;
    file.take(TAIL).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The number of bytes at the beginning of `bytes` that belong to a line, or at least to a letter, that began before.
fn cut_line(bytes: &[u8]) -> usize {
    let line = bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
    line.unwrap_or_else(|| bytes.iter().take_while(|byte| **byte & 0xc0 == 0x80).count())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make the files they look at")]
mod tests {
    use std::fs;

    use super::*;
    use crate::files::JobDir;

    fn attempt(root: &Path) -> AttemptDir {
        let dir = JobDir::at(root.join("job-0123456789ab")).attempt(1);
        fs::create_dir_all(dir.path()).unwrap();
        dir
    }

    #[test]
    fn reads_a_log_from_the_end_of_the_last_piece() {
        let root = tempfile::tempdir().unwrap();
        let dir = attempt(root.path());
        let read = |from| read_piece(root.path(), &dir.stdout(), from).unwrap();
        fs::write(dir.stdout(), "one\n\u{1b}[31mtwo\u{1b}[0m é".as_bytes().split_last().unwrap().1).unwrap();
        let first = read(None);
        assert_eq!((first.from, &*first.text), (0, "one\ntwo "), "a letter that is being written is left");
        fs::write(dir.stdout(), "one\n\u{1b}[31mtwo\u{1b}[0m é\nthree").unwrap();
        let second = read(Some(first.end));
        assert_eq!((second.from, &*second.text), (first.end, "é\nthree"));
        assert_eq!((second.end, second.size), (second.size, second.size));
        assert_eq!(read(Some(second.end)).text, "");
        fs::write(dir.stdout(), "anew").unwrap();
        let anew = read(Some(second.end));
        assert_eq!((anew.from, &*anew.text), (0, "anew"));
    }

    #[test]
    fn only_the_end_of_a_large_log_is_read() {
        let root = tempfile::tempdir().unwrap();
        let dir = attempt(root.path());
        let lines: String = (0..20_000).map(|number| format!("line {number}\n")).collect();
        fs::write(dir.stderr(), &lines).unwrap();
        for from in [None, Some(0)] {
            let Piece { from, end, size, text } = read_piece(root.path(), &dir.stderr(), from).unwrap();
            assert_eq!((end, size), (lines.len() as u64, lines.len() as u64));
            assert!(text.starts_with("line ") && text.ends_with("line 19999\n"));
            assert_eq!(from, size - text.len() as u64);
            assert!(text.len() as u64 > TAIL - 20 && text.len() as u64 <= TAIL);
        }
        fs::write(dir.stderr(), "é".repeat(100_000)).unwrap();
        let piece = read_piece(root.path(), &dir.stderr(), None).unwrap();
        assert!(piece.text.chars().all(|letter| letter == 'é'), "a letter is cut");
    }

    #[test]
    fn rejects_links_and_directories() {
        let root = tempfile::tempdir().unwrap();
        let dir = attempt(root.path());
        fs::write(root.path().join("secret"), "secret").unwrap();
        std::os::unix::fs::symlink(root.path().join("secret"), dir.stdout()).unwrap();
        fs::write(dir.stderr(), "text").unwrap();
        fs::create_dir(dir.time()).unwrap();
        assert!(read_piece(root.path(), &dir.stdout(), None).is_err());
        assert_eq!(sizes(root.path(), &dir), BTreeMap::from([("stderr.log".to_owned(), 4)]));
    }
}
