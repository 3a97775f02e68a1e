//! The safe side of `operators.cpp`: which operators ran, with which inputs and for how long.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{NonNull, null};

use super::{WorkerError, checked, text};

// SAFETY: these are the declarations of `operators.cpp`, of which none throws.
unsafe extern "C" {
    safe fn shim_operators_prepare(clock: c_int) -> bool;
    safe fn shim_operators_begin(clock: c_int) -> bool;
    fn shim_operators_end(json: *mut *const c_char) -> bool;
    fn shim_scope_begin(name: *const c_char) -> *mut c_void;
    fn shim_scope_end(scope: *mut c_void);
}

/// Where the seconds of an accelerator come from. The numbers are those of `operators.cpp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// There is no accelerator.
    Host = 0,
    /// CUPTI's records of kernels and copies.
    Kernels = 1,
    /// CUDA's events around each operator.
    Events = 2,
    /// Each operator ends with a wait for the accelerator.
    Waits = 3,
}

/// A profiler that is ready to record.
#[derive(Debug)]
pub(crate) struct ReadyProfiler(Clock);

/// A profiler that records this thread and its backward passes, until it is dropped.
#[derive(Debug)]
pub(crate) struct RecordingProfiler(());

impl ReadyProfiler {
    /// Makes libtorch's profiler ready. From now on, CUPTI is at work if the clock needs it.
    ///
    /// # Errors
    /// Errors of libtorch.
    pub(crate) fn new(clock: Clock) -> Result<Self, WorkerError> {
        checked(shim_operators_prepare(clock as c_int))?;
        Ok(ReadyProfiler(clock))
    }

    /// Begins to record.
    ///
    /// # Errors
    /// Errors of libtorch.
    pub(crate) fn begin(self) -> Result<RecordingProfiler, WorkerError> {
        checked(shim_operators_begin(self.0 as c_int))?;
        Ok(RecordingProfiler(()))
    }
}

impl RecordingProfiler {
    /// Ends the recording and returns it as JSON.
    ///
    /// # Errors
    /// Errors of libtorch.
    pub(crate) fn end(self) -> Result<String, WorkerError> {
        // It must not end a second time.
        std::mem::forget(self);
        let mut json = null();
        // SAFETY: a pointer to a pointer that lives through the call.
        checked(unsafe { shim_operators_end(&raw mut json) })?;
        Ok(text(json))
    }
}

impl Drop for RecordingProfiler {
    fn drop(&mut self) {
        let mut json = null();
        // SAFETY: as above. What was recorded is of no use if an iteration failed.
        unsafe { shim_operators_end(&raw mut json) };
    }
}

/// A scope of this thread that the profiler records as it does operators; it ends when dropped.
#[derive(Debug)]
pub(crate) struct Scope(NonNull<c_void>);

impl Scope {
    /// Begins a scope called `name`; `None` if libtorch cannot.
    pub(crate) fn begin(name: &str) -> Option<Self> {
        let name = CString::new(name).ok()?;
        // SAFETY: a terminated string that lives through the call, which copies it.
        NonNull::new(unsafe { shim_scope_begin(name.as_ptr()) }).map(Scope)
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        // SAFETY: the pointer is from `shim_scope_begin`, and this is its last use, in the same thread.
        unsafe { shim_scope_end(self.0.as_ptr()) };
    }
}
