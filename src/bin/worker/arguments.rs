//! The command line, with the flags of the seed reports' driver.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use orchestrate::protocol::{ITERATIONS_VARIABLE, MEASUREMENT_VARIABLE};

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
}

/// What to train, on what, for how long.
#[derive(Debug, Args)]
pub(crate) struct Training {
    /// Network, as torchvision spells it; an unknown one names them all.
    #[arg(long, value_name = "NAME", default_value = "resnet18")]
    pub(crate) arch: String,
    /// Images an iteration.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) batch_size: u32,
    /// Iterations before the measured window.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) warmup_iters: u32,
    /// Iterations inside the measured window.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iters: u32,
    /// Arithmetic: fp32, tf32, amp, bf16.
    #[arg(long, value_name = "WORD", default_value = "fp32")]
    pub(crate) precision: String,
    /// Device: auto, cpu, mps, cuda.
    #[arg(long, value_name = "WORD", default_value = "auto")]
    pub(crate) backend: String,
    /// Train on the JPEGs of this ImageFolder.
    #[arg(long, value_name = "DIR", conflicts_with = "synthetic")]
    pub(crate) data: Option<PathBuf>,
    /// Train on random tensors made once. The default.
    #[arg(long)]
    pub(crate) synthetic: bool,
    /// Threads that decode images; 0 decodes in the training thread.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=256))]
    pub(crate) workers: u32,
    /// Batches each of them prepares ahead.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) prefetch_factor: u32,
    /// Copy batches through page-locked host memory (CUDA).
    #[arg(long)]
    pub(crate) pin_memory: bool,
    /// Resize and crop the centre instead of a random part.
    #[arg(long)]
    pub(crate) no_augment: bool,
    /// Keep activations and weights in NHWC order.
    #[arg(long)]
    pub(crate) channels_last: bool,
    /// Iterations for each optimizer step.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) grad_accum_steps: u32,
    /// Mark the measured window with an NVTX range (CUDA).
    #[arg(long)]
    pub(crate) nvtx: bool,
    /// Allow only deterministic algorithms.
    #[arg(long)]
    pub(crate) deterministic: bool,
    /// Let cuDNN time its algorithms and keep the fastest (CUDA).
    #[arg(long)]
    pub(crate) cudnn_benchmark: bool,
    /// A name for the run, printed with its summary on standard error.
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// Compute threads; by default as many as the process may use processors.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) threads: Option<u32>,
    /// Seed of weights, data order and augmentation.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=i64::MAX as u64))]
    pub(crate) seed: u64,
    /// Height and width of the images, in pixels.
    #[arg(long, value_name = "N", default_value_t = 224, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) input_size: u32,
    /// Classes of the last layer.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) classes: u32,
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

/// What to measure the ceilings of.
#[derive(Debug, Args)]
pub(crate) struct Peaks {
    /// Device: cpu.
    #[arg(long, value_name = "WORD", default_value = "cpu")]
    pub(crate) device: String,
    /// Fewer sizes and repetitions: a few seconds, a less certain ceiling.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Compute threads; by default as many as the process may use processors.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) threads: Option<u32>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use orchestrate::job::{PARAMETERS, ParamValue};

    use super::*;

    fn training(words: &[&str]) -> Training {
        Arguments::try_parse_from([&["worker"], words].concat()).unwrap().training
    }

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    /// A key leaves out parameters at their default, so the worker must take the same ones by itself.
    #[test]
    fn defaults_are_those_of_the_parameters() {
        let training = training(&[]);
        let switch = ParamValue::Bool;
        let number = |value: u32| ParamValue::Int(value.into());
        for (name, value) in [
            ("warmup", number(training.warmup_iters)),
            ("iters", number(training.iters)),
            ("loader_workers", number(training.workers)),
            ("prefetch_factor", number(training.prefetch_factor)),
            ("pin_memory", switch(training.pin_memory)),
            ("augment", switch(!training.no_augment)),
            ("channels_last", switch(training.channels_last)),
            ("grad_accum_steps", number(training.grad_accum_steps)),
            ("nvtx", switch(training.nvtx)),
            ("deterministic", switch(training.deterministic)),
            ("cudnn_benchmark", switch(training.cudnn_benchmark)),
            ("seed", ParamValue::Int(training.seed.try_into().unwrap())),
            ("input_size", number(training.input_size)),
            ("classes", number(training.classes)),
        ] {
            let parameter = PARAMETERS.iter().find(|parameter| parameter.name == name).unwrap();
            assert_eq!(parameter.default_value(), Some(value), "{name}");
        }
    }

    #[test]
    fn data_is_either_synthetic_or_a_folder() {
        assert!(Arguments::try_parse_from(["worker", "--synthetic", "--data", "images"]).is_err());
        assert_eq!(training(&["--data", "images"]).data.unwrap(), PathBuf::from("images"));
    }
}
