//! Renders figures as PNG. The font is built in, so that every machine draws the same pixels.

use std::io::Write;
use std::sync::Arc;

use resvg::{tiny_skia, usvg};

use crate::threads;

/// PNG pixels per SVG pixel. Text stays sharp on high-resolution screens.
const SCALE: f32 = 2.0;

/// The number of rows of pixels in a band.
const BAND: u32 = 256;

/// The compressed bytes per chunk of the file.
const CHUNK: usize = 1 << 16;

/// An SVG cannot be drawn.
#[derive(Debug, thiserror::Error)]
pub enum DrawError {
    /// resvg cannot parse it.
    #[error("the figure is not a valid SVG")]
    Parse(#[source] Box<usvg::Error>),
    /// It is too large, or has no area.
    #[error("cannot draw an image of {width} × {height} pixels")]
    Size {
        /// The width in pixels.
        width: u32,
        /// The height in pixels.
        height: u32,
    },
    /// The pixels cannot be encoded as PNG.
    #[error("cannot encode the image as PNG: {0}")]
    Encode(String),
}

/// Draws each of `svgs` as a PNG, several at a time.
pub(super) fn pngs(svgs: &[&str]) -> Vec<Result<Vec<u8>, DrawError>> {
    let fonts = fonts();
    let options = usvg::Options { fontdb: Arc::new(fonts), ..usvg::Options::default() };
    threads::each(svgs.len(), |number| drawn(svgs[number], &options))
}

/// The font of all figures.
pub(super) fn fonts() -> usvg::fontdb::Database {
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_data(epaint_default_fonts::UBUNTU_LIGHT.to_vec());
    fonts.set_sans_serif_family("Ubuntu");
    fonts
}

fn drawn(svg: &str, options: &usvg::Options<'_>) -> Result<Vec<u8>, DrawError> {
    let tree = usvg::Tree::from_str(&without_hover(svg), options)
        .map_err(|source| DrawError::Parse(Box::new(source)))?;
    let size = tree.size();
    let [width, height] = [size.width(), size.height()].map(|length| (length * SCALE).ceil() as u32);
    let band = tiny_skia::Pixmap::new(width, height.min(BAND)).ok_or(DrawError::Size { width, height })?;
    encoded(&tree, height, band).map_err(|error| DrawError::Encode(error.to_string()))
}

/// `svg` without its invisible parts, which are most of it: hover texts and links.
fn without_hover(svg: &str) -> String {
    let mut kept = String::with_capacity(svg.len() / 2);
    let mut rest = svg;
    while let Some((before, tag)) = rest.split_once('<') {
        kept.push_str(before);
        let end = match tag {
            _ if tag.starts_with("title>") => Some("</title>"),
            _ if tag.starts_with("a ") || tag.starts_with("/a>") => Some(">"),
            _ => None,
        };
        rest = match end.and_then(|end| tag.split_once(end)) {
            Some((_, after)) => after,
            None => {
                kept.push('<');
                tag
            }
        };
    }
    kept + rest
}

/// Draws and encodes band by band, in the pixels of `band`, so that a tall figure takes no more memory than a low one.
/// Most of a figure is background. The fast method takes less than half of the usual one's time, for twice the bytes.
fn encoded(
    tree: &usvg::Tree,
    height: u32,
    mut band: tiny_skia::Pixmap,
) -> Result<Vec<u8>, png::EncodingError> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, band.width(), height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::Fast);
    encoder.set_filter(png::Filter::Up);
    let mut header = encoder.write_header()?;
    let mut writer = header.stream_writer_with_size(CHUNK)?;
    let mut colours = vec![0; 3 * band.pixels().len()];
    for top in (0..height).step_by(BAND as usize) {
        band.fill(tiny_skia::Color::TRANSPARENT);
        let place = tiny_skia::Transform::from_scale(SCALE, SCALE).post_translate(0.0, -(top as f32));
        resvg::render(tree, place, &mut band.as_mut());
        // Every figure has an opaque background, so its colours are not weakened by any transparency.
        let opaque = |[red, green, blue, _]: &[u8; 4]| [*red, *green, *blue];
        let pixels = band.data().as_chunks().0;
        colours.as_chunks_mut().0.iter_mut().zip(pixels).for_each(|(colour, pixel)| *colour = opaque(pixel));
        let rows = (height - top).min(band.height()) as usize;
        writer.write_all(&colours[..3 * band.width() as usize * rows])?;
    }
    writer.finish()?;
    header.finish()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::super::inks::INK;
    use super::super::letters::text_width;
    use super::super::svg::{Anchor, Svg};
    use super::*;

    fn alone(svg: &str) -> Vec<u8> {
        pngs(&[svg]).remove(0).unwrap()
    }

    /// A character without a glyph draws no pixels.
    #[test]
    fn the_font_has_all_characters_of_figures() {
        let blank = alone(&Svg::new(40.0, "x").finish(40.0));
        for character in "abcXYZ0189±×÷·–°µ²%/()=:_…".chars() {
            let mut svg = Svg::new(40.0, "x");
            svg.text((10.0, 30.0), 20.0, Anchor::Start, INK, &character.to_string());
            assert_ne!(alone(&svg.finish(40.0)), blank, "{character}");
        }
    }

    /// The table of widths is that of the font.
    #[test]
    fn texts_are_as_wide_as_in_the_font() {
        let options = usvg::Options { fontdb: Arc::new(fonts()), ..usvg::Options::default() };
        let letters: String = (' '..='~').filter(|letter| !"<>&\"".contains(*letter)).collect();
        for letter in letters.chars().chain("±×÷·–°µ²³…⁶≤≥".chars()) {
            // Eight of them, between letters, since spaces at an end have no width.
            let text = format!("x{}x", letter.to_string().repeat(8));
            let family = "font-family=\"Ubuntu\" font-kerning=\"none\" xml:space=\"preserve\"";
            let svg = format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"900\" height=\"99\"><text x=\"10\" y=\"50\" \
                 font-size=\"50\" {family}>{text}</text></svg>"
            );
            let tree = usvg::Tree::from_str(&svg, &options).unwrap();
            let width = f64::from(tree.root().abs_bounding_box().width());
            let expected = text_width(&text, 50.0);
            // The font has kerning for some pairs of letters.
            assert!(
                (width / expected - 1.0).abs() < 0.06,
                "{letter}: {width} in the font, {expected} in the table"
            );
        }
    }

    /// A figure that is taller than a band, with a line in each band at its place.
    #[test]
    fn bands_meet() {
        let mut svg = Svg::new(8.0, "x");
        let lines: Vec<f64> = (0..12).map(|line| 20.0 + 60.0 * f64::from(line)).collect();
        for top in &lines {
            svg.rectangle([0.0, *top, 8.0, top + 5.0], INK, INK);
        }
        let file = alone(&svg.finish(740.0));
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (16, 1480));
        let is_dark = |row: usize| pixels[row * 16 * 3 + 8 * 3] < 128;
        for row in 0..1480 {
            let height = (row as f64 + 0.5) / 2.0;
            let expected = lines.iter().any(|top| (*top..top + 5.0).contains(&height));
            // The border of a rectangle reaches half a pixel beyond it.
            let is_edge =
                lines.iter().any(|top| (height - top).abs() < 1.0 || (height - top - 5.0).abs() < 1.0);
            assert!(is_edge || is_dark(row) == expected, "row {row}");
        }
    }

    #[test]
    fn many_are_drawn_in_their_order() {
        let svgs: Vec<String> = (1..=20).map(|width| Svg::new(f64::from(width), "x").finish(4.0)).collect();
        let drawn = pngs(&svgs.iter().map(String::as_str).collect::<Vec<_>>());
        let alone: Vec<Vec<u8>> = svgs.iter().map(|svg| self::tests::alone(svg)).collect();
        assert_eq!(drawn.into_iter().map(Result::unwrap).collect::<Vec<_>>(), alone);
    }

    #[test]
    fn invisible_parts_are_left_out() {
        let svg =
            "<svg><title>all</title><rect/><a href=\"x\"><circle><title>a\nb</title></circle></a>1</svg>\n";
        assert_eq!(without_hover(svg), "<svg><rect/><circle></circle>1</svg>\n");
        assert_eq!(without_hover("<svg"), "<svg");
        assert_eq!(without_hover("<title>open"), "<title>open");
    }

    #[test]
    fn an_invalid_svg_is_refused() {
        assert!(matches!(pngs(&["<svg"])[..], [Err(DrawError::Parse(_))]));
    }
}
