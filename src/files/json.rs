//! The JSON of our own files: its format and version.

use serde::{Deserialize, Serialize};

/// `value` as the JSON of one of our files.
pub fn to_json(value: &impl Serialize) -> Vec<u8> {
    let mut json =
        serde_json::to_vec_pretty(value).expect("our files have string keys and no failing serializer");
    json.push(b'\n');
    json
}

/// A newer version might not parse. Then its schema is the better thing to report.
pub fn check_schema<E>(
    text: &str,
    known: u32,
    syntax: impl FnOnce(serde_json::Error) -> E,
    unknown: impl FnOnce(u32) -> E,
) -> Result<(), E> {
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    match serde_json::from_str::<Version>(text) {
        Ok(Version { schema }) if schema != known => Err(unknown(schema)),
        Ok(_) => Ok(()),
        Err(error) => Err(syntax(error)),
    }
}
