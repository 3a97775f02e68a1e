//! Files: atomic writes, reads of regular files only, and the paths of jobs and attempts. Every room with effects may
//! call it; it only knows jobs, because directories are named after them. It never judges the content of a file, except
//! whether it is unchanged, and starts no process. It takes no lock, except on a temporary file to test whether locks
//! work.

mod atomic;
mod bounded;
mod dirs;
mod fault;
mod json;
mod regular;
mod trial;

pub use atomic::{
    WriteError, hidden_name, process_word, sync_directory, write_atomic, write_atomic_by, write_one_of_many,
    write_plain, write_whole,
};
pub use bounded::keep_within;
pub use dirs::{AttemptDir, JobDir};
pub use fault::Fault;
pub use json::{FormError, Versioned, from_sealed_json, to_json, to_sealed_json};
pub use regular::{
    Below, FILE_LIMIT, open_below, open_regular, overwrite, read_regular, read_regular_text, tail,
};
pub use trial::probe_locks;
