//! The safe side of `wide.cpp`: layers of bfloat16 that multiply in single precision.

use std::ffi::c_void;
use std::ptr::null;

use tch::{TchError, Tensor};

use super::{error, pointer};

// SAFETY: these are the declarations of `wide.cpp`, of which none throws.
unsafe extern "C" {
    fn shim_onednn_has_bfloat16(has: *mut bool) -> bool;
    fn shim_wide_linear(
        output: *mut c_void,
        input: *const c_void,
        weight: *const c_void,
        bias: *const c_void,
    ) -> bool;
    fn shim_wide_conv2d(
        output: *mut c_void,
        input: *const c_void,
        weight: *const c_void,
        bias: *const c_void,
        stride: *const i64,
        padding: *const i64,
        groups: i64,
    ) -> bool;
}

/// Whether oneDNN computes layers of bfloat16 on this processor, be it their forward pass alone.
///
/// # Errors
/// Errors of libtorch.
pub(crate) fn onednn_has_bfloat16() -> Result<bool, TchError> {
    let mut has = false;
    // SAFETY: a pointer to a switch that lives through the call.
    done(unsafe { shim_onednn_has_bfloat16(&raw mut has) })?;
    Ok(has)
}

/// `input` (… × k) times the transposed `weight` (n × k), plus `bias` (n): … × n. Under autocast on the CPU, all are
/// rounded to its type, but multiplied and added up in single precision.
///
/// # Errors
/// Errors of libtorch, most likely for lack of memory.
pub(crate) fn wide_linear(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
) -> Result<Tensor, TchError> {
    let output = Tensor::new();
    // SAFETY: pointers to live tensors, of which the first is ours alone; the last one may be null.
    done(unsafe { shim_wide_linear(pointer(&output), pointer(input), pointer(weight), optional(bias)) })?;
    Ok(output)
}

/// The geometry of a convolution: stride and padding (down, across), and the groups of channels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    /// Pixels between places of the kernel.
    pub(crate) stride: [i64; 2],
    /// Pixels around the input.
    pub(crate) padding: [i64; 2],
    /// Groups of channels that do not mix.
    pub(crate) groups: i64,
}

/// The convolution of `input` (batch × channels × height × width) with `weight`, in the arithmetic of [`wide_linear`].
///
/// # Errors
/// Errors of libtorch, most likely for lack of memory.
pub(crate) fn wide_conv2d(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    course: Course,
) -> Result<Tensor, TchError> {
    let output = Tensor::new();
    let Course { stride, padding, groups } = course;
    // SAFETY: as above; and two pairs of numbers that live through the call.
    done(unsafe {
        shim_wide_conv2d(
            pointer(&output),
            pointer(input),
            pointer(weight),
            optional(bias),
            stride.as_ptr(),
            padding.as_ptr(),
            groups,
        )
    })?;
    Ok(output)
}

fn optional(tensor: Option<&Tensor>) -> *const c_void {
    tensor.map_or(null(), |tensor| pointer(tensor).cast_const())
}

