//! Sizes of images that a window slides over.

/// Height and width, or one size for both, as PyTorch's lists have them.
pub(super) fn along(list: &[u64], axis: usize) -> Option<u64> {
    if let [one] = list { Some(*one) } else { list.get(axis).copied() }
}

/// A window along one axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Its length, without dilation.
    pub(super) kernel: u64,
    /// The distance between two windows.
    pub(super) stride: u64,
    /// Places added at either end.
    pub(super) padding: u64,
    /// The distance between two elements of the window.
    pub(super) dilation: u64,
}

impl Window {
    /// The distance between the first and the last place of a window.
    fn reach(self) -> Option<u64> {
        self.kernel.checked_sub(1)?.checked_mul(self.dilation)
    }

    /// The windows that fit into `size` places: ⌊(size + 2 padding − dilation (kernel − 1) − 1) ÷ stride⌋ + 1.
    pub(super) fn fitting(self, size: u64) -> Option<u64> {
        Some(self.free(size)?.checked_div(self.stride)? + 1)
    }

    /// The same, with the last window if any of it is over the image or its left padding. This is PyTorch's
    /// `ceil_mode`.
    pub(super) fn touching(self, size: u64) -> Option<u64> {
        let windows =
            self.free(size)?.checked_add(self.stride.checked_sub(1)?)?.checked_div(self.stride)? + 1;
        let last_start = (windows - 1).checked_mul(self.stride)?;
        Some(if last_start >= size.checked_add(self.padding)? { windows - 1 } else { windows })
    }

    /// The least places that `size` windows are transposed to: (size − 1) stride − 2 padding + dilation (kernel − 1) +
    /// 1.
    pub(super) fn covered(self, size: u64) -> Option<u64> {
        let last_start = size.checked_sub(1)?.checked_mul(self.stride)?;
        last_start.checked_add(self.reach()?)?.checked_add(1)?.checked_sub(self.padding.checked_mul(2)?)
    }

    /// Places that are free once the first window is placed.
    fn free(self, size: u64) -> Option<u64> {
        let padded = size.checked_add(self.padding.checked_mul(2)?)?;
        padded.checked_sub(self.reach()?)?.checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Windows that fit, by trying each place.
    fn tried(window: Window, size: u64) -> u64 {
        let padded = size + 2 * window.padding;
        let starts = (0..padded).step_by(usize::try_from(window.stride).unwrap());
        starts.filter(|start| start + (window.kernel - 1) * window.dilation < padded).count() as u64
    }

    proptest! {
        #[test]
        fn as_many_windows_fit_as_can_be_placed(
            size in 1..40u64, kernel in 1..6u64, stride in 1..5u64, padding in 0..4u64, dilation in 1..4u64,
        ) {
            let window = Window { kernel, stride, padding, dilation };
            let windows = tried(window, size);
            prop_assert_eq!(window.fitting(size).unwrap_or(0), windows);
            if windows > 0 {
                // Transposed, the windows cover what they came from, but for less than a stride.
                let covered = window.covered(windows).unwrap_or(0);
                prop_assert!(covered <= size && size < covered + stride || size < 2 * padding);
            }
        }
    }

    #[test]
    fn ceil_mode_adds_the_window_that_ends_outside_and_none_that_starts_there() {
        let window = Window { kernel: 3, stride: 2, padding: 0, dilation: 1 };
        assert_eq!((window.fitting(6), window.touching(6)), (Some(2), Some(3)));
        assert_eq!((window.fitting(7), window.touching(7)), (Some(3), Some(3)));
        let padded = Window { kernel: 1, stride: 3, padding: 0, dilation: 1 };
        assert_eq!(padded.touching(2), Some(1));
    }
}
