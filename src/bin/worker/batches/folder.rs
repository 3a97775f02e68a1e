//! An ImageFolder on its way to the device.

#![expect(clippy::disallowed_methods, reason = "a worker measures how long it waits for images")]

use std::path::Path;
use std::time::Instant;

use orchestrate::job::{DataSource, Device};
use orchestrate::text::with_causes;
use tch::{Kind, TchError, Tensor};

use super::super::arguments::Training;
use super::super::data::{self, Layout, Loader, LoaderOptions, PixelFormat, Pixels};
use super::super::device::OpenDevice;
use super::super::failure::WorkerError;
use super::super::shim::{self, CopyStream};
use super::batch::Batch;
use super::normalise::Normalisation;

/// The images of an ImageFolder as batches on the device.
pub(crate) struct Folder {
    loader: Loader,
    source: DataSource,
    shape: [i64; 4],
    layout: Layout,
    device: OpenDevice,
    pin_memory: bool,
    /// Where batches are copied, if not on the stream that trains.
    copies: Option<CopyStream>,
    /// The normalisation of images that arrive as bytes.
    normalisation: Option<Normalisation>,
    /// The facts about the last batch.
    seen: Seen,
}

/// How a batch was loaded and copied.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// It was augmented.
    augmented: bool,
    /// It reached the device as bytes.
    bytes: bool,
    /// It was copied from page-locked memory.
    pinned: bool,
    /// It was copied on another stream than the training.
    aside: bool,
}

/// How images were loaded, as seen from the loader and the last batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loading {
    /// Threads that decoded.
    pub(crate) threads: usize,
    /// Batches that all threads together prepared ahead.
    pub(crate) ahead: usize,
    /// Whether images were augmented.
    pub(crate) augmented: bool,
    /// Whether images reached the device as bytes.
    pub(crate) bytes: bool,
    /// Whether batches went through page-locked memory.
    pub(crate) pinned: bool,
    /// Whether batches were copied on a separate stream.
    pub(crate) aside: bool,
    /// Images found.
    pub(crate) images: u64,
    /// Images left out.
    pub(crate) unreadable: u64,
}

impl Loading {
    /// Batches that each thread prepared ahead; `None` without threads.
    pub(crate) fn prefetched(&self) -> Option<usize> {
        self.ahead.checked_div(self.threads)
    }
}

impl Folder {
    /// Opens `folder` for `training` on `device`.
    ///
    /// # Errors
    /// The folder cannot be read, or does not fit the batch or the classes. Errors of libtorch.
    pub(super) fn open(training: &Training, folder: &Path, device: &OpenDevice) -> Result<Self, WorkerError> {
        let parameters = &training.parameters;
        let options = options(training, folder);
        let loader = Loader::open(&options).map_err(data_error)?;
        let classes = loader.classes().len();
        if !u32::try_from(classes).is_ok_and(|classes| classes <= parameters.classes) {
            return Err(WorkerError::Usage(format!(
                "{} has {classes} classes, but the network has only {}: raise --classes",
                folder.display(),
                parameters.classes
            )));
        }
        let size = i64::from(parameters.input_size);
        let bytes = options.format == PixelFormat::Bytes;
        Ok(Folder {
            loader,
            source: DataSource::Folder(folder.to_string_lossy().into_owned()),
            shape: [i64::from(training.batch_size), 3, size, size],
            layout: options.layout,
            device: device.clone(),
            pin_memory: parameters.pin_memory,
            copies: parameters.copy_stream.then(CopyStream::new).transpose()?,
            normalisation: bytes.then(|| Normalisation::new(device.tch())).transpose()?,
            seen: Seen::default(),
        })
    }

    /// The next batch.
    ///
    /// # Errors
    /// Errors of the loader or of libtorch.
    pub(super) fn next(&mut self) -> Result<Batch, WorkerError> {
        let start = Instant::now();
        let memory = self.loader.next_batch().map_err(data_error)?;
        let waited_s = start.elapsed().as_secs_f64();
        let start = Instant::now();
        self.seen.augmented = memory.augmented;
        // SAFETY: both tensors are dropped before `memory`. On the CPU, `Batch` keeps them together. On other devices,
        // nothing reads them once `copy_to_device` returns.
        let (images, labels) = unsafe { borrow(&memory, self.shape, self.layout)? };
        let on_cpu = self.device.device == Device::Cpu;
        let (images, labels) = if on_cpu { (images, labels) } else { self.copy_to_device(&images, &labels)? };
        self.seen.bytes = images.f_kind()? == Kind::Uint8;
        let images = match &self.normalisation {
            Some(normalisation) => normalisation.apply(&images)?,
            None => images,
        };
        let copied_s = start.elapsed().as_secs_f64();
        if on_cpu {
            let copied_s = if self.seen.bytes { copied_s } else { 0.0 };
            return Ok(Batch { images, labels, waited_s, copied_s, memory: Some(memory) });
        }
        self.loader.recycle(memory);
        Ok(Batch { images, labels, waited_s, copied_s, memory: None })
    }

