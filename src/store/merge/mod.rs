//! Copies the results of other stores into a store: [`Merge`] does it, [`Merged`] lists the fate of each job and plan.
//!
//! The directory of each job is checked against its seals, copied below `runs/.merging/`, checked again and synced.
//! Only then is it renamed into place. A merge that is killed leaves only temporary copies, which the next merge
//! removes. A replaced directory moves as a whole to `runs/.replaced/1/JOB`. The directories of both sides are never
//! mixed, so attempts with the same number do not collide, and no record is edited.
//!
//! A job's lock is held while its directory is exchanged. A job without a directory needs no lock: if several
//! processes rename a directory to that place, the file system lets one of them succeed.

mod copy;
mod execute;
mod inspect;
mod merged;
mod source;
mod staging;
#[cfg(test)]
mod tests;

pub use execute::Merge;
pub(super) use inspect::is_sound;
pub use merged::{JobFate, MergeError, Merged, MergedJob, MergedPlan, PlanFate, Side};
pub use source::NotMergeable;
