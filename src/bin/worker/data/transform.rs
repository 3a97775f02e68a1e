//! Converts decoded images to normalised numbers: torchvision's transforms for training and evaluation on ImageNet.
//!
//! Crop and resize are one step. With augmentation, the crop is a view of the image, which is then resized. Without it,
//! only the pixels of the resized image in the centre crop are computed.

use fast_image_resize::images::{CroppedImage, Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};

use super::Layout;
use super::decode::Rgb;
use super::random::Random;

/// ImageNet's mean of red, green and blue from 0 to 1, as torchvision's weights use it.
pub(crate) const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
/// The standard deviation that belongs to [`MEAN`].
pub(crate) const STD: [f32; 3] = [0.229, 0.224, 0.225];

/// A number of a pixel in a batch.
pub(super) trait Number: Copy {
    /// The number for `byte`; `normalised` contains the numbers of all bytes of its channel.
    fn of(byte: u8, normalised: &[f32; 256]) -> Self;
}

impl Number for f32 {
    fn of(byte: u8, normalised: &[f32; 256]) -> f32 {
        normalised[usize::from(byte)]
    }
}

/// Bytes are normalised on the device.
impl Number for u8 {
    fn of(byte: u8, _: &[f32; 256]) -> u8 {
        byte
    }
}

/// Turns images into numbers; keeps the memory it needs between images.
pub(super) struct Transform {
    input_size: u32,
    augment: bool,
    layout: Layout,
    resizer: Resizer,
    resized: Image<'static>,
    /// The normalised number for each byte of each channel.
    table: [[f32; 256]; 3],
}

impl Transform {
    /// The transform to `input_size` × `input_size` pixels.
    pub(super) fn new(input_size: u32, augment: bool, layout: Layout) -> Self {
        let normalised =
            |channel: usize| std::array::from_fn(|byte| (byte as f32 / 255.0 - MEAN[channel]) / STD[channel]);
        Transform {
            input_size,
            augment,
            layout,
            resizer: Resizer::new(),
            resized: Image::new(input_size, input_size, PixelType::U8x3),
            table: std::array::from_fn(normalised),
        }
    }

    /// Whether it crops and flips at random.
    pub(super) fn augments(&self) -> bool {
        self.augment
    }

    /// Writes `image` to `out`, which has `3 × input_size × input_size` numbers. `random` decides on the crop and flip
    /// of the augmentation.
    pub(super) fn apply<N: Number>(&mut self, image: Rgb<'_>, random: &mut Random, out: &mut [N]) {
        if self.augment {
            let crop = random_crop(image.width, image.height, random);
            self.crop(image, crop);
            self.write(random.below(2) == 1, out);
        } else {
            self.centre(image);
            self.write(false, out);
        }
    }

    /// `Resize` and `CenterCrop`, into [`Transform::resized`].
    fn centre(&mut self, image: Rgb<'_>) {
        let area = centre(image.width, image.height, self.input_size);
        // Pixels around the area affect its edges, as if the whole image were resized and then cropped.
        let options = bilinear().crop(area.left, area.top, area.width, area.height);
        self.resizer
            .resize(&source(image), &mut self.resized, &options)
            .expect("both images are U8x3, and the area is inside the image");
    }

    /// `resized_crop`, into [`Transform::resized`].
    fn crop(&mut self, image: Rgb<'_>, crop: Crop) {
        let source = source(image);
        // Pixels around the crop have no effect.
        let view = CroppedImage::new(&source, crop.left, crop.top, crop.width, crop.height)
            .expect("the crop is inside the image");
        self.resizer
            .resize(&view, &mut self.resized, &bilinear())
            .expect("both images are U8x3 and not empty");
    }

    /// Writes the resized image to `out`, as numbers in the requested layout. If `flip` is set, mirrors it.
    fn write<N: Number>(&self, flip: bool, out: &mut [N]) {
        let size = self.input_size as usize;
        let rows = self.resized.buffer().chunks_exact(size * 3).map(|row| row.as_chunks::<3>().0);
        match self.layout {
            Layout::Nhwc => {
                for (row, out) in rows.zip(out.chunks_exact_mut(size * 3)) {
                    self.interleaved(row, flip, out.as_chunks_mut::<3>().0);
                }
            }
            Layout::Nchw => {
                let (red, rest) = out.split_at_mut(size * size);
                let (green, blue) = rest.split_at_mut(size * size);
                for (channel, plane) in [red, green, blue].into_iter().enumerate() {
                    for (row, out) in rows.clone().zip(plane.chunks_exact_mut(size)) {
                        self.planar(row, channel, flip, out);
                    }
                }
            }
        }
    }

