//! `worker data`: times the data path alone. It loads batches as training would, and drops them. `bench/data.py`
//! compares it with torchvision's `DataLoader`.

#![expect(clippy::disallowed_methods, reason = "a worker measures time")]

use std::time::Instant;

use serde::Serialize;

use super::arguments::Data;
use super::batches::data_error;
use super::data::{DataError, Layout, Loader, LoaderOptions, PixelFormat};
use super::failure::WorkerError;

/// The output of `worker data`: one line of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Loaded {
    /// Images loaded within the window.
    images: u64,
    /// Seconds of the window.
    elapsed_s: f64,
    /// Threads that decoded; 0 if the calling thread did.
    workers: u32,
    /// Images left out since the start, because they cannot be decoded.
    unreadable_images: u64,
}

/// Loads, measures and prints.
///
/// # Errors
/// The loader's.
pub(crate) fn run(arguments: &Data) -> Result<(), WorkerError> {
    let options = options(arguments);
    let mut loader = Loader::open(&options).map_err(data_error)?;
    let batches = u64::from(arguments.images.div_ceil(arguments.batch_size));
    let loaded = measure(&mut loader, &options, batches).map_err(data_error)?;
    println!("{}", serde_json::to_string(&loaded).expect("a flat record of numbers"));
    if let Some(warning) = loader.warning() {
        eprintln!("warning: {warning}");
    }
    Ok(())
}

fn options(arguments: &Data) -> LoaderOptions {
    let size = |value: u32| usize::try_from(value).unwrap_or(usize::MAX);
    let loading = &arguments.loading;
    LoaderOptions {
        folder: loading.folder.clone(),
        batch: size(arguments.batch_size),
        input_size: loading.input_size,
        augment: loading.augment,
        layout: if loading.channels_last { Layout::Nhwc } else { Layout::Nchw },
        format: if loading.uint8_images { PixelFormat::Bytes } else { PixelFormat::Normalised },
        workers: size(loading.loader_workers),
        prefetch_factor: size(loading.prefetch_factor),
        seed: loading.seed,
        strict: loading.strict,
    }
}

/// Times `batches` batches, after consuming all batches that were prefetched before.
fn measure(loader: &mut Loader, options: &LoaderOptions, batches: u64) -> Result<Loaded, DataError> {
    let ahead = (options.workers * options.prefetch_factor).max(1);
    for _ in 0..2 * ahead {
        let batch = loader.next_batch()?;
        loader.recycle(batch);
    }
    let start = Instant::now();
    for _ in 0..batches {
        let batch = loader.next_batch()?;
        loader.recycle(batch);
    }
    Ok(Loaded {
        images: batches * options.batch as u64,
        elapsed_s: start.elapsed().as_secs_f64(),
        workers: u32::try_from(options.workers).unwrap_or(u32::MAX),
        unreadable_images: loader.unreadable_images(),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::arguments::{Arguments, Command};
    use super::super::data::testing::{data_set, image_path, touch};
    use super::*;

    #[test]
    fn images_are_counted_in_whole_batches_and_flags_reach_the_loader() {
        let dir = data_set(2, 3);
        touch(&image_path(dir.path(), 0, 1));
        let folder = dir.path().to_str().unwrap();
        let words =
            ["worker", "data", "--data", folder, "--batch-size", "3", "--input-size", "32", "--workers", "1"];
        let flags =
            ["--no-augment", "--channels-last", "--uint8-images", "--prefetch-factor", "3", "--seed", "5"];
        let parsed = Arguments::try_parse_from([&words[..], &flags[..]].concat()).unwrap();
        let Some(Command::Data(arguments)) = parsed.command else { panic!("{parsed:?}") };
        let options = options(&arguments);
        assert_eq!((options.batch, options.workers, options.prefetch_factor), (3, 1, 3));
        assert_eq!((options.augment, options.layout, options.seed), (false, Layout::Nhwc, 5));
        assert_eq!(options.format, PixelFormat::Bytes);
        let mut loader = Loader::open(&options).unwrap();
        let loaded = measure(&mut loader, &options, 4).unwrap();
        assert_eq!((loaded.images, loaded.workers, loaded.unreadable_images), (12, 1, 1));
        assert!(loaded.elapsed_s > 0.0);
    }
}
