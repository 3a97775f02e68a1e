//! Generates photograph-like images from a seed. All arithmetic is in integers, so every machine makes the same pixels.
//!
//! How long an image takes to decode depends on its detail: a flat drawing decodes far faster than a photograph. So
//! these images have detail at every scale (octaves of value noise), objects with edges, shading and soft shadows,
//! colour gradients and sensor noise. The class determines the palette and the shape of the objects, so a network can
//! learn it.

use crate::random::SplitMix64;

/// An RGB image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Photo {
    /// Width in pixels.
    pub width: u16,
    /// Height in pixels.
    pub height: u16,
    /// `height × width × 3` bytes, row by row.
    pub rgb: Vec<u8>,
}

/// A colour with 16 steps per step of a byte.
type Color = [i32; 3];

/// 1 as a fixed-point number.
const ONE: i32 = 256;

/// Generates the image of class `class` for `seed`.
pub fn photo(class: u32, seed: u64, width: u16, height: u16) -> Photo {
    let mut random = Random(SplitMix64::new(mix(&[seed, u64::from(class)])));
    let (w, h) = (i32::from(width), i32::from(height));
    let palette = palette(class, &mut random);
    let mut canvas = background(&palette, w, h, &mut random);
    let texture = texture(w, h, &mut random);
    let objects = 3 + random.below(5);
    for number in 0..objects {
        let object = Object::new(class, palette[2 + number as usize % 3], w, h, &mut random);
        object.draw(&mut canvas, &texture, w, h);
    }
    let rgb = expose(&canvas, w, h, &mut random);
    Photo { width, height, rgb }
}

/// Mixes numbers into one that depends on all of their bits.
pub fn mix(parts: &[u64]) -> u64 {
    SplitMix64::of(0, parts).draw()
}

struct Random(SplitMix64);

impl Random {
    /// A number in `0..end`; `end` is positive.
    fn below(&mut self, end: i32) -> i32 {
        (((self.0.draw() >> 33) * end as u64) >> 31) as i32
    }

    /// A number in `low..high`.
    fn between(&mut self, low: i32, high: i32) -> i32 {
        low + self.below(high - low)
    }
}

/// Two colours for the background and three for the objects, around the hue of the class.
fn palette(class: u32, random: &mut Random) -> [Color; 5] {
    // Steps by the golden angle make neighbouring classes differ most. The full circle is 1536 = 6 × 256.
    let hue = (class * 949 % 1536) as i32;
    let near = |random: &mut Random, away: i32| hue + away + random.between(-50, 50);
    [
        color(near(random, 0), random.between(50, 120), random.between(150, 220)),
        color(near(random, 120), random.between(60, 140), random.between(60, 130)),
        color(near(random, 768), random.between(120, 220), random.between(110, 230)),
        color(near(random, 500), random.between(80, 200), random.between(70, 200)),
        color(near(random, 100), random.between(30, 120), random.between(120, 240)),
    ]
}

/// The colour of a hue (1536 is the full circle), saturation and value (256 is 1).
fn color(hue: i32, saturation: i32, value: i32) -> Color {
    let hue = hue.rem_euclid(1536);
    let ramp = |shift: i32| ((hue + shift).rem_euclid(1536) - 768).abs() - 256;
    let channel = |shift: i32| {
        let full = ramp(shift).clamp(0, ONE);
        value * (ONE * ONE - saturation * (ONE - full)) / ONE * 16 / ONE
    };
    [channel(0), channel(1024), channel(512)]
}

/// A gradient from sky to ground, with detail at every scale.
fn background(palette: &[Color; 5], w: i32, h: i32, random: &mut Random) -> Vec<Color> {
    let mut light = vec![0i32; (w * h) as usize];
    let roughness = random.between(70, 110);
    let mut amplitude = 1400;
    for cell in [128, 64, 32, 16, 8, 4] {
        add_noise(&mut light, w, h, cell, amplitude, random.0.draw());
        amplitude = amplitude * roughness / 150;
    }
    let mut tint = vec![0i32; (w * h) as usize];
    for (cell, amplitude) in [(128, 500), (32, 200), (8, 80)] {
        add_noise(&mut tint, w, h, cell, amplitude, random.0.draw());
    }
    let (slope_x, slope_y) = (random.between(-100, 101), random.between(120, 256));
    let (sky, ground) = (palette[0], palette[1]);
    let mut canvas = Vec::with_capacity((w * h) as usize);
    for y in 0..h {
        for x in 0..w {
            let at = (y * w + x) as usize;
            let along = (x * slope_x / w + y * slope_y / h + light[at] / 24).clamp(0, ONE);
            let shade = light[at] * 3 / 4;
            canvas.push(std::array::from_fn(|channel| {
                let base = sky[channel] + (ground[channel] - sky[channel]) * along / ONE;
                base + shade + tint[at] * (1 - channel as i32)
            }));
        }
    }
    canvas
}

