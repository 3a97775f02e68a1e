//! The signals that tell `orchestrate` to stop, and what they ask for. The rooms `lock` and `run` listen whenever they
//! wait; it uses no other room. It never ends a process and never sends a signal.
//!
//! The first SIGINT, SIGTERM or SIGHUP asks to stop gently, and so does a request by `orchestrate stop`, which somebody
//! else finds and sends here. A SIGINT after that asks to kill at once. SIGHUP is left
//! alone if it was ignored at the start, because that is what `nohup` does. SIGINT is handled even if it was ignored,
//! as it is in the background jobs of scripts: nobody sends it to a run without wanting it to stop.

use std::io;

use nix::libc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Start no more jobs, and let the worker end on its own within its grace period.
    Gently(&'static str),
    /// Kill the worker at once.
    Now(&'static str),
}

/// Listens for signals. Dropping it does not restore their default effect.
#[derive(Debug)]
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` under `nohup`.
    hangup: Option<Signal>,
    /// Requests by others; `None` before [`StopSignals::also_by_request`].
    requests: Option<UnboundedReceiver<()>>,
    stopping: Option<&'static str>,
}

impl StopSignals {
    /// Starts listening.
    ///
    /// # Errors
    /// The system refused a signal handler.
    pub fn listen() -> io::Result<StopSignals> {
        let hangup = if is_ignored(libc::SIGHUP) { None } else { Some(signal(SignalKind::hangup())?) };
        Ok(StopSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup,
            requests: None,
            stopping: None,
        })
    }

    /// Listens for requests too, to be sent to the returned end.
    pub fn also_by_request(&mut self) -> UnboundedSender<()> {
        let (sender, receiver) = unbounded_channel();
        self.requests = Some(receiver);
        sender
    }

    /// The first signal that asked to stop, if any.
    pub fn stopping(&self) -> Option<&'static str> {
        self.stopping
    }

    /// The first signal that asked to stop, as a word for a sentence.
    pub fn by(&self) -> &'static str {
        self.stopping.unwrap_or("a signal")
    }

    /// Waits for the next signal that asks for something new. Cancel safe.
    pub async fn next(&mut self) -> Stop {
        loop {
            let name = tokio::select! {
                Some(()) = self.interrupt.recv() => "SIGINT",
                Some(()) = self.terminate.recv() => "SIGTERM",
                Some(()) = next_of(&mut self.hangup) => "SIGHUP",
                Some(()) = next_request(&mut self.requests) => "`orchestrate stop`",
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

async fn next_request(requests: &mut Option<UnboundedReceiver<()>>) -> Option<()> {
    match requests {
        Some(requests) => requests.recv().await,
        None => std::future::pending().await,
    }
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: a null new action makes this a mere query. `old` is a plain struct that the call fills in, and all zeros
    // are a valid value for it.
    let (answer, old) = unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        (libc::sigaction(signal, std::ptr::null(), &mut old), old)
    };
    answer == 0 && old.sa_sigaction == libc::SIG_IGN
}
