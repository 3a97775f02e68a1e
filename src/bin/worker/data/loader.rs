//! Hands out batches, made by threads or by the caller.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::decode::{DecodeError, Decoder};
use super::order::{Order, Slots};
use super::pool::Pool;
use super::random::Random;
use super::transform::{Number, Transform};
use super::{Batch, DataError, ImageFolder, LoaderOptions, PixelFormat, Pixels};

/// Returns the batches of a data set, epoch after epoch without end.
///
/// Batch k of a seed does not depend on the number of threads. Its images follow from the seed's permutation of the
/// epoch, and their augmentation from seed, epoch and position. An undecodable image is replaced by the next decodable
/// one in the epoch's order, which wraps around, so a batch is always full. With [`LoaderOptions::strict`] it is an
/// error instead. Images at an epoch's end that do not fill a batch are dropped, as by PyTorch's `DataLoader` with
/// `drop_last`.
pub(crate) struct Loader {
    source: Arc<Source>,
    supply: Supply,
    unreadable: BTreeSet<u32>,
}

enum Supply {
    Caller { maker: Box<Maker>, number: u64, spare: Option<Batch> },
    Threads(Pool<Batch>),
}

/// The state that all threads share.
struct Source {
    folder: ImageFolder,
    options: LoaderOptions,
    /// Images known to be unreadable, so that each is tried only once.
    unreadable: Vec<AtomicBool>,
}

/// The state of one thread.
struct Maker {
    source: Arc<Source>,
    order: Order,
    decoder: Decoder,
    transform: Transform,
}

impl Loader {
    /// Lists the data set and starts the threads, which begin to decode immediately.
    ///
    /// # Errors
    /// The folder is not a data set, has fewer images than a batch, or a thread cannot be started.
    pub(crate) fn open(options: &LoaderOptions) -> Result<Loader, DataError> {
        let folder = ImageFolder::scan(&options.folder)?;
        let images = folder.images.len();
        if images < options.batch {
            return Err(DataError::TooFew { folder: folder.root, images, batch: options.batch });
        }
        let unreadable = std::iter::repeat_with(|| AtomicBool::new(false)).take(images).collect();
        let source = Arc::new(Source { folder, options: options.clone(), unreadable });
        let supply = if options.workers == 0 {
            Supply::Caller { maker: Box::new(Maker::new(&source)), number: 0, spare: None }
        } else {
            let maker = |_| {
                let mut maker = Maker::new(&source);
                move |number: u64, spare: Option<Batch>, closed: &AtomicBool| {
                    maker.make(number, spare, closed)
                }
            };
            let makers: Vec<_> = (0..options.workers).map(maker).collect();
            Supply::Threads(Pool::start(makers, options.workers * options.prefetch_factor.max(1))?)
        };
        Ok(Loader { source, supply, unreadable: BTreeSet::new() })
    }

    /// The next batch: waits for a thread, or makes it.
    ///
    /// # Errors
    /// No image of the data set can be decoded, or one of the batch cannot and `--strict` is on, or a loader thread
    /// panicked.
    pub(crate) fn next_batch(&mut self) -> Result<Batch, DataError> {
        let batch = match &mut self.supply {
            Supply::Threads(pool) => pool.next()?,
            Supply::Caller { maker, number, spare } => {
                *number += 1;
                maker.make(*number - 1, spare.take(), &AtomicBool::new(false))?
            }
        };
        self.unreadable.extend(&batch.unreadable);
        Ok(batch)
    }

    /// Takes a batch back, to use its memory again.
    pub(crate) fn recycle(&mut self, batch: Batch) {
        match &mut self.supply {
            Supply::Threads(pool) => pool.recycle(batch),
            Supply::Caller { spare, .. } => *spare = Some(batch),
        }
    }

    /// The classes: the label of an image is the index of its class here.
    pub(crate) fn classes(&self) -> &[String] {
        &self.source.folder.classes
    }

