//! The command line, with the flags of the seed reports' driver.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use orchestrate::architecture::NETWORKS;
use orchestrate::job::{Need, PARAMETERS, Parameter};
use orchestrate::protocol::{ITERATIONS_VARIABLE, MEASUREMENT_VARIABLE};

use super::parameters::Parameters;

/// Trains a network for a number of iterations and measures them.
#[derive(Debug, Parser)]
#[command(name = "worker", version, about, long_about = None, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    /// Another thing to do than train.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// What to train.
    #[command(flatten)]
    pub(crate) training: Training,
}

/// What a worker can do but train.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure the ceilings of a device and print them as JSON.
    Peaks(Peaks),
    /// Load the images of a folder as for training, train nothing, and print how fast that was as JSON.
    Data(Data),
}

impl Arguments {
    /// Reads the command line. A flag that would do nothing beside the others is refused.
    ///
    /// # Errors
    /// What is wrong with it, in clap's words; also the text that `--help` asks for.
    pub(crate) fn read<W: Into<OsString> + Clone>(
        words: impl IntoIterator<Item = W>,
    ) -> clap::error::Result<Self> {
        let mut command = Self::command();
        let matches = command.try_get_matches_from_mut(words)?;
        let arguments = Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        let is_idle = |parameter: &&Parameter| {
            let is_given = matches.value_source(parameter.name()) == Some(ValueSource::CommandLine);
            is_given
                && parameter.needs(Need::LoaderThreads)
                && arguments.training.parameters.loader_workers == 0
        };
        if let Some(idle) = PARAMETERS.iter().find(is_idle) {
            let [idle, threads] =
                [*idle, Parameter::LoaderWorkers].map(|parameter| parameter.declaration().flag);
            let message = format!(
                "--{idle} is for the threads of --{threads}, and with 0 there are none: leave it out"
            );
            return Err(command.error(ErrorKind::ArgumentConflict, message));
        }
        Ok(arguments)
    }
}

/// What is wrong with a command line, in one line: the last line of standard error is what `orchestrate` keeps.
pub(crate) fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let sentence = text.split("\n\n").next().unwrap_or(&text);
    let words: Vec<&str> = sentence.split_whitespace().collect();
    words.join(" ").trim_start_matches("error: ").to_owned()
}

/// What to train, on what, for how long.
#[derive(Debug, Args)]
pub(crate) struct Training {
    #[arg(long, value_name = "NAME", default_value = "resnet18", help = format!("Network: {}", NETWORKS.join(", ")))]
    pub(crate) arch: String,
    /// Images an iteration.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) batch_size: u32,
    /// Instead of --iters, for a run under a profiler: so many iterations, in a range as --nvtx makes it (CUDA).
    #[arg(long, value_name = "N", conflicts_with = "iters", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iters_profile: Option<u32>,
    /// Arithmetic: fp32 (TF32 off), tf32, amp (fp16 with a loss scale on CUDA and MPS, bf16 on the CPU), bf16.
    #[arg(long, value_name = "WORD", default_value = "fp32")]
    pub(crate) precision: String,
    /// Device: auto, cpu, mps, cuda.
    #[arg(long, value_name = "WORD", default_value = "auto")]
    pub(crate) backend: String,
    /// The parameters of the table.
    #[command(flatten)]
    pub(crate) parameters: Parameters,
    /// A name for the run, printed with its summary on standard error.
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// Start from the weights in this safetensors file, with the names of torchvision's state dict.
    #[arg(long, value_name = "FILE")]
    pub(crate) weights: Option<PathBuf>,
    /// Where to write the measurement; standard output if nothing says.
    #[arg(long, value_name = "FILE", env = MEASUREMENT_VARIABLE)]
    pub(crate) out: Option<PathBuf>,
    /// Where to write the time of each iteration; nowhere if nothing says.
    #[arg(long, value_name = "FILE", env = ITERATIONS_VARIABLE)]
    pub(crate) iterations_out: Option<PathBuf>,
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

/// What to measure the ceilings of.
#[derive(Debug, Args)]
pub(crate) struct Peaks {
    /// Device: cpu, mps, cuda.
    #[arg(long, value_name = "WORD", default_value = "cpu")]
    pub(crate) device: String,
    /// Less time for fewer sizes and repetitions: a less certain ceiling.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Compute threads; by default as many as the process may use processors.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) threads: Option<u32>,
}

/// What to load, and how.
#[derive(Debug, Args)]
pub(crate) struct Data {
    /// The ImageFolder.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Images to load within the measured window, rounded up to whole batches.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) images: u32,
    /// Images in a batch.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) batch_size: u32,
    /// Threads that decode images; 0 decodes in the thread that asks for them.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=256))]
    pub(crate) workers: u32,
    /// Batches each of them prepares ahead.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) prefetch_factor: u32,
    /// Resize and crop the centre instead of a random part.
    #[arg(long)]
    pub(crate) no_augment: bool,
    /// Fail on an image that cannot be decoded instead of leaving it out.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Make batches in NHWC order.
    #[arg(long)]
    pub(crate) channels_last: bool,
    /// Height and width of the images in a batch, in pixels.
    #[arg(long, value_name = "N", default_value_t = 224, value_parser = clap::value_parser!(u32).range(32..=4096))]
    pub(crate) input_size: u32,
    /// Seed of data order and augmentation.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
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
    fn a_flag_that_would_do_nothing_beside_the_others_is_refused() {
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
        assert!(error.to_string().contains("--prefetch-factor is for the threads of --workers"), "{error}");
    }

    #[test]
    fn a_mistake_is_told_in_one_line() {
        for (words, line) in [
            ("--workers 2", "the following required arguments were not provided: --data <DIR>"),
            (
                "--deterministic --cudnn-benchmark",
                "the argument '--deterministic' cannot be used with '--cudnn-benchmark'",
            ),
            ("--iters 0", "invalid value '0' for '--iters <N>': 0 is not in 1..=10000000"),
        ] {
            assert_eq!(one_line(&read(words).unwrap_err()), line);
        }
    }

    #[test]
    fn contradictions_are_refused() {
        for words in ["--iters 5 --iters-profile 2", "--deterministic --cudnn-benchmark"] {
            assert_eq!(read(words).unwrap_err().kind(), ErrorKind::ArgumentConflict, "{words}");
        }
    }

    #[test]
    fn a_profiled_run_has_a_range_and_iterations_of_its_own() {
        let profiled = training("--iters-profile 2");
        assert_eq!((profiled.measured_iters(), profiled.has_range()), (2, true));
        let timed = training("--iters 5");
        assert_eq!((timed.measured_iters(), timed.has_range()), (5, false));
        assert!(training("--nvtx").has_range());
    }
}
