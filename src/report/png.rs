//! Renders figures as PNG. The font is built in, so that every machine draws the same pixels.

use std::sync::Arc;

use resvg::{tiny_skia, usvg};

use crate::threads;

/// PNG pixels per SVG pixel. Text stays sharp on high-resolution screens.
const SCALE: f32 = 2.0;

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
    let tree = usvg::Tree::from_str(svg, options).map_err(|source| DrawError::Parse(Box::new(source)))?;
    let size = tree.size();
    let [width, height] = [size.width(), size.height()].map(|length| (length * SCALE).ceil() as u32);
    let mut pixels = tiny_skia::Pixmap::new(width, height).ok_or(DrawError::Size { width, height })?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    encoded(&pixels).map_err(|error| DrawError::Encode(error.to_string()))
}

/// Most of a figure is paper. The fast method takes less than half of the usual one's time, for twice the bytes.
fn encoded(pixels: &tiny_skia::Pixmap) -> Result<Vec<u8>, png::EncodingError> {
    // Every figure has an opaque background, so its colours are not weakened by any transparency.
    let opaque = |[red, green, blue, _]: &[u8; 4]| [*red, *green, *blue];
    let data = pixels.data().as_chunks().0;
    let mut colours = vec![0; 3 * data.len()];
    colours.as_chunks_mut().0.iter_mut().zip(data).for_each(|(colour, pixel)| *colour = opaque(pixel));
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, pixels.width(), pixels.height());
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::Fast);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&colours)?;
    writer.finish()?;
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
            // The font moves some pairs of letters apart or together.
            assert!(
                (width / expected - 1.0).abs() < 0.06,
                "{letter}: {width} in the font, {expected} in the table"
            );
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
    fn an_invalid_svg_is_refused() {
        assert!(matches!(pngs(&["<svg"])[..], [Err(DrawError::Parse(_))]));
    }
}
