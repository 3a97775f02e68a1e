//! The error, its exit code, and its entry in `measurement.json`.

use std::path::PathBuf;
use std::process::ExitCode;

use orchestrate::protocol::{Failure, FailureKind, WorkerExit};
use orchestrate::text::with_causes;
use tch::TchError;

use super::shortage::{Shortage, first_line};

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkerError {
    /// Flags or variables that contradict each other.
    #[error("{0}")]
    Usage(String),
    /// A network, device or precision that this worker or this machine does not have.
    #[error("{0}")]
    Unsupported(String),
    /// Too little memory, on the device or the host.
    #[error("out of memory: {0}")]
    OutOfMemory(Shortage),
    /// An error of libtorch.
    #[error("libtorch: {0}")]
    Torch(String),
    /// A bug.
    #[error("the worker panicked: {0}")]
    Panicked(String),
    /// The images cannot be loaded.
    #[error("{0}")]
    Data(String),
    /// The weights do not fit the network.
    #[error("cannot load the weights in {path}: {reason}", path = path.display())]
    Weights {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A result cannot be written.
    #[error("cannot write {path}", path = path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl WorkerError {
    /// An error of libtorch, by its message: out of memory or another one. The free memory is read now, while the rest
    /// is still in use.
    pub(crate) fn torch(text: &str) -> Self {
        Shortage::observe(text).map_or_else(|| WorkerError::Torch(first_line(text)), WorkerError::OutOfMemory)
    }

    /// A panic, by its message: out of memory or a bug.
    pub(crate) fn panicked(text: &str) -> Self {
        Shortage::observe(text)
            .map_or_else(|| WorkerError::Panicked(first_line(text)), WorkerError::OutOfMemory)
    }

    /// Its entry in `measurement.json`, if the protocol has a name for it.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let (kind, needed_bytes, free_bytes) = match self {
            WorkerError::OutOfMemory(shortage) => (FailureKind::OutOfMemory, shortage.needed, shortage.free),
            WorkerError::Unsupported(_) => (FailureKind::Unsupported, None, None),
            _ => return None,
        };
        Some(Failure { kind, message: self.to_string(), needed_bytes, free_bytes })
    }

    /// The process's exit code.
    pub(crate) fn exit_code(&self) -> ExitCode {
        let exit = match self {
            WorkerError::Usage(_) => WorkerExit::Usage,
            WorkerError::Unsupported(_) => WorkerExit::Unsupported,
            WorkerError::OutOfMemory(_) => WorkerExit::OutOfMemory,
            WorkerError::Torch(_)
            | WorkerError::Panicked(_)
            | WorkerError::Data(_)
            | WorkerError::Weights { .. }
            | WorkerError::Write { .. } => WorkerExit::Failed,
        };
        ExitCode::from(exit.code())
    }
}

impl From<TchError> for WorkerError {
    fn from(error: TchError) -> Self {
        match error {
            TchError::Torch(text) => WorkerError::torch(&text),
            other => WorkerError::torch(&other.to_string()),
        }
    }
}

/// The error and its causes on one line: `orchestrate` keeps only the last line of standard error.
pub(crate) fn one_line(error: &WorkerError) -> String {
    with_causes(error).replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_allocators_are_out_of_memory_and_others_are_not() {
        let cpu = "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you \
                   tried to allocate 82208358400 bytes. Error code 12 (Cannot allocate memory)\nException raised from";
        let cuda =
            "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 139.80 GiB";
        for text in [cpu, cuda, "std::bad_alloc", "MPS backend out of memory (MPS allocated: 18.0 GB)"] {
            let error = WorkerError::torch(text);
            assert!(matches!(error, WorkerError::OutOfMemory(_)), "{text}");
            assert_eq!(error.failure().unwrap().kind, FailureKind::OutOfMemory);
            assert!(!one_line(&error).contains('\n'));
        }
        let failure = WorkerError::torch(cpu).failure().unwrap();
        assert_eq!(failure.needed_bytes, Some(82_208_358_400));
        assert_eq!(failure.free_bytes.is_some(), cfg!(target_os = "linux"));
        let other =
            WorkerError::torch("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)\nException raised");
        assert_eq!(one_line(&other), "libtorch: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)");
        assert_eq!(other.failure(), None);
    }

    #[test]
    fn a_source_is_printed_after_its_error() {
        let source = std::io::Error::other("disk full");
        let error = WorkerError::Write { path: "out/measurement.json".into(), source };
        assert_eq!(one_line(&error), "cannot write out/measurement.json: disk full");
    }
}
