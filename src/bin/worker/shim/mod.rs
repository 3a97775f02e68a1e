//! The safe side of the C++ in `shim/`, for what `tch` has no API for.

mod copies;
mod driver;
mod events;
mod graph;
mod memory;
mod operators;
mod optimizer;
mod profiler;
mod versions;
mod wide;

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use tch::{Device, Tensor};

use crate::failure::WorkerError;

pub(crate) use copies::CopyStream;
pub(crate) use driver::{
    CudaFacts, Driver, cuda_cache, cuda_config, cuda_facts, cuda_multiprocessors, driver, libtorch_directory,
    nvidia_driver, open_library, runtime_version,
};
pub(crate) use events::Events;
pub(crate) use graph::{Graph, empty_cache, has_graphs, leave_default_stream};
pub(crate) use memory::{FreeMemory, PeakMemory, free_memory, peak_memory, reset_peak_memory};
pub(crate) use operators::{Clock, ReadyProfiler, Scope};
pub(crate) use optimizer::{AdamW, Moments, Scale, Sgd, adamw_step, sgd_step};
pub(crate) use profiler::Profile;
pub(crate) use versions::versions;
pub(crate) use wide::{Course, onednn_has_bfloat16, wide_conv2d, wide_linear};

// SAFETY: these are the declarations of `shim/shim.cpp`, which is compiled and linked by `build.rs`. None of them
// throws, and `bool`, `int64_t` and pointers pass as they are.
unsafe extern "C" {
    safe fn shim_error() -> *const c_char;
    safe fn shim_synchronize() -> bool;
    safe fn shim_set_flags(tf32: bool, deterministic: bool, cudnn_benchmark: bool) -> bool;
    fn shim_get_flags(
        tf32: *mut bool,
        deterministic: *mut bool,
        cudnn_benchmark: *mut bool,
        float32: *mut c_int,
    ) -> bool;
    safe fn shim_keep_memory();
    safe fn shim_autocast_begin(device: c_int, bfloat16: bool) -> bool;
    safe fn shim_autocast_end(device: c_int) -> bool;
    safe fn shim_autocast_state(device: c_int) -> c_int;
    fn shim_draw(tensor: *mut c_void, normal: bool, a: f64, b: f64, seed: u64) -> bool;
    fn shim_seed(seed: *mut u64) -> bool;
    fn shim_triad(c: *mut c_void, a: *mut c_void, b: *mut c_void, scalar: f64) -> bool;
    fn shim_pin(pinned: *mut c_void, tensor: *const c_void, is_pinned: *mut bool) -> bool;
    fn shim_processor_has(name: *const c_char) -> bool;
}

/// Why the last shim function failed.
fn error() -> String {
    text(shim_error())
}

/// A C string of the shim. It lives until the thread's next call, or as long as the process.
fn text(pointer: *const c_char) -> String {
    // SAFETY: the shim returns pointers to terminated strings that outlive this copy.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

fn checked(done: bool) -> Result<(), WorkerError> {
    if done { Ok(()) } else { Err(WorkerError::torch(&error())) }
}

/// libtorch's global flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    /// Whether matrix products and convolutions of CUDA may round to TF32.
    pub(crate) tf32: bool,
    /// Whether only deterministic algorithms are allowed.
    pub(crate) deterministic: bool,
    /// Whether cuDNN times its algorithms.
    pub(crate) cudnn_benchmark: bool,
}

/// The arithmetic that libtorch can use for single precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float32 {
    /// Not set: libtorch then keeps to single precision.
    Unset,
    /// Single precision.
    Ieee,
    /// TF32.
    Tf32,
    /// bfloat16.
    Bfloat16,
}

/// The flags, read back from libtorch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EffectiveFlags {
    /// Those that can be set, from libtorch's older getters.
    pub(crate) flags: Flags,
    /// The arithmetic of CUDA's matrix products and convolutions, from the newer getters.
    pub(crate) cuda: [Float32; 2],
    /// The same for oneDNN, which computes on the CPU.
    pub(crate) onednn: [Float32; 2],
}

impl Flags {
    /// Sets them for the whole process.
    pub(crate) fn set(self) -> Result<(), WorkerError> {
        checked(shim_set_flags(self.tf32, self.deterministic, self.cudnn_benchmark))
    }
}

