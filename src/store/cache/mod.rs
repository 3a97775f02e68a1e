//! What was read from the store, kept for the next reading: `runs/.cache/inventory`.
//!
//! Ten thousand records take most of a second to read and to check against their seals. The cache holds those of done
//! jobs as they were read, each with the [`Stamps`] of its directory and files at that time. If these are the same now,
//! the record is the same, and nothing of it has to be read.
//!
//! It is a cache: it can be deleted at any time, nobody waits for it, and a reading with it equals one without. To this
//! end
//! - stamps are taken before a directory is read;
//! - what changed shortly before is not kept, since a file that changes twice within one tick of its file system's
//!   clock looks as if it changed once;
//! - only what is done, without a problem or anything beside its record, is kept;
//! - the file ends in a checksum of everything before it: if one byte differs, all of it is ignored. This is against
//!   accidents; whoever wants to lie could write another checksum as well;
//! - only the very program that wrote it reads it, because another one might read the same records differently.
//!
//! The file consists of pieces: a letter for what it is, its length as four bytes, and MessagePack.
//!
//! ```text
//! b   the program that wrote it
//! h   a host, numbered from 0; so are w, m, g, c, e, v, f, d, k and n, other parts that records have in common
//! p   a provenance, made of other parts, numbered like them
//! j   a job: the name of its directory, its stamps, and its record, with the numbers of its parts
//! s   at the end: the 128 bits of XXH3 of all bytes above, without a length
//! ```
//!
//! Jobs stand in the order of their directories' names.

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
