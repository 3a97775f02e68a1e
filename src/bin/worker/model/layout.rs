//! Memory formats: the order of the elements of feature maps in memory.

use tch::{TchError, Tensor};

/// The memory format of all feature maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// All in NHWC order.
    ChannelsLast,
    /// At least one in another order.
    Other,
}

/// `tensor` with its elements in NHWC order, if it has four dimensions and `channels_last` is set.
///
/// # Errors
/// Errors of libtorch, most likely for lack of memory.
pub(crate) fn in_format(tensor: &Tensor, channels_last: bool) -> Result<Tensor, TchError> {
    let size = tensor.size();
    let [_, channels, height, width] = size[..] else { return Ok(tensor.shallow_clone()) };
    if !channels_last {
        return Ok(tensor.shallow_clone());
    }
    let stride = [height * width * channels, 1, width * channels, channels];
    let mut nhwc = Tensor::f_empty_strided(&size, stride, (tensor.f_kind()?, tensor.device()))?;
    nhwc.f_copy_(tensor)?;
    Ok(nhwc)
}

/// Whether the elements of each pixel are adjacent in memory. With fewer than four dimensions, with one channel or with
/// one pixel, both orders are the same: true.
pub(super) fn is_channels_last(tensor: &Tensor) -> bool {
    let (size, stride) = (tensor.size(), tensor.stride());
    let [_, channels, height, width] = size[..] else { return true };
    if channels == 1 || height * width == 1 {
        return true;
    }
    stride[1] == 1 && (width == 1 || stride[3] == channels) && (height == 1 || stride[2] == width * channels)
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;

    #[test]
    fn strides_show_the_layout() {
        let planar = Tensor::arange(2 * 3 * 4 * 5, (Kind::Float, Device::Cpu)).reshape([2, 3, 4, 5]);
        let packed = in_format(&planar, true).unwrap();
        assert_eq!(packed.stride(), [60, 1, 15, 3]);
        assert!(is_channels_last(&packed));
        assert!(!is_channels_last(&planar));
        assert_eq!((&planar - &packed).abs().max().double_value(&[]), 0.0);
        assert!(is_channels_last(&planar.reshape([2, 60, 1, 1])));
    }
}
