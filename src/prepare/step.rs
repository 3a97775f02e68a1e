//! The progress of making a data set.

/// A step in making a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Writing images.
    Images {
        /// Images written.
        done: u64,
        /// Images in total.
        of: u64,
    },
    /// Downloading an archive.
    Download {
        /// Bytes downloaded.
        done: u64,
        /// Bytes in total, if the server reports them.
        of: Option<u64>,
    },
    /// Computing the archive's sum.
    Check,
    /// Unpacking the archive.
    Unpack {
        /// Files written.
        files: u64,
    },
}

/// A callback for every step, called from several threads.
pub type Report<'a> = &'a (dyn Fn(Step) + Sync);
