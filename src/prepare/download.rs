//! Downloads one file over HTTP: continues where an earlier try stopped, and verifies the checksum before the file is
//! used.

#![expect(clippy::disallowed_methods, reason = "an effects layer: it writes what it downloads")]

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use md5::{Digest, Md5};

use super::step::{Report, Step};

/// Why a file could not be downloaded.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// There was no valid answer.
    #[error("the server cannot be reached")]
    Request(#[source] Box<ureq::Error>),
    /// The server refused.
    #[error("the server answered {0}")]
    Status(u16),
    /// The connection broke, and the last try received no new bytes.
    #[error("the connection broke after {done} bytes")]
    Cut {
        /// Bytes downloaded so far.
        done: u64,
        /// The reason, if the system reports one.
        source: Option<std::io::Error>,
    },
    /// The file cannot be written or read.
    #[error("cannot use {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The file is complete, but not the expected one.
    #[error(
        "its MD5 sum is {found}, expected {expected}: it was damaged or is a different file, and was deleted"
    )]
    Sum {
        /// The sum of the downloaded file.
        found: String,
        /// The sum of the right file.
        expected: String,
    },
}

/// How one request ended.
enum Transfer {
    /// The server reports the end of the file.
    Complete,
    /// The connection broke.
    Cut(Option<std::io::Error>),
    /// The downloaded part is not the beginning of the server's file.
    Restart,
}

/// Downloads `url` to `part`, or only the rest if `part` exists, and checks that its MD5 sum is `md5`.
///
/// A broken connection is resumed as long as each try receives new bytes.
///
/// # Errors
/// [`DownloadError`]. `part` is kept for a later try, unless its sum is wrong.
pub fn download(url: &str, part: &Path, md5: &str, report: Report<'_>) -> Result<(), DownloadError> {
    let failed = |source| DownloadError::File { path: part.to_owned(), source };
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(Duration::from_secs(30)))
        .timeout_per_read(Some(Duration::from_secs(60)))
        .build()
        .into();
    let mut file =
        File::options().create(true).truncate(false).read(true).write(true).open(part).map_err(failed)?;
    let mut restarted = false;
    loop {
        let before = file.seek(SeekFrom::End(0)).map_err(failed)?;
        match transfer(&agent, url, &mut file, before, part, report)? {
            Transfer::Complete => break,
            Transfer::Restart if !restarted => {
                restarted = true;
                file.set_len(0).map_err(failed)?;
            }
            // The server refuses even the range that covers the whole file.
            Transfer::Restart => return Err(DownloadError::Status(416)),
            Transfer::Cut(source) => {
                let done = file.seek(SeekFrom::End(0)).map_err(failed)?;
                if done <= before {
                    return Err(DownloadError::Cut { done, source });
                }
            }
        }
    }
    file.sync_all().map_err(failed)?;
    report(Step::Check);
    let found = sum(&mut file).map_err(failed)?;
    if found != md5 {
        std::fs::remove_file(part).map_err(failed)?;
        return Err(DownloadError::Sum { found, expected: md5.to_owned() });
    }
    Ok(())
}

/// Requests the bytes after the first `have` and appends them to `file`.
fn transfer(
    agent: &ureq::Agent,
    url: &str,
    file: &mut File,
    have: u64,
    path: &Path,
    report: Report<'_>,
) -> Result<Transfer, DownloadError> {
    let failed = |source| DownloadError::File { path: path.to_owned(), source };
    let mut request = agent.get(url);
    if have > 0 {
        request = request.header("Range", format!("bytes={have}-"));
    }
    let mut response = request.call().map_err(|error| DownloadError::Request(Box::new(error)))?;
    let range = response.headers().get("content-range").and_then(|value| value.to_str().ok());
    let range = range.and_then(ContentRange::parse);
    let mut done = match (response.status().as_u16(), range) {
        (200, _) => {
            // The server sends the whole file regardless of the range, so we start over.
            file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0))).map_err(failed)?;
            0
        }
        (206, Some(ContentRange { start: Some(start), .. })) if start == have => have,
        // The range starts at the end: complete if the file is no longer than what we have.
        (416, Some(ContentRange { total: Some(total), .. })) if total == have => {
            return Ok(Transfer::Complete);
        }
        (206 | 416, _) => return Ok(Transfer::Restart),
        (status, _) => return Err(DownloadError::Status(status)),
    };
    let total = match range {
        Some(range) => range.total,
        None => response.body().content_length(),
    };
    let mut reader = response.body_mut().as_reader();
    let mut buffer = vec![0; 128 * 1024];
    loop {
        report(Step::Download { done, of: total });
        match reader.read(&mut buffer) {
            Ok(0) if total.is_none_or(|total| done >= total) => return Ok(Transfer::Complete),
            Ok(0) => return Ok(Transfer::Cut(None)),
            Ok(length) => {
                file.write_all(&buffer[..length]).map_err(failed)?;
                done += length as u64;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Ok(Transfer::Cut(Some(error))),
        }
    }
}

/// The header `Content-Range: bytes 100-199/200`. Either side of `/` can be `*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ContentRange {
    start: Option<u64>,
    total: Option<u64>,
}

impl ContentRange {
    fn parse(text: &str) -> Option<ContentRange> {
        let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
        let start = range.split_once('-').and_then(|(start, _)| start.parse().ok());
        Some(ContentRange { start, total: total.parse().ok() })
    }
}

/// The MD5 sum of all of `file`, in hexadecimal.
fn sum(file: &mut File) -> std::io::Result<String> {
    file.seek(SeekFrom::Start(0))?;
    let mut hash = Md5::new();
    let mut buffer = vec![0; 1024 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex::encode(hash.finalize())),
            length => hash.update(&buffer[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_range_has_a_start_and_a_total() {
        let range = |start, total| Some(ContentRange { start, total });
        assert_eq!(ContentRange::parse("bytes 100-199/200"), range(Some(100), Some(200)));
        assert_eq!(ContentRange::parse("bytes 100-199/*"), range(Some(100), None));
        assert_eq!(ContentRange::parse("bytes */200"), range(None, Some(200)));
        assert_eq!(ContentRange::parse("items 1-2/3"), None);
    }
}
