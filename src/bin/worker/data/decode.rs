//! Decodes image files to RGB bytes, as Pillow's `Image.open(path).convert("RGB")` does. Files that Pillow refuses are
//! errors here too, and both ignore the orientation in EXIF.
//!
//! Images are decoded at their full size, even large ones that end up small. Measurements show that decoding at a
//! reduced scale is not worth it (one core of an EPYC of 2023, photographs at quality 90, milliseconds per image):
//!
//! | size | `zune-jpeg` and resize to 224 | `jpeg-decoder` at 1/2, 1/4, 1/8, without resize |
//! |---|---|---|
//! | 500 × 375 | 0.8 + 0.2 | 1.0, 0.6, 0.6 |
//! | 2000 × 1500 | 9.0 + 1.2 | 11.4, 8.7, 8.0 |
//! | 4000 × 3000 | 37 + 4.7 | 43, 36, 28 |
//!
//! At 1/8, most of the time goes into reading the Huffman codes, which every scale must do. The scales that keep twice
//! the pixels needed (1/2 and 1/4 in the last two rows) gain at most an eighth. The price is a second decoder and
//! other pixels. libjpeg-turbo at 1/4 takes 21 ms for the largest, but it is C, and every build would need `nasm` and
//! `cmake`.

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
    /// The file begins with the signature of neither format.
    #[error("{} is neither JPEG nor PNG", .0.display())]
    UnknownFormat(PathBuf),
    /// Not a sound JPEG.
    #[error("{} is not a sound JPEG", path.display())]
    Jpeg {
        /// The file.
        path: PathBuf,
        /// Why, as text: the decoder's error is not a `std::error::Error` on every platform.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A JPEG without its end. Pillow refuses it too.
    #[error("{} is a truncated JPEG: its end marker is missing", .0.display())]
    Truncated(PathBuf),
    /// Not a sound PNG.
    #[error("{} is not a sound PNG", path.display())]
    Png {
        /// The file.
        path: PathBuf,
        /// Why.
        source: png::DecodingError,
    },
}

