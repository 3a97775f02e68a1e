//! The live pages of a store, served over HTTP: an index, the report of each plan, and one page per job with its logs.
//! The verb `serve` calls it, and provides the contents of the pages as a [`Source`].
//! It never writes a file, starts nothing, and never builds a path from the text of a request.
//!
//! ```text
//! server ─▶ guard ─▶ routes ─▶ desk ══▶ library (separate thread) ─▶ Source
//!                      │         │         │
//!                      ▼         ▼         ▼
//!                    logs     viewers    pages
//! ```
//!
//! One thread, [`library`], reads the store and renders each page once for all viewers. It sleeps while there are none.

mod address;
mod desk;
mod directories;
mod events;
mod guard;
mod library;
mod logs;
mod pages;
mod policy;
mod priority;
mod routes;
mod server;
mod source;
mod token;
mod viewers;

pub use guard::Access;
pub use priority::yield_to_workers;
pub use server::{Listeners, ServeError, serve};
pub use source::{AttemptLine, Index, JobView, Progress, Report, RunningJob, Section, Source};
pub use token::{Token, TokenError};
