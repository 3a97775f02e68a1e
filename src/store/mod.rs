//! The store: reads `runs/` into an inventory, and writes it so that no crash can tear a file.
//! The verbs and the room `run` call it; to write in a job's directory, a caller must hold the job's lock.
//! It never inspects the host and starts no processes. It knows jobs only from their files and their workers'
//! processes.
//!
//! ```text
//! runs/<label>-<12 hex of id>/
//!   key.json            first: the hash's preimage, readable
//!   command.sh          the command of the last attempt, to repeat or to profile by hand
//!   lock                held (flock) by the processes that run the job, including the worker
//!   attempts/01/        attempt.json stdout.log stderr.log time.txt measurement.json iterations.csv
//!                       [ncu.csv | perf.csv]
//!   record.json         last, sealed: tmp → rename; synced by [`Durable`]
//!   accepted.json       the changes that the user accepted for a stale job, if any
//! runs/.plans/<matrix name>.json
//! runs/.imported/     imported ledgers, one sealed file each; they are not jobs
//! runs/.cache/        the inventory of the last reading
//! runs/.running/      a lock of each `orchestrate` that runs on this store
//! runs/.merging/      temporary copies of a merge
//! runs/.replaced/1/   results that a merge replaced, as a separate store
//! runs/.queue/        submissions to a queue
//! runs/.hosted/       submissions of another host to this one
//! ```
//!
//! A failed attempt's record is also kept as `attempts/NN/record.json`, because the next attempt's record replaces the
//! one above. A success is kept there when a re-run's record replaces it. Only the `record.json` of the job's own
//! directory counts.

mod accepted;
mod announce;
mod attempt;
mod begin;
mod cache;
mod conclude;
#[cfg(test)]
mod corpus_tests;
mod directory;
mod durable;
mod error;
mod evidence;
#[cfg(test)]
mod fuzz_tests;
mod glimpse;
mod hosted;
#[cfg(test)]
mod identity_tests;
mod imported;
mod inventory;
mod merge;
mod open;
mod parcel;
mod plans;
mod record;
mod save;
mod submissions;
mod survivors;
mod telemetry;
#[cfg(test)]
mod tests;
mod verify;

pub use accepted::{AcceptanceError, save_acceptance};
pub use attempt::{Attempt, AttemptError, End, NoteError, WorkerGroup};
pub use begin::{RestoreError, claim, next_attempt, restore, tidy};
pub use directory::{Place, Store};
pub use durable::{Durable, WORTH_A_SYNC};
pub use error::{PlanError, StoreError};
pub use evidence::{EvidenceError, load_evidence};
pub use glimpse::Glimpse;
pub use hosted::{INTERRUPTED, RunBegin, RunEnd, RunLock, RunState};
pub use imported::{Import, ImportError, ImportFate, ImportMark, SaveImportError, Source};
pub use merge::{JobFate, Merge, MergeError, Merged, MergedJob, MergedPlan, NotMergeable, PlanFate, Side};
pub use open::OpenAttempt;
pub use parcel::{Had, pack_files, record_digest, unpack};
pub use record::RecordError;
pub use save::save_record;
pub use submissions::{Fetching, QueueLock, SubmissionError, SubmissionFiles, Submissions};
pub use survivors::{Survivor, Survivors};
pub use telemetry::{last_samples, load_telemetry};
#[cfg(test)]
pub(crate) use tests::attempt as example_attempt;
pub use verify::{Breach, OpenSecret, Verified};
