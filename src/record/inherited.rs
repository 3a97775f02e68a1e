//! What workers inherit from the environment of `orchestrate`.

/// The variables of `orchestrate`'s environment that a worker gets unchanged: the paths of programs, libraries and
/// scratch space, the user, and the time zone. An env adds others with `variables` and `secret`.
pub const PASSED_ON: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "TZ",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "DYLD_FALLBACK_LIBRARY_PATH",
    "VIRTUAL_ENV",
    "CUDA_HOME",
];
