//! Which files are images.

/// What the name of an image ends in: `torchvision.datasets.folder.IMG_EXTENSIONS`.
pub(super) const EXTENSIONS: &[&str] =
    &[".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"];