impl EffectiveFlags {
    /// Reads them from libtorch.
    ///
    /// # Errors
    /// libtorch's older and newer flags contradict each other.
    pub(crate) fn get() -> Result<Self, WorkerError> {
        let mut flags = Flags { tf32: false, deterministic: false, cudnn_benchmark: false };
        let mut float32: [c_int; 4] = [0; 4];
        // SAFETY: pointers to distinct booleans and to four numbers, which live through the call.
        checked(unsafe {
            shim_get_flags(
                &mut flags.tf32,
                &mut flags.deterministic,
                &mut flags.cudnn_benchmark,
                float32.as_mut_ptr(),
            )
        })?;
        let [cuda_matmul, cuda_conv, onednn_matmul, onednn_conv] = float32.map(Float32::from_number);
        Ok(EffectiveFlags { flags, cuda: [cuda_matmul, cuda_conv], onednn: [onednn_matmul, onednn_conv] })
    }

    /// Whether libtorch can round single precision, on CUDA or on the CPU.
    pub(crate) fn rounds(&self, on_cuda: bool) -> bool {
        let rounds = |float32: &Float32| matches!(float32, Float32::Tf32 | Float32::Bfloat16);
        if on_cuda { self.flags.tf32 || self.cuda.iter().any(rounds) } else { self.onednn.iter().any(rounds) }
    }

    /// The words for the measurement, by library and operation.
    pub(crate) fn float32(&self) -> impl Iterator<Item = (String, String)> {
        let names = ["cuda_matmul", "cuda_conv", "onednn_matmul", "onednn_conv"];
        let values = self.cuda.into_iter().chain(self.onednn);
        names.into_iter().zip(values).map(|(name, value)| (name.to_owned(), value.as_str().to_owned()))
    }
}

impl Float32 {
    /// Converts libtorch's own number.
    fn from_number(number: c_int) -> Self {
        match number {
            1 => Float32::Ieee,
            2 => Float32::Tf32,
            3 => Float32::Bfloat16,
            _ => Float32::Unset,
        }
    }

    /// Its name in libtorch.
    fn as_str(self) -> &'static str {
        match self {
            Float32::Unset => "none",
            Float32::Ieee => "ieee",
            Float32::Tf32 => "tf32",
            Float32::Bfloat16 => "bf16",
        }
    }
}

/// Waits until the accelerator has finished all its work. Not needed for the CPU, whose calls are synchronous.
pub(crate) fn synchronize() -> Result<(), WorkerError> {
    checked(shim_synchronize())
}

/// Makes the process keep freed memory, so that iterations need not get it from the kernel again.
pub(crate) fn keep_memory() {
    shim_keep_memory();
}

/// The number of a device type in c10.
fn device_type(device: Device) -> c_int {
    match device {
        Device::Cpu => 0,
        Device::Cuda(_) => 1,
        Device::Mps => 13,
        Device::Vulkan => 10,
    }
}

/// The half precision of an [`Autocast`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    /// Eight bits of exponent: the range of single precision.
    Bfloat16,
    /// Five bits of exponent: gradients need a loss scale.
    Float16,
}

impl Half {
    /// Its name in libtorch.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Half::Bfloat16 => "bfloat16",
            Half::Float16 => "float16",
        }
    }
}

/// While it lives, suitable operations of this thread compute in half precision.
#[derive(Debug)]
pub(crate) struct Autocast(Device);

impl Autocast {
    /// Begins on `device`.
    pub(crate) fn begin(device: Device, half: Half) -> Result<Self, WorkerError> {
        checked(shim_autocast_begin(device_type(device), half == Half::Bfloat16))?;
        Ok(Autocast(device))
    }

    /// Its half precision, read back from libtorch; `None` if it is off.
    pub(crate) fn state(&self) -> Option<Half> {
        match shim_autocast_state(device_type(self.0)) {
            1 => Some(Half::Float16),
            2 => Some(Half::Bfloat16),
            _ => None,
        }
    }
}

impl Drop for Autocast {
    fn drop(&mut self) {
        // Turning a flag off cannot fail.
        shim_autocast_end(device_type(self.0));
    }
}

/// The distribution of [`draw`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Random {
    /// A normal distribution around 0 with this deviation.
    Normal(f64),
    /// Uniform between minus this and this.
    Uniform(f64),
}

/// Draws the elements of a CPU tensor in the calling thread, with a generator that starts at `seed`.
pub(crate) fn draw(tensor: &Tensor, random: Random, seed: u64) -> Result<(), WorkerError> {
    let (normal, a, b) = match random {
        Random::Normal(deviation) => (true, 0.0, deviation),
        Random::Uniform(bound) => (false, -bound, bound),
    };
    // SAFETY: a pointer to a live tensor.
    checked(unsafe { shim_draw(pointer(tensor), normal, a, b, seed) })
}

