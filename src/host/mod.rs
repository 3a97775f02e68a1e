//! Facts about this machine: its hardware, system and counters, the programs a run needs, and the survey for `doctor`
//! and `env`. The verbs, `prepare` and `run` call it before and after each job. It queries the system, and other
//! programs and the metadata service of a machine in the cloud for a bounded time. It never changes the machine, takes
//! no lock, and makes no judgements: unknown facts stay absent.

pub(crate) mod ask;
mod cgroup;
mod clock;
mod cloud;
mod facts;
pub(crate) mod find;
#[cfg(test)]
mod fuzz_tests;
mod interrupt;
mod libraries;
mod machine;
mod macos;
mod nvidia;
mod parse;
mod preflight;
mod present;
mod programs;
mod reach;
mod scripts;
mod settings;
pub mod survey;
mod system;
mod tools;
mod visible;
mod worker;

pub(crate) use cgroup::{CgroupPlace, held_seconds};
pub use clock::probe_since_boot;
pub use cloud::{AZURE_VARIABLE, InCloud, MetadataService, TIMEOUT_VARIABLE, probe_cloud};
pub(crate) use facts::busy_seconds;
pub use facts::{DEVICES_VARIABLE, hostname, probe_counters, probe_host, probe_memory_available};
pub(crate) use nvidia::{Gpu, GpuUse, gpu_uses};
pub use nvidia::{GpuProcess, probe_gpu_processes};
pub(crate) use parse::{counter, memory_value};
pub use preflight::{Preflight, Stopped};
pub use present::probe_present;
pub use programs::{Named, Programs, ProgramsError, probe_environment};
pub use reach::probe_lock_reach;
pub use scripts::is_code;
pub use system::probe_process_start;
pub use tools::{HashError, TimeTool, hash_file, probe_git, probe_time_tool};
pub use worker::{WORKER_VARIABLE, shipped_worker};
