//! Renders figures as PNG. The font is built in, so that every machine draws the same pixels.

use std::sync::Arc;

use resvg::{tiny_skia, usvg};

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

/// Draws `svg` as a PNG.
///
/// # Errors
/// [`DrawError`].
pub(super) fn png(svg: &str) -> Result<Vec<u8>, DrawError> {
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_data(epaint_default_fonts::UBUNTU_LIGHT.to_vec());
    fonts.set_sans_serif_family("Ubuntu");
    let options = usvg::Options { fontdb: Arc::new(fonts), ..usvg::Options::default() };
    let tree = usvg::Tree::from_str(svg, &options).map_err(|source| DrawError::Parse(Box::new(source)))?;
    let size = tree.size();
    let [width, height] = [size.width(), size.height()].map(|length| (length * SCALE).ceil() as u32);
    let mut pixels = tiny_skia::Pixmap::new(width, height).ok_or(DrawError::Size { width, height })?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| DrawError::Encode(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::super::svg::{Anchor, INK, Svg};
    use super::*;

    /// A character without a glyph draws no pixels.
    #[test]
    fn the_font_has_all_characters_of_figures() {
        let blank = png(&Svg::new(40.0, 40.0, "x").finish()).unwrap();
        for character in "abcXYZ0189±×÷·–°µ²%/()=:_".chars() {
            let mut svg = Svg::new(40.0, 40.0, "x");
            svg.text((10.0, 30.0), 20.0, Anchor::Start, INK, &character.to_string());
            assert_ne!(png(&svg.finish()).unwrap(), blank, "{character}");
        }
    }

    #[test]
    fn an_invalid_svg_is_refused() {
        assert!(matches!(png("<svg"), Err(DrawError::Parse(_))));
    }
}
