//! Times a piece of work, with the device synchronised on both sides of each timing.

#![expect(clippy::disallowed_methods, reason = "a worker measures time")]

use std::time::Instant;

use super::super::device::OpenDevice;
use super::super::failure::WorkerError;

/// A timing takes at least about this long. Submitting work to a GPU and waiting for it takes some 20 µs, which then
/// does not matter.
const TIMING_S: f64 = 0.02;

/// A timing has at most this many calls, however short they are.
const MOST_CALLS: u32 = 10_000;

/// The duration of a warm-up.
const WARM_UP_S: f64 = 0.1;

/// A piece of work that can be repeated.
pub(super) type Work<'a> = &'a mut dyn FnMut() -> Result<(), WorkerError>;

/// Timings of one piece of work.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Timings {
    /// Calls per timing.
    pub(super) calls: u32,
    /// Seconds per call, for each timing.
    pub(super) seconds: Vec<f64>,
}

/// Times `work` at least `least` times, and then for as long as `budget_s` and `most` allow. One call precedes them: it
/// allocates the memory, plans and code that the others reuse.
pub(super) fn time(
    device: &OpenDevice,
    least: usize,
    most: usize,
    budget_s: f64,
    work: Work<'_>,
) -> Result<Timings, WorkerError> {
    once(device, 1, work)?;
    let first = once(device, 1, work)?;
    let calls = calls_for(first);
    // If a single call is long enough, it is already a timing.
    let mut seconds = if calls == 1 { vec![first] } else { Vec::new() };
    let mut spent_s = 0.0;
    while seconds.len() < least || (seconds.len() < most && spent_s < budget_s) {
        let call_s = once(device, calls, work)?;
        spent_s += call_s * f64::from(calls);
        seconds.push(call_s);
    }
    Ok(Timings { calls, seconds })
}

/// Repeats `work` for about [`WARM_UP_S`], at least twice.
pub(super) fn warm_up(device: &OpenDevice, work: Work<'_>) -> Result<(), WorkerError> {
    once(device, 1, work)?;
    let mut spent_s = 0.0;
    while spent_s < WARM_UP_S {
        spent_s += once(device, 1, work)?;
    }
    Ok(())
}

/// Seconds per call, from `calls` calls in a row.
pub(super) fn once(device: &OpenDevice, calls: u32, work: Work<'_>) -> Result<f64, WorkerError> {
    device.synchronize()?;
    let start = Instant::now();
    for _ in 0..calls {
        work()?;
    }
    device.synchronize()?;
    // If the clock did not move, the rate would be infinite.
    Ok(start.elapsed().as_secs_f64().max(1e-9) / f64::from(calls))
}

/// The number of calls that make a timing long enough, if one takes `call_s` seconds.
fn calls_for(call_s: f64) -> u32 {
    // The clamp keeps it in range, and the ceiling makes it whole.
    (TIMING_S / call_s).ceil().clamp(1.0, f64::from(MOST_CALLS)) as u32
}

#[cfg(test)]
mod tests {
    use orchestrate::job::Device;

    use super::super::super::request::Backend;
    use super::*;

    #[test]
    fn short_calls_share_a_timing() {
        assert_eq!([calls_for(1.0), calls_for(TIMING_S), calls_for(TIMING_S / 3.0)], [1, 1, 3]);
        assert_eq!(calls_for(1e-9), MOST_CALLS);
    }

    #[test]
    fn the_first_call_does_not_count() {
        let device = OpenDevice::open(Backend::Only(Device::Cpu)).unwrap();
        let mut made = 0_u32;
        let timings = time(&device, 3, 9, 0.0, &mut || {
            made += 1;
            Ok(())
        })
        .unwrap();
        let counted = u32::try_from(timings.seconds.len()).unwrap() * timings.calls;
        assert_eq!(timings.seconds.len(), 3);
        // One to warm up, and one to learn how long a call takes, unless that was already a timing.
        assert_eq!(made, counted + if timings.calls == 1 { 1 } else { 2 });
        assert!(time(&device, 1, 1, 0.0, &mut || Err(WorkerError::torch("no"))).is_err());
    }
}
