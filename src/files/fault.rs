//! Faults that a test build can have on purpose, so that the fault campaign can prove that it detects them.
//!
//! Only with the cargo feature `break`, and only the one that `FAULT_ON_PURPOSE` names. Without the feature, the faults
//! are not compiled.

/// An invariant that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Files are written in place instead of being renamed.
    NoRename,
    /// A changed file is accepted.
    NoSealCheck,
    /// Workers do not inherit the locks.
    NoLockInheritance,
    /// Workers stay in our process group.
    NoProcessGroup,
    /// A job's record is written before its worker has ended.
    RecordBeforeMeasurement,
}

impl Fault {
    /// Whether this build has this fault.
    pub fn is_on(self) -> bool {
        #[cfg(feature = "break")]
        return std::env::var("FAULT_ON_PURPOSE").is_ok_and(|name| name == self.name());
        #[cfg(not(feature = "break"))]
        return false;
    }

    #[cfg(feature = "break")]
    fn name(self) -> &'static str {
        match self {
            Fault::NoRename => "no-rename",
            Fault::NoSealCheck => "no-seal-check",
            Fault::NoLockInheritance => "no-lock-inheritance",
            Fault::NoProcessGroup => "no-process-group",
            Fault::RecordBeforeMeasurement => "record-before-measurement",
        }
    }
}