    /// One row of pixels as numbers, pixel by pixel.
    fn interleaved<N: Number>(&self, row: &[[u8; 3]], flip: bool, out: &mut [[N; 3]]) {
        let [red, green, blue] = &self.table;
        let number = |pixel: &[u8; 3]| [N::of(pixel[0], red), N::of(pixel[1], green), N::of(pixel[2], blue)];
        if flip {
            out.iter_mut().zip(row.iter().rev()).for_each(|(out, pixel)| *out = number(pixel));
        } else {
            out.iter_mut().zip(row).for_each(|(out, pixel)| *out = number(pixel));
        }
    }

    /// One channel of a row of pixels as numbers.
    fn planar<N: Number>(&self, row: &[[u8; 3]], channel: usize, flip: bool, out: &mut [N]) {
        let table = &self.table[channel];
        let number = |pixel: &[u8; 3]| N::of(pixel[channel], table);
        if flip {
            out.iter_mut().zip(row.iter().rev()).for_each(|(out, pixel)| *out = number(pixel));
        } else {
            out.iter_mut().zip(row).for_each(|(out, pixel)| *out = number(pixel));
        }
    }
}

/// Pillow's bilinear filter: its width follows the reduction, so that nothing aliases.
fn bilinear() -> ResizeOptions {
    ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear))
}

/// The image for the resizer.
fn source(image: Rgb<'_>) -> ImageRef<'_> {
    ImageRef::new(image.width, image.height, image.pixels, PixelType::U8x3)
        .expect("a decoded image has width × height × 3 bytes")
}

/// A part of an image, in pixels of that image.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Area {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

/// The part of an image that `Resize(s)` and `CenterCrop(input_size)` keep, s = round(256 ÷ 224 × `input_size`):
/// 256 and 224 as in torchvision's evaluation of ImageNet.
///
/// The shorter side becomes s, the longer `int(s × long ÷ short)`; the crop begins at `round((side - size) ÷ 2)`, half
/// to even as Python rounds.
fn centre(width: u32, height: u32, input_size: u32) -> Area {
    let short = (f64::from(input_size) * 256.0 / 224.0).round();
    let (width, height) = (f64::from(width), f64::from(height));
    let resized = |side: f64, other: f64| if side <= other { short } else { (short * side / other).floor() };
    let along = |side: f64, other: f64| {
        let resized = resized(side, other);
        let begin = ((resized - f64::from(input_size)) / 2.0).round_ties_even();
        let scale = side / resized;
        // Rounding must not push the end past the image.
        let length = (f64::from(input_size) * scale).min(side - begin * scale);
        (begin * scale, length)
    };
    let ((left, width_kept), (top, height_kept)) = (along(width, height), along(height, width));
    Area { left, top, width: width_kept, height: height_kept }
}

/// A part of an image, in whole pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Crop {
    left: u32,
    top: u32,
    width: u32,
    height: u32,
}

