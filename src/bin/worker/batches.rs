//! Where images come from: random tensors made once, or an ImageFolder.

#![expect(clippy::disallowed_methods, reason = "a worker measures how long it waits for images")]

use std::path::Path;
use std::time::Instant;

use orchestrate::job::{DataSource, Device};
use orchestrate::text::with_causes;
use tch::{Kind, TchError, Tensor};

use super::arguments::Training;
use super::data::{self, Layout, Loader, LoaderOptions};
use super::device::OpenDevice;
use super::failure::WorkerError;
use super::model;
use super::shim;

/// A batch on its device.
#[derive(Debug)]
pub(crate) struct Batch {
    images: Tensor,
    labels: Tensor,
    waited_s: f64,
    copied_s: f64,
    /// The memory that CPU tensors point into. Declared last, so that it is dropped last.
    memory: Option<data::Batch>,
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

    /// Seconds that the host took to bring the batch to the device: to copy it into page-locked memory, and to issue
    /// the copies from there. From pageable memory, it waits until the device has them, behind all its work.
    pub(crate) fn copied_s(&self) -> f64 {
        self.copied_s
    }
}

/// An endless supply of batches.
pub(crate) enum Batches {
    /// The same random batch again and again: no decoding, no disk.
    Synthetic(Batch),
    /// Decoded images.
    Folder(Box<Folder>),
}

/// An ImageFolder on its way to the device.
pub(crate) struct Folder {
    loader: Loader,
    source: DataSource,
    shape: [i64; 4],
    options: LoaderOptions,
    device: OpenDevice,
    pin_memory: bool,
    /// Whether the last batch was copied from page-locked memory.
    was_pinned: bool,
    /// Whether the last batch was augmented.
    was_augmented: bool,
}

impl Batches {
    /// Opens the source that the command line names.
    ///
    /// # Errors
    /// The folder cannot be read, or does not fit the batch or the classes. Errors of libtorch.
    pub(crate) fn open(training: &Training, device: &OpenDevice) -> Result<Self, WorkerError> {
        match &training.parameters.data {
            Some(folder) => Folder::open(training, folder, device).map(Box::new).map(Batches::Folder),
            None => Ok(Batches::Synthetic(synthetic(training, device)?)),
        }
    }

    /// The next batch.
    ///
    /// # Errors
    /// Errors of the loader or of libtorch.
    pub(crate) fn next(&mut self) -> Result<Batch, WorkerError> {
        match self {
            Batches::Synthetic(Batch { images, labels, .. }) => {
                let (images, labels) = (images.shallow_clone(), labels.shallow_clone());
                Ok(Batch { images, labels, waited_s: 0.0, copied_s: 0.0, memory: None })
            }
            Batches::Folder(folder) => folder.next(),
        }
    }

    /// Takes back a batch that is no longer needed, to use its memory again.
    pub(crate) fn recycle(&mut self, batch: Batch) {
        let Batch { images, labels, memory, .. } = batch;
        // They point into memory that the loader will overwrite.
        drop((images, labels));
        if let (Batches::Folder(folder), Some(memory)) = (self, memory) {
            folder.loader.recycle(memory);
        }
    }

    /// The source, for the measurement.
    pub(crate) fn source(&self) -> DataSource {
        match self {
            Batches::Synthetic(_) => DataSource::Synthetic,
            Batches::Folder(folder) => folder.source.clone(),
        }
    }

    /// A warning about the images that were left out, if any were.
    pub(crate) fn warning(&self) -> Option<String> {
        let Batches::Folder(folder) = self else { return None };
        folder.loader.warning()
    }

    /// How images were loaded; `None` for synthetic data.
    pub(crate) fn loading(&self) -> Option<Loading> {
        let Batches::Folder(folder) = self else { return None };
        Some(Loading {
            threads: folder.loader.threads(),
            ahead: folder.loader.ahead(),
            augmented: folder.was_augmented,
            pinned: folder.was_pinned,
            images: folder.loader.images(),
            unreadable: folder.loader.unreadable_images(),
        })
    }
}

/// How images were loaded, as seen from the loader and the last batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loading {
    /// Threads that decoded.
    pub(crate) threads: usize,
    /// Batches that all of them together prepared ahead.
    pub(crate) ahead: usize,
    /// Whether images were augmented.
    pub(crate) augmented: bool,
    /// Whether batches went through page-locked memory.
    pub(crate) pinned: bool,
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

/// One batch of standard normal pixels and uniform labels, drawn by libtorch's seeded generator.
fn synthetic(training: &Training, device: &OpenDevice) -> Result<Batch, TchError> {
    let size = i64::from(training.parameters.input_size);
    let batch = i64::from(training.batch_size);
    let images = Tensor::f_randn([batch, 3, size, size], (Kind::Float, tch::Device::Cpu))?;
    let labels =
        Tensor::f_randint(i64::from(training.parameters.classes), [batch], (Kind::Int64, tch::Device::Cpu))?;
    let images = model::in_format(&images, training.parameters.channels_last)?.f_to(device.tch())?;
    let labels = labels.f_to(device.tch())?;
    Ok(Batch { images, labels, waited_s: 0.0, copied_s: 0.0, memory: None })
}

