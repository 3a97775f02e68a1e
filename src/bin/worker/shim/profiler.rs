//! The safe side of `profiler.cpp`: the part of a training that NVIDIA's profilers record.

use std::ffi::{CString, c_char};

use super::{WorkerError, checked};

// SAFETY: these are the declarations of `profiler.cpp`, of which none throws.
unsafe extern "C" {
    fn shim_profile_begin(name: *const c_char) -> bool;
    safe fn shim_profile_end() -> bool;
}

/// An NVTX range in which profilers record; it ends when dropped.
#[derive(Debug)]
pub(crate) struct Profile(());

impl Profile {
    /// Begins a range called `name`. Only for CUDA.
    ///
    /// # Errors
    /// This libtorch has no NVTX, or no CUDA runtime is loaded.
    pub(crate) fn begin(name: &str) -> Result<Self, WorkerError> {
        let name = CString::new(name.replace('\0', "")).expect("no zero is left in it");
        // SAFETY: a terminated string that lives through the call.
        checked(unsafe { shim_profile_begin(name.as_ptr()) })?;
        Ok(Profile(()))
    }

    /// Ends it, and says whether that worked.
    ///
    /// # Errors
    /// Errors of libtorch or of the CUDA runtime.
    pub(crate) fn end(self) -> Result<(), WorkerError> {
        // It must not end a second time.
        std::mem::forget(self);
        checked(shim_profile_end())
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        // A range that does not end spoils a profile, not a result.
        shim_profile_end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiling_requires_nvtx() {
        let error = Profile::begin("orchestrate").unwrap_err();
        assert!(error.to_string().contains("this libtorch has no NVTX"), "{error}");
    }
}