/// `RandomResizedCrop.get_params` of torchvision with scale 0.08–1 and ratio 3/4–4/3: ten tries for an area and an
/// aspect ratio that fit, then the largest centred crop whose ratio is allowed.
fn random_crop(width: u32, height: u32, random: &mut Random) -> Crop {
    const RATIO: (f64, f64) = (3.0 / 4.0, 4.0 / 3.0);
    let area = f64::from(width) * f64::from(height);
    for _ in 0..10 {
        let target = area * random.uniform(0.08, 1.0);
        let aspect = random.uniform(RATIO.0.ln(), RATIO.1.ln()).exp();
        let w = (target * aspect).sqrt().round_ties_even() as u32;
        let h = (target / aspect).sqrt().round_ties_even() as u32;
        if 0 < w && w <= width && 0 < h && h <= height {
            let top = random.below(u64::from(height - h + 1)) as u32;
            let left = random.below(u64::from(width - w + 1)) as u32;
            return Crop { left, top, width: w, height: h };
        }
    }
    let ratio = f64::from(width) / f64::from(height);
    let rounded = |side: f64| (side.round_ties_even() as u32).max(1);
    let (w, h) = if ratio < RATIO.0 {
        (width, rounded(f64::from(width) / RATIO.0).min(height))
    } else if ratio > RATIO.1 {
        (rounded(f64::from(height) * RATIO.1).min(width), height)
    } else {
        (width, height)
    };
    Crop { left: (width - w) / 2, top: (height - h) / 2, width: w, height: h }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The allowed difference of the resized images from plain floating point, in levels of 0 to 255. Each of the two
    /// passes rounds to a whole level, which is half a level at most. Their weights have 16 bits: over the at most six
    /// pixels of a sum, that adds less than 6 · 255 · 2⁻¹⁶ per pass.
    const TOLERANCE: f64 = 2.0 * (0.5 + 6.0 * 255.0 / 65536.0);

    /// Pillow's antialiased bilinear resize in plain floating point, one pixel and channel at a time.
    fn resize(pixels: &[u8], width: u32, height: u32, to: (u32, u32), x: u32, y: u32, channel: usize) -> f64 {
        let weights = |from: u32, to: u32, at: u32| -> Vec<f64> {
            let scale = f64::from(from) / f64::from(to);
            let support = scale.max(1.0);
            let centre = (f64::from(at) + 0.5) * scale;
            let raw: Vec<f64> =
                (0..from).map(|i| (1.0 - ((f64::from(i) + 0.5 - centre) / support).abs()).max(0.0)).collect();
            let sum: f64 = raw.iter().sum();
            raw.iter().map(|weight| weight / sum).collect()
        };
        let (across, down) = (weights(width, to.0, x), weights(height, to.1, y));
        let mut value = 0.0;
        for (j, wy) in down.iter().enumerate() {
            for (i, wx) in across.iter().enumerate() {
                value += wy * wx * f64::from(pixels[(j * width as usize + i) * 3 + channel]);
            }
        }
        value
    }

    fn picture(width: u32, height: u32) -> Vec<u8> {
        let mut random = Random::of(&[u64::from(width), u64::from(height)]);
        (0..width * height * 3).map(|_| random.below(256) as u8).collect()
    }

    fn byte(value: f32, channel: usize) -> f64 {
        f64::from((value * STD[channel] + MEAN[channel]) * 255.0)
    }

    #[test]
    fn the_centre_crop_is_torchvisions_resize_and_crop() {
        // 70 × 45 to 32: the short side becomes 37 and the long one 57; the crop begins at 12 and 2 (2.5 to even).
        let (width, height, size) = (70, 45, 32);
        let pixels = picture(width, height);
        let mut out = vec![0.0f32; (size * size * 3) as usize];
        let mut transform = Transform::new(size, false, Layout::Nhwc);
        transform.apply(Rgb { width, height, pixels: &pixels }, &mut Random::of(&[]), &mut out);
        for y in 0..size {
            for x in 0..size {
                for channel in 0..3 {
                    let expected = resize(&pixels, width, height, (57, 37), x + 12, y + 2, channel);
                    let found = byte(out[((y * size + x) * 3) as usize + channel], channel);
                    assert!((found - expected).abs() <= TOLERANCE, "at {x}, {y}: {found} is not {expected}");
                }
            }
        }
    }

    #[test]
    fn the_random_crop_is_cropped_then_resized_then_flipped() {
        let (width, height, size) = (60, 40, 32);
        let pixels = picture(width, height);
        let mut flips = [0, 0];
        for seed in 0..8 {
            let mut random = Random::of(&[seed]);
            let crop = random_crop(width, height, &mut random);
            let flip = random.below(2) == 1;
            flips[usize::from(flip)] += 1;
            let cropped: Vec<u8> = (crop.top..crop.top + crop.height)
                .flat_map(|y| {
                    let begin = ((y * width + crop.left) * 3) as usize;
                    pixels[begin..begin + (crop.width * 3) as usize].to_vec()
                })
                .collect();
            let mut out = vec![0.0f32; (size * size * 3) as usize];
            let mut transform = Transform::new(size, true, Layout::Nhwc);
            transform.apply(Rgb { width, height, pixels: &pixels }, &mut Random::of(&[seed]), &mut out);
            for (x, y) in [(0, 0), (31, 0), (5, 17), (31, 31), (16, 2)] {
                let from = if flip { size - 1 - x } else { x };
                let expected = resize(&cropped, crop.width, crop.height, (size, size), from, y, 1);
                let found = byte(out[((y * size + x) * 3) as usize + 1], 1);
                assert!(
                    (found - expected).abs() <= TOLERANCE,
                    "seed {seed} at {x}, {y}: {found} is not {expected}"
                );
            }
        }
        assert!(flips[0] > 0 && flips[1] > 0, "{flips:?}");
    }

    #[test]
    fn both_layouts_have_the_same_numbers() {
        let (width, height, size) = (40, 33, 32usize);
        let pixels = picture(width, height);
        let image = Rgb { width, height, pixels: &pixels };
        let numbers = |layout| {
            let mut out = vec![0.0; size * size * 3];
            Transform::new(size as u32, true, layout).apply(image, &mut Random::of(&[5]), &mut out);
            out
        };
        let (nhwc, nchw): (Vec<f32>, Vec<f32>) = (numbers(Layout::Nhwc), numbers(Layout::Nchw));
        for at in 0..size * size {
            for channel in 0..3 {
                assert_eq!(nhwc[at * 3 + channel], nchw[channel * size * size + at]);
            }
        }
    }

    /// Normalising these bytes by the formula results in the same numbers, to the last bit.
    #[test]
    fn bytes_are_the_pixels_before_they_are_normalised() {
        let (width, height, size) = (40, 33, 32usize);
        let pixels = picture(width, height);
        let image = Rgb { width, height, pixels: &pixels };
        for (layout, augment) in [(Layout::Nhwc, true), (Layout::Nchw, true), (Layout::Nhwc, false)] {
            let mut transform = Transform::new(size as u32, augment, layout);
            let (mut numbers, mut bytes) = (vec![0f32; size * size * 3], vec![0u8; size * size * 3]);
            transform.apply(image, &mut Random::of(&[5]), &mut numbers);
            transform.apply(image, &mut Random::of(&[5]), &mut bytes);
            for (at, (number, byte)) in numbers.iter().zip(&bytes).enumerate() {
                let channel = if layout == Layout::Nhwc { at % 3 } else { at / (size * size) };
                assert_eq!(*number, (f32::from(*byte) / 255.0 - MEAN[channel]) / STD[channel], "{at}");
            }
            assert!(bytes.iter().collect::<std::collections::BTreeSet<_>>().len() > 64, "{layout:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn crops_are_inside_the_image(width in 1u32..3000, height in 1u32..3000, seed: u64, input_size in 32u32..512) {
            let crop = random_crop(width, height, &mut Random::of(&[seed]));
            proptest::prop_assert!(crop.width > 0 && crop.left + crop.width <= width);
            proptest::prop_assert!(crop.height > 0 && crop.top + crop.height <= height);
            let area = centre(width, height, input_size);
            proptest::prop_assert!(area.left >= 0.0 && area.width > 0.0);
            proptest::prop_assert!(area.left + area.width <= f64::from(width));
            proptest::prop_assert!(area.top >= 0.0 && area.height > 0.0);
            proptest::prop_assert!(area.top + area.height <= f64::from(height));
        }
    }

    #[test]
    fn random_crops_cover_the_scales_and_ratios() {
        let crops: Vec<Crop> =
            (0..2000).map(|seed| random_crop(500, 375, &mut Random::of(&[seed]))).collect();
        let share = |crop: &Crop| f64::from(crop.width * crop.height) / (500.0 * 375.0);
        let ratio = |crop: &Crop| f64::from(crop.width) / f64::from(crop.height);
        assert!(crops.iter().all(|crop| (0.079..=1.0).contains(&share(crop))));
        assert!(crops.iter().all(|crop| (0.74..=1.35).contains(&ratio(crop))));
        let mean = crops.iter().map(share).sum::<f64>() / crops.len() as f64;
        // A try with share t of the area fits a 4:3 image if its aspect is at least 4t ÷ 3. Over t uniform and
        // ln(aspect) uniform, the mean of t given that it fits is 0.432; the standard error of 2000 draws is 0.005.
        assert!((0.415..0.45).contains(&mean), "{mean}");
        assert_eq!(
            random_crop(1000, 10, &mut Random::of(&[1])),
            Crop { left: 493, top: 0, width: 13, height: 10 }
        );
    }
}

#[cfg(test)]
#[path = "transform_fixture.rs"]
mod fixture;
