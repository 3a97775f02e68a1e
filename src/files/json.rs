//! The JSON of our own files: its format, its version, and its seal.
//!
//! A sealed file ends in a member `seal`: the SHA-256 of every byte before it. A reader can verify that the file is
//! unchanged, down to the last space. The seal is not a signature: a file that was edited on purpose can be sealed
//! again. It detects damage by disks, editors, scripts and incomplete copies.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::fault::Fault;

/// The bytes between the last member of a sealed file and the digits of its seal.
const BEFORE_SEAL: &[u8] = b",\n  \"seal\": \"sha256:";

/// The bytes after the digits of the seal, until the end of the file.
const AFTER_SEAL: &[u8] = b"\"\n}\n";

/// The number of hex digits in a SHA-256.
const DIGITS: usize = 64;

/// A file of ours with a version, as JSON.
pub trait Versioned: DeserializeOwned {
    /// The file's name in messages, such as `record.json`.
    const FILE: &'static str;
    /// The version that we write. Older ones are read too.
    const SCHEMA: u32;
    /// The first version that is sealed.
    const SEALED_SINCE: u32;

    /// The version in the file.
    fn schema(&self) -> u32;
}

/// The content of a file differs from what we wrote.
#[derive(Debug, thiserror::Error)]
pub enum FormError {
    /// It is not JSON, or has an unknown form.
    #[error("{file} is torn or has an unknown form")]
    Torn {
        /// The file's name in messages.
        file: &'static str,
        /// The reason.
        #[source]
        source: serde_json::Error,
    },
    /// Its seal does not match, or is missing.
    #[error("{0} was changed after it was written: its seal does not match")]
    Changed(&'static str),
    /// It has an unknown version.
    #[error("{file} has schema {found}: expected {}", versions_text(*known))]
    UnknownSchema {
        /// The file's name in messages.
        file: &'static str,
        /// The version in the file.
        found: u32,
        /// The latest known version.
        known: u32,
    },
}

impl FormError {
    /// Whether a newer `orchestrate` wrote the file. This version cannot read it and must not replace it.
    pub fn is_newer(&self) -> bool {
        matches!(self, FormError::UnknownSchema { found, known, .. } if found > known)
    }
}

/// The versions up to `known`, such as `1 to 2`.
fn versions_text(known: u32) -> String {
    if known == 1 { "1".to_owned() } else { format!("1 to {known}") }
}

/// `value` as the JSON of one of our files that has no version.
pub fn to_json(value: &impl Serialize) -> Vec<u8> {
    let mut json =
        serde_json::to_vec_pretty(value).expect("our files have string keys and no failing serializer");
    json.push(b'\n');
    json
}

/// `value`, which must have fields, as the JSON of one of our files, sealed.
pub fn to_sealed_json(value: &impl Serialize) -> Vec<u8> {
    let mut json = to_json(value);
    let end = json.strip_suffix(b"\n}\n").expect("a struct with fields").len();
    json.truncate(end);
    let seal = hex::encode(Sha256::digest(&json));
    for part in [BEFORE_SEAL, seal.as_bytes(), AFTER_SEAL] {
        json.extend_from_slice(part);
    }
    json
}

/// Reads `bytes`, the content of a file written by [`to_sealed_json`] or by an older version without a seal.
///
/// # Errors
/// [`FormError`]. A file whose seal does not match is never reported as a newer one.
pub fn from_sealed_json<T: Versioned>(bytes: &[u8]) -> Result<T, FormError> {
    let seal = Seal::of(bytes);
    if seal == Seal::Broken && !Fault::NoSealCheck.is_on() {
        return Err(FormError::Changed(T::FILE));
    }
    let parsed = serde_json::from_slice::<T>(bytes);
    let schema = match &parsed {
        Ok(value) => Some(value.schema()),
        // A newer version might not parse. Then reporting its schema is more helpful.
        Err(_) => schema_of(bytes),
    };
    match schema {
        Some(found) if !(1..=T::SCHEMA).contains(&found) => {
            Err(FormError::UnknownSchema { file: T::FILE, found, known: T::SCHEMA })
        }
        Some(found) if found >= T::SEALED_SINCE && seal == Seal::Absent => Err(FormError::Changed(T::FILE)),
        _ => parsed.map_err(|source| FormError::Torn { file: T::FILE, source }),
    }
}

/// The `schema` in the JSON object `bytes`.
fn schema_of(bytes: &[u8]) -> Option<u32> {
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    serde_json::from_slice::<Version>(bytes).ok().map(|version| version.schema)
}

/// The state of a file's seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seal {
    Holds,
    Broken,
    Absent,
}

