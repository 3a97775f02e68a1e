//! `orchestrate`: parse, dispatch, exit code.

use std::process::ExitCode;

/// Records have many small values, which this allocator allocates and frees faster than that of the C library.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    orchestrate::cli::main()
}
