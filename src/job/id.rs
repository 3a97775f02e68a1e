use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// The SHA-256 of a key's canonical JSON: 32 bytes, written as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId([u8; 32]);

impl JobId {
    /// The id of a key whose canonical JSON is `preimage`.
    pub(super) fn of(preimage: &str) -> Self {
        JobId::from_hash(Sha256::new_with_prefix(preimage))
    }

    /// The id of a key whose canonical JSON has been hashed.
    pub(super) fn from_hash(hash: Sha256) -> Self {
        JobId(hash.finalize().into())
    }

    /// The first 12 hex digits, for directory names and command lines.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobId({self})")
    }
}

/// A text that is not 64 hex digits.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a job id: expected 64 hex digits")]
pub struct ParseJobIdError(String);

impl FromStr for JobId {
    type Err = ParseJobIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| ParseJobIdError(text.to_owned()))?;
        Ok(JobId(bytes))
    }
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_exactly_64_hex_digits() {
        let text = "0123456789abcdef".repeat(4);
        assert_eq!(text.parse::<JobId>().unwrap().to_string(), text);
        assert_eq!(format!("{:?}", text.parse::<JobId>().unwrap()), format!("JobId({text})"));
        assert_eq!(text.to_uppercase().parse::<JobId>().unwrap().to_string(), text);
        for wrong in [&text[1..], &text.replacen("01", "+1", 1), &text.replacen("01", "é", 1), ""] {
            assert_eq!(wrong.parse::<JobId>(), Err(ParseJobIdError(wrong.to_owned())));
        }
    }
}
