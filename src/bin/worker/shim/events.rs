//! The safe side of `events.cpp`: times of single iterations by the accelerator's clock.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use tch::Device;

use super::{WorkerError, checked, device_type, error};

// SAFETY: these are the declarations of `events.cpp`, of which none throws.
unsafe extern "C" {
    safe fn shim_events_begin(device: c_int) -> *mut c_void;
    fn shim_events_record(events: *mut c_void) -> bool;
    fn shim_events_seconds(events: *mut c_void, seconds: *mut f64, capacity: i64) -> i64;
    fn shim_events_free(events: *mut c_void);
}

/// Marks in the accelerator's stream of work.
#[derive(Debug)]
pub(crate) struct Events(NonNull<c_void>);

impl Events {
    /// Sets the first mark on `device`.
    ///
    /// # Errors
    /// The device has no events.
    pub(crate) fn begin(device: Device) -> Result<Self, WorkerError> {
        let events = NonNull::new(shim_events_begin(device_type(device)));
        events.map(Events).ok_or_else(|| WorkerError::torch(&error()))
    }

    /// Sets a further mark.
    ///
    /// # Errors
    /// Errors of libtorch.
    pub(crate) fn record(&mut self) -> Result<(), WorkerError> {
        // SAFETY: the pointer is from `shim_events_begin`, and is not shared.
        checked(unsafe { shim_events_record(self.0.as_ptr()) })
    }

    /// Seconds from each mark to the next one. There must be `marks` of them after the first, and the device must have
    /// finished all its work.
    ///
    /// # Errors
    /// Errors of libtorch, or there are more or fewer marks.
    pub(crate) fn seconds(self, marks: usize) -> Result<Vec<f64>, WorkerError> {
        let mut seconds = vec![0.0; marks];
        let capacity = i64::try_from(marks).expect("a vector's length fits in 63 bits");
        // SAFETY: as above, and there is room for as many numbers as `capacity` says.
        let count = unsafe { shim_events_seconds(self.0.as_ptr(), seconds.as_mut_ptr(), capacity) };
        match count {
            count if count == capacity => Ok(seconds),
            -1 => Err(WorkerError::torch(&error())),
            count => Err(WorkerError::Torch(format!("the device timed {count} of {marks} iterations"))),
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // SAFETY: as above; this is the last use.
        unsafe { shim_events_free(self.0.as_ptr()) };
    }
}