fn done(done: bool) -> Result<(), TchError> {
    if done { Ok(()) } else { Err(TchError::Torch(error())) }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;
    use crate::model::in_format;
    use crate::shim::{Autocast, Half, processor_has};

    type Layer<'a> = &'a dyn Fn(&[Tensor; 3]) -> Result<Tensor, TchError>;

    /// Input, weight and bias, drawn, and rounded to bfloat16.
    fn drawn(input: &[i64], weight: &[i64], channels_last: bool) -> [Tensor; 3] {
        tch::manual_seed(7);
        [input, weight, &weight[..1]].map(|size| {
            let values = Tensor::randn(size, (Kind::Float, Device::Cpu)).to_kind(Kind::BFloat16);
            in_format(&values.to_kind(Kind::Float), channels_last).unwrap().set_requires_grad(true)
        })
    }

    /// When autocast is on.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum During {
        Nothing,
        Forward,
        Both,
    }

    /// The output of `layer`, and the gradients of a sum over it; none for what needs none.
    fn outcome(layer: Layer<'_>, inputs: &[Tensor; 3], during: During) -> [Option<Tensor>; 4] {
        let autocast =
            (during != During::Nothing).then(|| Autocast::begin(Device::Cpu, Half::Bfloat16).unwrap());
        let output = layer(inputs).unwrap();
        let autocast = autocast.filter(|_| during == During::Both);
        let factors = Tensor::arange(output.numel() as i64, (Kind::Float, Device::Cpu)).sin();
        let factors = factors.to_kind(Kind::BFloat16).to_kind(Kind::Float).reshape(output.size());
        (output.to_kind(Kind::Float) * factors).sum(Kind::Float).backward();
        drop(autocast);
        let [of_input, of_weight, of_bias] = inputs.each_ref().map(|input| {
            let mut gradient = input.grad();
            gradient.defined().then(|| {
                let copy = gradient.copy();
                let _ = gradient.zero_();
                copy
            })
        });
        [Some(output.detach()), of_input, of_weight, of_bias]
    }

    /// Compares what `layer` computes under autocast with `expected`, which computes the same in single precision. The
    /// result must be bfloat16, and nothing is rounded but results: each is off by 2⁻⁸ of itself at most, and by what
    /// single precision adds. Returns how many quantities there were.
    fn compare(layer: Layer<'_>, expected: Layer<'_>, inputs: &[Tensor; 3]) -> usize {
        let expected = outcome(expected, inputs, During::Nothing);
        for during in [During::Forward, During::Both] {
            let found = outcome(layer, inputs, during);
            assert_eq!(found[0].as_ref().unwrap().kind(), Kind::BFloat16);
            for (found, expected) in found.iter().zip(&expected) {
                let (Some(found), Some(expected)) = (found, expected) else {
                    assert!(found.is_none() && expected.is_none(), "{found:?} {expected:?}");
                    continue;
                };
                assert_eq!(found.size(), expected.size());
                let bound = expected.abs() * 2.0_f64.powi(-8) + expected.abs().max() * 1e-5;
                let beyond = ((found - expected).abs() - bound).max().double_value(&[]);
                assert!(beyond <= 0.0, "{during:?}: {beyond:e} beyond what rounding can do");
            }
        }
        expected.iter().flatten().count()
    }

    #[test]
    fn a_linear_layer_rounds_only_its_results() {
        for shape in [&[3, 500][..], &[2, 4, 500], &[2, 4, 3, 500]] {
            let inputs = drawn(shape, &[7, 500], false);
            let quantities = [true, false].map(|with_bias| {
                let bias = |inputs: &[Tensor; 3]| with_bias.then(|| inputs[2].shallow_clone());
                compare(
                    &|inputs| wide_linear(&inputs[0], &inputs[1], bias(inputs).as_ref()),
                    &|inputs| inputs[0].f_linear(&inputs[1], bias(inputs)),
                    &inputs,
                )
            });
            assert_eq!(quantities[0], 4);
        }
    }

    #[test]
    fn a_convolution_rounds_only_its_results() {
        let course = |stride, padding, groups| Course { stride, padding, groups };
        for (kernel, course) in [
            ([1, 1], course([1, 1], [0, 0], 1)),
            ([1, 1], course([2, 2], [0, 0], 1)),
            ([3, 3], course([1, 1], [1, 1], 4)),
            ([3, 2], course([2, 1], [0, 1], 2)),
            ([7, 1], course([1, 3], [3, 0], 1)),
        ] {
            let Course { stride, padding, groups } = course;
            for channels_last in [false, true] {
                let inputs = drawn(&[2, 4, 9, 8], &[8, 4 / groups, kernel[0], kernel[1]], channels_last);
                for with_bias in [true, false] {
                    let bias = |inputs: &[Tensor; 3]| with_bias.then(|| inputs[2].shallow_clone());
                    compare(
                        &|inputs| wide_conv2d(&inputs[0], &inputs[1], bias(inputs).as_ref(), course),
                        &|inputs| {
                            inputs[0].f_conv2d(&inputs[1], bias(inputs), stride, padding, [1, 1], groups)
                        },
                        &inputs,
                    );
                }
            }
        }
    }

    /// The first layer's input is the batch, which needs no gradient.
    #[test]
    fn tensors_that_need_no_gradient_get_none() {
        let course = Course { stride: [1, 1], padding: [1, 1], groups: 1 };
        let mut inputs = drawn(&[2, 4, 6, 6], &[4, 4, 3, 3], true);
        for frozen in 0..3 {
            inputs[frozen] = inputs[frozen].detach();
            let found = compare(
                &|inputs| wide_conv2d(&inputs[0], &inputs[1], Some(&inputs[2]), course),
                &|inputs| inputs[0].f_conv2d(&inputs[1], Some(&inputs[2]), [1, 1], [1, 1], [1, 1], 1),
                &inputs,
            );
            assert_eq!(found, 3);
            inputs[frozen] = inputs[frozen].set_requires_grad(true);
        }
    }

    #[test]
    fn errors_of_libtorch_are_returned() {
        let inputs = drawn(&[3, 5], &[7, 4], false);
        let message = wide_linear(&inputs[0], &inputs[1], None).unwrap_err().to_string();
        assert!(message.contains("cannot be multiplied"), "{message}");
        let course = Course { stride: [1, 1], padding: [0, 0], groups: 1 };
        assert!(wide_conv2d(&inputs[0], &inputs[1], None, course).is_err());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a variable can limit oneDNN's kernels")]
    fn onednn_has_bfloat16_where_avx512_is() {
        let has = onednn_has_bfloat16().unwrap();
        let is_limited =
            ["ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"].map(std::env::var).iter().any(Result::is_ok);
        if cfg!(target_arch = "x86_64") && !is_limited {
            assert!(has || !processor_has("avx512_bw"));
        }
    }
}
