//! Writes data sets: generated ones, and published ones that are downloaded and unpacked.
//!
//! A data set is made in a hidden directory beside the final one, gets its manifest ([`crate::dataset::MANIFEST`])
//! last, and is then renamed. So a directory with a manifest is complete. Its maker locks the parent directory, so that
//! two makers never write to the same hidden directory.

#![expect(clippy::disallowed_methods, reason = "an effects layer: it writes data sets")]

use std::fs::File;
use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

use super::download::{self, DownloadError};
use super::step::{Report, Step};
use crate::dataset::{Archive, Item, MANIFEST, MANIFEST_SCHEMA, Manifest, Origin, Recipe, photo};

/// JPEG quality of generated images, typical of cameras and ImageNet.
const QUALITY: u8 = 90;

/// A complete data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its manifest.
    pub manifest: Manifest,
    /// Whether it existed already.
    pub already: bool,
}

/// Why a data set could not be made.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The path does not name a directory that can be made.
    #[error("{} cannot be the name of a data set", .0.display())]
    BadName(PathBuf),
    /// The directory has content that is not one of our data sets.
    #[error("{} is not empty and has no {MANIFEST}: it is not a data set of orchestrate", .0.display())]
    Foreign(PathBuf),
    /// The directory contains another data set.
    #[error("{} contains another data set: {found}", path.display())]
    Other {
        /// The directory.
        path: PathBuf,
        /// The data set in it.
        found: Box<Origin>,
    },
    /// The manifest cannot be parsed.
    #[error("cannot parse {}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: serde_json::Error,
    },
    /// The parent directory cannot be locked.
    #[error("cannot lock {}", path.display())]
    Lock {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A file or directory cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A file or directory cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// An image cannot be encoded.
    #[error("cannot encode {}", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: jpeg_encoder::EncodingError,
    },
    /// The archive cannot be downloaded.
    #[error("cannot download {url}")]
    Download {
        /// Its address.
        url: String,
        /// The reason.
        source: DownloadError,
    },
    /// The archive cannot be unpacked.
    #[error("cannot unpack {}", path.display())]
    Unpack {
        /// The archive.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The archive has an entry that points outside of it.
    #[error("the archive {} has the entry `{entry}`, which points outside of it", path.display())]
    Unsafe {
        /// The archive.
        path: PathBuf,
        /// The entry's path.
        entry: String,
    },
    /// The archive does not have the expected content.
    #[error("the archive {} has no directory `{stem}` with images", path.display())]
    Empty {
        /// The archive.
        path: PathBuf,
        /// The expected directory.
        stem: String,
    },
}

/// Generates the data set of `recipe` in `directory`, with as many threads as there are usable processors.
///
/// # Errors
/// The directory has other content, or a file cannot be written. An incomplete data set is never left behind.
pub fn make_generated(
    directory: &Path,
    recipe: &Recipe,
    report: Report<'_>,
) -> Result<Outcome, DatasetError> {
    make(directory, &Origin::Generated(recipe.clone()), |partial| write_photos(partial, recipe, report))
}

/// Downloads `archive` from the address `base` and unpacks it into `directory`.
///
/// # Errors
/// The directory has other content, the archive cannot be downloaded or is not the expected one, or a file cannot be
/// written. A partial download is kept, and the next try continues it.
pub fn fetch_archive(
    directory: &Path,
    archive: &Archive,
    base: &str,
    report: Report<'_>,
) -> Result<Outcome, DatasetError> {
    let name = format!("{}.tgz", archive.stem);
    let origin = Origin::Archive { name: name.clone(), md5: archive.md5.to_owned() };
    make(directory, &origin, |partial| {
        let url = format!("{}/{name}", base.trim_end_matches('/'));
        let file = sibling(directory, &format!("{name}.part"))?;
        download::download(&url, &file, archive.md5, report)
            .map_err(|source| DatasetError::Download { url, source })?;
        let images = unpack(&file, archive.stem, partial, report)?;
        std::fs::remove_file(&file).map_err(|source| DatasetError::Write { path: file, source })?;
        Ok(images)
    })
}

/// Calls `fill`, which fills a new directory and returns its number of images, then renames it to `directory`. If the
/// same data set exists already, it is returned.
fn make(
    directory: &Path,
    origin: &Origin,
    fill: impl FnOnce(&Path) -> Result<u64, DatasetError>,
) -> Result<Outcome, DatasetError> {
    let partial = sibling(directory, "partial")?;
    let above = partial.parent().unwrap_or(Path::new(".")).to_owned();
    create_directory(&above)?;
    // Locked until this function ends. The kernel releases the lock if the process dies.
    let _lock = File::open(&above)
        .and_then(|file| file.lock().map(|()| file))
        .map_err(|source| DatasetError::Lock { path: above, source })?;
    if let Some(manifest) = existing(directory, origin)? {
        return Ok(Outcome { manifest, already: true });
    }
    remove_directory(&partial)?;
    create_directory(&partial)?;
    let made = fill(&partial).and_then(|images| {
        let manifest = Manifest { schema: MANIFEST_SCHEMA, origin: origin.clone(), images };
        write_manifest(&partial, &manifest)?;
        std::fs::rename(&partial, directory)
            .map_err(|source| DatasetError::Write { path: directory.to_owned(), source })?;
        Ok(Outcome { manifest, already: false })
    });
    if made.is_err() {
        // The error in `made` is the relevant one. The next try removes any remaining files.
        let _ = remove_directory(&partial);
    }
    made
}

