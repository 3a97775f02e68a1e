//! How the worker fails: its errors, and the lack of memory among them.

mod error;
mod shortage;

pub(crate) use error::{WorkerError, one_line};
