//! Where the time of an iteration goes: a few more iterations after the window, with libtorch's profiler.

mod bookkeeping;
mod kernels;
mod lists;
mod profile;
mod recording;
mod run;
mod time;

use orchestrate::protocol::Phase;

use super::shim::Scope;

/// Begins a scope that marks `phase` of an iteration for the profiler; it ends when dropped. `None` if libtorch cannot.
pub(crate) fn mark(phase: Phase) -> Option<Scope> {
    Scope::begin(&time::scope_name(phase))
}
