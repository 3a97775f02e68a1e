//! Image files to RGB bytes, as Pillow's `Image.open(path).convert("RGB")` gives them.

use std::io::Read;
use std::path::{Path, PathBuf};

use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// Why an image cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecodeError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file begins like no format that is decoded here.
    #[error("{} is neither JPEG nor PNG", .0.display())]
    UnknownFormat(PathBuf),
    /// Not a sound JPEG.
    #[error("{} is not a sound JPEG", path.display())]
    Jpeg {
        /// The file.
        path: PathBuf,
        /// Why; the decoder's own error is no `std::error::Error` on every platform, so it travels as a text.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Not a sound PNG.
    #[error("{} is not a sound PNG", path.display())]
    Png {
        /// The file.
        path: PathBuf,
        /// Why.
        source: png::DecodingError,
    },
}

/// Decodes one image after the other into the same memory.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    bytes: Vec<u8>,
    pixels: Vec<u8>,
}

/// A decoded image: rows of RGB bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rgb<'a> {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// `height × width × 3` bytes.
    pub pixels: &'a [u8],
}

impl Decoder {
    /// Reads and decodes the image at `path`. What it is, its first bytes say: ImageNet has a PNG that is called JPEG.
    ///
    /// # Errors
    /// The file cannot be read, or is not a sound JPEG or PNG.
    pub(super) fn decode(&mut self, path: &Path) -> Result<Rgb<'_>, DecodeError> {
        self.bytes.clear();
        std::fs::File::open(path)
            .and_then(|mut file| file.read_to_end(&mut self.bytes))
            .map_err(|source| DecodeError::Read { path: path.to_owned(), source })?;
        let (width, height) = if self.bytes.starts_with(&[0xff, 0xd8, 0xff]) {
            self.jpeg().map_err(|error| DecodeError::Jpeg {
                path: path.to_owned(),
                source: error.to_string().into(),
            })?
        } else if self.bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            self.png().map_err(|source| DecodeError::Png { path: path.to_owned(), source })?
        } else {
            return Err(DecodeError::UnknownFormat(path.to_owned()));
        };
        Ok(Rgb { width, height, pixels: &self.pixels })
    }

    /// Grey, YCbCr, CMYK and YCCK become RGB in the decoder. It knows no scaled decoding.
    fn jpeg(&mut self) -> Result<(u32, u32), DecodeErrors> {
        let options = DecoderOptions::default().jpeg_set_out_colorspace(ColorSpace::RGB);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(&self.bytes), options);
        decoder.decode_headers()?;
        let size = decoder.output_buffer_size().ok_or(DecodeErrors::FormatStatic("no frame"))?;
        let (width, height) = decoder.dimensions().ok_or(DecodeErrors::FormatStatic("no frame"))?;
        if size == 0 {
            return Err(DecodeErrors::FormatStatic("no pixels"));
        }
        // Zeroed, so that a torn file shows nothing of the image that was here before.
        self.pixels.clear();
        self.pixels.resize(size, 0);
        decoder.decode_into(&mut self.pixels)?;
        Ok((width as u32, height as u32))
    }

    /// Palettes, grey and 16 bits become RGB; alpha is dropped, as Pillow drops it.
    fn png(&mut self) -> Result<(u32, u32), png::DecodingError> {
        let mut decoder = png::Decoder::new(std::io::Cursor::new(&self.bytes));
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let mut reader = decoder.read_info()?;
        let size = reader.output_buffer_size().ok_or(png::DecodingError::LimitsExceeded)?;
        let mut raw = vec![0; size];
        let frame = reader.next_frame(&mut raw)?;
        let raw = &raw[..frame.buffer_size()];
        self.pixels.clear();
        match frame.color_type {
            png::ColorType::Grayscale => self.pixels.extend(raw.iter().flat_map(|&grey| [grey; 3])),
            png::ColorType::GrayscaleAlpha => {
                self.pixels.extend(raw.chunks_exact(2).flat_map(|pixel| [pixel[0]; 3]));
            }
            png::ColorType::Rgba => {
                self.pixels.extend(raw.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]));
            }
            png::ColorType::Rgb | png::ColorType::Indexed => self.pixels.extend_from_slice(raw),
        }
        Ok((frame.width, frame.height))
    }
}

