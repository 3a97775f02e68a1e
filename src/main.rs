//! `orchestrate`: parse, dispatch, exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    orchestrate::cli::main()
}
