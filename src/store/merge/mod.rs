//! Brings the results of other stores into a store.
//!
//! The directory of each job is checked against its seals, copied below `runs/.merging/`, checked again and synced.
//! Only then it is renamed into place. So whoever is killed leaves nothing that counts, and the next merge removes it.
//! What has to make room moves to `runs/.replaced/` as a whole. The two sides never share a directory, so attempts with
//! the same number do not collide, and no record is edited.
//!
//! A job's lock is held while its directory is exchanged. A job without a directory needs none: of all that make it,
//! the file system gives it to one.

mod bring;
mod copy;
mod look;
mod merged;
mod source;
mod staging;
#[cfg(test)]
mod tests;

pub use bring::Merge;
pub(super) use look::is_sound;
pub use merged::{MergeError, Merged, MergedJob, MergedPlan, PlanFate, Side, What};
pub use source::NotMergeable;