#[cfg(test)]
mod tests {
    use jpeg_encoder::ColorType;

    use super::super::testing::{Dir, jpeg, png};
    use super::*;

    const WIDTH: u32 = 20;
    const HEIGHT: u32 = 10;

    /// Decodes a file of these bytes and tells its size and the mean of each channel.
    fn means(bytes: &[u8]) -> Result<(u32, u32, [u32; 3]), String> {
        let dir = Dir::new("decode");
        let path = dir.path().join("image");
        std::fs::write(&path, bytes).unwrap();
        let mut decoder = Decoder::default();
        let image = decoder.decode(&path).map_err(|error| error.to_string())?;
        assert_eq!(image.pixels.len(), (image.width * image.height * 3) as usize);
        let mean = |channel: usize| {
            let sum: u32 = image.pixels.chunks_exact(3).map(|pixel| u32::from(pixel[channel])).sum();
            sum / (image.width * image.height)
        };
        Ok((image.width, image.height, [mean(0), mean(1), mean(2)]))
    }

    fn flat(pixel: &[u8]) -> Vec<u8> {
        pixel.repeat((WIDTH * HEIGHT) as usize)
    }

    fn close(found: [u32; 3], expected: [u32; 3]) {
        assert!(found.iter().zip(expected).all(|(a, b)| a.abs_diff(b) <= 3), "{found:?} is not {expected:?}");
    }

    #[test]
    fn every_colour_space_becomes_rgb() {
        // CMYK as Adobe's programs write it, that is, inverted: 0 is full ink.
        for (pixel, color, expected) in [
            (&[200, 100, 50][..], ColorType::Rgb, [200, 100, 50]),
            (&[90][..], ColorType::Luma, [90, 90, 90]),
            (&[55, 155, 205, 0][..], ColorType::Cmyk, [200, 100, 50]),
            (&[55, 155, 205, 0][..], ColorType::CmykAsYcck, [200, 100, 50]),
        ] {
            let bytes = jpeg(WIDTH, HEIGHT, color, &flat(pixel));
            let (width, height, found) = means(&bytes).unwrap();
            assert_eq!((width, height), (WIDTH, HEIGHT), "{color:?}");
            close(found, expected);
        }
        for (pixel, color, expected) in [
            (&[200, 100, 50][..], png::ColorType::Rgb, [200, 100, 50]),
            (&[200, 100, 50, 7][..], png::ColorType::Rgba, [200, 100, 50]),
            (&[90][..], png::ColorType::Grayscale, [90, 90, 90]),
            (&[90, 7][..], png::ColorType::GrayscaleAlpha, [90, 90, 90]),
        ] {
            assert_eq!(means(&png(WIDTH, HEIGHT, color, &flat(pixel))), Ok((WIDTH, HEIGHT, expected)));
        }
    }

    #[test]
    fn what_is_no_image_is_named() {
        assert!(means(b"GIF89a").unwrap_err().ends_with("image is neither JPEG nor PNG"));
        assert!(means(b"").unwrap_err().ends_with("image is neither JPEG nor PNG"));
        let jpeg = jpeg(WIDTH, HEIGHT, ColorType::Rgb, &flat(&[1, 2, 3]));
        assert!(means(&jpeg[..100]).unwrap_err().ends_with("image is not a sound JPEG"));
        let png = png(WIDTH, HEIGHT, png::ColorType::Rgb, &flat(&[1, 2, 3]));
        assert!(means(&png[..40]).unwrap_err().ends_with("image is not a sound PNG"));
        let missing = Decoder::default().decode(Path::new("/nowhere/1.jpg")).unwrap_err().to_string();
        assert_eq!(missing, "cannot read /nowhere/1.jpg");
    }

    #[test]
    fn memory_is_used_again_for_a_smaller_image() {
        let dir = Dir::new("again");
        let mut decoder = Decoder::default();
        for (name, width) in [("a", 40), ("b", 8)] {
            let path = dir.path().join(name);
            std::fs::write(&path, jpeg(width, 8, ColorType::Rgb, &vec![128; (width * 8 * 3) as usize]))
                .unwrap();
            assert_eq!(decoder.decode(&path).unwrap().pixels.len(), (width * 8 * 3) as usize);
        }
    }
}
