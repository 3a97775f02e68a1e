//! Catches the signals that stop `orchestrate` while it waits for a program's answer and no other handler is installed.
//!
//! Such a signal would end `orchestrate` immediately. The program would survive, because it has a separate process
//! group.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::libc::c_int;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// The last signal that was caught; 0 if there was none.
static CAUGHT: AtomicI32 = AtomicI32::new(0);

/// Locked while signals are caught. Two [`Interrupts`] at a time would restore each other's handlers.
static ACTIVE: Mutex<()> = Mutex::new(());

/// The time between two checks for a signal.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Signals are caught until this is dropped. Then they have their former effect again.
pub(super) struct Interrupts {
    former: Vec<(Signal, SigAction)>,
    /// Unlocked last.
    _alone: MutexGuard<'static, ()>,
}

impl Interrupts {
    /// Catches SIGINT, SIGTERM and SIGHUP from now on. SIGHUP is not caught if it is ignored, as it is under `nohup`.
    pub(super) fn catch() -> Interrupts {
        let alone = ACTIVE.lock().unwrap_or_else(PoisonError::into_inner);
        CAUGHT.store(0, Ordering::Relaxed);
        let mut interrupts = Interrupts { former: Vec::new(), _alone: alone };
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            let action = SigAction::new(SigHandler::Handler(note), SaFlags::SA_RESTART, SigSet::empty());
            // SAFETY: the handler stores a number and does nothing else.
            if let Ok(former) = unsafe { sigaction(signal, &action) } {
                interrupts.former.push((signal, former));
            }
        }
        let is_ignored = |(signal, former): &mut (Signal, SigAction)| {
            *signal == Signal::SIGHUP && matches!(former.handler(), SigHandler::SigIgn)
        };
        interrupts.former.extract_if(.., is_ignored).for_each(|(signal, former)| restore(signal, &former));
        interrupts
    }

    /// Waits for a signal.
    pub(super) async fn next(&self) {
        while caught().is_none() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Restores the former handlers, and returns the last signal that was caught. No signal is lost in between.
    pub(super) fn end(mut self) -> Option<Signal> {
        self.restore();
        caught()
    }

    fn restore(&mut self) {
        self.former.drain(..).for_each(|(signal, former)| restore(signal, &former));
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        self.restore();
    }
}

fn caught() -> Option<Signal> {
    Signal::try_from(CAUGHT.load(Ordering::Relaxed)).ok()
}

/// Restores the `former` effect of `signal`.
fn restore(signal: Signal, former: &SigAction) {
    // SAFETY: this effect was installed before, so it is sound.
    let _ = unsafe { sigaction(signal, former) };
}

extern "C" fn note(signal: c_int) {
    CAUGHT.store(signal, Ordering::Relaxed);
}