/// The manifest of the data set in `directory`; `None` if the directory is missing or empty.
fn existing(directory: &Path, wanted: &Origin) -> Result<Option<Manifest>, DatasetError> {
    let path = directory.join(MANIFEST);
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let manifest: Manifest =
                serde_json::from_str(&text).map_err(|source| DatasetError::Manifest { path, source })?;
            if manifest.origin != *wanted {
                let found = Box::new(manifest.origin);
                return Err(DatasetError::Other { path: directory.to_owned(), found });
            }
            Ok(Some(manifest))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if is_empty_or_missing(directory)? {
                Ok(None)
            } else {
                Err(DatasetError::Foreign(directory.to_owned()))
            }
        }
        Err(source) => Err(DatasetError::Read { path, source }),
    }
}

fn is_empty_or_missing(directory: &Path) -> Result<bool, DatasetError> {
    match std::fs::read_dir(directory) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(source) => Err(DatasetError::Read { path: directory.to_owned(), source }),
    }
}

/// `.<name of directory>.<suffix>` beside `directory`.
fn sibling(directory: &Path, suffix: &str) -> Result<PathBuf, DatasetError> {
    let Some(Component::Normal(name)) = directory.components().next_back() else {
        return Err(DatasetError::BadName(directory.to_owned()));
    };
    let hidden = format!(".{}.{suffix}", name.to_string_lossy());
    let above = directory.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(above.join(hidden))
}

fn create_directory(path: &Path) -> Result<(), DatasetError> {
    std::fs::create_dir_all(path).map_err(|source| DatasetError::Write { path: path.to_owned(), source })
}

fn remove_directory(path: &Path) -> Result<(), DatasetError> {
    match std::fs::remove_dir_all(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(DatasetError::Write { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

fn write_manifest(directory: &Path, manifest: &Manifest) -> Result<(), DatasetError> {
    let path = directory.join(MANIFEST);
    let mut text = serde_json::to_string_pretty(manifest).expect("a manifest is plain text and numbers");
    text.push('\n');
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(|source| DatasetError::Write { path: path.clone(), source })
}

/// Writes all images of `recipe`, until the first failure.
fn write_photos(directory: &Path, recipe: &Recipe, report: Report<'_>) -> Result<u64, DatasetError> {
    let items = recipe.items();
    for item in &items {
        let above = directory.join(&item.path);
        if let Some(above) = above.parent().filter(|above| !above.is_dir()) {
            create_directory(above)?;
        }
    }
    let of = items.len() as u64;
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failed = AtomicBool::new(false);
    let failure = Mutex::new(None);
    let work = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            if failed.load(Ordering::Relaxed) {
                break;
            }
            match write_photo(directory, item) {
                Ok(()) => {
                    report(Step::Images { done: done.fetch_add(1, Ordering::Relaxed) as u64 + 1, of });
                }
                Err(error) => {
                    failed.store(true, Ordering::Relaxed);
                    failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(items.len());
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(of),
    }
}

fn write_photo(directory: &Path, item: &Item) -> Result<(), DatasetError> {
    let path = directory.join(&item.path);
    let photo = photo::photo(item.class, item.seed, item.width, item.height);
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, QUALITY);
    encoder.set_sampling_factor(SamplingFactor::F_2_2);
    encoder
        .encode(&photo.rgb, photo.width, photo.height, ColorType::Rgb)
        .map_err(|source| DatasetError::Encode { path: path.clone(), source })?;
    std::fs::write(&path, bytes).map_err(|source| DatasetError::Write { path, source })
}

/// Unpacks the part of the archive below `stem` into `directory`. Returns the number of images.
fn unpack(file: &Path, stem: &str, directory: &Path, report: Report<'_>) -> Result<u64, DatasetError> {
    let failed = |source| DatasetError::Unpack { path: file.to_owned(), source };
    let reader = File::open(file).map_err(failed)?;
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(std::io::BufReader::new(reader)));
    let (mut files, mut images) = (0, 0);
    for entry in archive.entries().map_err(failed)? {
        let mut entry = entry.map_err(failed)?;
        let path = entry.path().map_err(failed)?.into_owned();
        let unsafe_path =
            || DatasetError::Unsafe { path: file.to_owned(), entry: path.display().to_string() };
        let mut plain = path.components().filter(|part| *part != Component::CurDir);
        if plain.clone().any(|part| !matches!(part, Component::Normal(_))) {
            return Err(unsafe_path());
        }
        // The archive's main directory becomes the data set. Anything beside it is not part of the data set.
        if plain.next() != Some(Component::Normal(stem.as_ref())) {
            continue;
        }
        let within: PathBuf = plain.collect();
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            create_directory(&directory.join(&within))?;
        } else if kind.is_file() {
            let target = directory.join(&within);
            create_directory(target.parent().unwrap_or(directory))?;
            let mut out = File::create(&target)
                .map_err(|source| DatasetError::Write { path: target.clone(), source })?;
            std::io::copy(&mut entry, &mut out).map_err(failed)?;
            files += 1;
            images += u64::from(target.extension().is_some_and(|extension| extension == "JPEG"));
            report(Step::Unpack { files });
        } else if kind.is_symlink() || kind.is_hard_link() {
            // The published archives have no links, and a link could point outside of the directory.
            return Err(unsafe_path());
        }
    }
    if images == 0 {
        return Err(DatasetError::Empty { path: file.to_owned(), stem: stem.to_owned() });
    }
    Ok(images)
}

#[cfg(test)]
mod tests;