    /// Threads that decode.
    pub(crate) fn threads(&self) -> usize {
        match &self.supply {
            Supply::Threads(pool) => pool.threads(),
            Supply::Caller { .. } => 0,
        }
    }

    /// Batches that all threads together prepare ahead.
    pub(crate) fn ahead(&self) -> usize {
        match &self.supply {
            Supply::Threads(pool) => pool.ahead(),
            Supply::Caller { .. } => 0,
        }
    }

    /// Images found in the data set.
    pub(crate) fn images(&self) -> u64 {
        self.source.folder.images.len() as u64
    }

    /// Unreadable images that were left out of the batches so far.
    pub(crate) fn unreadable_images(&self) -> u64 {
        self.unreadable.len() as u64
    }

    /// A sentence about the images that were left out, with the names of the first few; `None` if there are none.
    pub(crate) fn warning(&self) -> Option<String> {
        const NAMED: usize = 3;
        let folder = &self.source.folder;
        let mut names =
            self.unreadable.iter().map(|&image| folder.images[image as usize].0.display().to_string());
        let mut list = names.by_ref().take(NAMED).collect::<Vec<_>>().join(", ");
        let (left_out, more) = (self.unreadable.len(), names.count());
        if left_out == 0 {
            return None;
        }
        if more > 0 {
            list += &format!(" and {more} more");
        }
        let all = folder.images.len();
        Some(format!("{left_out} of {all} images cannot be decoded and were left out: {list}"))
    }
}

impl Maker {
    fn new(source: &Arc<Source>) -> Self {
        let options = &source.options;
        let images = u32::try_from(source.folder.images.len()).expect("a folder has fewer than 2³² images");
        let batch = u32::try_from(options.batch).expect("a batch is no larger than the data set");
        Maker {
            source: Arc::clone(source),
            order: Order::new(options.seed, images, batch),
            decoder: Decoder::default(),
            transform: Transform::new(options.input_size, options.augment, options.layout),
        }
    }

    /// Makes batch `number`, in the memory of `spare` if there is one. Stops between two images once `closed` is set.
    fn make(&mut self, number: u64, spare: Option<Batch>, closed: &AtomicBool) -> Result<Batch, DataError> {
        let mut batch = spare.unwrap_or_else(|| self.empty());
        batch.labels.clear();
        batch.unreadable.clear();
        let Batch { pixels, labels, unreadable, .. } = &mut batch;
        match pixels {
            Pixels::Normalised(numbers) => self.fill(number, numbers, labels, unreadable, closed)?,
            Pixels::Bytes(bytes) => self.fill(number, bytes, labels, unreadable, closed)?,
        }
        Ok(batch)
    }

    /// A batch of zeros.
    fn empty(&self) -> Batch {
        let LoaderOptions { batch, input_size, format, .. } = self.source.options;
        let count = batch * 3 * (input_size as usize).pow(2);
        let pixels = match format {
            PixelFormat::Normalised => Pixels::Normalised(vec![0.0; count]),
            PixelFormat::Bytes => Pixels::Bytes(vec![0; count]),
        };
        let augmented = self.transform.augments();
        Batch { pixels, labels: Vec::with_capacity(batch), augmented, unreadable: Vec::new() }
    }

    /// Writes the pixels of batch `number` to `pixels`, and adds its labels and what could not be decoded.
    fn fill<N: Number>(
        &mut self,
        number: u64,
        pixels: &mut [N],
        labels: &mut Vec<i64>,
        unreadable: &mut Vec<u32>,
        closed: &AtomicBool,
    ) -> Result<(), DataError> {
        let Maker { source, order, decoder, transform } = self;
        let options = &source.options;
        let slots = order.batch(number);
        for (place, out) in pixels.chunks_exact_mut(3 * (options.input_size as usize).pow(2)).enumerate() {
            if closed.load(Ordering::Relaxed) {
                break;
            }
            let position = slots.start + place;
            let mut random = Random::of(&[options.seed, slots.epoch, position as u64, 1]);
            let mut write = |image: u32| -> Result<i64, DecodeError> {
                let (path, class) = &source.folder.images[image as usize];
                transform.apply(decoder.decode(path)?, &mut random, out);
                Ok(i64::from(*class))
            };
            labels.push(source.first_readable(slots, position, unreadable, &mut write)?);
        }
        Ok(())
    }
}

