//! The parts that many records share. Each is written once, before the first record with it, and records refer to it by
//! its number.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::job::Key;
use crate::protocol::{Details, Effective};
use crate::record::{CloudFacts, GitFacts, HostFacts, MatrixFacts, Provenance, WorkerFacts};
use crate::shared::Shared;

// The letters of the kinds.
const HOST: u8 = b'h';
const WORKER: u8 = b'w';
const MATRIX: u8 = b'm';
const GIT: u8 = b'g';
const CLOUD: u8 = b'c';
const ENVIRONMENT: u8 = b'e';
const VARIABLES: u8 = b'v';
const EFFECTIVE: u8 = b'f';
const DETAILS: u8 = b'd';
const CONFIG: u8 = b'k';
const FILES: u8 = b'n';
/// Made of other parts, so [`super::reader`] adds it instead of [`ReadParts::add`].
pub(super) const PROVENANCE: u8 = b'p';

/// A key of repeat 1.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Config(pub(super) Key);

/// Keys are equal if their ids are. Here, a key that writes the default of a parameter differs from one that omits it.
impl PartialEq for Config {
    fn eq(&self, other: &Self) -> bool {
        self.0.params == other.0.params && self.0 == other.0
    }
}

/// The parts that were written to a cache.
#[derive(Debug)]
pub(super) struct WrittenParts {
    pub(super) host: Written<Shared<HostFacts>>,
    pub(super) worker: Written<Shared<WorkerFacts>>,
    pub(super) matrix: Written<Shared<MatrixFacts>>,
    pub(super) git: Written<Shared<GitFacts>>,
    pub(super) cloud: Written<Shared<CloudFacts>>,
    pub(super) environment: Written<Shared<BTreeMap<String, String>>>,
    pub(super) variables: Written<Shared<BTreeSet<String>>>,
    pub(super) effective: Written<Shared<Effective>>,
    pub(super) details: Written<Shared<Details>>,
    pub(super) config: Written<Config>,
    /// Names of files, sorted.
    pub(super) files: Written<Shared<Vec<String>>>,
    pub(super) provenance: Written<Shared<Provenance>>,
}

impl Default for WrittenParts {
    fn default() -> Self {
        WrittenParts {
            host: Written::of(HOST),
            worker: Written::of(WORKER),
            matrix: Written::of(MATRIX),
            git: Written::of(GIT),
            cloud: Written::of(CLOUD),
            environment: Written::of(ENVIRONMENT),
            variables: Written::of(VARIABLES),
            effective: Written::of(EFFECTIVE),
            details: Written::of(DETAILS),
            config: Written::of(CONFIG),
            files: Written::of(FILES),
            provenance: Written::of(PROVENANCE),
        }
    }
}

/// The parts that were read from a cache.
#[derive(Debug, Default)]
pub(super) struct ReadParts {
    pub(super) host: Read<Shared<HostFacts>>,
    pub(super) worker: Read<Shared<WorkerFacts>>,
    pub(super) matrix: Read<Shared<MatrixFacts>>,
    pub(super) git: Read<Shared<GitFacts>>,
    pub(super) cloud: Read<Shared<CloudFacts>>,
    pub(super) environment: Read<Shared<BTreeMap<String, String>>>,
    pub(super) variables: Read<Shared<BTreeSet<String>>>,
    pub(super) effective: Read<Shared<Effective>>,
    pub(super) details: Read<Shared<Details>>,
    pub(super) config: Read<Config>,
    pub(super) files: Read<Shared<Vec<String>>>,
    pub(super) provenance: Read<Shared<Provenance>>,
}

impl ReadParts {
    /// Adds the part in `bytes`, of the kind with this letter. `None` if there is no such kind, or the part is torn.
    pub(super) fn add(&mut self, letter: u8, bytes: &[u8]) -> Option<()> {
        match letter {
            HOST => self.host.add(bytes),
            WORKER => self.worker.add(bytes),
            MATRIX => self.matrix.add(bytes),
            GIT => self.git.add(bytes),
            CLOUD => self.cloud.add(bytes),
            ENVIRONMENT => self.environment.add(bytes),
            VARIABLES => self.variables.add(bytes),
            EFFECTIVE => self.effective.add(bytes),
            DETAILS => self.details.add(bytes),
            CONFIG => self.config.add(bytes),
            FILES => self.files.add(bytes),
            _ => None,
        }
    }
}

