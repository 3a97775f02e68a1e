//! Being told to stop: the signals that `orchestrate` heeds, and what they ask for.
//! The rooms `lock` and `run` listen, whenever they wait; it knows nobody.
//! It never ends a process and never sends a signal.
//!
//! The first of SIGINT, SIGTERM, SIGHUP asks to stop gently; a SIGINT after that asks to kill at once. SIGHUP is left
//! alone if it was ignored when we were started, for that is what `nohup` is for. SIGINT is heeded even if it was
//! ignored, as scripts' background jobs have it: nobody sends it to a run that he does not want to stop.

use std::io;

use nix::libc;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Start nothing more; let the worker end by itself for as long as its grace lasts.
    Gently(&'static str),
    /// Kill the worker at once.
    Now(&'static str),
}

/// Listens for signals. Dropping it does not bring back their default effect.
#[derive(Debug)]
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` under `nohup`.
    hangup: Option<Signal>,
    stopping: Option<&'static str>,
}

impl StopSignals {
    /// Begins to listen.
    ///
    /// # Errors
    /// The system refuses a signal handler.
    pub fn listen() -> io::Result<StopSignals> {
        let hangup = if is_ignored(libc::SIGHUP) { None } else { Some(signal(SignalKind::hangup())?) };
        Ok(StopSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup,
            stopping: None,
        })
    }

    /// The signal that first asked to stop, if any did.
    pub fn stopping(&self) -> Option<&'static str> {
        self.stopping
    }

    /// The signal that first asked to stop, for a sentence; for whoever knows that one did.
    pub fn by(&self) -> &'static str {
        self.stopping.unwrap_or("a signal")
    }

    /// Waits for the next signal that asks for something new. May be dropped while it waits.
    pub async fn next(&mut self) -> Stop {
        loop {
            let name = tokio::select! {
                Some(()) = self.interrupt.recv() => "SIGINT",
                Some(()) = self.terminate.recv() => "SIGTERM",
                Some(()) = next_of(&mut self.hangup) => "SIGHUP",
            };
            if self.stopping.is_none() {
                self.stopping = Some(name);
                return Stop::Gently(name);
            }
            if name == "SIGINT" {
                return Stop::Now(name);
            }
        }
    }
}

async fn next_of(signal: &mut Option<Signal>) -> Option<()> {
    match signal {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    }
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: a null new action makes this a mere question; `old` is a plain struct that the call fills in, and zeros
    // are a valid value of it.
    let (answer, old) = unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        (libc::sigaction(signal, std::ptr::null(), &mut old), old)
    };
    answer == 0 && old.sa_sigaction == libc::SIG_IGN
}