/// The seed of libtorch's CPU generator: the last one that was set, however much it has drawn since.
///
/// # Errors
/// Errors of libtorch.
pub(crate) fn seed() -> Result<u64, WorkerError> {
    let mut seed = 0;
    // SAFETY: a pointer to a number that lives through the call.
    checked(unsafe { shim_seed(&mut seed) })?;
    Ok(seed)
}

/// c = a + `scalar` · b, in the memory of c. All have one shape.
pub(crate) fn triad(c: &Tensor, a: &Tensor, b: &Tensor, scalar: f64) -> Result<(), WorkerError> {
    // SAFETY: three pointers to live tensors; libtorch checks their shapes.
    checked(unsafe { shim_triad(pointer(c), pointer(a), pointer(b), scalar) })
}

/// A copy of `tensor` in page-locked memory, and whether it is there.
///
/// # Errors
/// There is no accelerator, or not enough memory.
pub(crate) fn pin(tensor: &Tensor) -> Result<(Tensor, bool), WorkerError> {
    let (pinned, mut is_pinned) = (Tensor::new(), false);
    // SAFETY: two pointers to live tensors, of which the first is ours alone, and one to a switch.
    checked(unsafe { shim_pin(pointer(&pinned), pointer(tensor), &raw mut is_pinned) })?;
    Ok((pinned, is_pinned))
}

/// Whether the CPU has the instructions that libtorch calls `name`, such as `avx512_bf16`.
pub(crate) fn processor_has(name: &str) -> bool {
    let Ok(name) = CString::new(name) else { return false };
    // SAFETY: a terminated string that lives through the call.
    unsafe { shim_processor_has(name.as_ptr()) }
}

/// The `at::Tensor` inside a tensor of `tch`.
fn pointer(tensor: &Tensor) -> *mut c_void {
    tensor.as_ptr().cast_mut().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The flags belong to the process, so a single test covers all that reads them.
    #[test]
    fn flags_read_back_as_set() {
        for bits in 0..8 {
            let flags =
                Flags { tf32: bits & 1 > 0, deterministic: bits & 2 > 0, cudnn_benchmark: bits & 4 > 0 };
            flags.set().unwrap();
            let effective = EffectiveFlags::get().unwrap();
            let cuda = if flags.tf32 { Float32::Tf32 } else { Float32::Ieee };
            assert_eq!(effective, EffectiveFlags { flags, cuda: [cuda; 2], onednn: [Float32::Ieee; 2] });
            assert_eq!((effective.rounds(true), effective.rounds(false)), (flags.tf32, false));
            // Deterministic or not, no fresh tensor is filled: that would take time, and fill it with NaN.
            let fresh = Tensor::empty([1 << 16], (tch::Kind::Float, Device::Cpu));
            assert!(!bool::try_from(fresh.isnan().all()).unwrap(), "{flags:?}");
        }
        Flags { tf32: false, deterministic: false, cudnn_benchmark: false }.set().unwrap();
        let words: Vec<(String, String)> = EffectiveFlags::get().unwrap().float32().collect();
        assert_eq!(words.len(), 4);
        assert!(words.iter().all(|(_, word)| word == "ieee"), "{words:?}");
    }

    #[test]
    fn rounding_counts_where_it_is_computed() {
        let flags = Flags { tf32: false, deterministic: false, cudnn_benchmark: false };
        let ieee = EffectiveFlags { flags, cuda: [Float32::Unset; 2], onednn: [Float32::Unset; 2] };
        assert!(!ieee.rounds(true) && !ieee.rounds(false));
        let processor = EffectiveFlags { onednn: [Float32::Ieee, Float32::Bfloat16], ..ieee };
        assert!(!processor.rounds(true) && processor.rounds(false));
        let cuda = EffectiveFlags { cuda: [Float32::Ieee, Float32::Tf32], ..ieee };
        assert!(cuda.rounds(true) && !cuda.rounds(false));
    }

    #[test]
    fn autocast_is_on_while_it_lives() {
        for half in [Half::Bfloat16, Half::Float16] {
            let autocast = Autocast::begin(Device::Cpu, half).unwrap();
            assert_eq!(autocast.state(), Some(half));
            drop(autocast);
            assert_eq!(shim_autocast_state(device_type(Device::Cpu)), 0);
        }
    }

    #[test]
    fn without_an_accelerator_there_are_no_facts() {
        if tch::utils::has_mps() {
            return;
        }
        let reason = pin(&Tensor::zeros([2], (tch::Kind::Float, Device::Cpu))).unwrap_err().to_string();
        assert!(!reason.is_empty());
        assert_eq!(peak_memory(false), PeakMemory::default());
        assert_eq!(free_memory(), None);
        assert!(Events::begin(Device::Cpu).is_err());
    }
}
