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

/// A batch on its device.
#[derive(Debug)]
pub(crate) struct Batch {
    images: Tensor,
    labels: Tensor,
    waited_s: f64,
    /// What the tensors of the processor point into. Declared last, so that it is dropped last.
    memory: Option<data::Batch>,
}

impl Batch {
    /// Batch × 3 × height × width, single precision.
    pub(crate) fn images(&self) -> &Tensor {
        &self.images
    }

    /// Batch, whole numbers below the number of classes.
    pub(crate) fn labels(&self) -> &Tensor {
        &self.labels
    }

    /// Seconds the caller waited until the images were there; without loader threads, those of decoding them. The copy
    /// to the device is not among them: one from pageable memory waits for all that the device has still to do.
    pub(crate) fn waited_s(&self) -> f64 {
        self.waited_s
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
    /// Opens what the command line asks for.
    ///
    /// # Errors
    /// The folder cannot be read, or does not fit the batch or the classes; or libtorch's.
    pub(crate) fn open(training: &Training, device: &OpenDevice) -> Result<Self, WorkerError> {
        match &training.parameters.data {
            Some(folder) => Folder::open(training, folder, device).map(Box::new).map(Batches::Folder),
            None => Ok(Batches::Synthetic(synthetic(training, device)?)),
        }
    }

    /// The next batch.
    ///
    /// # Errors
    /// The loader's, or libtorch's.
    pub(crate) fn next(&mut self) -> Result<Batch, WorkerError> {
        match self {
            Batches::Synthetic(Batch { images, labels, .. }) => {
                let (images, labels) = (images.shallow_clone(), labels.shallow_clone());
                Ok(Batch { images, labels, waited_s: 0.0, memory: None })
            }
            Batches::Folder(folder) => folder.next(),
        }
    }

    /// Gives back a batch that nobody computes on any more, so that its memory is used again.
    pub(crate) fn recycle(&mut self, batch: Batch) {
        let Batch { images, labels, memory, .. } = batch;
        // They point into the memory that is about to be written to.
        drop((images, labels));
        if let (Batches::Folder(folder), Some(memory)) = (self, memory) {
            folder.loader.recycle(memory);
        }
    }

    /// What it is, for the measurement.
    pub(crate) fn source(&self) -> DataSource {
        match self {
            Batches::Synthetic(_) => DataSource::Synthetic,
            Batches::Folder(folder) => folder.source.clone(),
        }
    }

    /// What to tell a person of images that were left out, if any were.
    pub(crate) fn warning(&self) -> Option<String> {
        let Batches::Folder(folder) = self else { return None };
        folder.loader.warning()
    }

    /// How images were loaded, if they were.
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

/// How images were loaded, as the loader and the last batch show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loading {
    /// Threads that decoded.
    pub(crate) threads: usize,
    /// Batches that they prepared ahead, all together.
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

/// One batch of standard normal pixels and uniform labels, from `tch::manual_seed`'s state.
fn synthetic(training: &Training, device: &OpenDevice) -> Result<Batch, TchError> {
    let size = i64::from(training.parameters.input_size);
    let batch = i64::from(training.batch_size);
    let images = Tensor::f_randn([batch, 3, size, size], (Kind::Float, tch::Device::Cpu))?;
    let labels =
        Tensor::f_randint(i64::from(training.parameters.classes), [batch], (Kind::Int64, tch::Device::Cpu))?;
    let images = model::in_format(&images, training.parameters.channels_last)?.f_to(device.tch())?;
    Ok(Batch { images, labels: labels.f_to(device.tch())?, waited_s: 0.0, memory: None })
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
            "{} has {classes} classes, the network {}: ask for more with --classes",
            folder.display(),
            parameters.classes
        )))
    }

    fn next(&mut self) -> Result<Batch, WorkerError> {
        let start = Instant::now();
        let memory = self.loader.next_batch().map_err(data_error)?;
        let waited_s = start.elapsed().as_secs_f64();
        self.was_augmented = memory.augmented;
        // SAFETY: both tensors end before `memory` does, on the processor because `Batch` keeps them together, with
        // another device because `copy_to_device` has copied them when it returns.
        let (images, labels) = unsafe { borrow(&memory, self.shape, self.options.layout)? };
        if self.device.device == Device::Cpu {
            return Ok(Batch { images, labels, waited_s, memory: Some(memory) });
        }
        let there = (self.copy_to_device(&images)?, self.copy_to_device(&labels)?);
        drop((images, labels));
        self.loader.recycle(memory);
        Ok(Batch { images: there.0, labels: there.1, waited_s, memory: None })
    }

    /// A copy on the device; `tensor` is not looked at any more when this returns.
    ///
    /// Without page-locked memory, the copy is complete then. With it, the numbers are in memory of libtorch's pool.
    /// The device fetches them when its queue reaches the copy, and the caller continues. That memory can be dropped at
    /// once: after a non-blocking copy, libtorch records an event of the copy's stream for the block, and reuses the
    /// block only after that event. See `CachingHostAllocator_recordEvent` in `aten/src/ATen/native/cuda/Copy.cu`.
    fn copy_to_device(&mut self, tensor: &Tensor) -> Result<Tensor, TchError> {
        let device = self.device.tch();
        if self.pin_memory {
            let pinned = tensor.f_pin_memory(device)?;
            self.was_pinned = pinned.f_is_pinned(device)?;
            pinned.f_to_device_(device, tensor.f_kind()?, true, false)
        } else {
            tensor.f_to(device)
        }
    }
}

/// Tensors of the processor that point into `memory`: the pixels, in the order that `layout` says, and the labels.
///
/// # Safety
/// `memory` must stay where it is, unchanged, as long as any of the tensors lives.
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
        "a batch has the pixels asked for"
    );
    assert_eq!(i64::try_from(memory.labels.len()), Ok(batch), "a batch has the labels asked for");
    let (pixels, labels) = (memory.images.as_ptr().cast(), memory.labels.as_ptr().cast());
    // SAFETY: the lengths are those of the shapes, as just checked; that they live long enough is the caller's promise.
    unsafe {
        Ok((
            Tensor::f_from_blob(pixels, &shape, &stride, Kind::Float, tch::Device::Cpu)?,
            Tensor::f_from_blob(labels, &[batch], &[1], Kind::Int64, tch::Device::Cpu)?,
        ))
    }
}

/// What the loader says, as the worker says it.
pub(crate) fn data_error(error: data::DataError) -> WorkerError {
    WorkerError::Data(with_causes(&error))
}
