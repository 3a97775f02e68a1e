//! The animals: how each divides its time, and the class that follows.
//!
//! Two of them are traps: their limit cannot be determined, but an analysis that drops a premise finds a class.

use orchestrate::protocol::OperatorClass;

use crate::flags::Flags;

/// A worker that divides its time in a known way.
#[derive(Debug)]
pub(crate) struct Animal {
    pub(crate) name: &'static str,
    /// The class of its row, as the column `bound` has it.
    pub(crate) class: &'static str,
    /// Kinds of work, each with its share of the time, products first. It sleeps for what is left.
    pub(crate) parts: &'static [(Part, f64)],
    /// How much longer it sleeps in a profiled iteration, in iterations.
    pub(crate) delay: f64,
    /// The memory of its device fits a batch of [`FITTING_BATCH`] and no larger one. Only a simulated GPU has so
    /// little.
    pub(crate) spills: bool,
}

/// The largest batch that fits the memory of the device of an animal that spills.
pub(crate) const FITTING_BATCH: u64 = 4;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// Products that stay in registers: at the compute roof.
    Product,
    /// The same products, each followed by an equally long pause: below both roofs.
    Wasteful,
    /// a = b + s c beyond all caches: at the memory roof.
    Triad,
    /// The same in the nearest cache: faster than any memory.
    Cached,
    /// A few additions, each handed to another thread: the launch takes the time.
    Tiny,
    /// Waiting for data.
    Data,
}

impl Animal {
    /// Whether its memory spills with the batch in `flags`.
    pub(crate) fn spills_at(&self, flags: &Flags) -> bool {
        self.spills && flags.number::<u64>("batch").is_some_and(|batch| batch > FITTING_BATCH)
    }
}

impl Part {
    /// The name of its operator.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Part::Product => "product in registers",
            Part::Wasteful => "product that wastes half of its time",
            Part::Triad => "triad in memory",
            Part::Cached => "triad in cache",
            Part::Tiny => "tiny addition",
            Part::Data => "wait for data",
        }
    }

    /// The class of its operator.
    pub(crate) fn class(self) -> OperatorClass {
        match self {
            Part::Product | Part::Wasteful => OperatorClass::Product,
            Part::Triad | Part::Cached | Part::Tiny => OperatorClass::Elementwise,
            Part::Data => OperatorClass::Data,
        }
    }
}

const fn animal(name: &'static str, class: &'static str, parts: &'static [(Part, f64)]) -> Animal {
    Animal { name, class, parts, delay: 0.0, spills: false }
}

/// All animals. A limit is that of a row if it takes at least 60 % of the time.
pub(crate) const ANIMALS: &[Animal] = &[
    animal("gemm", "compute-bound", &[(Part::Product, 1.0)]),
    animal("triad", "memory-bound", &[(Part::Triad, 1.0)]),
    animal("sleep", "host-bound", &[(Part::Product, 0.1)]),
    animal("tiny", "latency-bound", &[(Part::Tiny, 1.0)]),
    animal("loader", "host-bound", &[(Part::Product, 0.2), (Part::Data, 0.8)]),
    animal("wasteful", "kernel-bound", &[(Part::Wasteful, 1.0)]),
    animal("half", "mixed", &[(Part::Product, 0.5), (Part::Triad, 0.5)]),
    animal("mostly-gemm", "compute-bound", &[(Part::Product, 0.8), (Part::Triad, 0.2)]),
    animal("mostly-triad", "memory-bound", &[(Part::Product, 0.2), (Part::Triad, 0.8)]),
    // The ceiling of that cache is unknown, so its bytes do not determine a class.
    animal("cached", "unknown", &[(Part::Cached, 1.0)]),
    // Its profile is that of another program.
    Animal { delay: 2.0, ..animal("delayed", "unknown", &[(Part::Wasteful, 1.0)]) },
    Animal { spills: true, ..animal("spilled", "spilled", &[(Part::Product, 1.0)]) },
];
