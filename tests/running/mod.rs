//! Running: every way a worker can end, and every way a run can be cut off.

mod broken;
mod crash;
mod locks;
mod misread;
mod names;
mod outcomes;
mod settings;
mod stale;
mod stop;
mod store;
mod telemetry;
mod variables;
