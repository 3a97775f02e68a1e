//! The integration tests: the real programs, driven from outside.
#![expect(clippy::disallowed_methods, reason = "tests drive programs and read what they leave behind")]

mod binaries;
mod bootstrap;
mod complexity;
mod cuda;
mod docs;
mod golden;
mod harness;
mod layers;
mod matrices;
mod measurement;
mod operators;
mod packaging;
mod parameters;
mod profiling;
mod readme;
mod reporting;
mod running;
mod selftest;
mod training;
mod viewing;
mod zoo;
