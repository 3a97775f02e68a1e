//! `worker`: trains one network on libtorch for a number of iterations and says how long they took.
//!
//! Flags in, files and lines out, as [`orchestrate::protocol`] has it. `worker peaks` measures the ceilings of a
//! device instead, `worker data` how fast images are loaded.
//!
//! | module | what it is |
//! |---|---|
//! | [`arguments`] | the command line |
//! | [`parameters`] | the parameters of the table on it |
//! | [`request`] | the command line, checked: what is to be trained and how |
//! | [`device`] | the device: chosen, opened, named, synchronised |
//! | [`settings`] | threads and libtorch's global flags: set and read back |
//! | [`model`] | a network of `architecture` as tensors: initialisation and forward pass |
//! | [`optimizer`] | SGD with momentum or AdamW, and the loss scale of fp16 |
//! | [`batches`] | where images come from |
//! | [`data`] | an ImageFolder, decoded |
//! | [`train`] | warm-up and window |
//! | [`stretch`] | consecutive iterations: their times and losses |
//! | [`measurement`] | what was really done, as the protocol says it |
//! | [`output`] | `measurement.json`, `iterations.csv`, progress lines |
//! | [`process`] | when this process started, and how much memory it has held |
//! | [`peaks`] | matrix products and streams |
//! | [`loading`] | the data path alone, against the clock |
//! | [`shim`] | the C++ that `tch` has no API for |

mod arguments;
mod batches;
mod data;
mod device;
mod failure;
mod loading;
mod measurement;
mod model;
mod optimizer;
mod output;
mod parameters;
mod peaks;
mod process;
mod request;
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
        // What `--help` asks for is no error.
        Err(text) if !text.use_stderr() => text.exit(),
        Err(error) => {
            let error = WorkerError::Usage(arguments::one_line(&error));
            eprintln!("error: {error}");
            return error.exit_code();
        }
    };
    let result = without_panic(|| match &arguments.command {
        Some(Command::Peaks(peaks)) => peaks::run(peaks),
        Some(Command::Data(data)) => loading::run(data),
        None => train::run(&arguments.training, started),
    });
    let Err(error) = result else { return ExitCode::SUCCESS };
    eprintln!("error: {}", failure::one_line(&error));
    if let Some(failure) = error.failure() {
        output::write_failure(arguments.training.out.as_deref(), failure);
    }
    error.exit_code()
}

/// Prints `own` version and those of the libraries, a line each: what `orchestrate doctor` asks for.
fn print_versions(own: &str) -> ExitCode {
    let libraries: String = shim::versions().map(|(name, version)| format!("{name} {version}\n")).collect();
    // A reader that has gone away has seen enough.
    let _ = write!(std::io::stdout(), "{own}{libraries}");
    ExitCode::SUCCESS
}

/// Runs `body`; a panic of this thread becomes an error instead of a page of text. Other threads' panics are printed
/// in one line where they happen.
fn without_panic(body: impl FnOnce() -> Result<(), WorkerError>) -> Result<(), WorkerError> {
    let main_thread = std::thread::current().id();
    panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() != main_thread {
            eprintln!("error: {}", info.to_string().replace('\n', ": "));
        }
    }));
    panic::catch_unwind(panic::AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
        Err(WorkerError::panicked(text))
    })
}
