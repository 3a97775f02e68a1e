//! The safe side of `shim/shim.cpp`: what `tch` has no API for.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};

use tch::{Device, Tensor};

use super::failure::WorkerError;

// SAFETY: these are the declarations of `shim/shim.cpp`, which is compiled and linked by `build.rs`. None of them
// throws, and `bool`, `int64_t` and pointers pass as they are.
unsafe extern "C" {
    safe fn shim_error() -> *const c_char;
    safe fn shim_load_cuda() -> bool;
    safe fn shim_synchronize() -> bool;
    safe fn shim_reset_peak_memory() -> bool;
    safe fn shim_peak_memory() -> i64;
    fn shim_cuda_facts(
        name: *mut c_char,
        name_length: c_int,
        uuid: *mut c_uchar,
        major: *mut c_int,
        minor: *mut c_int,
    ) -> bool;
    safe fn shim_set_flags(tf32: bool, deterministic: bool, cudnn_benchmark: bool) -> bool;
    fn shim_get_flags(tf32: *mut bool, deterministic: *mut bool, cudnn_benchmark: *mut bool) -> bool;
    safe fn shim_keep_memory();
    safe fn shim_autocast_begin(device: c_int, bfloat16: bool) -> bool;
    safe fn shim_autocast_end(device: c_int) -> bool;
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
    fn shim_triad(c: *mut c_void, a: *mut c_void, b: *mut c_void, scalar: f64) -> bool;
    fn shim_range_push(name: *const c_char) -> bool;
    safe fn shim_range_pop() -> bool;
    safe fn shim_libtorch_version() -> *const c_char;
    safe fn shim_onednn_version() -> *const c_char;
    safe fn shim_cuda_version() -> i64;
    safe fn shim_cudnn_version() -> i64;
}

/// What a shim function left as its reason.
fn error() -> String {
    text(shim_error())
}

/// A C string of the shim's, which all live as long as the process or until the thread's next call.
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
    /// Whether matrix products and convolutions may round to TF32.
    pub(crate) tf32: bool,
    /// Whether only deterministic algorithms are allowed.
    pub(crate) deterministic: bool,
    /// Whether cuDNN times its algorithms.
    pub(crate) cudnn_benchmark: bool,
}

impl Flags {
    /// Sets them for the whole process.
    pub(crate) fn set(self) -> Result<(), WorkerError> {
        checked(shim_set_flags(self.tf32, self.deterministic, self.cudnn_benchmark))
    }

    /// As libtorch has them now.
    pub(crate) fn get() -> Result<Self, WorkerError> {
        let mut flags = Flags { tf32: false, deterministic: false, cudnn_benchmark: false };
        // SAFETY: three pointers to distinct booleans that live through the call.
        checked(unsafe {
            shim_get_flags(&mut flags.tf32, &mut flags.deterministic, &mut flags.cudnn_benchmark)
        })?;
        Ok(flags)
    }
}

/// Loads libtorch's CUDA half.
///
/// # Errors
/// The dynamic linker's reason: libraries of CUDA that are not installed, most often.
pub(crate) fn load_cuda() -> Result<(), String> {
    if shim_load_cuda() { Ok(()) } else { Err(error()) }
}

/// Waits until the accelerator has done all it was given. Not for the CPU, which is always done.
pub(crate) fn synchronize() -> Result<(), WorkerError> {
    checked(shim_synchronize())
}

/// Starts a new maximum for [`peak_memory`]; false where the allocator does not count.
pub(crate) fn reset_peak_memory() -> bool {
    shim_reset_peak_memory()
}

/// The most bytes the accelerator's allocator held since [`reset_peak_memory`].
pub(crate) fn peak_memory() -> Option<u64> {
    u64::try_from(shim_peak_memory()).ok()
}

/// What the driver says of the CUDA device.
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
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Lets the process keep memory that it frees, so that iterations do not pay for getting it from the kernel again.
pub(crate) fn keep_memory() {
    shim_keep_memory();
}

/// c10's number of a device type.
fn device_type(device: Device) -> c_int {
    match device {
        Device::Cpu => 0,
        Device::Cuda(_) => 1,
        Device::Mps => 13,
        Device::Vulkan => 10,
    }
}

/// Half precision that an [`Autocast`] computes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    /// Eight bits of exponent: the range of single precision.
    Bfloat16,
    /// Five bits of exponent: gradients need a loss scale.
    Float16,
}

