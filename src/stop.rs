//! The signals that tell `orchestrate` to stop, and what they ask for. The rooms `lock` and `run` listen whenever they
//! wait; it uses no other room. It never ends a process and never sends a signal.
//!
//! The first SIGINT, SIGTERM or SIGHUP asks to stop gently, and so does a request by `orchestrate stop`, which somebody
//! else finds and sends here. A SIGINT after that asks to kill at once. `cli` makes sure at the start that signals are
//! heard. But SIGHUP is left alone if it was ignored then, because that is what `nohup` does. SIGINT is handled even if
//! it was ignored, as it is in the background jobs of scripts: nobody sends it to a run without wanting it to stop.

use std::io;

use nix::libc;
use nix::sys::signal::{self, SigHandler, SigSet};
use tokio::signal::unix::{Signal, SignalKind, signal as listen};
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
        let hangup = if is_ignored(libc::SIGHUP) { None } else { Some(listen(SignalKind::hangup())?) };
        Ok(StopSignals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
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

/// Hears signals again that the program that started us ignores or blocks. Call it before the first thread and child.
///
/// If SIGCHLD is ignored, the system forgets how children ended, so every program seems to be missing. If it is
/// blocked, the end of a worker is noticed late.
///
/// # Panics
/// The system does not know one of these signals. All of them are in POSIX.
pub fn hear_signals() {
    use signal::Signal::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP};
    // SAFETY: the default effect runs no code of ours.
    let effect = unsafe { signal::signal(SIGCHLD, SigHandler::SigDfl) };
    effect.expect("a signal of POSIX");
    let heard = SigSet::from_iter([SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP]);
    heard.thread_unblock().expect("signals of POSIX");
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
