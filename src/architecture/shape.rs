//! Shapes of activations and the windows that slide over them.

use std::fmt;

/// The shape of one image's activation, without the batch: `[channels, height, width]` of feature maps,
/// `[tokens, channels]` of a sequence, `[features]` of a vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape(Vec<u64>);

impl Shape {
    /// Feature maps.
    pub fn image(channels: u64, height: u64, width: u64) -> Self {
        Shape(vec![channels, height, width])
    }

    /// A sequence of vectors.
    pub fn tokens(tokens: u64, channels: u64) -> Self {
        Shape(vec![tokens, channels])
    }

    /// A vector.
    pub fn features(features: u64) -> Self {
        Shape(vec![features])
    }

    /// The extent of each dimension.
    pub fn dimensions(&self) -> &[u64] {
        &self.0
    }

    /// The product of the extents.
    pub fn elements(&self) -> u64 {
        self.0.iter().product()
    }

    /// Channels of feature maps and tokens, features of a vector.
    pub fn channels(&self) -> u64 {
        match self.0[..] {
            [_, channels] => channels,
            _ => self.0[0],
        }
    }

    /// The same positions with another number of channels.
    pub(super) fn with_channels(&self, channels: u64) -> Self {
        match self.0[..] {
            [_, height, width] => Shape::image(channels, height, width),
            [tokens, _] => Shape::tokens(tokens, channels),
            _ => Shape::features(channels),
        }
    }

    /// Height and width; 1 × 1 for other shapes.
    pub(super) fn area(&self) -> [u64; 2] {
        match self.0[..] {
            [_, height, width] => [height, width],
            _ => [1, 1],
        }
    }
}

impl fmt::Display for Shape {
    /// `64×112×112`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(u64::to_string).collect();
        f.write_str(&words.join("×"))
    }
}

/// A window that slides over feature maps. All pairs are height, width, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its extent.
    pub kernel: [u64; 2],
    /// Its stride.
    pub stride: [u64; 2],
    /// Border added on each side.
    pub padding: [u64; 2],
    /// Whether it can extend past the end (`ceil_mode`), so that no pixel is left over.
    pub ceil: bool,
}

impl Window {
    /// A square window.
    pub const fn square(kernel: u64, stride: u64, padding: u64) -> Self {
        Window { kernel: [kernel; 2], stride: [stride; 2], padding: [padding; 2], ceil: false }
    }

    /// A square window of odd extent that keeps height and width at a stride of one pixel.
    pub const fn same(kernel: u64, stride: u64) -> Self {
        Window::square(kernel, stride, (kernel - 1) / 2)
    }

    /// The same window, extending past the end.
    pub const fn ceil(self) -> Self {
        Window { ceil: true, ..self }
    }

    /// Height and width of its output for `input`: ⌊(input + 2 · padding − kernel) ÷ stride⌋ + 1. With `ceil` the
    /// quotient is rounded up, unless the last window would begin behind the image (PyTorch's `pooling_output_shape`).
    /// 0 if `input` is too small.
    pub fn output(&self, input: [u64; 2]) -> [u64; 2] {
        [0, 1].map(|axis| {
            let (stride, padding) = (self.stride[axis], self.padding[axis]);
            let past_the_end = if self.ceil { stride - 1 } else { 0 };
            let length = input[axis] + 2 * padding + past_the_end;
            match length.checked_sub(self.kernel[axis]) {
                Some(room) if input[axis] > 0 => {
                    let last = room / stride;
                    if self.ceil && last * stride >= input[axis] + padding { last } else { last + 1 }
                }
                _ => 0,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the window positions one by one.
    #[test]
    fn outputs_agree_with_counting() {
        for kernel in 1..6_u64 {
            for stride in 1..4 {
                for padding in 0..=kernel / 2 {
                    for input in 1..20 {
                        let window = Window::square(kernel, stride, padding);
                        let starts = || (0..).map(|index| index * stride);
                        let inside =
                            starts().take_while(|start| start + kernel <= input + 2 * padding).count();
                        assert_eq!(window.output([input; 2]), [inside as u64; 2], "{window:?} on {input}");
                        // With `ceil`, a window can end up to one step past the end if it begins before the end.
                        let reaching = starts()
                            .take_while(|start| start + kernel < input + 2 * padding + stride)
                            .filter(|&start| start < input + padding)
                            .count();
                        assert_eq!(
                            window.ceil().output([input; 2]),
                            [reaching as u64; 2],
                            "{window:?} on {input}"
                        );
                    }
                }
            }
        }
    }
}
