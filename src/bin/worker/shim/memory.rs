//! How much of the accelerator's memory is reserved and free. These functions cannot fail, so error handlers can
//! call them.

// SAFETY: these are declarations of `shim/shim.cpp`, of which none throws.
unsafe extern "C" {
    safe fn shim_reset_peak_memory() -> bool;
    fn shim_peak_memory(held: *mut i64, taken: *mut i64) -> bool;
    safe fn shim_mps_memory() -> i64;
    fn shim_memory(free: *mut i64, total: *mut i64) -> bool;
    safe fn shim_mps_recommended() -> i64;
}

/// Starts a new maximum for [`peak_memory`]. Returns false if the allocator does not count.
pub(crate) fn reset_peak_memory() -> bool {
    shim_reset_peak_memory()
}

/// Peak bytes of the accelerator's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeakMemory {
    /// The most bytes that its allocator reserved.
    pub(crate) held: Option<u64>,
    /// The most of these bytes that tensors used.
    pub(crate) taken: Option<u64>,
}

impl PeakMemory {
    /// The larger of both, each where it is known.
    pub(crate) fn max(self, other: PeakMemory) -> PeakMemory {
        PeakMemory { held: self.held.max(other.held), taken: self.taken.max(other.taken) }
    }
}

/// The maxima since [`reset_peak_memory`], if that succeeded (`counted`). MPS might not count maxima. There, the peak
/// is what the allocator has reserved now, because it does not release memory while a network trains.
pub(crate) fn peak_memory(counted: bool) -> PeakMemory {
    let (mut held, mut taken) = (-1, -1);
    // SAFETY: two pointers to distinct numbers that live through the call.
    if counted && unsafe { shim_peak_memory(&mut held, &mut taken) } {
        return PeakMemory { held: u64::try_from(held).ok(), taken: u64::try_from(taken).ok() };
    }
    PeakMemory { held: u64::try_from(shim_mps_memory()).ok(), taken: None }
}

/// The free and the total memory of the accelerator, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreeMemory {
    /// Free now.
    pub(crate) free: u64,
    /// All memory, used or free.
    pub(crate) total: u64,
}

/// The accelerator's free memory, if it reports that. An Apple GPU shares the host's memory, and Metal recommends how
/// much of it to take: the part that this process has not taken is free.
pub(crate) fn free_memory() -> Option<FreeMemory> {
    let (mut free, mut total) = (-1, -1);
    // SAFETY: two pointers to distinct numbers that live through the call.
    if unsafe { shim_memory(&raw mut free, &raw mut total) } {
        return Some(FreeMemory { free: u64::try_from(free).ok()?, total: u64::try_from(total).ok()? });
    }
    recommended(u64::try_from(shim_mps_recommended()).ok()?, u64::try_from(shim_mps_memory()).ok()?)
}

/// The unused part of the memory that Metal recommends to take at most; `None` without a recommendation.
fn recommended(total: u64, taken: u64) -> Option<FreeMemory> {
    (total > 0).then(|| FreeMemory { free: total.saturating_sub(taken), total })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_free_memory_of_an_apple_gpu_is_the_recommended_less_the_taken() {
        assert_eq!(recommended(12 << 30, 5 << 30), Some(FreeMemory { free: 7 << 30, total: 12 << 30 }));
        assert_eq!(recommended(5 << 30, 12 << 30), Some(FreeMemory { free: 0, total: 5 << 30 }));
        assert_eq!(recommended(0, 0), None);
    }
}