/// Decodes one image after another into the same memory.
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
    /// Reads and decodes the image at `path`. Its first bytes decide on the format: ImageNet has a PNG named `.JPEG`.
    ///
    /// # Errors
    /// The file cannot be read, or is not a sound JPEG or PNG.
    pub(super) fn decode(&mut self, path: &Path) -> Result<Rgb<'_>, DecodeError> {
        self.bytes.clear();
        std::fs::File::open(path)
            .and_then(|mut file| file.read_to_end(&mut self.bytes))
            .map_err(|source| DecodeError::Read { path: path.to_owned(), source })?;
        let (width, height) = if self.bytes.starts_with(&[0xff, 0xd8, 0xff]) {
            if is_truncated(&self.bytes) {
                return Err(DecodeError::Truncated(path.to_owned()));
            }
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

    /// The decoder converts grey, YCbCr, CMYK and YCCK to RGB. It does not support scaled decoding.
    fn jpeg(&mut self) -> Result<(u32, u32), DecodeErrors> {
        let options = DecoderOptions::default().jpeg_set_out_colorspace(ColorSpace::RGB);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(&self.bytes), options);
        decoder.decode_headers()?;
        let size = decoder.output_buffer_size().ok_or(DecodeErrors::FormatStatic("no frame"))?;
        let (width, height) = decoder.dimensions().ok_or(DecodeErrors::FormatStatic("no frame"))?;
        if size == 0 {
            return Err(DecodeErrors::FormatStatic("no pixels"));
        }
        // Zeroed, so that a damaged file does not show parts of the previous image.
        self.pixels.clear();
        self.pixels.resize(size, 0);
        decoder.decode_into(&mut self.pixels)?;
        Ok((width as u32, height as u32))
    }

    /// Palettes, grey and 16 bits become RGB; alpha is dropped, as Pillow drops it. Of 16 bits, Pillow takes the upper
    /// eight, except for grey without alpha, which it cuts off at 255.
    fn png(&mut self) -> Result<(u32, u32), png::DecodingError> {
        let mut decoder = png::Decoder::new(std::io::Cursor::new(&self.bytes));
        let header = decoder.read_header_info()?;
        let cut_off =
            (header.color_type, header.bit_depth) == (png::ColorType::Grayscale, png::BitDepth::Sixteen);
        let normalise = png::Transformations::normalize_to_color8();
        decoder.set_transformations(if cut_off { png::Transformations::IDENTITY } else { normalise });
        let mut reader = decoder.read_info()?;
        let size = reader.output_buffer_size().ok_or(png::DecodingError::LimitsExceeded)?;
        let mut raw = vec![0; size];
        let frame = reader.next_frame(&mut raw)?;
        let raw = &raw[..frame.buffer_size()];
        self.pixels.clear();
        match frame.color_type {
            png::ColorType::Grayscale if cut_off => {
                let clipped = |grey: &[u8]| if grey[0] > 0 { u8::MAX } else { grey[1] };
                self.pixels.extend(raw.chunks_exact(2).flat_map(|grey| [clipped(grey); 3]));
            }
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

/// Whether a JPEG's image lacks its end: there is no EOI marker after the start of its first scan. An earlier one
/// belongs to a thumbnail. Inside a scan, 0xff is always followed by 0 or the number of a restart, so none appears by
/// chance.
fn is_truncated(bytes: &[u8]) -> bool {
    const END_OF_IMAGE: [u8; 2] = [0xff, 0xd9];
    // Sound files end with it, so the search begins there.
    let end = bytes.windows(2).rposition(|pair| pair == END_OF_IMAGE);
    end.is_none_or(|end| first_scan(bytes).is_some_and(|scan| end < scan))
}

/// Where the first scan of a JPEG begins, or the end of the file if there is none; `None` if anything before it is not
/// a segment.
fn first_scan(bytes: &[u8]) -> Option<usize> {
    const START_OF_SCAN: u8 = 0xda;
    // After the start of the image come markers of two bytes, each followed by the length of its segment.
    let mut at = 2;
    loop {
        let Some(segment) = bytes.get(at..at + 4) else { return Some(bytes.len()) };
        match segment {
            [0xff, START_OF_SCAN, ..] => return Some(at),
            // Markers can be padded with 0xff.
            [0xff, 0xff, ..] => at += 1,
            [0xff, _, high, low] => at += 2 + usize::from(u16::from_be_bytes([*high, *low])),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use jpeg_encoder::ColorType;

    use super::super::testing::{Dir, jpeg, png};
    use super::*;

    const WIDTH: u32 = 20;
    const HEIGHT: u32 = 10;

    /// Decodes a file of these bytes. Returns its size and the mean of each channel.
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
        // CMYK as Adobe's programs write it, which is inverted: 0 is full ink.
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

    /// `jpeg` with a segment APP1 of `content` after the start of the image, the place of EXIF.
    fn with_app1(jpeg: &[u8], content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len() + 2).unwrap().to_be_bytes();
        [&jpeg[..2], &[0xff, 0xe1], &length, content, &jpeg[2..]].concat()
    }

    #[test]
    fn a_jpeg_without_its_last_bytes_is_truncated() {
        let plain = jpeg(WIDTH, HEIGHT, ColorType::Rgb, &flat(&[200, 100, 50]));
        // The thumbnail in EXIF is a whole JPEG with its own end.
        let thumbnail = with_app1(&plain, &[b"Exif\0\0", plain.as_slice()].concat());
        for whole in [&plain, &thumbnail] {
            assert!(means(whole).is_ok());
            assert!(means(&[whole, b"what a camera appends".as_slice()].concat()).is_ok());
            let scan = first_scan(whole).unwrap();
            for end in scan..whole.len() {
                let message = means(&whole[..end]).unwrap_err();
                assert!(
                    message.ends_with("is a truncated JPEG: its end marker is missing"),
                    "{end}: {message}"
                );
            }
        }
    }

    #[test]
    fn the_orientation_in_exif_is_not_looked_at() {
        // A directory with one entry: tag 0x0112, one short, 6. It means: rotate by 90°.
        let exif = b"Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
        let plain = jpeg(WIDTH, HEIGHT, ColorType::Rgb, &flat(&[200, 100, 50]));
        let turned = means(&with_app1(&plain, exif));
        assert_eq!(turned, means(&plain));
        assert!(turned.is_ok_and(|(width, height, _)| (width, height) == (WIDTH, HEIGHT)));
    }

    #[test]
    fn files_that_are_not_images_are_named() {
        assert!(means(b"GIF89a").unwrap_err().ends_with("image is neither JPEG nor PNG"));
        assert!(means(b"").unwrap_err().ends_with("image is neither JPEG nor PNG"));
        let jpeg = jpeg(WIDTH, HEIGHT, ColorType::Rgb, &flat(&[1, 2, 3]));
        assert!(
            means(&jpeg[..100])
                .unwrap_err()
                .ends_with("image is a truncated JPEG: its end marker is missing")
        );
        assert!(means(b"\xff\xd8\xff\xda\0\x02\xff\xd9").unwrap_err().ends_with("image is not a sound JPEG"));
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
