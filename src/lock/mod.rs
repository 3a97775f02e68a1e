//! Locks: the right to run a job, and the right to measure on a device.
//! All code that writes in a job's directory or starts a worker calls it, always in this order: host, device, job.
//! It never unlocks, never breaks a lock, and never ends a process; a lock file's contents decide nothing.
//!
//! Both are `flock`s on files, held through an open file that the child tree inherits. The kernel releases a lock when
//! the last of these processes has closed it or ended, for any reason. So this code never unlocks; it only closes. A
//! blocked wait for a lock also detects the end of a worker whose `orchestrate` died.
//!
//! A job's lock is `lock` in its directory. Those of a host and its devices are in one directory for all users and
//! stores of the host: `/tmp/orchestrate-locks`, unless `ORCHESTRATE_LOCK_DIR` is set.
//!
//! | file | held by |
//! |---|---|
//! | `host.lock` | a job that needs the whole host (exclusively); jobs that only need their device (shared) |
//! | `device-<device>.lock` | the job on that device, if it only needs the device |
//! | `<either>.turn` | the process that has waited longest for that lock |
//!
//! A GPU's lock is named after the driver's number of the GPU, not after its number for the job (`physical.rs`).
//!
//! In addition, each `orchestrate` holds a lock in its store's `.running/`, which its workers do not inherit. It
//! distinguishes orphaned attempts from those whose `orchestrate` is alive (`owner.rs`). Where locks do not work, the
//! content of its file is used (`identity.rs`).
//!
//! A free lock goes to the first process that asks, and its last holder can ask again before a waiting process wakes
//! up. So each process first takes the lock's turn, and keeps it until it has the lock. Two runs on one host thus
//! alternate, and neither waits until the other has finished. The holder of the turn can be suspended before it takes
//! the lock. So a lock that stays free although its turn is taken is taken without the turn after a while (`wait.rs`).
//!
//! Where a trial shows that locks do not exclude other processes, tickets replace them (`ticket.rs`).
//!
//! A lock file names the last process that took the lock. This is only used in messages. Any other file at its path is
//! rejected and never written (`file.rs`).

mod device;
mod file;
mod holder;
mod identity;
mod job;
mod owner;
mod patience;
mod physical;
mod ticket;
mod wait;

pub use device::{DeviceLock, LOCK_DIR_VARIABLE, LockDir, is_host_held, lock_dir_path};
pub use file::{Access, Foreign, OpenError, open_lock, open_or_make_lock};
pub use holder::orphaned_keepers;
pub use identity::{Identity, Place};
pub use job::{JobLock, inherited, is_owner_alive, sign};
pub use owner::{Others, Owner, OwnerLock, Owners, request_stop, withdraw_stop_request};
pub use patience::{LockError, Patience};
pub use physical::PhysicalDevice;
