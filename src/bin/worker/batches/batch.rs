//! A batch on its device.

use tch::Tensor;

use super::super::data;

/// A batch on its device.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Batch × 3 × height × width, single precision.
    pub(super) images: Tensor,
    /// Batch, each a whole number below the number of classes.
    pub(super) labels: Tensor,
    /// See [`Batch::waited_s`].
    pub(super) waited_s: f64,
    /// See [`Batch::copied_s`].
    pub(super) copied_s: f64,
    /// The memory that CPU tensors point into. Declared last, so that it is dropped last.
    pub(super) memory: Option<data::Batch>,
}

impl Batch {
    /// Batch × 3 × height × width, single precision.
    pub(crate) fn images(&self) -> &Tensor {
        &self.images
    }

    /// Batch, each a whole number below the number of classes.
    pub(crate) fn labels(&self) -> &Tensor {
        &self.labels
    }

    /// Seconds that the caller waited for the images. Without loader threads, it decoded them meanwhile. The copy to
    /// the device does not count: from pageable memory, it waits until the device has finished all its work.
    pub(crate) fn waited_s(&self) -> f64 {
        self.waited_s
    }

    /// Seconds that the host took to get the batch to the device: to copy it into page-locked memory, to issue the
    /// copies from there, and to issue their normalisation. From pageable memory, it waits until the device has them,
    /// behind all its work.
    pub(crate) fn copied_s(&self) -> f64 {
        self.copied_s
    }
}