impl Source {
    /// Calls `write` for the image at `position` of the epoch and, while it cannot be decoded, for the next one.
    /// Returns the label, and adds images that cannot be decoded to `unreadable`. The choice follows from the order
    /// alone, whatever other threads find out meanwhile. Each image is tried at most once.
    fn first_readable(
        &self,
        slots: Slots<'_>,
        position: usize,
        unreadable: &mut Vec<u32>,
        write: &mut impl FnMut(u32) -> Result<i64, DecodeError>,
    ) -> Result<i64, DataError> {
        let (before, from) = slots.permutation.split_at(position);
        for &image in from.iter().chain(before) {
            let known = &self.unreadable[image as usize];
            if !known.load(Ordering::Relaxed) {
                match write(image) {
                    Ok(label) => return Ok(label),
                    Err(source) if self.options.strict => {
                        return Err(DataError::Unreadable { folder: self.folder.root.clone(), source });
                    }
                    Err(_) => known.store(true, Ordering::Relaxed),
                }
            }
            unreadable.push(image);
        }
        // Try the first one again, to report why it fails.
        let image = slots.permutation[position];
        write(image).map_err(|source| DataError::AllUnreadable {
            folder: self.folder.root.clone(),
            images: self.folder.images.len(),
            path: self.folder.images[image as usize].0.clone(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::super::Layout;
    use super::super::testing::{Dir, data_set, image_path, touch, write};
    use super::*;

    fn options(dir: &Dir) -> LoaderOptions {
        LoaderOptions {
            folder: dir.path().to_owned(),
            batch: 4,
            input_size: 32,
            augment: true,
            layout: Layout::Nhwc,
            format: PixelFormat::Normalised,
            workers: 2,
            prefetch_factor: 2,
            seed: 11,
            strict: false,
        }
    }

    /// The next `count` batches.
    fn batches(loader: &mut Loader, count: usize) -> Vec<(Pixels, Vec<i64>)> {
        (0..count)
            .map(|_| {
                let batch = loader.next_batch().unwrap();
                let copy = (batch.pixels.clone(), batch.labels.clone());
                loader.recycle(batch);
                copy
            })
            .collect()
    }

    #[test]
    fn pixels_depend_on_the_seed_but_not_on_the_number_of_threads() {
        let dir = data_set(3, 5);
        // One image of fifteen cannot be decoded, so the test covers replacements too.
        write(&image_path(dir.path(), 1, 2), b"no image");
        let run = |workers, prefetch_factor, seed| {
            let options = LoaderOptions { workers, prefetch_factor, seed, ..options(&dir) };
            let mut loader = Loader::open(&options).unwrap();
            let batches = batches(&mut loader, 9);
            (batches, loader.unreadable_images())
        };
        let alone = run(0, 1, 11);
        for (workers, prefetch_factor) in [(1, 1), (2, 2), (5, 3)] {
            assert!(alone == run(workers, prefetch_factor, 11), "{workers} workers, {prefetch_factor} ahead");
        }
        assert!(alone != run(0, 1, 12), "another seed gives other pixels");
        assert_eq!(alone.1, 1);
        assert!(alone.0[0..3] != alone.0[3..6], "each epoch is another");
    }

    #[test]
    fn a_batch_has_the_requested_shape_and_the_labels_of_its_images() {
        let dir = data_set(2, 2);
        let mut loader = Loader::open(&LoaderOptions { augment: false, ..options(&dir) }).unwrap();
        assert_eq!((loader.images(), loader.classes()), (4, &["class0".to_owned(), "class1".to_owned()][..]));
        for _ in 0..3 {
            let batch = loader.next_batch().unwrap();
            let Pixels::Normalised(numbers) = &batch.pixels else { panic!("they are normalised") };
            assert_eq!(numbers.len(), 4 * 3 * 32 * 32);
            assert_eq!(batch.labels.iter().sum::<i64>(), 2);
            for (image, label) in numbers.chunks_exact(3 * 32 * 32).zip(&batch.labels) {
                // The green of every image is 40 × its class.
                let green = (image[1] * 0.224 + 0.456) * 255.0;
                assert!((green - 40.0 * *label as f32).abs() < 12.0, "green {green}, class {label}");
            }
        }
    }

    #[test]
    fn unreadable_images_are_replaced_and_counted_once() {
        let dir = data_set(2, 4);
        touch(&image_path(dir.path(), 0, 0));
        write(&image_path(dir.path(), 1, 3), b"\xff\xd8\xff\xe0 torn");
        let mut loader = Loader::open(&options(&dir)).unwrap();
        let labels: usize = batches(&mut loader, 6).iter().map(|(_, labels)| labels.len()).sum();
        assert_eq!((labels, loader.unreadable_images()), (24, 2));
        let (first, second) = (image_path(dir.path(), 0, 0), image_path(dir.path(), 1, 3));
        let expected = format!(
            "2 of 8 images cannot be decoded and were left out: {}, {}",
            first.display(),
            second.display()
        );
        assert_eq!(loader.warning(), Some(expected));
    }

    #[test]
    fn a_warning_names_the_first_images_and_counts_the_rest() {
        let dir = data_set(1, 12);
        let mut loader = Loader::open(&options(&dir)).unwrap();
        batches(&mut loader, 3);
        assert_eq!(loader.warning(), None);
        for image in 2..7 {
            touch(&image_path(dir.path(), 0, image));
        }
        let mut loader = Loader::open(&options(&dir)).unwrap();
        batches(&mut loader, 3);
        let warning = loader.warning().unwrap();
        assert!(warning.starts_with("5 of 12 images cannot be decoded"), "{warning}");
        assert!(warning.ends_with("class0/004.jpg and 2 more"), "{warning}");
    }

    #[test]
    fn strictly_an_image_that_cannot_be_decoded_is_an_error_with_its_name() {
        let dir = data_set(2, 4);
        write(&image_path(dir.path(), 1, 3), b"no image");
        for workers in [0, 1, 3] {
            let mut loader = Loader::open(&LoaderOptions { workers, strict: true, ..options(&dir) }).unwrap();
            // Two batches contain every image once.
            let error = (0..2).find_map(|_| loader.next_batch().err()).unwrap();
            assert!(error.to_string().contains("--strict"), "{error}");
            let name = image_path(dir.path(), 1, 3).display().to_string();
            assert_eq!(error.source().unwrap().to_string(), format!("{name} is neither JPEG nor PNG"));
        }
        let sound = data_set(2, 4);
        let mut loader = Loader::open(&LoaderOptions { strict: true, ..options(&sound) }).unwrap();
        assert_eq!(batches(&mut loader, 4).len(), 4);
    }

    #[test]
    fn a_data_set_without_a_readable_image_is_an_error_with_its_reason() {
        let dir = Dir::new("none");
        for image in 0..5 {
            touch(&image_path(dir.path(), 0, image));
        }
        for workers in [0, 2] {
            let mut loader = Loader::open(&LoaderOptions { workers, ..options(&dir) }).unwrap();
            let error = loader.next_batch().unwrap_err();
            assert!(error.to_string().starts_with("none of the 5 images in "), "{error}");
            assert!(error.source().unwrap().to_string().ends_with("is neither JPEG nor PNG"));
        }
    }

    #[test]
    fn fewer_images_than_a_batch_are_an_error() {
        let dir = data_set(1, 3);
        let error = Loader::open(&options(&dir)).err().unwrap();
        assert!(error.to_string().ends_with("has 3 images, fewer than a batch of 4"), "{error}");
    }
}
