//! The cache of the inventory: `runs/.cache/inventory`.
//!
//! Reading ten thousand records and checking their seals takes most of a second. The cache contains the records of
//! done jobs, each with the [`Stamps`] of its directory and files when it was read. If the stamps are unchanged, the
//! record is unchanged and is not read again.
//!
//! The cache can be deleted at any time, no process waits for it, and a reading with it equals one without. For this
//! purpose
//! - stamps are taken before a directory is read;
//! - recently changed files are not cached, since a file that changes twice within one tick of its file system's clock
//!   looks as if it changed once;
//! - only done jobs without problems and without newer attempts are cached;
//! - the file ends in a checksum of everything before it: if one byte differs, the whole file is ignored. This protects
//!   against accidents, not against forgery;
//! - a cache is read only by the build that wrote it, because another build might read the same records differently.
//!
//! The file consists of pieces: a letter for the kind, the length as four bytes, and MessagePack.
//!
//! ```text
//! b   the program that wrote it
//! h   a host, numbered from 0. w, m, g, c, e, v, f, d, k and n are other shared parts, numbered in the same way
//! p   a provenance, made of other parts, also numbered
//! j   a job: the name of its directory, its stamps, and its record, with the numbers of its parts
//! s   at the end: the 128 bits of XXH3 of all bytes above, without a length
//! ```
//!
//! Jobs are sorted by the names of their directories.

mod ahead;
mod entry;
mod parts;
mod reader;
mod stamps;
#[cfg(test)]
mod tests;
mod writer;

use std::path::{Path, PathBuf};

pub(super) use ahead::stamps_ahead;
pub(super) use reader::CacheReader;
pub(super) use stamps::Stamps;
pub(super) use writer::{Kept, TICK, is_worth_writing, write_cache};

/// The cache of the store at `root`.
fn path_of(root: &Path) -> PathBuf {
    root.join(".cache").join("inventory")
}
