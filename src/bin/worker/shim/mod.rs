//! The safe side of the C++ in `shim/`, for what `tch` has no API for.

mod events;
mod memory;
mod optimizer;
mod profiler;

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_uint, c_void};

use tch::{Device, Tensor};

use crate::failure::WorkerError;

pub(crate) use events::Events;
pub(crate) use memory::{FreeMemory, PeakMemory, free_memory, peak_memory, reset_peak_memory};
pub(crate) use optimizer::{AdamW, Moments, Scale, Sgd, adamw_step, sgd_step};
pub(crate) use profiler::Profile;

// SAFETY: these are the declarations of `shim/shim.cpp`, which is compiled and linked by `build.rs`. None of them
// throws, and `bool`, `int64_t` and pointers pass as they are.
unsafe extern "C" {
    safe fn shim_error() -> *const c_char;
    safe fn shim_load_cuda() -> bool;
    safe fn shim_synchronize() -> bool;
    fn shim_cuda_facts(
        name: *mut c_char,
        name_length: c_int,
        uuid: *mut c_uchar,
        major: *mut c_int,
        minor: *mut c_int,
    ) -> bool;
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
    safe fn shim_cuda_cache() -> i64;
    fn shim_processor_has(name: *const c_char) -> bool;
    safe fn shim_libtorch_version() -> *const c_char;
    safe fn shim_onednn_version() -> *const c_char;
    safe fn shim_cuda_version() -> i64;
    safe fn shim_cudnn_version() -> i64;
    fn shim_nvidia_driver(version: *mut c_char, length: c_uint) -> bool;
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

/// Loads libtorch's CUDA half.
///
/// # Errors
/// The message of the dynamic linker. Most often, libraries of CUDA are not installed.
pub(crate) fn load_cuda() -> Result<(), String> {
    if shim_load_cuda() { Ok(()) } else { Err(error()) }
}

/// Waits until the accelerator has finished all its work. Not for the CPU, which is always finished.
pub(crate) fn synchronize() -> Result<(), WorkerError> {
    checked(shim_synchronize())
}

/// The driver's facts about the CUDA device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CudaFacts {
    /// `NVIDIA H200`, …
    pub(crate) name: String,
    /// As `nvidia-smi -L` prints it: `GPU-…`.
    pub(crate) uuid: String,
    /// Compute capability: major, minor.
    pub(crate) capability: (i32, i32),
}

/// Asks the driver about CUDA's device 0.
pub(crate) fn cuda_facts() -> Result<CudaFacts, String> {
    let mut name = [0_u8; 256];
    let mut uuid = [0_u8; 16];
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the driver writes at most 255 bytes and a terminator, and 16 bytes, into buffers of those sizes.
    let done =
        unsafe { shim_cuda_facts(name.as_mut_ptr().cast(), 256, uuid.as_mut_ptr(), &mut major, &mut minor) };
    if !done {
        return Err(error());
    }
    let name = CStr::from_bytes_until_nul(&name).map(|name| name.to_string_lossy().into_owned());
    Ok(CudaFacts { name: name.unwrap_or_default(), uuid: uuid_text(&uuid), capability: (major, minor) })
}

/// `GPU-00112233-4455-6677-8899-aabbccddeeff`.
fn uuid_text(bytes: &[u8; 16]) -> String {
    let hex = hex::encode(bytes);
    format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
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

/// Bytes of the last-level cache of CUDA's device 0, from the driver.
pub(crate) fn cuda_cache() -> Option<u64> {
    u64::try_from(shim_cuda_cache()).ok()
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

/// Versions of libraries by name.
pub(crate) fn versions() -> impl Iterator<Item = (String, String)> {
    let number = |version: i64| (version >= 0).then(|| version.to_string());
    [
        ("libtorch", Some(text(shim_libtorch_version()))),
        ("onednn", onednn_version(&text(shim_onednn_version()))),
        ("cuda", number(shim_cuda_version())),
        ("cudnn", number(shim_cudnn_version())),
        ("nvidia_driver", if shim_cuda_version() < 0 { None } else { nvidia_driver() }),
    ]
    .into_iter()
    .filter_map(|(name, version)| Some((name.to_owned(), version?)))
}

/// `580.65.06`: the NVIDIA driver's version.
fn nvidia_driver() -> Option<String> {
    let mut version = [0_u8; 80];
    // SAFETY: the library writes at most 80 bytes, its terminator among them, into a buffer of that size.
    if !unsafe { shim_nvidia_driver(version.as_mut_ptr().cast(), 80) } {
        return None;
    }
    CStr::from_bytes_until_nul(&version).ok().map(|version| version.to_string_lossy().into_owned())
}

/// `3.7.1` of `Intel(R) MKL-DNN v3.7.1 (Git Hash …)`.
fn onednn_version(text: &str) -> Option<String> {
    let version = text.split_whitespace().find_map(|word| word.strip_prefix('v'))?;
    Some(version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_others_print_them() {
        let bytes: [u8; 16] = std::array::from_fn(|index| 0x11 * u8::try_from(index).unwrap());
        assert_eq!(uuid_text(&bytes), "GPU-00112233-4455-6677-8899-aabbccddeeff");
        assert_eq!(onednn_version("Intel(R) MKL-DNN v3.7.1 (Git Hash 8d263e6)"), Some("3.7.1".into()));
        assert_eq!(onednn_version("MKLDNN not found"), None);
    }

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
    fn without_an_accelerator_nothing_is_guessed() {
        if tch::utils::has_mps() {
            return;
        }
        let reason = pin(&Tensor::zeros([2], (tch::Kind::Float, Device::Cpu))).unwrap_err().to_string();
        assert!(!reason.is_empty());
        assert_eq!(peak_memory(false), PeakMemory::default());
        assert_eq!(free_memory(), None);
        assert!(Events::begin(Device::Cpu).is_err());
    }

    #[test]
    fn libtorch_is_the_pinned_one() {
        let version = versions().find(|(name, _)| name == "libtorch").unwrap().1;
        assert!(version.starts_with("2.11.0"), "{version}");
    }
}
