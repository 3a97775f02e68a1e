//! The data path of the worker: a folder of images in, normalised batches out. It knows no tensors.
//!
//! [`ImageFolder`] finds the images like torchvision's class of that name. [`Loader`] decodes them in separate threads,
//! and returns [`Batch`]es in an order that depends only on the seed. The same seed results in the same pixels with any
//! number of threads.
//!
//! ```text
//! let mut loader = Loader::open(&LoaderOptions { folder, batch: 16, … })?;
//! loop {
//!     let batch = loader.next_batch()?;        // the caller times this: its wait for data
//!     train(&batch.pixels, &batch.labels);
//!     loader.recycle(batch);                   // optional: returns the buffers for reuse
//! }
//! ```

#![expect(clippy::disallowed_methods, reason = "the worker reads the data set")]

mod decode;
mod error;
mod extensions;
mod folder;
mod loader;
mod order;
mod pool;
mod random;
#[cfg(test)]
pub(crate) mod testing;
mod transform;

use std::path::PathBuf;

pub(crate) use error::DataError;
pub(crate) use folder::ImageFolder;
pub(crate) use loader::Loader;
pub(crate) use transform::{MEAN, STD};

/// The order of an image's numbers in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `[batch, height, width, channel]`: the memory layout of a channels-last tensor.
    Nhwc,
    /// `[batch, channel, height, width]`.
    Nchw,
}

/// The numbers of a pixel in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PixelFormat {
    /// Single precision, normalised with ImageNet's mean and standard deviation.
    Normalised,
    /// Bytes from 0 to 255, for the device to normalise: a quarter of the memory.
    Bytes,
}

/// The options of a [`Loader`].
#[derive(Clone, Debug)]
pub(crate) struct LoaderOptions {
    /// The data set: `<folder>/train/<class>/…`, or `<folder>/<class>/…` if there is no `train`.
    pub folder: PathBuf,
    /// Images in a batch.
    pub batch: usize,
    /// Height and width of the images in a batch, in pixels.
    pub input_size: u32,
    /// `RandomResizedCrop` and flip instead of `Resize` and `CenterCrop`.
    pub augment: bool,
    /// The order of the numbers.
    pub layout: Layout,
    /// The numbers themselves.
    pub format: PixelFormat,
    /// Threads that decode; 0 decodes in [`Loader::next_batch`].
    pub workers: usize,
    /// Batches that each thread prepares ahead.
    pub prefetch_factor: usize,
    /// Seed of the order and of the augmentation.
    pub seed: u64,
    /// Whether an image that cannot be decoded is an error; otherwise it is left out.
    pub strict: bool,
}

/// The pixels of a batch: `batch × 3 × input_size × input_size` numbers in the requested [`Layout`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pixels {
    /// [`PixelFormat::Normalised`].
    Normalised(Vec<f32>),
    /// [`PixelFormat::Bytes`].
    Bytes(Vec<u8>),
}

impl Pixels {
    /// The number of numbers.
    pub(crate) fn len(&self) -> usize {
        match self {
            Pixels::Normalised(numbers) => numbers.len(),
            Pixels::Bytes(bytes) => bytes.len(),
        }
    }
}

/// One batch: its pixels and `batch` labels.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The images.
    pub pixels: Pixels,
    /// The class of each image: its index in [`Loader::classes`].
    pub labels: Vec<i64>,
    /// Whether the images were cropped and flipped at random.
    pub augmented: bool,
    /// The images of the data set that could not be decoded while this batch was made.
    unreadable: Vec<u32>,
}
