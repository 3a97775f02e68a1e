//! Keeps a file within a limit while a worker continues to write to it: [`keep_within`].
//!
//! The worker writes at the end of the file, wherever that is, so the file can be cut at any time. A file over its
//! limit loses its middle: its first half is kept, then a line with the number of bytes cut, then the last bytes.
//!
//! Other ways to bound a worker's output do not work. A pipe would break when `orchestrate` dies, which would kill an
//! adopted worker. The system's limit on file sizes would also end a worker that saves a checkpoint. So output that
//! exceeds the limit stays on the disk until the next check.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::regular::{FLAGS, check};

/// The maximum number of bytes kept after a cut, so that the last messages of a worker remain.
const MOST_BEHIND: u64 = 1 << 20;

/// The text at a cut, around the number of bytes.
const MARK: [&str; 2] = ["\n[orchestrate cut ", " bytes here: more than `output` in `limits` allows]\n"];

/// Cuts the regular file at `path` if it is longer than `limit` bytes. Returns how many bytes have been cut out of it,
/// by this call and by earlier ones with the same limit. Bytes written at the same moment can be lost without being
/// counted.
///
/// # Errors
/// It does not exist, is not a regular file, or cannot be read or written.
pub fn keep_within(path: &Path, limit: u64) -> io::Result<u64> {
    let head = limit / 2;
    // The usual case, without opening the file.
    if fs::metadata(path)?.len() <= head {
        return Ok(0);
    }
    let file = check(OpenOptions::new().read(true).write(true).custom_flags(FLAGS).open(path)?)?;
    let size = file.metadata()?.len();
    let (before, mark) = read_mark(&file, head);
    if size <= limit {
        return Ok(before);
    }
    let behind = (size - head - mark).min(limit / 4).min(MOST_BEHIND);
    let mut end = vec![0; behind as usize];
    file.read_exact_at(&mut end, size - behind)?;
    // The mark overwrites a part of the removed bytes before the file is cut. So bytes that the worker writes meanwhile
    // cannot precede it.
    let cut_of = |size: u64| before + (size - head - mark - behind);
    let mut cut = cut_of(size).to_string();
    let text = [MARK[0].as_bytes(), cut.as_bytes(), MARK[1].as_bytes(), &end].concat();
    file.write_all_at(&text, head)?;
    let grown = cut_of(file.metadata()?.len().max(size)).to_string();
    if grown.len() == cut.len() {
        file.write_all_at(grown.as_bytes(), head + MARK[0].len() as u64)?;
        cut = grown;
    }
    file.set_len(head + text.len() as u64)?;
    Ok(cut.parse().expect("it was just printed"))
}

/// The number in the mark of an earlier cut at `head`, and the mark's length; zeros if there is none.
fn read_mark(file: &fs::File, head: u64) -> (u64, u64) {
    let mut bytes = [0; 128];
    let length = file.read_at(&mut bytes, head).unwrap_or(0);
    let text = String::from_utf8_lossy(&bytes[..length]);
    let number =
        text.strip_prefix(MARK[0]).and_then(|rest| rest.split_once(MARK[1])).map(|(number, _)| number);
    match number.and_then(|number| Some((number.parse().ok()?, number.len()))) {
        Some((cut, digits)) => (cut, (MARK[0].len() + digits + MARK[1].len()) as u64),
        None => (0, 0),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write the files they read")]
mod tests {
    use std::io::Write;

    use super::*;

    /// A file opened for appending, like the outputs of workers.
    fn writer(path: &Path) -> fs::File {
        OpenOptions::new().create(true).append(true).open(path).unwrap()
    }

    #[test]
    fn a_file_over_its_limit_loses_its_middle_and_has_the_number_of_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut worker = writer(&path);
        worker.write_all("a".repeat(1000).as_bytes()).unwrap();
        assert_eq!(keep_within(&path, 1000).unwrap(), 0);
        assert_eq!(fs::read_to_string(&path).unwrap().len(), 1000);
        worker.write_all("b".repeat(4000).as_bytes()).unwrap();
        let expected = |cut: u64, end: &str| format!("{}{}{cut}{}{end}", "a".repeat(500), MARK[0], MARK[1]);
        assert_eq!(keep_within(&path, 1000).unwrap(), 4250);
        assert_eq!(fs::read_to_string(&path).unwrap(), expected(4250, &"b".repeat(250)));
        assert_eq!(keep_within(&path, 1000).unwrap(), 4250, "once it is short enough, nothing more is cut");
        // The worker continues at the new end.
        worker.write_all("c".repeat(2000).as_bytes()).unwrap();
        assert_eq!(keep_within(&path, 1000).unwrap(), 4250 + 250 + 1750);
        assert_eq!(fs::read_to_string(&path).unwrap(), expected(6250, &"c".repeat(250)));
    }

    #[test]
    fn cut_and_kept_bytes_add_up_to_all() {
        for (limit, pieces) in [(10, vec![11]), (400, vec![401, 1, 399, 10_000]), (4096, vec![5000; 7])] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("log");
            let mut worker = writer(&path);
            let (mut written, mut cut) = (0, 0);
            for piece in pieces {
                worker.write_all(&vec![b'x'; piece as usize]).unwrap();
                written += piece;
                cut = keep_within(&path, limit).unwrap();
            }
            let kept = fs::read_to_string(&path).unwrap().matches('x').count() as u64;
            assert_eq!(kept + cut, written, "limit {limit}");
        }
    }

    #[test]
    fn text_that_resembles_a_mark_is_text() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        fs::write(&path, format!("aa{}no number{}", MARK[0], MARK[1])).unwrap();
        let length = fs::metadata(&path).unwrap().len();
        assert_eq!(keep_within(&path, 4).unwrap(), length - 2 - 1, "two bytes stay in front and one behind");
        assert!(keep_within(&directory.path().join("missing"), 4).is_err());
        assert!(keep_within(directory.path(), 0).is_err(), "a directory");
    }
}
