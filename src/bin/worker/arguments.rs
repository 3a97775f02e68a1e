//! The command line, with the flags of the seed reports' driver.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use orchestrate::architecture::NETWORKS;
use orchestrate::job::{Need, PARAMETERS, Parameter};
use orchestrate::protocol::{ITERATIONS_VARIABLE, MEASUREMENT_VARIABLE, OPERATORS_VARIABLE};

use super::parameters::{LoadingParameters, Parameters, TRAINING, WINDOW, whole_number};

/// The heading of the flags for what the worker writes.
const RESULTS: &str = "Results";

/// Train one network on libtorch, and report its time and its effective settings.
#[derive(Debug, Parser)]
#[command(name = "worker", version, args_conflicts_with_subcommands = true, after_help = after_help())]
pub(crate) struct Arguments {
    /// Something other than training.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// What to train.
    #[command(flatten)]
    pub(crate) training: Training,
}

/// What a worker can do besides training.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure the ceilings of a device and print them as JSON.
    Peaks(Peaks),
    /// Load the images of a folder as for training, but without training, and print how fast that was as JSON.
    Data(Data),
    /// Say whether libtorch can load CUDA and sees a device here, and if not, why. Nothing is computed.
    Cuda,
    /// Test a device, in five minutes at most, and print what was found as JSON. Run it first on any new machine.
    #[command(after_help = SELFTEST_CODES)]
    Selftest(Selftest),
}

impl Arguments {
    /// Parses the command line. Flags without effect in combination with the others are refused.
    ///
    /// # Errors
    /// clap's error for an invalid command line; also the text of `--help`.
    pub(crate) fn read<W: Into<OsString> + Clone>(
        words: impl IntoIterator<Item = W>,
    ) -> clap::error::Result<Self> {
        let mut command = Self::command();
        let matches = command.try_get_matches_from_mut(words)?;
        let arguments = Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        // The matches that contain the flags, and the number of loader threads if images are loaded at all.
        let (given, loader_workers) = match &arguments.command {
            None => (&matches, arguments.training.parameters.loader_workers),
            Some(Command::Data(data)) => {
                let given = matches.subcommand_matches("data").expect("this is the command");
                (given, data.loading.loader_workers)
            }
            Some(Command::Peaks(_) | Command::Cuda | Command::Selftest(_)) => return Ok(arguments),
        };
        let is_idle = |parameter: &&Parameter| {
            parameter.needs(Need::LoaderThreads)
                && loader_workers == 0
                && given.try_contains_id(parameter.name()).is_ok()
                && given.value_source(parameter.name()) == Some(ValueSource::CommandLine)
        };
        if let Some(idle) = PARAMETERS.iter().find(is_idle) {
            let [idle, threads] =
                [*idle, Parameter::LoaderWorkers].map(|parameter| parameter.declaration().flag);
            let message = format!(
                "--{idle} has no effect with --{threads} 0, which loads without threads: leave it out"
            );
            return Err(command.error(ErrorKind::ArgumentConflict, message));
        }
        Ok(arguments)
    }
}

/// The end of `--help`.
fn after_help() -> String {
    format!(
        "Networks: {}.\n\norchestrate runs this program once per job. Run by hand, it prints the measurement as JSON.",
        NETWORKS.join(", ")
    )
}

/// The mistake in a command line, with clap's tip if it has one, on one line: `orchestrate` keeps only the last line of
/// standard error.
pub(crate) fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let mut paragraphs =
        text.split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    let sentence = paragraphs.next().unwrap_or_default();
    let sentence = sentence.trim_start_matches("error: ");
    match paragraphs.find_map(|paragraph| paragraph.strip_prefix("tip: ").map(str::to_owned)) {
        Some(tip) => format!("{sentence}: {tip}"),
        None => sentence.to_owned(),
    }
}

