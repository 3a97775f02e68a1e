//! What is to be trained and how: the command line, checked. Whoever holds a [`Request`] and an open device needs to
//! ask nothing further.

use orchestrate::architecture::{Network, network};
use orchestrate::job::{Device, Precision};

use super::arguments::Training;
use super::failure::WorkerError;
use super::shim::Half;

/// The device asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    /// CUDA if it is here, else MPS, else the processor.
    Auto,
    /// This one.
    Only(Device),
}

/// The words of the command line, understood.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// What is trained.
    pub(crate) network: Network,
    /// Its arithmetic.
    pub(crate) precision: Precision,
    /// Where.
    pub(crate) backend: Backend,
}

impl Request {
    /// Understands the words for network, precision and backend.
    ///
    /// # Errors
    /// [`WorkerError::Unsupported`] names the word and those that would have been understood.
    pub(crate) fn parse(training: &Training) -> Result<Self, WorkerError> {
        let unsupported = |error: orchestrate::job::UnknownWord| WorkerError::Unsupported(error.to_string());
        let backend = match training.backend.as_str() {
            "auto" => Backend::Auto,
            word => match word.parse().map_err(unsupported)? {
                // Only one CUDA device is ever visible to a worker, so there is none but the first.
                Device::Cuda(1..) => {
                    let message = format!("`{word}` is not a backend: choose it with CUDA_VISIBLE_DEVICES");
                    return Err(WorkerError::Unsupported(message));
                }
                device => Backend::Only(device),
            },
        };
        let network = network(&training.arch, training.input_size, training.classes)
            .map_err(|error| WorkerError::Unsupported(error.to_string()))?;
        Ok(Request { network, precision: training.precision.parse().map_err(unsupported)?, backend })
    }
}

/// Refuses what `device` cannot honour. `capability` is a CUDA device's compute capability.
///
/// # Errors
/// [`WorkerError::Unsupported`] for a precision the device does not have, [`WorkerError::Usage`] for a flag that would
/// do nothing there.
pub(crate) fn check_device(
    training: &Training,
    precision: Precision,
    device: Device,
    capability: Option<(i32, i32)>,
) -> Result<(), WorkerError> {
    let cuda = matches!(device, Device::Cuda(_));
    let flags = [
        ("--pin-memory", training.pin_memory),
        ("--nvtx", training.nvtx),
        ("--cudnn-benchmark", training.cudnn_benchmark),
    ];
    for (flag, given) in flags {
        if given && !cuda {
            return Err(WorkerError::Usage(format!(
                "{flag} is for CUDA: on {device} it would do nothing; leave it out"
            )));
        }
    }
    let ampere = cuda && capability.is_some_and(|capability| capability >= (8, 0));
    let reason = match (precision, device) {
        (Precision::Tf32, _) if !ampere => "an NVIDIA GPU of compute capability 8.0 or later",
        (Precision::Bf16, Device::Cuda(_)) if !ampere => "a compute capability of 8.0 or later",
        (Precision::Bf16 | Precision::Amp, Device::Mps) => "a CPU or an NVIDIA GPU, in this version",
        _ => return Ok(()),
    };
    Err(WorkerError::Unsupported(format!("{precision} on {device} does not exist: it needs {reason}")))
}

/// The half precision that autocast computes in, if any: fp16 where GPUs are built for it, bf16 on the processor.
pub(crate) fn half(precision: Precision, device: Device) -> Option<Half> {
    match (precision, device) {
        (Precision::Fp32 | Precision::Tf32, _) => None,
        (Precision::Bf16, _) | (Precision::Amp, Device::Cpu) => Some(Half::Bfloat16),
        (Precision::Amp, Device::Cuda(_) | Device::Mps) => Some(Half::Float16),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use orchestrate::protocol::exit_code;

    use super::super::arguments::Arguments;
    use super::*;

    fn training(words: &str) -> Training {
        let words = std::iter::once("worker").chain(words.split_whitespace());
        Arguments::try_parse_from(words).unwrap().training
    }

    fn refused(words: &str, device: Device, capability: Option<(i32, i32)>) -> Option<(String, i32)> {
        let training = training(words);
        let precision = training.precision.parse().unwrap();
        let error = check_device(&training, precision, device, capability).err()?;
        let code = if error.failure().is_some() { exit_code::UNSUPPORTED } else { exit_code::USAGE };
        Some((error.to_string(), code))
    }

    #[test]
    fn an_unknown_word_is_unsupported_and_named() {
        for (words, name) in [
            ("--arch resnet51", "resnet51"),
            ("--precision fp8", "fp8"),
            ("--backend tpu", "tpu"),
            ("--backend cuda:1", "cuda:1"),
        ] {
            let error = Request::parse(&training(words)).unwrap_err();
            assert!(error.failure().is_some(), "{words}");
            assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
        }
        let request = Request::parse(&training("--arch vgg16 --precision bf16")).unwrap();
        assert_eq!(
            (request.network.name(), request.precision, request.backend),
            ("vgg16", Precision::Bf16, Backend::Auto)
        );
    }

    #[test]
    fn a_flag_that_would_do_nothing_is_refused() {
        for flag in ["--pin-memory", "--nvtx", "--cudnn-benchmark"] {
            for device in [Device::Cpu, Device::Mps] {
                let (message, code) = refused(flag, device, None).unwrap();
                assert!(message.starts_with(flag), "{message}");
                assert_eq!(code, exit_code::USAGE);
            }
            assert_eq!(refused(flag, Device::Cuda(0), Some((7, 5))), None);
        }
    }

    #[test]
    fn precisions_exist_where_the_hardware_has_them() {
        let cases = [
            ("fp32", Device::Cpu, None, true),
            ("bf16", Device::Cpu, None, true),
            ("amp", Device::Cpu, None, true),
            ("tf32", Device::Cpu, None, false),
            ("tf32", Device::Mps, None, false),
            ("tf32", Device::Cuda(0), Some((7, 5)), false),
            ("tf32", Device::Cuda(0), Some((8, 9)), true),
            ("bf16", Device::Cuda(0), Some((7, 5)), false),
            ("bf16", Device::Cuda(0), Some((9, 0)), true),
            ("amp", Device::Cuda(0), Some((7, 5)), true),
        ];
        for (precision, device, capability, exists) in cases {
            let refused = refused(&format!("--precision {precision}"), device, capability);
            assert_eq!(refused.is_none(), exists, "{precision} on {device}: {refused:?}");
            assert!(refused.is_none_or(|(_, code)| code == exit_code::UNSUPPORTED));
        }
    }
}