/// The parts of one kind, in the writer.
#[derive(Debug)]
pub(super) struct Written<T> {
    letter: u8,
    count: u32,
    /// The latest parts with their numbers. An older part that occurs again is written again.
    recent: Vec<(T, u32)>,
}

/// How many parts of a kind are remembered. Records with a part in common are neighbours.
const REMEMBERED: usize = 8;

impl<T: Clone + PartialEq + Serialize> Written<T> {
    /// The number of `part`, which is written to `out` first if it is new.
    pub(super) fn number(&mut self, part: &T, out: &mut impl Write) -> io::Result<u32> {
        match self.known(part) {
            Some(number) => Ok(number),
            None => self.add(part, part, out),
        }
    }
}

impl<T: Clone + PartialEq> Written<T> {
    fn of(letter: u8) -> Self {
        Written { letter, count: 0, recent: Vec::new() }
    }

    /// The number of `part` if it is one of the last [`REMEMBERED`].
    pub(super) fn known(&self, part: &T) -> Option<u32> {
        self.recent.iter().find(|(recent, _)| recent == part).map(|(_, number)| *number)
    }

    /// Writes `part` in the form of `written`, and returns its number.
    pub(super) fn add(
        &mut self,
        part: &T,
        written: &impl Serialize,
        out: &mut impl Write,
    ) -> io::Result<u32> {
        write_piece(self.letter, written, out)?;
        let number = self.count;
        self.count += 1;
        self.recent.truncate(REMEMBERED - 1);
        self.recent.insert(0, (part.clone(), number));
        Ok(number)
    }
}

/// The parts of one kind, in the reader. The index is the number.
#[derive(Debug)]
pub(super) struct Read<T>(Vec<T>);

impl<T> Default for Read<T> {
    fn default() -> Self {
        Read(Vec::new())
    }
}

impl<T: DeserializeOwned> Read<T> {
    fn add(&mut self, bytes: &[u8]) -> Option<()> {
        self.push(rmp_serde::from_slice(bytes).ok()?);
        Some(())
    }
}

impl<T> Read<T> {
    pub(super) fn push(&mut self, part: T) {
        self.0.push(part);
    }
}

impl<T: Clone> Read<T> {
    pub(super) fn get(&self, number: u32) -> Option<T> {
        self.0.get(usize::try_from(number).ok()?).cloned()
    }
}

/// Writes `value` as a piece with this letter.
pub(super) fn write_piece(letter: u8, value: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    out.write_all(&to_piece(letter, value)?)
}

/// `value` as a piece: the letter, the length of the value as four little-endian bytes, and the value as MessagePack.
pub(super) fn to_piece(letter: u8, value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut piece = vec![letter, 0, 0, 0, 0];
    rmp_serde::encode::write_named(&mut piece, value).map_err(io::Error::other)?;
    let length = u32::try_from(piece.len() - HEAD).map_err(io::Error::other)?;
    piece[1..HEAD].copy_from_slice(&length.to_le_bytes());
    Ok(piece)
}

/// Length of the letter and the length field of a piece, in bytes.
const HEAD: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::PARAMETERS;

    #[test]
    fn configs_with_and_without_a_written_default_differ() {
        let (name, default) = PARAMETERS
            .iter()
            .find_map(|parameter| Some((parameter.name(), parameter.default_value()?)))
            .expect("some parameter has a default");
        let plain = Key::example();
        let mut written = plain.clone();
        written.params.insert(name.into(), default);
        assert_eq!(plain, written, "the ids are the same");
        let (mut parts, mut out) = (WrittenParts::default(), Vec::new());
        let numbers = [&plain, &written, &plain]
            .map(|key| parts.config.number(&Config(key.clone()), &mut out).unwrap());
        assert_eq!(numbers, [0, 1, 0]);
    }
}
