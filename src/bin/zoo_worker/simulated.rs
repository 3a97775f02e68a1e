//! Work that takes no time: its seconds follow from known roofs, and scatter by a seed.

use orchestrate::random::SplitMix64;

use crate::animal::{Animal, Part};
use crate::engine::{Engine, Spent};
use crate::flags::Flags;

/// The peak of the simulated device, in FLOP/s. It is so fast that a window is short. Tests have a peaks file with
/// it.
const PEAK: f64 = 10e12;

/// Its bandwidth, in bytes per second.
const BANDWIDTH: f64 = 1e12;

/// The least bytes of one triad: more than twice the size of any cache.
const TRIAD_BYTES: f64 = 4e9;

/// The speed of a cache relative to the memory.
const CACHE: f64 = 3.0;

/// Bytes of a triad in it: less than the memory of GPUs.
const CACHED_BYTES: f64 = 1e8;

/// Seconds of an iteration: enough for several triads in a fifth of it. A window may last little longer than its
/// process.
const ITERATION_S: f64 = 0.1;

/// How far the time of a part scatters around its share, either way.
const SCATTER: f64 = 0.02;

/// The slowdown of everything with memory that spilled.
const SPILLED: f64 = 6.0;

/// Seconds from the launch of a tiny operator to its end.
const LAUNCH_S: f64 = 5e-6;

/// Bytes of one: three vectors of 64 numbers.
const TINY_BYTES: f64 = 768.0;

/// A processor or a GPU that was made up.
pub(crate) struct Simulated {
    random: SplitMix64,
    /// The shares of their roofs that products, wasteful products and streams reach.
    attained: [f64; 3],
    now_s: f64,
    device_name: &'static str,
    /// The slowdown of everything.
    slowness: f64,
}

impl Simulated {
    /// The device of `seed`; every config and every repeat scatters differently.
    pub(crate) fn new(seed: u64, animal: &Animal, flags: &Flags) -> Self {
        let label: Vec<u64> = flags.text("label").unwrap_or_default().bytes().map(u64::from).collect();
        let mut of_machine = SplitMix64::new(seed);
        let mut between = |low: f64, high: f64| low + (high - low) * of_machine.unit();
        // Well within the limits of 30 % and 60 %, as the scatter of a row is an interval around it.
        let attained = [between(0.75, 0.95), between(0.38, 0.52), between(0.75, 0.95)];
        let is_processor = flags.text("device").is_none_or(|device| device == "cpu");
        let device_name = if is_processor { "Simulated processor" } else { "Simulated GPU" };
        let slowness = if animal.spills_at(flags) { SPILLED } else { 1.0 };
        Simulated { random: SplitMix64::of(seed, &label), attained, now_s: 0.0, device_name, slowness }
    }
}

impl Engine for Simulated {
    /// The work is that of the share, however long it takes: it is the same in each iteration.
    fn spend(&mut self, part: Part, share: f64) -> Spent {
        let seconds = share * ITERATION_S;
        let [product, wasteful, stream] = self.attained;
        let computing =
            |attained: f64| Spent { calls: 100, flops: attained * PEAK * seconds, bytes: 5e6, seconds };
        let moving =
            |calls: f64, bytes: f64| Spent { calls: calls.max(1.0) as u64, flops: 0.0, bytes, seconds };
        let work = match part {
            Part::Product => computing(product),
            Part::Wasteful => computing(wasteful),
            Part::Triad => {
                let bytes = stream * BANDWIDTH * seconds;
                moving(bytes / TRIAD_BYTES, bytes)
            }
            Part::Cached => {
                let bytes = CACHE * BANDWIDTH * seconds;
                moving(bytes / CACHED_BYTES, bytes)
            }
            Part::Tiny => moving(seconds / LAUNCH_S, TINY_BYTES * seconds / LAUNCH_S),
            Part::Data => moving(1.0, 0.0),
        };
        let scattered = self.slowness * seconds * (1.0 + SCATTER * (2.0 * self.random.unit() - 1.0));
        self.now_s += scattered;
        Spent { seconds: scattered, ..work }
    }

    fn idle(&mut self, share: f64) {
        self.now_s += share * ITERATION_S;
    }

    fn now_s(&self) -> f64 {
        self.now_s
    }

    fn device_name(&self) -> String {
        self.device_name.to_owned()
    }

    fn threads(&self) -> usize {
        1
    }
}
