//! The safe side of `optimizer.cpp`: one fused step over all parameters.

use std::ffi::c_void;
use std::ptr::null_mut;

use tch::Tensor;

use super::{WorkerError, checked, pointer};

// SAFETY: these are the declarations of `optimizer.cpp`, of which none throws.
unsafe extern "C" {
    fn shim_sgd_step(
        parameters: *const *mut c_void,
        momenta: *const *mut c_void,
        count: i64,
        learning_rate: f64,
        momentum: f64,
        weight_decay: f64,
        scale: *mut c_void,
        growth_tracker: *mut c_void,
    ) -> bool;
    fn shim_adamw_step(
        parameters: *const *mut c_void,
        first_moments: *const *mut c_void,
        second_moments: *const *mut c_void,
        count: i64,
        step: *mut c_void,
        learning_rate: f64,
        beta1: f64,
        beta2: f64,
        epsilon: f64,
        weight_decay: f64,
        scale: *mut c_void,
        growth_tracker: *mut c_void,
    ) -> bool;
}

/// The factor on the loss that keeps gradients from vanishing in fp16.
#[derive(Debug)]
pub(crate) struct Scale {
    /// The factor: one number of single precision.
    pub(crate) factor: Tensor,
    /// The number of good steps since it last changed: one whole number of 32 bits.
    pub(crate) growth_tracker: Tensor,
}

/// The constants of SGD.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sgd {
    /// Step size.
    pub(crate) learning_rate: f64,
    /// The share of the last step that the next one keeps.
    pub(crate) momentum: f64,
    /// L2 penalty.
    pub(crate) weight_decay: f64,
}

/// The constants of AdamW.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AdamW {
    /// Step size.
    pub(crate) learning_rate: f64,
    /// Shares that the running averages of the gradient and of its square keep in a step.
    pub(crate) betas: [f64; 2],
    /// Keeps the division by the root of the square finite.
    pub(crate) epsilon: f64,
    /// Share of a weight that a step of size 1 takes away.
    pub(crate) weight_decay: f64,
}

/// The state of AdamW between steps. The tensors have the shapes and memory formats of the parameters.
#[derive(Debug)]
pub(crate) struct Moments {
    /// Running averages of gradients.
    pub(crate) first: Vec<Tensor>,
    /// Running averages of their squares.
    pub(crate) second: Vec<Tensor>,
    /// Steps so far: one number of single precision, on the parameters' device.
    pub(crate) step: Tensor,
}

/// One step of SGD over all `parameters` that have a gradient; afterwards none has. `momenta` have the same shapes and
/// memory formats.
///
/// # Errors
/// Errors of libtorch.
pub(crate) fn sgd_step(
    sgd: Sgd,
    parameters: &[Tensor],
    momenta: &[Tensor],
    scale: Option<&Scale>,
) -> Result<(), WorkerError> {
    assert_eq!(parameters.len(), momenta.len(), "every parameter has its momentum");
    let (values, buffers) = (pointers(parameters), pointers(momenta));
    let [factor, tracker] = scale_pointers(scale);
    // SAFETY: the pointers belong to live tensors, as many as the count says, and both vectors outlive the call.
    checked(unsafe {
        shim_sgd_step(
            values.as_ptr(),
            buffers.as_ptr(),
            count(&values),
            sgd.learning_rate,
            sgd.momentum,
            sgd.weight_decay,
            factor,
            tracker,
        )
    })
}

/// One step of AdamW over all `parameters` that have a gradient; afterwards none has.
///
/// # Errors
/// Errors of libtorch.
pub(crate) fn adamw_step(
    adamw: AdamW,
    parameters: &[Tensor],
    moments: &Moments,
    scale: Option<&Scale>,
) -> Result<(), WorkerError> {
    let lengths = [moments.first.len(), moments.second.len()];
    assert_eq!(lengths, [parameters.len(); 2], "every parameter has its moments");
    let values = pointers(parameters);
    let (first, second) = (pointers(&moments.first), pointers(&moments.second));
    let [factor, tracker] = scale_pointers(scale);
    // SAFETY: as above.
    checked(unsafe {
        shim_adamw_step(
            values.as_ptr(),
            first.as_ptr(),
            second.as_ptr(),
            count(&values),
            pointer(&moments.step),
            adamw.learning_rate,
            adamw.betas[0],
            adamw.betas[1],
            adamw.epsilon,
            adamw.weight_decay,
            factor,
            tracker,
        )
    })
}

fn pointers(tensors: &[Tensor]) -> Vec<*mut c_void> {
    tensors.iter().map(pointer).collect()
}

fn scale_pointers(scale: Option<&Scale>) -> [*mut c_void; 2] {
    scale.map_or([null_mut(); 2], |scale| [pointer(&scale.factor), pointer(&scale.growth_tracker)])
}

fn count(pointers: &[*mut c_void]) -> i64 {
    i64::try_from(pointers.len()).expect("a vector's length fits in 63 bits")
}
