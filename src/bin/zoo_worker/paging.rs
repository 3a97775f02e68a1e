//! Simulates a driver that pages the memory of a GPU to the host: it keeps processors busy in the system.

use std::fs::File;
use std::io::Read;
use std::thread;
use std::time::{Duration, Instant};

/// Threads that copy pages: enough to keep one processor busy where others work, too.
const THREADS: usize = 8;

/// Bytes of a copy.
const BYTES: usize = 1 << 20;

/// Lets the system fill pages for so long.
pub(crate) fn page(time: Duration) {
    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let Ok(mut zeros) = File::open("/dev/zero") else { return };
                let mut pages = vec![0_u8; BYTES];
                while began.elapsed() < time && zeros.read_exact(&mut pages).is_ok() {}
            });
        }
    });
}
