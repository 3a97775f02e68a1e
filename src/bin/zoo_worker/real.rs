//! Real work, on all processors that the process may use.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use orchestrate::processor::processor_name;

use crate::animal::{Animal, Part};
use crate::engine::{Engine, Spent};
use crate::kernels::{self, Block};
use crate::team;

/// Seconds of an iteration without products.
const ITERATION_S: f64 = 0.5;

/// Calls of products in an iteration of products alone. Every run of an animal has as many FLOPs.
const CALLS: f64 = 64.0;

/// Rounds of each call: about half a GFLOP per thread, which takes a few milliseconds.
const ROUNDS: u64 = 1_000;

/// Rounds that a thread takes at a time.
const PART: u64 = 50;

/// A triad is this many times as large as all caches.
const BEYOND_CACHES: u64 = 12;

/// The capacity of the caches if the system does not report it.
const UNKNOWN_CACHES: u64 = 256 << 20;

/// Elements of each array of a triad in cache: 12 kB together, a part of the nearest cache of any processor.
const CACHED: usize = 1_024;

/// Passes of a triad in cache between two looks at the clock.
const PASSES: u64 = 20_000;

/// Elements of a tiny addition.
const TINY: usize = 64;

/// The processors of this machine.
pub(crate) struct Real {
    began: Instant,
    /// Seconds of the current iteration: its products decide how long it is.
    iteration_s: f64,
    blocks: Vec<Block>,
    streams: Vec<Stream>,
    device: Option<Launcher>,
}

/// The part of the three arrays that a thread works on.
struct Stream {
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
}

impl Stream {
    fn new(elements: usize) -> Self {
        Stream { a: vec![0.0; elements], b: vec![1.0; elements], c: vec![2.0; elements] }
    }
}

impl Real {
    /// A machine with the arrays that `animal` needs.
    pub(crate) fn new(animal: &Animal) -> Self {
        let needs = |part: Part| animal.parts.iter().any(|(it, _)| *it == part);
        let threads = team::size();
        let streams = if needs(Part::Triad) {
            streams(threads)
        } else if needs(Part::Cached) {
            (0..threads).map(|_| Stream::new(CACHED)).collect()
        } else {
            Vec::new()
        };
        let device = needs(Part::Tiny).then(Launcher::start);
        let blocks = (0..threads).map(|_| Block::new()).collect();
        Real { began: Instant::now(), iteration_s: ITERATION_S, blocks, streams, device }
    }

    fn multiply(&mut self) -> Spent {
        let began = Instant::now();
        // Processors can differ, so each takes a part of the rounds when it is done with one.
        let left = AtomicU64::new(ROUNDS / PART * self.blocks.len() as u64);
        let take = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        let flops = team::run(&mut self.blocks, |block| {
            std::iter::from_fn(|| take().ok()).map(|_| kernels::multiply(block, PART)).sum::<f64>()
        });
        Spent {
            calls: 1,
            seconds: began.elapsed().as_secs_f64(),
            flops: flops.into_iter().sum(),
            bytes: self.blocks.len() as f64 * Block::BYTES,
        }
    }

    /// The time after the product is part of the same operator.
    fn multiply_and_waste(&mut self) -> Spent {
        let began = Instant::now();
        let spent = self.multiply();
        while began.elapsed().as_secs_f64() < 2.0 * spent.seconds {
            std::hint::spin_loop();
        }
        Spent { seconds: began.elapsed().as_secs_f64(), ..spent }
    }

    fn stream(&mut self) -> Spent {
        let began = Instant::now();
        team::run(&mut self.streams, |it| kernels::triad(&mut it.a, &it.b, &it.c));
        let elements: usize = self.streams.iter().map(|it| it.a.len()).sum();
        let bytes = (3 * size_of::<f32>() * elements) as f64;
        Spent { calls: 1, seconds: began.elapsed().as_secs_f64(), flops: 0.0, bytes }
    }

    /// Each pass is a call.
    fn stream_in_cache(&mut self) -> Spent {
        let began = Instant::now();
        team::run(&mut self.streams, |it| kernels::triad_in_cache(&mut it.a, &it.b, &it.c, PASSES));
        let bytes = (3 * size_of::<f32>() * CACHED * self.streams.len()) as f64 * PASSES as f64;
        Spent { calls: PASSES, seconds: began.elapsed().as_secs_f64(), flops: 0.0, bytes }
    }

