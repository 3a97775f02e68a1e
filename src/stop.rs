//! The signals that stop `orchestrate`, [`StopSignals`], and their effect, [`Stop`]. The rooms `lock` and `run` listen
//! whenever they wait; it uses no other room. It never ends a process and never sends a signal.
//!
//! The first SIGINT, SIGTERM or SIGHUP requests a gentle stop. A request by `orchestrate stop`, which the owner's lock
//! receives and forwards, has the same effect. A later SIGINT kills the worker immediately. At its start, `cli` ensures
//! that signals arrive. SIGHUP stays ignored if it was ignored then, as by `nohup`. SIGINT is handled even if it was
//! ignored, as in background jobs of scripts, because sending it to a run can only mean to stop it.

use std::io;

use nix::libc;
use nix::sys::signal::{self, SigHandler, SigSet};
use tokio::signal::unix::{Signal, SignalKind, signal as listen};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The effect of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Start no more jobs, and let the worker end within its grace period.
    Gently(&'static str),
    /// Kill the worker immediately.
    Now(&'static str),
}

/// Listens for signals. Dropping it does not restore their default effect.
#[derive(Debug)]
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` under `nohup`.
    hangup: Option<Signal>,
    /// Requests by `orchestrate stop`; `None` before [`StopSignals::accept_requests`].
    requests: Option<UnboundedReceiver<()>>,
    stopping: Option<&'static str>,
}

impl StopSignals {
    /// Starts listening.
    ///
    /// # Errors
    /// A signal handler cannot be installed.
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

    /// Also listens for requests, which are sent to the returned sender.
    pub fn accept_requests(&mut self) -> UnboundedSender<()> {
        let (sender, receiver) = unbounded_channel();
        self.requests = Some(receiver);
        sender
    }

    /// The first signal that requested a stop, if any.
    pub fn stopping(&self) -> Option<&'static str> {
        self.stopping
    }

    /// The name of the first signal that requested a stop, for messages.
    pub fn by(&self) -> &'static str {
        self.stopping.unwrap_or("a signal")
    }

    /// Waits for the next signal that has a new effect. Cancel safe.
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

/// Unblocks signals that the parent process ignores or blocks. Call it before starting the first thread and child.
///
/// If SIGCHLD is ignored, the system discards the exit status of children, so every program seems to be missing. If it
/// is blocked, the end of a worker is noticed late.
///
/// # Panics
/// The system does not know one of these signals. All of them are in POSIX.
pub fn restore_signals() {
    use signal::Signal::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP};
    // SAFETY: the default action runs no code of this program.
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