/// What to train, how, and for how long.
#[derive(Debug, Args)]
#[command(next_help_heading = TRAINING)]
pub(crate) struct Training {
    /// Name of the network (listed below).
    #[arg(long, value_name = "NAME", default_value = "resnet18")]
    pub(crate) arch: String,
    /// Images per iteration.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = whole_number(1..=1_000_000))]
    pub(crate) batch_size: u32,
    /// Arithmetic: fp32 (without TF32), tf32, bf16, or amp (fp16 with a loss scale on CUDA and MPS, bf16 on the CPU).
    #[arg(long, value_name = "WORD", default_value = "fp32")]
    pub(crate) precision: String,
    /// Device: cpu, mps, cuda, or auto for the first of cuda, mps and cpu that this machine has.
    #[arg(long, value_name = "WORD", default_value = "auto")]
    pub(crate) backend: String,
    /// Start from the weights in this safetensors file, named as in torchvision's state dict, not from random ones.
    #[arg(long, value_name = "FILE")]
    pub(crate) weights: Option<PathBuf>,
    /// The parameters of the table.
    #[command(flatten)]
    pub(crate) parameters: Parameters,
    /// Run this many iterations instead of --iters, in an NVTX range as with --nvtx: for profilers. Needs CUDA.
    #[arg(
        long, value_name = "N", conflicts_with = "iters", value_parser = whole_number(1..=10_000_000),
        help_heading = WINDOW
    )]
    pub(crate) iters_profile: Option<u32>,
    /// Name of the job, for the summary on standard error.
    #[arg(long, value_name = "TEXT", help_heading = RESULTS)]
    pub(crate) label: Option<String>,
    /// Write the measurement to this file instead of standard output.
    #[arg(long, value_name = "FILE", env = MEASUREMENT_VARIABLE, help_heading = RESULTS)]
    pub(crate) out: Option<PathBuf>,
    /// Write the time of each iteration to this CSV file.
    #[arg(long, value_name = "FILE", env = ITERATIONS_VARIABLE, help_heading = RESULTS)]
    pub(crate) iterations_out: Option<PathBuf>,
    /// Profile this many further iterations after the window, and report the time of each operator in them.
    #[arg(
        long, value_name = "N", env = OPERATORS_VARIABLE, value_parser = whole_number(1..=1000),
        help_heading = RESULTS
    )]
    pub(crate) operators: Option<u32>,
}

impl Training {
    /// Iterations inside the measured window.
    pub(crate) fn measured_iters(&self) -> u32 {
        self.iters_profile.unwrap_or(self.parameters.iters)
    }

    /// Whether an NVTX range marks the window.
    pub(crate) fn has_range(&self) -> bool {
        self.parameters.nvtx || self.iters_profile.is_some()
    }
}

/// Which device to measure, and how long.
#[derive(Debug, Args)]
pub(crate) struct Peaks {
    /// Device: cpu, mps or cuda.
    #[arg(long, value_name = "WORD", default_value = "cpu")]
    pub(crate) device: String,
    /// Measure fewer sizes and repetitions: faster, but a less certain ceiling.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Compute threads; by default the processors that the process may run on.
    #[arg(long, value_name = "N", value_parser = whole_number(1..=4096))]
    pub(crate) threads: Option<u32>,
}

/// The end of the help of `worker selftest`.
const SELFTEST_CODES: &str = "Exits with 0 if every check that this device supports passes, with 70 if one fails, and \
                              with 75 if some checks were not run. 69 means that there is no such device.";

/// Which device to test, and how long.
#[derive(Debug, Args)]
pub(crate) struct Selftest {
    /// Device: cpu, mps, cuda, or auto for the first of cuda, mps and cpu that this machine has.
    #[arg(long, value_name = "WORD", default_value = "auto")]
    pub(crate) device: String,
    /// Begin no check after this many seconds. Checks that did not begin in time are listed as not run.
    #[arg(long, value_name = "N", default_value_t = 280, value_parser = whole_number(0..=86_400))]
    pub(crate) seconds: u32,
    /// Compute threads; by default the processors that the process may run on.
    #[arg(long, value_name = "N", value_parser = whole_number(1..=4096))]
    pub(crate) threads: Option<u32>,
}

