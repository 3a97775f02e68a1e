//! Small data sets for the tests of the data path.

use std::path::{Path, PathBuf};

use jpeg_encoder::{ColorType, Encoder};

/// A directory that is removed when dropped.
pub(crate) struct Dir(tempfile::TempDir);

impl Dir {
    pub(crate) fn new(name: &str) -> Dir {
        Dir(tempfile::Builder::new().prefix(name).tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Writes `bytes` to `path`, and creates the directories above.
pub(crate) fn write(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

/// An empty file.
pub(crate) fn touch(path: &Path) {
    write(path, b"");
}

/// A JPEG of these raw pixels.
pub(crate) fn jpeg(width: u32, height: u32, color: ColorType, pixels: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Encoder::new(&mut bytes, 95).encode(pixels, width as u16, height as u16, color).unwrap();
    bytes
}

/// A PNG of these raw pixels.
pub(crate) fn png(width: u32, height: u32, color: png::ColorType, pixels: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(color);
    encoder.write_header().unwrap().write_image_data(pixels).unwrap();
    bytes
}

/// A data set of `classes` classes with `images` JPEGs per class, each with its own gradient.
pub(crate) fn data_set(classes: u8, images: u8) -> Dir {
    let dir = Dir::new("set");
    for class in 0..classes {
        for image in 0..images {
            let (width, height) = if image % 3 == 0 { (30, 40) } else { (50, 36) };
            let pixels: Vec<u8> = (0..width * height)
                .flat_map(|at| {
                    [(at % width * 5) as u8, class * 40, image.wrapping_mul(23).wrapping_add(at as u8)]
                })
                .collect();
            write(&image_path(dir.path(), class, image), &jpeg(width, height, ColorType::Rgb, &pixels));
        }
    }
    dir
}

/// Where [`data_set`] puts an image.
pub(crate) fn image_path(root: &Path, class: u8, image: u8) -> PathBuf {
    root.join(format!("train/class{class}/{image:03}.jpg"))
}
