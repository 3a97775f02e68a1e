//! How the worker fails: its errors, panics, and the lack of memory among them.

mod error;
mod panic;
mod shortage;

pub(crate) use error::{WorkerError, one_line};
pub(crate) use panic::caught;
