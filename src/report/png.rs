//! Figures as pixels. The font is carried along, so that a machine without fonts draws the same picture.

use std::sync::Arc;

use resvg::{tiny_skia, usvg};

/// Pixels of the PNG for each of the SVG, so that text stays sharp on dense screens.
const SCALE: f32 = 2.0;

/// An SVG that cannot be drawn.
#[derive(Debug, thiserror::Error)]
pub enum DrawError {
    /// It is no SVG that resvg understands.
    #[error("the figure is not a valid SVG")]
    Parse(#[source] Box<usvg::Error>),
    /// It is too large, or has no area.
    #[error("a picture of {width} by {height} pixels cannot be made")]
    Size {
        /// Pixels across.
        width: u32,
        /// Pixels down.
        height: u32,
    },
    /// The pixels cannot be written as PNG.
    #[error("the picture cannot be encoded as PNG: {0}")]
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

    /// Text that no font can draw leaves no pixel.
    #[test]
    fn every_character_of_our_figures_has_a_glyph() {
        let blank = png(&Svg::new(40.0, 40.0, "x").finish()).unwrap();
        for character in "abcXYZ0189±×÷·–°µ²%/()=:_".chars() {
            let mut svg = Svg::new(40.0, 40.0, "x");
            svg.text((10.0, 30.0), 20.0, Anchor::Start, INK, &character.to_string());
            assert_ne!(png(&svg.finish()).unwrap(), blank, "{character}");
        }
    }

    #[test]
    fn what_is_no_svg_is_refused() {
        assert!(matches!(png("<svg"), Err(DrawError::Parse(_))));
    }
}
