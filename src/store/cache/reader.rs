//! Reads the cache sequentially, in the order of the directories of the store.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use twox_hash::XxHash3_128;

use super::entry::{Entry, ProvenanceEntry};
use super::parts::{PROVENANCE, ReadParts};
use super::path_of;
use super::stamps::Stamps;
use super::writer::Build;
use crate::files::open_regular;
use crate::record::Record;

/// The cache of a store while it is read. Its records are valid only if [`CacheReader::is_sound`] returns true at the
/// end.
pub(in crate::store) struct CacheReader {
    file: BufReader<File>,
    /// The most recently read piece.
    piece: Vec<u8>,
    hasher: XxHash3_128,
    parts: ReadParts,
    /// The next job that has not been requested yet.
    next: Option<Entry>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Reading,
    /// It ended with a correct checksum.
    Sound,
    Broken,
}

impl CacheReader {
    /// The cache of the store at `root`, if there is one and this program wrote it.
    pub(in crate::store) fn open(root: &Path) -> Option<CacheReader> {
        let file = BufReader::with_capacity(1 << 16, open_regular(&path_of(root)).ok()?);
        let mut reader = CacheReader {
            file,
            piece: Vec::new(),
            hasher: XxHash3_128::new(),
            parts: ReadParts::default(),
            next: None,
            state: State::Reading,
        };
        let CacheReader { file, hasher, piece, .. } = &mut reader;
        let letter = read_letter(file).filter(|letter| *letter == b'b')?;
        let build: Build = rmp_serde::from_slice(read_piece(letter, file, hasher, piece)?).ok()?;
        (Some(build) == Build::of_this_program()).then_some(reader)
    }

    /// The cached stamps and record of the job in the directory `name`. Directories must be requested in sorted order.
    pub(in crate::store) fn job(&mut self, name: &str) -> Option<(Stamps, Record)> {
        loop {
            if self.next.is_none() {
                self.read_job();
            }
            let next = self.next.as_ref()?;
            if next.name.as_str() > name {
                return None;
            }
            let entry = self.next.take()?;
            if entry.name == name {
                let stamps = entry.stamps;
                let record = entry.record(&self.parts);
                if record.is_none() {
                    self.state = State::Broken;
                }
                return Some((stamps, record?));
            }
        }
    }

    /// Reads the rest. Returns whether the checksum is correct. If not, all records read from this cache are invalid.
    pub(in crate::store) fn is_sound(&mut self) -> bool {
        while self.state == State::Reading {
            self.next = None;
            self.read_job();
        }
        self.state == State::Sound
    }

    /// Reads up to the next job, or to the end.
    fn read_job(&mut self) {
        while self.state == State::Reading && self.next.is_none() {
            self.state = self.read_one().unwrap_or(State::Broken);
        }
    }

    /// Reads one piece. `None` if it is not valid.
    fn read_one(&mut self) -> Option<State> {
        let CacheReader { file, hasher, parts, .. } = self;
        let letter = read_letter(file)?;
        if letter == SEAL {
            let mut seal = [0; 16];
            file.read_exact(&mut seal).ok()?;
            let is_intact = hasher.finish_128().to_le_bytes() == seal;
            let ends = file.fill_buf().is_ok_and(<[u8]>::is_empty);
            return Some(if is_intact && ends { State::Sound } else { State::Broken });
        }
        let bytes = read_piece(letter, file, hasher, &mut self.piece)?;
        match letter {
            b'j' => self.next = Some(rmp_serde::from_slice(bytes).ok()?),
            PROVENANCE => {
                let entry: ProvenanceEntry = rmp_serde::from_slice(bytes).ok()?;
                let provenance = entry.provenance(parts)?;
                parts.provenance.push(provenance.into());
            }
            letter => parts.add(letter, bytes)?,
        }
        Some(State::Reading)
    }
}

/// Precedes the checksum.
const SEAL: u8 = b's';

fn read_letter(file: &mut impl Read) -> Option<u8> {
    let mut letter = [0];
    file.read_exact(&mut letter).ok().map(|()| letter[0])
}

/// Reads the rest of a piece into `piece`. `None` if it is truncated.
fn read_piece<'a>(
    letter: u8,
    file: &mut impl Read,
    hasher: &mut XxHash3_128,
    piece: &'a mut Vec<u8>,
) -> Option<&'a [u8]> {
    let mut length = [0; 4];
    file.read_exact(&mut length).ok()?;
    piece.clear();
    // A damaged length must not take more memory than the size of the file.
    let wanted = u32::from_le_bytes(length);
    file.by_ref().take(wanted.into()).read_to_end(piece).ok()?;
    hasher.write(&[letter]);
    hasher.write(&length);
    hasher.write(piece);
    (piece.len() == usize::try_from(wanted).ok()?).then_some(piece)
}