impl Folder {
    fn open(training: &Training, folder: &Path, device: &OpenDevice) -> Result<Self, WorkerError> {
        let parameters = &training.parameters;
        let layout = if parameters.channels_last { Layout::Nhwc } else { Layout::Nchw };
        let options = LoaderOptions {
            folder: folder.to_owned(),
            batch: usize::try_from(training.batch_size).unwrap_or(usize::MAX),
            input_size: parameters.input_size,
            augment: parameters.augment,
            layout,
            workers: usize::try_from(parameters.loader_workers).unwrap_or(usize::MAX),
            prefetch_factor: usize::try_from(parameters.prefetch_factor).unwrap_or(usize::MAX),
            seed: parameters.seed,
            strict: parameters.strict,
        };
        let loader = Loader::open(&options).map_err(data_error)?;
        let classes = loader.classes().len();
        if u32::try_from(classes).is_ok_and(|classes| classes <= parameters.classes) {
            let size = i64::from(parameters.input_size);
            let shape = [i64::from(training.batch_size), 3, size, size];
            let source = DataSource::Folder(folder.to_string_lossy().into_owned());
            let (device, pin_memory) = (device.clone(), parameters.pin_memory);
            let (was_pinned, was_augmented) = (false, false);
            return Ok(Folder {
                loader,
                source,
                shape,
                options,
                device,
                pin_memory,
                was_pinned,
                was_augmented,
            });
        }
        Err(WorkerError::Usage(format!(
            "{} has {classes} classes, but the network has only {}: raise --classes",
            folder.display(),
            parameters.classes
        )))
    }

    fn next(&mut self) -> Result<Batch, WorkerError> {
        let start = Instant::now();
        let memory = self.loader.next_batch().map_err(data_error)?;
        let waited_s = start.elapsed().as_secs_f64();
        self.was_augmented = memory.augmented;
        // SAFETY: both tensors are dropped before `memory`. On the CPU, `Batch` keeps them together. On other devices,
        // nothing reads them once `copy_to_device` returns.
        let (images, labels) = unsafe { borrow(&memory, self.shape, self.options.layout)? };
        if self.device.device == Device::Cpu {
            return Ok(Batch { images, labels, waited_s, copied_s: 0.0, memory: Some(memory) });
        }
        let start = Instant::now();
        let there = (self.copy_to_device(&images)?, self.copy_to_device(&labels)?);
        let copied_s = start.elapsed().as_secs_f64();
        drop((images, labels));
        self.loader.recycle(memory);
        Ok(Batch { images: there.0, labels: there.1, waited_s, copied_s, memory: None })
    }

    /// A copy on the device. Once this returns, nothing reads `tensor` any more.
    ///
    /// Without page-locked memory, the copy is then complete. With it, the numbers are then in memory of libtorch's
    /// pool, and the device fetches them when its queue reaches the copy. That memory can be dropped at once: after a
    /// non-blocking copy, libtorch records an event of the copy's stream for the block, and reuses the block only after
    /// that event. See `CachingHostAllocator_recordEvent` in `aten/src/ATen/native/cuda/Copy.cu`.
    fn copy_to_device(&mut self, tensor: &Tensor) -> Result<Tensor, WorkerError> {
        let device = self.device.tch();
        if self.pin_memory {
            let (pinned, was_pinned) = shim::pin(tensor)?;
            self.was_pinned = was_pinned;
            Ok(pinned.f_to_device_(device, tensor.f_kind()?, true, false)?)
        } else {
            Ok(tensor.f_to(device)?)
        }
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
        i64::try_from(memory.images.len()),
        Ok(shape.iter().product()),
        "a batch has the pixels of its shape"
    );
    assert_eq!(i64::try_from(memory.labels.len()), Ok(batch), "a batch has the labels of its shape");
    let (pixels, labels) = (memory.images.as_ptr().cast(), memory.labels.as_ptr().cast());
    // SAFETY: the lengths were just compared with the shapes, and the caller keeps the memory alive.
    unsafe {
        Ok((
            Tensor::f_from_blob(pixels, &shape, &stride, Kind::Float, tch::Device::Cpu)?,
            Tensor::f_from_blob(labels, &[batch], &[1], Kind::Int64, tch::Device::Cpu)?,
        ))
    }
}

/// The loader's error as the worker's.
pub(crate) fn data_error(error: data::DataError) -> WorkerError {
    WorkerError::Data(with_causes(&error))
}
