//! ImageNet's normalisation on the device, for images that come as bytes.

use tch::{Device, Kind, TchError, Tensor};

use super::super::data::{MEAN, STD};

/// The constants of the normalisation, on their device: three tensors of 1 × 3 × 1 × 1.
#[derive(Debug)]
pub(super) struct Normalisation {
    /// The value of a full byte, for each channel. A tensor, because CUDA multiplies by the reciprocal of a plain
    /// number, which rounds otherwise than the loader's division.
    full: Tensor,
    mean: Tensor,
    deviation: Tensor,
}

impl Normalisation {
    /// # Errors
    /// Errors of libtorch.
    pub(super) fn new(device: Device) -> Result<Self, TchError> {
        let channels = |numbers: [f32; 3]| Tensor::f_from_slice(&numbers)?.f_view([1, 3, 1, 1])?.f_to(device);
        Ok(Normalisation { full: channels([255.0; 3])?, mean: channels(MEAN)?, deviation: channels(STD)? })
    }

    /// (byte ÷ 255 − mean) ÷ deviation, in single precision and in this order, as the loader computes it. `bytes` is
    /// batch × 3 × height × width, and so is the result, in the same memory format.
    ///
    /// # Errors
    /// Errors of libtorch.
    pub(super) fn apply(&self, bytes: &Tensor) -> Result<Tensor, TchError> {
        let mut numbers = bytes.f_to_kind(Kind::Float)?;
        numbers.f_div_(&self.full)?.f_sub_(&self.mean)?.f_div_(&self.deviation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formula of the loader, whose own test compares its numbers with it.
    #[test]
    fn every_byte_becomes_the_number_of_the_loader() {
        let bytes: Vec<u8> = (0..=255).flat_map(|byte| [byte, 255 - byte, byte / 2]).collect();
        let pixels = Tensor::f_from_slice(&bytes).unwrap().view([1, 16, 16, 3]).permute([0, 3, 1, 2]);
        let numbers = Normalisation::new(Device::Cpu).unwrap().apply(&pixels).unwrap();
        assert_eq!(
            (numbers.kind(), numbers.size(), numbers.stride()),
            (Kind::Float, pixels.size(), pixels.stride())
        );
        let found = Vec::<f32>::try_from(numbers.permute([0, 2, 3, 1]).contiguous().view([-1])).unwrap();
        for (at, (number, byte)) in found.iter().zip(&bytes).enumerate() {
            let expected = (f32::from(*byte) / 255.0 - MEAN[at % 3]) / STD[at % 3];
            assert_eq!(
                number.to_bits(),
                expected.to_bits(),
                "{byte} of channel {}: {number} {expected}",
                at % 3
            );
        }
    }
}
