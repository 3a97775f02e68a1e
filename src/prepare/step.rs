//! How far the making of a data set is.

/// What a data set's maker is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Images written, of how many.
    Images {
        /// Written.
        done: u64,
        /// In all.
        of: u64,
    },
    /// Bytes downloaded, of how many where the server says.
    Download {
        /// Here.
        done: u64,
        /// In all.
        of: Option<u64>,
    },
    /// The archive's sum is computed.
    Check,
    /// Files unpacked.
    Unpack {
        /// Written.
        files: u64,
    },
}

/// Told of every step; called from several threads.
pub type Report<'a> = &'a (dyn Fn(Step) + Sync);
