//! How much of the accelerator's memory is held and free. Nothing here can fail, so even the handling of an error can
//! call it.

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
    /// The most its allocator held.
    pub(crate) held: Option<u64>,
    /// The most of it that tensors used.
    pub(crate) taken: Option<u64>,
}

impl PeakMemory {
    /// The larger of both, each where it is known.
    pub(crate) fn max(self, other: PeakMemory) -> PeakMemory {
        PeakMemory { held: self.held.max(other.held), taken: self.taken.max(other.taken) }
    }
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

/// How much of the accelerator's memory nobody uses, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreeMemory {
    /// Free now.
    pub(crate) free: u64,
    /// Free if nobody used any.
    pub(crate) total: u64,
}

/// The accelerator's free memory, if it tells. An Apple GPU shares the host's memory, and Metal recommends how much of
/// it to take: what this process has not taken of that is free.
pub(crate) fn free_memory() -> Option<FreeMemory> {
    let (mut free, mut total) = (-1, -1);
    // SAFETY: two pointers to distinct numbers that live through the call.
    if unsafe { shim_memory(&raw mut free, &raw mut total) } {
        return Some(FreeMemory { free: u64::try_from(free).ok()?, total: u64::try_from(total).ok()? });
    }
    recommended(u64::try_from(shim_mps_recommended()).ok()?, u64::try_from(shim_mps_memory()).ok()?)
}

/// What is left of the memory that Metal recommends to take at most. Nothing is known if it recommends nothing.
fn recommended(total: u64, taken: u64) -> Option<FreeMemory> {
    (total > 0).then(|| FreeMemory { free: total.saturating_sub(taken), total })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_apple_gpu_has_what_metal_recommends_less_what_is_taken() {
        assert_eq!(recommended(12 << 30, 5 << 30), Some(FreeMemory { free: 7 << 30, total: 12 << 30 }));
        assert_eq!(recommended(5 << 30, 12 << 30), Some(FreeMemory { free: 0, total: 5 << 30 }));
        assert_eq!(recommended(0, 0), None);
    }
}