/// The surface of the objects: fine noise.
fn texture(w: i32, h: i32, random: &mut Random) -> Vec<i32> {
    let mut field = vec![0i32; (w * h) as usize];
    for (cell, amplitude) in [(16, 300), (4, 260)] {
        add_noise(&mut field, w, h, cell, amplitude, random.0.draw());
    }
    field
}

/// Adds value noise within ± `amplitude`: random values on a lattice of `cell` pixels (a power of two), smoothly
/// interpolated.
fn add_noise(field: &mut [i32], w: i32, h: i32, cell: i32, amplitude: i32, seed: u64) {
    let columns = w / cell + 2;
    let value = |column: i32, row: i32| {
        let bits = mix(&[seed, column as u64, row as u64]) >> 48;
        (bits as i32 - 32768) * amplitude / 32768
    };
    let lattice_row = |row: i32| -> Vec<i32> { (0..columns).map(|column| value(column, row)).collect() };
    // 3t² − 2t³, with t from 0 to 1 over a cell.
    let fade: Vec<i32> = (0..cell)
        .map(|step| {
            let t = step * ONE / cell;
            t * t * (3 * ONE - 2 * t) / (ONE * ONE)
        })
        .collect();
    let (mut above, mut below) = (lattice_row(0), lattice_row(1));
    let mut line = vec![0i32; columns as usize];
    for (y, row) in (0..h).zip(field.chunks_exact_mut(w as usize)) {
        if y > 0 && y % cell == 0 {
            above = std::mem::replace(&mut below, lattice_row(y / cell + 1));
        }
        let down = fade[(y % cell) as usize];
        for ((value, a), b) in line.iter_mut().zip(&above).zip(&below) {
            *value = a + (b - a) * down / ONE;
        }
        for (pixels, ends) in row.chunks_mut(cell as usize).zip(line.windows(2)) {
            for (pixel, across) in pixels.iter_mut().zip(&fade) {
                *pixel += ends[0] + (ends[1] - ends[0]) * across / ONE;
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Shape {
    Ellipse,
    Box,
    Ring,
    Stripes,
}

/// An object in front of the background.
struct Object {
    shape: Shape,
    color: Color,
    centre: (i32, i32),
    radius: (i32, i32),
    /// Its rotation as a Pythagorean triple, which is exact in integers: cosine and sine times the hypotenuse,
    /// hypotenuse.
    rotation: (i32, i32, i32),
}

impl Object {
    fn new(class: u32, color: Color, w: i32, h: i32, random: &mut Random) -> Object {
        const ROTATIONS: [(i32, i32, i32); 6] =
            [(1, 0, 1), (4, 3, 5), (3, 4, 5), (12, 5, 13), (15, 8, 17), (3, -4, 5)];
        let shape = [Shape::Ellipse, Shape::Box, Shape::Ring, Shape::Stripes][class as usize % 4];
        let small = w.min(h);
        let radius = |random: &mut Random| random.between(small / 12, small / 4 + 2).max(3);
        Object {
            shape,
            color,
            centre: (random.below(w), random.below(h)),
            radius: (radius(random), radius(random)),
            rotation: ROTATIONS[random.below(6) as usize],
        }
    }

    /// Draws the object, lit from the upper left, on top of its shadow. `texture` is added to its colour.
    fn draw(&self, canvas: &mut [Color], texture: &[i32], w: i32, h: i32) {
        let reach = (self.radius.0 + self.radius.1) * 2;
        let (cx, cy) = self.centre;
        let offset = (self.radius.0.min(self.radius.1) / 4).max(1);
        for y in (cy - reach).max(0)..(cy + reach).min(h) {
            for x in (cx - reach).max(0)..(cx + reach).min(w) {
                let at = (y * w + x) as usize;
                let shadow = self.coverage(x - cx - offset, y - cy - offset, 450);
                let cover = self.coverage(x - cx, y - cy, 40);
                if shadow == 0 && cover == 0 {
                    continue;
                }
                let lit = (cx + cy - x - y) * 900 / reach + texture[at];
                for (channel, value) in canvas[at].iter_mut().enumerate() {
                    let dark = *value - *value * shadow / (2 * ONE);
                    *value = dark + (self.color[channel] + lit - dark) * cover / ONE;
                }
            }
        }
    }

    /// The coverage of the pixel at (`dx`, `dy`) from the centre; 256 is full. The edge is blurred by `soft` to both
    /// sides, in 1/1024 of the object's radius.
    fn coverage(&self, dx: i32, dy: i32, soft: i32) -> i32 {
        let (cos, sin, hypotenuse) = self.rotation;
        let u = (dx * cos + dy * sin) * 1024 / (hypotenuse * self.radius.0);
        let v = (dy * cos - dx * sin) * 1024 / (hypotenuse * self.radius.1);
        let (u, v) = (u.clamp(-4096, 4096), v.clamp(-4096, 4096));
        let round = (u * u + v * v) / 1024;
        let distance = match self.shape {
            Shape::Ellipse => round,
            Shape::Box => u.abs().max(v.abs()),
            Shape::Ring => (round - 700).abs() * 3,
            // A box that is cut into bars.
            Shape::Stripes => {
                let bar = (u.rem_euclid(512) - 256).abs() * 5;
                u.abs().max(v.abs()).max(bar + 200)
            }
        };
        ((1024 + soft - distance) * ONE / (2 * soft)).clamp(0, ONE)
    }
}

/// Simulates a camera: vignetting, noise that grows with brightness, and rounding to bytes.
fn expose(canvas: &[Color], w: i32, h: i32, random: &mut Random) -> Vec<u8> {
    let corner = w * w / 4 + h * h / 4;
    let mut rgb = Vec::with_capacity(canvas.len() * 3);
    for (y, row) in (0..h).zip(canvas.chunks_exact(w as usize)) {
        for (x, pixel) in (0..w).zip(row) {
            let (dx, dy) = (x - w / 2, y - h / 2);
            let light = ONE - 60 * (dx * dx + dy * dy) / corner.max(1);
            let bits = random.0.draw();
            for (channel, value) in pixel.iter().enumerate() {
                let value = value * light / ONE;
                let bits = (bits >> (channel * 16)) as i32;
                // The sum of two random bytes has a triangular distribution, close enough to sensor noise.
                let noise = (bits & 0xff) + (bits >> 8 & 0xff) - 255;
                let strength = 40 + value.clamp(0, 4095) / 64;
                rgb.push(((value + noise * strength / 256 + 8) / 16).clamp(0, 255) as u8);
            }
        }
    }
    rgb
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    fn mean(photo: &Photo, channel: usize) -> f64 {
        let sum: u64 = photo.rgb.iter().skip(channel).step_by(3).map(|&byte| u64::from(byte)).sum();
        sum as f64 / (photo.rgb.len() / 3) as f64
    }

    #[test]
    fn images_of_any_size_are_complete() {
        for (width, height) in [(500, 375), (375, 500), (64, 33), (1, 1), (7, 300)] {
            for class in 0..4 {
                let photo = photo(class, 5, width, height);
                assert_eq!(photo.rgb.len(), usize::from(width) * usize::from(height) * 3);
            }
        }
    }

    #[test]
    fn seed_and_class_determine_the_image() {
        let first = photo(1, 2, 80, 60);
        assert_eq!(first, photo(1, 2, 80, 60));
        assert_ne!(first, photo(2, 2, 80, 60));
        assert_ne!(first, photo(1, 3, 80, 60));
    }

    #[test]
    fn classes_differ_in_colour() {
        let balance = |class: u32| -> Vec<f64> {
            (0..12)
                .map(|seed| {
                    let photo = photo(class, seed, 100, 75);
                    mean(&photo, 0) - mean(&photo, 2)
                })
                .collect()
        };
        let (red, blue) = (balance(0), balance(1));
        let average = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        assert!((average(&red) - average(&blue)).abs() > 15.0, "{red:?} {blue:?}");
    }

    #[test]
    fn images_compress_like_photographs() {
        let mut bits = 0.0;
        for seed in 0..6 {
            let photo = photo(seed as u32, seed, 500, 375);
            let mut bytes = Vec::new();
            let mut encoder = jpeg_encoder::Encoder::new(&mut bytes, 90);
            encoder.set_sampling_factor(jpeg_encoder::SamplingFactor::F_2_2);
            encoder.encode(&photo.rgb, 500, 375, jpeg_encoder::ColorType::Rgb).unwrap();
            bits += bytes.len() as f64 * 8.0 / (500.0 * 375.0) / 6.0;
        }
        assert!((1.0..1.8).contains(&bits), "{bits} bits per pixel");
    }

    #[test]
    fn the_pixels_do_not_change() {
        // If you change them on purpose, increment GENERATOR: otherwise old data sets on disk count as up to date.
        let mut hash = Sha256::new();
        for class in 0..4 {
            hash.update(photo(class, 42, 120, 90).rgb);
        }
        assert_eq!(hex::encode(&hash.finalize()[..8]), "fc850703daa96c16");
    }
}
