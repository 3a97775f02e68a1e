//! How much of the accelerator's memory is held and free. Nothing here can fail, so even the handling of an error can
//! call it.

// SAFETY: these are declarations of `shim/shim.cpp`, of which none throws.
unsafe extern "C" {
    safe fn shim_reset_peak_memory() -> bool;
    fn shim_peak_memory(held: *mut i64, taken: *mut i64) -> bool;
    safe fn shim_mps_memory() -> i64;
    safe fn shim_free_memory() -> i64;
}

/// Starts a new maximum for [`peak_memory`]. Returns false if the allocator does not count.
pub(crate) fn reset_peak_memory() -> bool {
    shim_reset_peak_memory()
}

/// Peak bytes of the accelerator's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeakMemory {
    /// The most its allocator held.
    pub(crate) held: Option<u64>,
    /// The most of it that tensors used.
    pub(crate) taken: Option<u64>,
}

/// The maxima since [`reset_peak_memory`], if that succeeded (`counted`). MPS might not count maxima. There, what the
/// allocator holds now is the most it held, because it returns nothing while a network trains.
pub(crate) fn peak_memory(counted: bool) -> PeakMemory {
    let (mut held, mut taken) = (-1, -1);
    // SAFETY: two pointers to distinct numbers that live through the call.
    if counted && unsafe { shim_peak_memory(&mut held, &mut taken) } {
        return PeakMemory { held: u64::try_from(held).ok(), taken: u64::try_from(taken).ok() };
    }
    PeakMemory { held: u64::try_from(shim_mps_memory()).ok(), taken: None }
}

/// The free bytes of the accelerator, if it tells.
pub(crate) fn free_memory() -> Option<u64> {
    u64::try_from(shim_free_memory()).ok()
}
