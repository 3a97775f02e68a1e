//! The safe side of `graph.cpp`: work on a CUDA device that is recorded once and submitted again as a whole.

use std::ffi::c_void;
use std::ptr::NonNull;

use super::{WorkerError, checked, error};

// SAFETY: these are the declarations of `graph.cpp`, of which none throws.
unsafe extern "C" {
    safe fn shim_has_graphs() -> bool;
    safe fn shim_leave_default_stream() -> bool;
    safe fn shim_empty_cache() -> bool;
    safe fn shim_graph_begin() -> *mut c_void;
    fn shim_graph_end(graph: *mut c_void) -> bool;
    fn shim_graph_replay(graph: *mut c_void) -> bool;
    fn shim_graph_free(graph: *mut c_void);
}

/// Whether this libtorch has CUDA graphs.
///
/// # Errors
/// The missing function.
pub(crate) fn has_graphs() -> Result<(), String> {
    if shim_has_graphs() { Ok(()) } else { Err(error()) }
}

/// From now on, this thread submits its work to a separate stream. The default stream cannot be recorded, and tensors
/// that a recording uses must have been made on the recorded stream.
///
/// # Errors
/// There is no accelerator. Errors of libtorch.
pub(crate) fn leave_default_stream() -> Result<(), WorkerError> {
    checked(shim_leave_default_stream())
}

/// Returns the memory to the device that its allocator caches and no tensor uses. The allocator does not do so
/// automatically while work is recorded.
///
/// # Errors
/// Errors of libtorch.
pub(crate) fn empty_cache() -> Result<(), WorkerError> {
    checked(shim_empty_cache())
}

/// Recorded work. It reads and writes the memory that its tensors had when it was recorded.
#[derive(Debug)]
pub(crate) struct Graph(NonNull<c_void>);

impl Graph {
    /// Records what `work` submits, which does not run. Its tensors get their numbers from the first
    /// [`Graph::replay`].
    ///
    /// # Errors
    /// Errors of `work`, or it submitted work that cannot be recorded.
    pub(crate) fn record<T>(work: impl FnOnce() -> Result<T, WorkerError>) -> Result<(Self, T), WorkerError> {
        let graph =
            NonNull::new(shim_graph_begin()).map(Graph).ok_or_else(|| WorkerError::torch(&error()))?;
        let result = work();
        // SAFETY: the pointer is from `shim_graph_begin`, and is not shared.
        let ended = checked(unsafe { shim_graph_end(graph.0.as_ptr()) });
        // A failure within a recording makes its end fail, too.
        let result = result?;
        ended?;
        Ok((graph, result))
    }

    /// Submits the work again.
    ///
    /// # Errors
    /// Errors of CUDA.
    pub(crate) fn replay(&mut self) -> Result<(), WorkerError> {
        // SAFETY: as above.
        checked(unsafe { shim_graph_replay(self.0.as_ptr()) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: as above; this is the last use.
        unsafe { shim_graph_free(self.0.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recording_requires_cuda() {
        let lack = has_graphs().unwrap_err();
        assert!(lack.starts_with("this libtorch lacks _ZN2at4cuda9CUDAGraph"), "{lack}");
        let error = Graph::record(|| Ok(())).unwrap_err();
        assert!(error.to_string().contains(&lack), "{error}");
    }
}
