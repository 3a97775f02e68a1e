//! Locks: the right to run a job, and the right to measure on a device.
//! Whoever writes in a job's directory or starts a worker calls it, always in this order: host, device, job.
//! It never unlocks, never breaks a lock, and never ends a process; a lock file's contents decide nothing.
//!
//! Both are `flock`s on files, held through an open file that the child tree inherits: the kernel lets go of a lock when
//! the last of them has closed it or is gone, however it went. Hence nothing here ever unlocks; it only closes. A
//! blocked wait for a lock is how the end of a worker is seen whose `orchestrate` is gone.
//!
//! A job's lock is `lock` in its directory. Those of a host and its devices are in one directory for all users and all
//! stores of the host, `/tmp/orchestrate-locks` unless `ORCHESTRATE_LOCK_DIR` says otherwise:
//!
//! | file | held by |
//! |---|---|
//! | `host.lock` | a job that needs the host for itself (exclusively); jobs that need only their device (shared) |
//! | `device-<device>.lock` | the job on that device, if it needs only the device |
//! | `<either>.turn` | whoever waits for that lock longest |
//!
//! A lock that is free goes to whoever asks first, and whoever has just let go of it asks before the one that waited
//! has woken up. So everybody takes the lock's turn first and keeps it until the lock is theirs: two runs on one host
//! alternate, and none has to wait until the other is through. Whoever has the turn may be suspended before it takes the
//! lock. A lock that stays free although its turn is taken is therefore taken without it after a while (`wait.rs`).
//!
//! A lock file's contents say who took it last. They are for people to read; nothing is decided by them. What stands in
//! the place of a lock file and is none is refused, never written to (`file.rs`).

mod device;
mod file;
mod holder;
mod job;
mod patience;
mod wait;

pub use device::{DeviceLock, LOCK_DIR_VARIABLE, LockDir, lock_dir_path};
pub use file::{For, Foreign, OpenError, open_lock, open_or_make_lock};
pub use job::{JobLock, inherited, is_owner_alive, sign};
pub use patience::{LockError, Patience};
