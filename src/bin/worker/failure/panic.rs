//! Panics as errors.

use std::panic;

use super::error::WorkerError;

/// Runs `body` and turns a panic of this thread into an error.
///
/// # Errors
/// Those of `body`, and [`WorkerError::Panicked`], or out of memory if the panic's message says so.
pub(crate) fn caught<T>(body: impl FnOnce() -> Result<T, WorkerError>) -> Result<T, WorkerError> {
    panic::catch_unwind(panic::AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
        Err(WorkerError::panicked(text))
    })
}
