//! Where images come from: random tensors made once, or an ImageFolder.

mod batch;
mod folder;
mod normalise;

use orchestrate::job::DataSource;
use tch::{Kind, TchError, Tensor};

use super::arguments::Training;
use super::device::OpenDevice;
use super::failure::WorkerError;
use super::model;

pub(crate) use batch::Batch;
pub(crate) use folder::{Folder, Loading, data_error};

/// An endless supply of batches.
pub(crate) enum Batches {
    /// The same random batch again and again: no decoding, no disk.
    Synthetic(Batch),
    /// Decoded images.
    Folder(Box<Folder>),
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

    /// The next batch. Work that is submitted from now on must not read the previous batch.
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
            folder.recycle(memory);
        }
    }

    /// The source, for the measurement.
    pub(crate) fn source(&self) -> DataSource {
        match self {
            Batches::Synthetic(_) => DataSource::Synthetic,
            Batches::Folder(folder) => folder.source(),
        }
    }

    /// A warning about the images that were left out, if any were.
    pub(crate) fn warning(&self) -> Option<String> {
        let Batches::Folder(folder) = self else { return None };
        folder.warning()
    }

    /// How images were loaded; `None` for synthetic data.
    pub(crate) fn loading(&self) -> Option<Loading> {
        let Batches::Folder(folder) = self else { return None };
        Some(folder.loading())
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