    /// Copies of `images` and `labels` on the device. Once this returns, the originals are no longer read.
    ///
    /// Without page-locked memory, the copies are then complete. With it, the numbers are then in memory of libtorch's
    /// pool, and the device fetches them when its queue reaches the copy. That memory can be dropped immediately: after
    /// a non-blocking copy, libtorch records an event of the copy's stream for the block, and reuses the block only
    /// after that event. See `CachingHostAllocator_recordEvent` in `aten/src/ATen/native/cuda/Copy.cu`.
    fn copy_to_device(&mut self, images: &Tensor, labels: &Tensor) -> Result<(Tensor, Tensor), WorkerError> {
        let device = self.device.tch();
        if !self.pin_memory {
            return Ok((images.f_to(device)?, labels.f_to(device)?));
        }
        let ((images, images_are), (labels, labels_are)) = (shim::pin(images)?, shim::pin(labels)?);
        self.seen.pinned = images_are && labels_are;
        if let Some(copies) = &mut self.copies {
            let (there, aside) = copies.copy(&images, &labels)?;
            self.seen.aside = aside;
            return Ok(there);
        }
        let issue = |tensor: &Tensor| tensor.f_to_device_(device, tensor.f_kind()?, true, false);
        Ok((issue(&images)?, issue(&labels)?))
    }

    /// Takes back the memory of a batch that no tensor points into any more.
    pub(super) fn recycle(&mut self, memory: data::Batch) {
        self.loader.recycle(memory);
    }

    /// The folder, for the measurement.
    pub(super) fn source(&self) -> DataSource {
        self.source.clone()
    }

    /// A warning about the images that were left out, if any were.
    pub(super) fn warning(&self) -> Option<String> {
        self.loader.warning()
    }

    /// How images were loaded.
    pub(super) fn loading(&self) -> Loading {
        let Seen { augmented, bytes, pinned, aside } = self.seen;
        Loading {
            threads: self.loader.threads(),
            ahead: self.loader.ahead(),
            augmented,
            bytes,
            pinned,
            aside,
            images: self.loader.images(),
            unreadable: self.loader.unreadable_images(),
        }
    }
}

/// The options of the loader for `training`.
fn options(training: &Training, folder: &Path) -> LoaderOptions {
    let parameters = &training.parameters;
    LoaderOptions {
        folder: folder.to_owned(),
        batch: usize::try_from(training.batch_size).unwrap_or(usize::MAX),
        input_size: parameters.input_size,
        augment: parameters.augment,
        layout: if parameters.channels_last { Layout::Nhwc } else { Layout::Nchw },
        format: if parameters.uint8_images { PixelFormat::Bytes } else { PixelFormat::Normalised },
        workers: usize::try_from(parameters.loader_workers).unwrap_or(usize::MAX),
        prefetch_factor: usize::try_from(parameters.prefetch_factor).unwrap_or(usize::MAX),
        seed: parameters.seed,
        strict: parameters.strict,
    }
}

/// CPU tensors that point into `memory`: the pixels in the order of `layout`, and the labels.
///
/// # Safety
/// While any of the tensors lives, `memory` must neither move nor change.
unsafe fn borrow(
    memory: &data::Batch,
    shape: [i64; 4],
    layout: Layout,
) -> Result<(Tensor, Tensor), TchError> {
    let [batch, channels, height, width] = shape;
    let stride = match layout {
        Layout::Nhwc => [height * width * channels, 1, width * channels, channels],
        Layout::Nchw => [channels * height * width, height * width, width, 1],
    };
    assert_eq!(
        i64::try_from(memory.pixels.len()),
        Ok(shape.iter().product()),
        "a batch has the pixels of its shape"
    );
    assert_eq!(i64::try_from(memory.labels.len()), Ok(batch), "a batch has the labels of its shape");
    let (pixels, kind) = match &memory.pixels {
        Pixels::Normalised(numbers) => (numbers.as_ptr().cast(), Kind::Float),
        Pixels::Bytes(bytes) => (bytes.as_ptr(), Kind::Uint8),
    };
    // SAFETY: the lengths were just compared with the shapes, and the caller keeps the memory alive.
    unsafe {
        Ok((
            Tensor::f_from_blob(pixels, &shape, &stride, kind, tch::Device::Cpu)?,
            Tensor::f_from_blob(
                memory.labels.as_ptr().cast(),
                &[batch],
                &[1],
                Kind::Int64,
                tch::Device::Cpu,
            )?,
        ))
    }
}

/// Converts the loader's error into the worker's.
pub(crate) fn data_error(error: data::DataError) -> WorkerError {
    WorkerError::Data(with_causes(&error))
}