impl Seal {
    fn of(bytes: &[u8]) -> Seal {
        let Some(rest) = bytes.strip_suffix(AFTER_SEAL) else { return Seal::Absent };
        let Some((rest, digits)) = rest.len().checked_sub(DIGITS).map(|at| rest.split_at(at)) else {
            return Seal::Absent;
        };
        let Some(body) = rest.strip_suffix(BEFORE_SEAL) else { return Seal::Absent };
        // Upper-case digits would be the same number, but are never written.
        let is_it = hex::encode(Sha256::digest(body)).as_bytes() == digits;
        if is_it { Seal::Holds } else { Seal::Broken }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Note {
        schema: u32,
        text: String,
    }

    impl Versioned for Note {
        const FILE: &'static str = "note.json";
        const SCHEMA: u32 = 2;
        const SEALED_SINCE: u32 = 2;

        fn schema(&self) -> u32 {
            self.schema
        }
    }

    fn note(schema: u32) -> Note {
        Note { schema, text: "a \u{1f980} in a \"note\"".to_owned() }
    }

    fn error(bytes: &[u8]) -> FormError {
        from_sealed_json::<Note>(bytes).unwrap_err()
    }

    #[test]
    fn a_sealed_file_is_read_and_keeps_its_format() {
        let json = to_sealed_json(&Note { schema: 2, text: "x".into() });
        // Computed with sha256sum over the first three lines without the last line break.
        let seal = "83fa95d3cbdfb27893a69c4745a6538cb8f60fccc5644624d817a57fb6b89358";
        let expected =
            format!("{{\n  \"schema\": 2,\n  \"text\": \"x\",\n  \"seal\": \"sha256:{seal}\"\n}}\n");
        assert_eq!(String::from_utf8(json.clone()).unwrap(), expected);
        assert_eq!(from_sealed_json::<Note>(&json).unwrap(), Note { schema: 2, text: "x".into() });
    }

    #[test]
    fn every_changed_cut_or_added_bit_is_detected() {
        let json = to_sealed_json(&note(2));
        for index in 0..json.len() {
            for bit in 0..8 {
                let mut changed = json.clone();
                changed[index] ^= 1 << bit;
                let error = error(&changed);
                assert!(!error.is_newer(), "byte {index}, bit {bit}: {error}");
            }
            error(&json[..index]);
            error(&json[index + 1..]);
            error(&[&json[..index], &json[index + 1..]].concat());
            error(&[&json[..index], b" ", &json[index..]].concat());
        }
        error(&[&json[..], b"\n"].concat());
    }

    #[test]
    fn errors_name_the_file() {
        let json = String::from_utf8(to_sealed_json(&note(2))).unwrap();
        let changed = "note.json was changed after it was written: its seal does not match";
        assert_eq!(error(json.replace("note\\\"", "joke\\\"").as_bytes()).to_string(), changed);
        assert_eq!(error(json.replace("seal", "sale").as_bytes()).to_string(), changed);
        assert_eq!(error(&json.as_bytes()[..9]).to_string(), "note.json is torn or has an unknown form");
        assert_eq!(error(b"{\"schema\": 7}").to_string(), "note.json has schema 7: expected 1 to 2");
        assert_eq!(error(b"{\"schema\": 0}").to_string(), "note.json has schema 0: expected 1 to 2");
    }

    #[test]
    fn older_files_have_no_seal_and_newer_ones_are_recognised() {
        assert_eq!(from_sealed_json::<Note>(&to_json(&note(1))).unwrap(), note(1));
        for newer in [to_sealed_json(&note(3)), to_json(&note(3))] {
            assert!(error(&newer).is_newer());
        }
        // The version of a file is under its seal.
        let json = String::from_utf8(to_sealed_json(&note(2))).unwrap();
        for schema in ["1", "3"] {
            let error = error(json.replace("\"schema\": 2", &format!("\"schema\": {schema}")).as_bytes());
            assert!(matches!(error, FormError::Changed(_)), "{error}");
        }
        assert!(matches!(error(&to_json(&note(2))), FormError::Changed(_)), "a seal that was cut off");
    }
}
