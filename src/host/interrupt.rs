//! Hears the signals that stop `orchestrate` while it asks a program a question and nobody else listens.
//!
//! Such a signal would end `orchestrate` at once. The program would stay behind, for it has a process group of its own.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::libc::c_int;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// The last signal that was heard; 0 if there was none.
static HEARD: AtomicI32 = AtomicI32::new(0);

/// Held by whoever hears. Of two at a time, the first to end would take the other's effect for the former one.
static HEARER: Mutex<()> = Mutex::new(());

/// The time between two looks whether a signal came.
const LOOK: Duration = Duration::from_millis(20);

/// Signals are heard as long as this lives. Then they have their former effect again.
pub(super) struct Interrupts {
    former: Vec<(Signal, SigAction)>,
    /// Released last.
    _alone: MutexGuard<'static, ()>,
}

impl Interrupts {
    /// Hears SIGINT, SIGTERM and SIGHUP from now on. SIGHUP is left alone if it is ignored, as it is under `nohup`.
    pub(super) fn hear() -> Interrupts {
        let alone = HEARER.lock().unwrap_or_else(PoisonError::into_inner);
        HEARD.store(0, Ordering::Relaxed);
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
        while heard().is_none() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Hears no longer, and returns the last signal that was heard. No signal is lost in between.
    pub(super) fn end(mut self) -> Option<Signal> {
        self.restore();
        heard()
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

fn heard() -> Option<Signal> {
    Signal::try_from(HEARD.load(Ordering::Relaxed)).ok()
}

/// Gives `signal` its `former` effect again.
fn restore(signal: Signal, former: &SigAction) {
    // SAFETY: whoever set this effect before knew that it is sound.
    let _ = unsafe { sigaction(signal, former) };
}

extern "C" fn note(signal: c_int) {
    HEARD.store(signal, Ordering::Relaxed);
}
