//! What this machine is and what is on it: its facts and counters, the programs a run needs, what `doctor` and `env` look at.
//! The verbs, `prepare` and `run` call it, before a job and around it; it asks the system, and programs for a bounded time.
//! It never changes the machine, never takes a lock, and never judges: what is not known stays absent.

pub(crate) mod ask;
mod facts;
pub(crate) mod find;
mod libraries;
mod macos;
mod nvidia;
mod parse;
mod present;
mod programs;
mod settings;
pub mod survey;
mod system;
mod tools;
mod worker;

pub(crate) use facts::busy_seconds;
pub use facts::{DEVICES_VARIABLE, probe_counters, probe_host, probe_memory_available};
pub use nvidia::{GpuProcess, probe_gpu_processes};
pub(crate) use nvidia::{GpuUse, gpu_uses};
pub use present::probe_present;
pub use programs::{Programs, ProgramsError};
pub use tools::{HashError, TimeTool, hash_file, probe_git, probe_time_tool};
pub use worker::{WORKER_VARIABLE, shipped_worker};
