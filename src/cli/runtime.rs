//! Runs a future to its end, for verbs with asynchronous steps.

use std::io;

/// Runs `task` to its end.
///
/// # Errors
/// The runtime cannot be created.
pub(super) fn wait_for<T>(task: impl Future<Output = T>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(task);
    // A thread that still waits for a lock must not delay the exit.
    runtime.shutdown_background();
    Ok(done)
}