/// What to load, and how.
#[derive(Debug, Args)]
pub(crate) struct Data {
    /// The parameters of the table that matter for loading.
    #[command(flatten)]
    pub(crate) loading: LoadingParameters,
    /// Images to load inside the measured window, rounded up to whole batches.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = whole_number(1..=1_000_000_000))]
    pub(crate) images: u32,
    /// Images per batch.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = whole_number(1..=1_000_000))]
    pub(crate) batch_size: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> clap::error::Result<Arguments> {
        Arguments::read(std::iter::once("worker").chain(words.split_whitespace()))
    }

    fn training(words: &str) -> Training {
        read(words).unwrap().training
    }

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn data_is_either_synthetic_or_a_folder() {
        assert!(read("--synthetic --data images").is_err());
        assert_eq!(training("--data images").parameters.data.unwrap(), PathBuf::from("images"));
    }

    #[test]
    fn flags_without_effect_are_refused() {
        for flag in ["--workers 2", "--prefetch-factor 2", "--no-augment", "--pin-memory", "--strict"] {
            assert!(read(&format!("--data images {flag}")).is_ok(), "{flag}");
            for data in ["", "--synthetic"] {
                let error = read(&format!("{data} {flag}")).unwrap_err();
                let name = flag.split(' ').next().unwrap();
                let text = error.to_string();
                assert!(text.contains("--data <DIR>") || text.contains(name), "{data} {flag}: {text}");
            }
        }
        assert!(read("--data images --workers 0").is_ok());
        let error = read("--data images --workers 0 --prefetch-factor 2").unwrap_err();
        assert!(error.to_string().contains("--prefetch-factor has no effect with --workers 0"), "{error}");
        let error = read("data --data images --workers 0 --prefetch-factor 2").unwrap_err();
        assert!(error.to_string().contains("--prefetch-factor has no effect with --workers 0"), "{error}");
    }

    #[test]
    fn mistakes_are_reported_in_one_line() {
        for (words, line) in [
            ("--workers 2", "the following required arguments were not provided: --data <DIR>"),
            (
                "--deterministic --cudnn-benchmark",
                "the argument '--deterministic' cannot be used with '--cudnn-benchmark'",
            ),
            ("--iters 0", "invalid value '0' for '--iters <N>': expected a whole number from 1 to 10000000"),
            (
                "--batch-size many",
                "invalid value 'many' for '--batch-size <N>': expected a whole number from 1 to 1000000",
            ),
            (
                "data --data images --input-size 0",
                "invalid value '0' for '--input-size <N>': expected a whole number from 1 to 4096",
            ),
            ("--itres 5", "unexpected argument '--itres' found: a similar argument exists: '--iters'"),
            ("--colour red", "unexpected argument '--colour' found"),
        ] {
            assert_eq!(one_line(&read(words).unwrap_err()), line);
        }
    }

    #[test]
    fn help_describes_the_worker_and_names_every_network() {
        let help = Arguments::command().render_long_help().to_string();
        assert!(help.starts_with("Train one network"), "{help}");
        for name in NETWORKS {
            assert!(help.contains(name), "{name}");
        }
        for parameter in PARAMETERS {
            assert!(help.contains(parameter.declaration().flag), "{}", parameter.name());
        }
    }

    #[test]
    fn contradictions_are_refused() {
        for words in ["--iters 5 --iters-profile 2", "--deterministic --cudnn-benchmark"] {
            assert_eq!(read(words).unwrap_err().kind(), ErrorKind::ArgumentConflict, "{words}");
        }
    }

    #[test]
    fn a_profiled_run_has_a_range_and_separate_iterations() {
        let profiled = training("--iters-profile 2");
        assert_eq!((profiled.measured_iters(), profiled.has_range()), (2, true));
        let timed = training("--iters 5");
        assert_eq!((timed.measured_iters(), timed.has_range()), (5, false));
        assert!(training("--nvtx").has_range());
    }
}
