//! The safe side of `copies.cpp`: copies of batches to the accelerator that overlap with the training.

use std::ffi::c_void;
use std::ptr::NonNull;

use tch::Tensor;

use super::{WorkerError, checked, error, pointer};

// SAFETY: these are the declarations of `copies.cpp`, of which none throws.
unsafe extern "C" {
    safe fn shim_copies_new() -> *mut c_void;
    fn shim_copies_copy(
        copies: *mut c_void,
        images: *mut c_void,
        labels: *mut c_void,
        host_images: *const c_void,
        host_labels: *const c_void,
        is_aside: *mut bool,
    ) -> bool;
    fn shim_copies_free(copies: *mut c_void);
}

/// A stream of the accelerator for copies, and the two sets of tensors that they go to in turn.
#[derive(Debug)]
pub(crate) struct CopyStream(NonNull<c_void>);

impl CopyStream {
    /// # Errors
    /// There is no accelerator. Errors of libtorch.
    pub(crate) fn new() -> Result<Self, WorkerError> {
        NonNull::new(shim_copies_new()).map(CopyStream).ok_or_else(|| WorkerError::torch(&error()))
    }

    /// Copies `images` and `labels` to the accelerator, and says whether that happens on another stream than the one
    /// that this thread submits its work to. From page-locked memory, the host does not wait.
    ///
    /// Work that is submitted later must not read the tensors of the previous call: the next call overwrites them. All
    /// batches must have the same shapes.
    ///
    /// # Errors
    /// Errors of libtorch, such as too little memory.
    pub(crate) fn copy(
        &mut self,
        images: &Tensor,
        labels: &Tensor,
    ) -> Result<((Tensor, Tensor), bool), WorkerError> {
        let (there, mut is_aside) = ((Tensor::new(), Tensor::new()), false);
        // SAFETY: the pointer is from `shim_copies_new`, and is not shared; four pointers to live tensors, of
        // which two are ours alone; one to a switch.
        checked(unsafe {
            shim_copies_copy(
                self.0.as_ptr(),
                pointer(&there.0),
                pointer(&there.1),
                pointer(images),
                pointer(labels),
                &raw mut is_aside,
            )
        })?;
        Ok((there, is_aside))
    }
}

impl Drop for CopyStream {
    fn drop(&mut self) {
        // SAFETY: as above; this is the last use.
        unsafe { shim_copies_free(self.0.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_accelerator_there_is_no_stream() {
        if tch::utils::has_mps() {
            return;
        }
        assert!(!CopyStream::new().unwrap_err().to_string().is_empty());
    }
}
