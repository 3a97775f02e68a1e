//! How the worker fails: its errors, and memory that was too little.

mod error;
mod shortage;

pub(crate) use error::{WorkerError, one_line};
