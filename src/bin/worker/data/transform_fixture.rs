//! Compares the decoder and the transform with torchvision's, on images of every form that
//! `tests/fixtures/transforms.py` made.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::super::decode::Decoder;
use super::*;

/// The largest allowed mean absolute difference from torchvision, of numbers from 0 to 1. Observed: 0.66 ÷ 255 where
/// colours are enlarged most, because `zune-jpeg` and libjpeg-turbo round differently, and 0.2 ÷ 255 for lossless
/// images.
const MEAN_ALLOWED: f64 = 1.0 / 255.0;

/// The largest allowed difference of a single number, so that no single row or corner is wrong. Observed: 3 ÷ 255.
const MOST_ALLOWED: f64 = 8.0 / 255.0;

#[derive(Deserialize)]
struct Fixture {
    size: u32,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    file: String,
    top: u32,
    left: u32,
    height: u32,
    width: u32,
    flip: bool,
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/transforms")
}

/// The two squares of a sheet as numbers from 0 to 1, `[height, width, channel]`.
fn expected(file: &str, size: usize) -> [Vec<f64>; 2] {
    let mut decoder = Decoder::default();
    let sheet = decoder.decode(&directory().join(format!("{file}.expected.png"))).unwrap();
    assert_eq!((sheet.width as usize, sheet.height as usize), (2 * size, size));
    let square = |begin: usize| {
        let rows = sheet.pixels.chunks_exact(2 * size * 3);
        rows.flat_map(|row| row[begin..begin + size * 3].iter().map(|&byte| f64::from(byte) / 255.0))
            .collect()
    };
    [square(0), square(size * 3)]
}

/// The mean and the largest absolute difference between `expected` and what `write` writes, of numbers from 0 to 1.
fn difference(expected: &[f64], write: impl FnOnce(&mut [f32])) -> (f64, f64) {
    let mut numbers = vec![0.0; expected.len()];
    write(&mut numbers);
    let values = numbers.as_chunks::<3>().0.iter().flat_map(|pixel| {
        std::array::from_fn::<f64, 3, _>(|channel| f64::from(pixel[channel] * STD[channel] + MEAN[channel]))
    });
    let differences: Vec<f64> =
        values.zip(expected).map(|(found, expected)| (found - expected).abs()).collect();
    let mean = differences.iter().sum::<f64>() / differences.len() as f64;
    (mean, differences.into_iter().fold(0.0, f64::max))
}

#[test]
fn images_equal_those_of_torchvision() {
    let text = std::fs::read_to_string(directory().join("cases.json")).unwrap();
    let fixture: Fixture = serde_json::from_str(&text).unwrap();
    assert!(fixture.cases.len() >= 20);
    let mut transform = Transform::new(fixture.size, false, Layout::Nhwc);
    let (mut decoder, mut wrong) = (Decoder::default(), Vec::new());
    for Case { file, top, left, height, width, flip } in fixture.cases {
        let image = decoder.decode(&directory().join(&file)).unwrap();
        let [centre, crop] = expected(&file, fixture.size as usize);
        let found = [
            ("centre", difference(&centre, |out| transform.apply(image, &mut Random::of(&[]), out))),
            (
                "crop",
                difference(&crop, |out| {
                    transform.crop(image, Crop { left, top, width, height });
                    transform.write(flip, out);
                }),
            ),
        ];
        for (what, (mean, most)) in found {
            let line = format!("{file} {what}: mean {:.3}, most {:.1} of 255", mean * 255.0, most * 255.0);
            println!("{line}");
            if mean > MEAN_ALLOWED || most > MOST_ALLOWED {
                wrong.push(line);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
