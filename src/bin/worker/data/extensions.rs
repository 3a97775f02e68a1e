//! Which files are images.

/// The endings of images' names: `torchvision.datasets.folder.IMG_EXTENSIONS`.
pub(super) const EXTENSIONS: &[&str] =
    &[".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"];
