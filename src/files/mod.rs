//! Files as such: written whole or not at all, read only if they are regular, and where those of a job and an attempt stand.
//! Every room with effects may call it; it knows jobs, for directories are named after them, and nothing else of the house.
//! It never judges what is in a file, never takes a lock, and starts nothing.

mod atomic;
mod dirs;
mod json;
mod regular;

pub use atomic::{WriteError, write_atomic, write_plain};
pub use dirs::{AttemptDir, JobDir};
pub use json::{check_schema, to_json};
pub use regular::{FILE_LIMIT, open_regular, overwrite, read_regular, read_regular_text, tail};
