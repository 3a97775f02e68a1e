//! Runs: every outcome of a worker, and every interruption of a run.

mod broken;
mod check_worker;
mod cloud;
mod container;
mod crash;
#[cfg(target_os = "linux")]
mod gpus;
#[cfg(target_os = "linux")]
mod hostile;
mod inherited;
mod locks;
mod merge;
mod misread;
mod names;
mod ops;
mod outcomes;
mod output;
mod preflight;
mod ranks;
mod repeats;
mod seal;
mod secrets;
mod settings;
mod slurm;
mod ssh;
mod stale;
mod stop;
mod stop_verb;
mod store;
mod telemetry;
mod torture;
mod variables;
mod without_locks;
