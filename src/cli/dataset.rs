//! `orchestrate dataset`: generates or downloads a data set to train on.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use super::output::{print, say};
use super::{Exit, Failure, Global};
use crate::dataset::{Archive, GENERATOR, IMAGENETTE, IMAGENETTE_URL, Origin, Recipe};
use crate::prepare::Step;
use crate::prepare::dataset::{DatasetError, Outcome, fetch_archive, make_generated};

/// The arguments of `orchestrate dataset`.
#[derive(Debug, Args)]
pub(super) struct DatasetArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Generate a small ImageFolder of photograph-like JPEGs, identical on every machine.
    Make(MakeArgs),
    /// Download Imagenette, ten classes of ImageNet (full 1.5 GB, 320px 330 MB, 160px 95 MB).
    Imagenette(ImagenetteArgs),
}

#[derive(Debug, Args)]
struct MakeArgs {
    /// Directory of the data set, which will contain `train/<class>/` and `val/<class>/`.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Number of classes.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=9999))]
    classes: u32,
    /// Training images per class; a quarter as many are added for validation.
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=99999))]
    images_per_class: u32,
    /// Size of the images in pixels; every fourth image is in portrait format.
    #[arg(long, value_name = "WxH", default_value = "500x375", value_parser = parse_size)]
    size: (u16, u16),
    /// Seed of the images.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
}

#[derive(Debug, Args)]
struct ImagenetteArgs {
    /// Directory of the data set, which will contain `train/<class>/` and `val/<class>/`.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Published size, by the length of the shorter side.
    #[arg(long, value_enum, default_value_t = Size::Px320)]
    size: Size,
    /// Base URL of the archives, for example of a mirror.
    #[arg(long, value_name = "BASE", default_value = IMAGENETTE_URL)]
    url: String,
}

/// The published sizes, in the order of [`IMAGENETTE`].
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Size {
    /// As in ImageNet
    Full,
    /// 320 pixels
    #[value(name = "320px")]
    Px320,
    /// 160 pixels
    #[value(name = "160px")]
    Px160,
}

impl Size {
    fn archive(self) -> &'static Archive {
        &IMAGENETTE[self as usize]
    }
}

/// Generates or downloads the data set, unless it exists already.
///
/// # Errors
/// Any [`DatasetError`], with a hint.
pub(super) fn run(args: DatasetArgs, global: &Global) -> Result<Exit, Failure> {
    match args.command {
        Command::Make(args) => {
            let recipe = Recipe {
                generator: GENERATOR,
                classes: args.classes,
                images_per_class: args.images_per_class,
                width: args.size.0,
                height: args.size.1,
                seed: args.seed,
            };
            finish(&args.directory, global, |report| make_generated(&args.directory, &recipe, report))
        }
        Command::Imagenette(args) => finish(&args.directory, global, |report| {
            fetch_archive(&args.directory, args.size.archive(), &args.url, report)
        }),
    }
}

fn finish(
    directory: &Path,
    global: &Global,
    work: impl FnOnce(&(dyn Fn(Step) + Sync)) -> Result<Outcome, DatasetError>,
) -> Result<Exit, Failure> {
    let bar = if global.quiet { ProgressBar::hidden() } else { ProgressBar::no_length() };
    if !global.quiet && bar.is_hidden() {
        say(&format!("making {} …", directory.display()));
    }
    let result = work(&|step| show(&bar, step));
    bar.finish_and_clear();
    let outcome = result.map_err(failure)?;
    let state = if outcome.already { "exists already" } else { "is ready" };
    let kind = match &outcome.manifest.origin {
        Origin::Generated(_) => "generated images",
        Origin::Archive { .. } => "images",
    };
    print(&format!("{} {state}: {} {kind}\n", directory.display(), outcome.manifest.images))?;
    Ok(Exit::Done)
}

/// Shows a step on the bar.
fn show(bar: &ProgressBar, step: Step) {
    let style = |template: &str| {
        ProgressStyle::with_template(template).expect("the templates below only use existing fields")
    };
    match step {
        Step::Images { done, of } => {
            if bar.length() != Some(of) {
                bar.set_style(style("{bar:30} {pos}/{len} images, {eta} left"));
                bar.set_length(of);
            }
            // Threads report out of order.
            bar.set_position(done.max(bar.position()));
        }
        Step::Download { done, of } => {
            if let Some(of) = of.filter(|of| bar.length() != Some(*of)) {
                bar.set_style(style("{bar:30} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left"));
                bar.set_length(of);
            }
            bar.set_position(done);
        }
        Step::Check => {
            bar.set_style(style("{spinner} {msg}"));
            bar.set_message("checking the archive's checksum");
        }
        Step::Unpack { files } => {
            bar.set_message(format!("unpacking: {files} files"));
            bar.tick();
        }
    }
}

fn failure(error: DatasetError) -> Failure {
    let (exit, hint) = match &error {
        DatasetError::BadName(_) | DatasetError::Foreign(_) | DatasetError::Other { .. } => {
            (Exit::Usage, Some("choose another directory, or remove this one first"))
        }
        DatasetError::Manifest { .. } => {
            (Exit::Unexpected, Some("remove the directory and run the same command again"))
        }
        DatasetError::Download { .. } => (
            Exit::Unexpected,
            Some(
                "run the same command again to continue the download. Without a network, \
                 `orchestrate dataset make DIR` generates a data set",
            ),
        ),
        _ => (Exit::Unexpected, None),
    };
    let failure = Failure::new(exit, error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// `WxH`, each from 16 to 8192.
fn parse_size(text: &str) -> Result<(u16, u16), String> {
    let side = |text: &str| text.parse().ok().filter(|side| (16..=8192).contains(side));
    text.split_once('x')
        .and_then(|(width, height)| Some((side(width)?, side(height)?)))
        .ok_or_else(|| "expected width and height such as 500x375, each from 16 to 8192".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_image_sizes() {
        assert_eq!(parse_size("500x375"), Ok((500, 375)));
        for wrong in ["500", "x", "0x100", "500x99999", "-5x20", "500X375"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_size_has_its_archive() {
        for size in Size::value_variants() {
            let name = size.to_possible_value().unwrap().get_name().to_owned();
            assert_eq!(size.archive().size, name);
        }
    }
}
