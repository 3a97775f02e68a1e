//! `worker`: trains one network on libtorch for a number of iterations and reports how long they took.
//!
//! Flags in, files and lines out, as [`orchestrate::protocol`] defines. Instead of training, `worker peaks` measures
//! the ceilings of a device, `worker data` measures how fast images load, and `worker selftest` tests a device.
//!
//! | module | what it is |
//! |---|---|
//! | [`arguments`] | the command line |
//! | [`parameters`] | flags for the parameters in the table of `job` |
//! | [`request`] | what to train, and how: the command line, checked |
//! | [`device`] | the device: chosen, opened, named, synchronised |
//! | [`cuda`] | whether CUDA can be used here, and if not, why |
//! | [`settings`] | threads and libtorch's global flags: set and read back |
//! | [`model`] | a network of `architecture` as tensors: initialisation and forward pass |
//! | [`optimizer`] | SGD with momentum or AdamW, and the loss scale of fp16 |
//! | [`batches`] | where images come from |
//! | [`data`] | an ImageFolder, decoded |
//! | [`train`] | warm-up and window |
//! | [`recorded`] | a training step as a CUDA graph |
//! | [`stretch`] | consecutive iterations: their times and losses |
//! | [`operators`] | further iterations after the window, with libtorch's profiler |
//! | [`measurement`] | what was effectively trained and measured, in the terms of the protocol |
//! | [`output`] | `measurement.json`, `iterations.csv`, progress lines |
//! | [`process`] | when this process started, and its peak memory |
//! | [`peaks`] | matrix products and streams |
//! | [`loading`] | the data path alone, timed |
//! | [`selftest`] | whether this machine computes what it should |
//! | [`shim`] | C++ for what `tch` has no API for |

mod arguments;
mod batches;
mod cuda;
mod data;
mod device;
mod failure;
mod loading;
mod measurement;
mod model;
mod operators;
mod optimizer;
mod output;
mod parameters;
mod peaks;
mod process;
mod recorded;
mod request;
mod selftest;
mod settings;
mod shim;
mod stretch;
mod train;

use std::io::Write;
use std::panic;
use std::process::ExitCode;
use std::time::Instant;

use clap::error::ErrorKind;

use arguments::{Arguments, Command};
use failure::WorkerError;

#[expect(clippy::disallowed_methods, reason = "a worker measures time")]
fn main() -> ExitCode {
    let started = Instant::now();
    let arguments = match Arguments::read(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(text) if text.kind() == ErrorKind::DisplayVersion => return print_versions(&text.to_string()),
        // `--help` is not an error.
        Err(text) if !text.use_stderr() => text.exit(),
        Err(error) => {
            let error = WorkerError::Usage(arguments::one_line(&error));
            eprintln!("error: {error}");
            return error.exit_code();
        }
    };
    let done = |()| ExitCode::SUCCESS;
    let result = without_panic(|| match &arguments.command {
        Some(Command::Peaks(peaks)) => peaks::run(peaks).map(done),
        Some(Command::Data(data)) => loading::run(data).map(done),
        Some(Command::Cuda) => cuda::run().map(done),
        Some(Command::Selftest(selftest)) => selftest::run(selftest, started),
        None => train::run(&arguments.training, started).map(done),
    });
    let error = match result {
        Ok(code) => return code,
        Err(error) => error,
    };
    eprintln!("error: {}", failure::one_line(&error));
    if let Some(failure) = error.failure() {
        output::write_failure(arguments.training.out.as_deref(), failure);
    }
    error.exit_code()
}

/// Prints the worker's version `own` and the versions of the libraries, one per line. `orchestrate doctor` reads
/// them.
fn print_versions(own: &str) -> ExitCode {
    let libraries: String = shim::versions().map(|(name, version)| format!("{name} {version}\n")).collect();
    // A closed pipe is not an error.
    let _ = write!(std::io::stdout(), "{own}{libraries}");
    ExitCode::SUCCESS
}

/// Runs `body` and turns a panic of this thread into an error. A panic of another thread is printed on one line.
fn without_panic(body: impl FnOnce() -> Result<ExitCode, WorkerError>) -> Result<ExitCode, WorkerError> {
    let main_thread = std::thread::current().id();
    panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() != main_thread {
            eprintln!("error: {}", info.to_string().replace('\n', ": "));
        }
    }));
    failure::caught(body)
}
