//! `orchestrate`: parse, dispatch, exit code.

use std::process::ExitCode;

/// Records hold many small values, which this one gives and takes back sooner than that of the C library.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    orchestrate::cli::main()
}
