//! Errors of the data path.

use std::path::PathBuf;

use orchestrate::text::first_few;

use super::decode::DecodeError;
use super::extensions::EXTENSIONS;

/// The reason for a missing batch.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataError {
    /// The folder does not exist or is not one.
    #[error("data folder {} does not exist or is not a folder", .0.display())]
    NoFolder(PathBuf),
    /// A directory of the data set cannot be listed.
    #[error("cannot list {}", path.display())]
    List {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The folder has no classes.
    #[error("data folder {} has no classes: expected one directory of images per class", .0.display())]
    NoClasses(PathBuf),
    /// No class has an image.
    #[error("no class in data folder {} has an image ({})", .0.display(), EXTENSIONS.join(" "))]
    NoImages(PathBuf),
    /// Some classes have no image.
    #[error(
        "data folder {} has classes without an image ({}): {}",
        folder.display(), EXTENSIONS.join(" "), first_few(classes)
    )]
    EmptyClasses {
        /// The folder that contains the classes.
        folder: PathBuf,
        /// The names of the empty ones.
        classes: Vec<String>,
    },
    /// There are fewer images than one batch takes.
    #[error("data folder {} has {images} images, fewer than a batch of {batch}", folder.display())]
    TooFew {
        /// The folder that contains the classes.
        folder: PathBuf,
        /// Images found.
        images: usize,
        /// Images in a batch.
        batch: usize,
    },
    /// An image cannot be decoded, and `--strict` forbids leaving it out.
    #[error("an image in data folder {} cannot be decoded, and --strict forbids leaving it out", folder.display())]
    Unreadable {
        /// The folder that contains the classes.
        folder: PathBuf,
        /// Which image, and why.
        source: DecodeError,
    },
    /// Not a single image can be decoded.
    #[error("none of the {images} images in {} can be decoded; one of them is {}", folder.display(), path.display())]
    AllUnreadable {
        /// The folder that contains the classes.
        folder: PathBuf,
        /// Images found.
        images: usize,
        /// One image.
        path: PathBuf,
        /// Why that one cannot be decoded.
        source: DecodeError,
    },
    /// The operating system refused a thread.
    #[error("cannot start a loader thread")]
    Spawn(#[source] std::io::Error),
    /// A loader thread panicked: a bug here or in a decoder.
    #[error("a loader thread panicked: {0}")]
    Panicked(String),
}