    fn launch(&mut self) -> Spent {
        let began = Instant::now();
        if let Some(device) = &self.device {
            device.add();
        }
        let bytes = (3 * size_of::<f32>() * TINY) as f64;
        Spent { calls: 1, seconds: began.elapsed().as_secs_f64(), flops: 0.0, bytes }
    }

    /// Calls products as often as belong to `share` of an iteration, which is as long as that makes it.
    fn compute(&mut self, share: f64, product: fn(&mut Real) -> Spent) -> Spent {
        let mut spent = Spent::default();
        let calls = (share * CALLS).round();
        while (spent.calls as f64) < calls {
            spent += product(self);
        }
        self.iteration_s = spent.seconds / share;
        spent
    }

    /// Repeats `call` until it has taken `share` of an iteration.
    fn repeat(&mut self, share: f64, call: fn(&mut Real) -> Spent) -> Spent {
        let seconds = share * self.iteration_s;
        let (mut spent, mut last) = (Spent::default(), 0.0);
        // Half a call too much is as far off as half a call too little.
        while spent.calls == 0 || spent.seconds + last / 2.0 < seconds {
            let one = call(self);
            last = one.seconds;
            spent += one;
        }
        spent
    }
}

impl Engine for Real {
    fn spend(&mut self, part: Part, share: f64) -> Spent {
        match part {
            Part::Product => self.compute(share, Real::multiply),
            Part::Wasteful => self.compute(share, Real::multiply_and_waste),
            Part::Triad => self.repeat(share, Real::stream),
            Part::Cached => self.repeat(share, Real::stream_in_cache),
            Part::Tiny => self.repeat(share, Real::launch),
            Part::Data => {
                self.idle(share);
                Spent { calls: 1, seconds: share * self.iteration_s, flops: 0.0, bytes: 0.0 }
            }
        }
    }

    fn idle(&mut self, share: f64) {
        thread::sleep(Duration::from_secs_f64(share * self.iteration_s));
    }

    fn now_s(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn device_name(&self) -> String {
        let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        processor_name(&cpu_info).unwrap_or_else(|| "unknown processor".to_owned())
    }

    fn threads(&self) -> usize {
        self.blocks.len()
    }
}

fn streams(threads: usize) -> Vec<Stream> {
    let bytes = BEYOND_CACHES * caches().unwrap_or(UNKNOWN_CACHES);
    let elements = bytes as usize / (3 * size_of::<f32>() * threads);
    let mut streams: Vec<Stream> = (0..threads).map(|_| Stream::new(elements)).collect();
    // Zeros have no pages before they are written to.
    team::run(&mut streams, |it| it.a.fill(1.0));
    streams
}

/// The bytes of all caches of all processors together, as Linux reports them: one that several share counts once.
fn caches() -> Option<u64> {
    let read = |path: String| Some(fs::read_to_string(path).ok()?.trim().to_owned());
    let mut sizes = BTreeMap::new();
    for processor in
        (0..).take_while(|n| fs::exists(format!("/sys/devices/system/cpu/cpu{n}")).is_ok_and(|is| is))
    {
        for index in 0..8 {
            let folder = format!("/sys/devices/system/cpu/cpu{processor}/cache/index{index}");
            let of = |name: &str| read(format!("{folder}/{name}"));
            let Some(size) = of("size").and_then(|size| size.strip_suffix('K')?.parse::<u64>().ok()) else {
                break;
            };
            sizes.insert((of("level"), of("type"), of("shared_cpu_list")), 1024 * size);
        }
    }
    Some(sizes.values().sum()).filter(|bytes| *bytes > 0)
}

/// A thread that adds short vectors when it is asked, as an accelerator does that is launched for each of them.
struct Launcher {
    requests: Sender<()>,
    replies: Receiver<f32>,
}

impl Launcher {
    fn start() -> Self {
        let (requests, requested) = channel::<()>();
        let (done, replies) = channel();
        thread::spawn(move || {
            let (mut sum, one) = ([0.0_f32; TINY], [1.0_f32; TINY]);
            while requested.recv().is_ok() {
                sum.iter_mut().zip(one).for_each(|(sum, one)| *sum += one);
                if done.send(sum[0]).is_err() {
                    return;
                }
            }
        });
        Launcher { requests, replies }
    }

    /// Adds once, and waits for the end. The thread lives as long as this does.
    fn add(&self) {
        let answered = self.requests.send(()).is_ok() && self.replies.recv().is_ok();
        assert!(answered, "the thread ends when its sender is dropped");
    }
}