/// While it lives, operations of this thread that gain from it compute in half precision.
#[derive(Debug)]
pub(crate) struct Autocast(Device);

impl Autocast {
    /// Begins on `device`.
    pub(crate) fn begin(device: Device, half: Half) -> Result<Self, WorkerError> {
        checked(shim_autocast_begin(device_type(device), half == Half::Bfloat16))?;
        Ok(Autocast(device))
    }
}

impl Drop for Autocast {
    fn drop(&mut self) {
        // Turning a flag off cannot fail.
        shim_autocast_end(device_type(self.0));
    }
}

/// The constants of SGD.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sgd {
    /// Step size.
    pub(crate) learning_rate: f64,
    /// Share of the last step that the next one keeps.
    pub(crate) momentum: f64,
    /// L2 penalty.
    pub(crate) weight_decay: f64,
}

/// One step of SGD over all `parameters` that have a gradient; afterwards none has. `momenta` are of the same shapes
/// and memory formats. With `scale` (the loss scale and its growth tracker), see `shim.cpp`.
pub(crate) fn sgd_step(
    sgd: Sgd,
    parameters: &[Tensor],
    momenta: &[Tensor],
    scale: Option<(&Tensor, &Tensor)>,
) -> Result<(), WorkerError> {
    assert_eq!(parameters.len(), momenta.len(), "every parameter has its momentum");
    let pointers = |tensors: &[Tensor]| -> Vec<*mut c_void> { tensors.iter().map(pointer).collect() };
    let (values, buffers) = (pointers(parameters), pointers(momenta));
    let (scale, tracker) = scale.map_or((std::ptr::null_mut(), std::ptr::null_mut()), |(scale, tracker)| {
        (pointer(scale), pointer(tracker))
    });
    // SAFETY: the pointers are those of live tensors, as many of each as `count` says; both vectors outlive the call.
    checked(unsafe {
        shim_sgd_step(
            values.as_ptr(),
            buffers.as_ptr(),
            i64::try_from(values.len()).expect("a vector's length fits in 63 bits"),
            sgd.learning_rate,
            sgd.momentum,
            sgd.weight_decay,
            scale,
            tracker,
        )
    })
}

/// c = a + `scalar` · b, in the memory of c. All of one shape.
pub(crate) fn triad(c: &Tensor, a: &Tensor, b: &Tensor, scalar: f64) -> Result<(), WorkerError> {
    // SAFETY: three pointers to live tensors; libtorch checks their shapes.
    checked(unsafe { shim_triad(pointer(c), pointer(a), pointer(b), scalar) })
}

/// The `at::Tensor` that a tensor of `tch` holds.
fn pointer(tensor: &Tensor) -> *mut c_void {
    tensor.as_ptr().cast_mut().cast()
}

/// An NVTX range; it ends when dropped.
#[derive(Debug)]
pub(crate) struct Range(());

impl Range {
    /// Begins a range called `name`.
    pub(crate) fn begin(name: &str) -> Result<Self, WorkerError> {
        let name = CString::new(name.replace('\0', "")).expect("no zero is left in it");
        // SAFETY: a terminated string that lives through the call.
        checked(unsafe { shim_range_push(name.as_ptr()) })?;
        Ok(Range(()))
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        // A range that does not end spoils a profile, not a result.
        shim_range_pop();
    }
}

/// Versions of libraries by name.
pub(crate) fn versions() -> impl Iterator<Item = (String, String)> {
    let number = |version: i64| (version >= 0).then(|| version.to_string());
    [
        ("libtorch", Some(text(shim_libtorch_version()))),
        ("onednn", onednn_version(&text(shim_onednn_version()))),
        ("cuda", number(shim_cuda_version())),
        ("cudnn", number(shim_cudnn_version())),
    ]
    .into_iter()
    .filter_map(|(name, version)| Some((name.to_owned(), version?)))
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

    #[test]
    fn flags_read_back_as_set() {
        for bits in 0..8 {
            let flags =
                Flags { tf32: bits & 1 > 0, deterministic: bits & 2 > 0, cudnn_benchmark: bits & 4 > 0 };
            flags.set().unwrap();
            assert_eq!(Flags::get().unwrap(), flags);
        }
        Flags { tf32: false, deterministic: false, cudnn_benchmark: false }.set().unwrap();
    }

    #[test]
    fn libtorch_is_the_pinned_one() {
        let version = versions().find(|(name, _)| name == "libtorch").unwrap().1;
        assert!(version.starts_with("2.11.0"), "{version}");
    }
}
