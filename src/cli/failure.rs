//! The error of a verb: what happened, to which thing, why, and the next command to type.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;

use nix::errno::Errno;

use super::Exit;
use crate::files::WriteError;
use crate::plan::quote;
use crate::store::{PlanError, StoreError};
use crate::text::causes;

/// A failed verb: the error, the exit code, and what the user can do next.
///
/// Printed as `error: <what>`, one `  caused by: <why>` per source in the chain, and after a blank line `hint: <next
/// command>`.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What happened, to which thing. Its sources are the reasons.
    pub error: Box<dyn Error + Send + Sync>,
    /// The next command to type, or the next thing to look at.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure with this exit code.
    pub fn new(exit: Exit, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Failure { exit, error: error.into(), hint: None }
    }

    /// The store cannot be used.
    pub fn store(error: StoreError) -> Self {
        let hint = match &error {
            StoreError::NoPlan { .. } => "run a matrix first: `orchestrate run MATRIX.yaml`",
            StoreError::BadPlan { source: PlanError::OtherName(_), .. } => {
                "rename it after its matrix, or delete it and save a new plan: `orchestrate run MATRIX.yaml`"
            }
            StoreError::BadPlan { .. } => "save a new plan: `orchestrate run MATRIX.yaml`",
            StoreError::Write(WriteError { source, .. })
            | StoreError::Create { source, .. }
            | StoreError::Read { source, .. } => disk_remedy(source).unwrap_or(
                "choose another store with `--store DIR`; `orchestrate run` creates a missing one",
            ),
        };
        let exit = match &error {
            StoreError::NoPlan { .. } => Exit::NothingSelected,
            StoreError::BadPlan { .. }
            | StoreError::Write(_)
            | StoreError::Create { .. }
            | StoreError::Read { .. } => Exit::StoreUnusable,
        };
        Failure::new(exit, error).hint(hint)
    }

    /// The same failure with a hint.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Failure { hint: Some(hint.into()), ..self }
    }
}

/// Whether the limit of open files of this process or of the system is reached.
pub(super) fn has_too_many_files(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|number| [Errno::EMFILE as i32, Errno::ENFILE as i32].contains(&number))
}

/// The remedy for an error of the disk, the file system or a limit; `None` for other errors.
pub(super) fn disk_remedy(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        _ if has_too_many_files(error) => {
            Some("raise the limit of open files, for example with `ulimit -n 1024`")
        }
        io::ErrorKind::StorageFull => Some("free space on its disk"),
        io::ErrorKind::QuotaExceeded => Some("free space in your quota"),
        io::ErrorKind::ReadOnlyFilesystem => {
            Some("its file system is read-only: remount it for writing, or copy the store elsewhere")
        }
        io::ErrorKind::PermissionDenied => Some("change its owner or its permissions"),
        _ => None,
    }
}

/// The remedy if `path` is not a lock file, although a lock file belongs there. It is never changed.
pub(super) fn lock_path_remedy(path: &Path) -> String {
    format!("move it away; `ls -l {}` shows its owner", quote(&path.display().to_string()))
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.error)?;
        for cause in causes(&*self.error) {
            write!(f, "\n  caused by: {cause}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    /// An unexpected error.
    fn from(error: E) -> Self {
        Failure::new(Exit::Unexpected, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_errors_have_their_own_remedies() {
        let hint = |number: Errno| {
            let source = io::Error::from_raw_os_error(number as i32);
            let failure = Failure::store(WriteError { path: "runs/.plans/t.json".into(), source }.into());
            assert_eq!(failure.exit, Exit::StoreUnusable);
            failure.hint.unwrap()
        };
        assert_eq!(hint(Errno::ENOSPC), "free space on its disk");
        assert_eq!(hint(Errno::EDQUOT), "free space in your quota");
        assert!(hint(Errno::EROFS).contains("read-only"));
        assert!(hint(Errno::EACCES).contains("permissions"));
        assert!(hint(Errno::ENOTDIR).contains("--store DIR"));
        assert!(hint(Errno::EMFILE).contains("ulimit -n"));
    }
}
