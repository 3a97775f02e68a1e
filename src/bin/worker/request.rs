//! What to train, and how: the command line, checked. A [`Request`] and an open device determine the training
//! completely.

use orchestrate::architecture::{Layer, NETWORKS, Network, NoNetwork, network};
use orchestrate::job::{Device, Need, Optimizer, PARAMETERS, Parameter, Precision};
use orchestrate::text::did_you_mean;

use super::arguments::Training;
use super::failure::WorkerError;
use super::shim::Half;

/// The requested device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    /// CUDA if this machine has it, else MPS, else the CPU.
    Auto,
    /// This one.
    Only(Device),
}

/// The words of the command line, parsed.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The network to train.
    pub(crate) network: Network,
    /// Its arithmetic.
    pub(crate) precision: Precision,
    /// The optimizer's rule.
    pub(crate) optimizer: Optimizer,
    /// The device.
    pub(crate) backend: Backend,
}

impl Request {
    /// Parses the words for network, precision, optimizer and backend.
    ///
    /// # Errors
    /// [`WorkerError::Unsupported`] names an unknown word and what was expected. [`WorkerError::Usage`] if the network
    /// cannot be trained on so few pixels.
    pub(crate) fn parse(training: &Training) -> Result<Self, WorkerError> {
        let unsupported = |error: orchestrate::job::UnknownWord| WorkerError::Unsupported(error.to_string());
        let backend = backend(&training.backend)?;
        let network = network(&training.arch, training.parameters.input_size, training.parameters.classes)
            .map_err(|error| WorkerError::Unsupported(no_network(&error)))?;
        check_statistics(&network, training.batch_size)?;
        Ok(Request {
            network,
            precision: training.precision.parse().map_err(unsupported)?,
            optimizer: training.parameters.optimizer.parse().map_err(unsupported)?,
            backend,
        })
    }
}

/// The device called `word`, or the first that there is if it is `auto`.
///
/// # Errors
/// As [`device`].
pub(crate) fn backend(word: &str) -> Result<Backend, WorkerError> {
    if word == "auto" { Ok(Backend::Auto) } else { device(word) }
}

/// The device called `word`.
///
/// # Errors
/// [`WorkerError::Unsupported`] if there is no such device, or it cannot be chosen by name.
pub(crate) fn device(word: &str) -> Result<Backend, WorkerError> {
    match word.parse() {
        // `orchestrate` makes a single CUDA device visible to a worker, so the first is the only one.
        Ok(Device::Cuda(index @ 1..)) => Err(WorkerError::Unsupported(format!(
            "`{word}` cannot be chosen by name: set CUDA_VISIBLE_DEVICES={index} and ask for `cuda`"
        ))),
        Ok(device) => Ok(Backend::Only(device)),
        Err(unknown) => Err(WorkerError::Unsupported(unknown.to_string())),
    }
}

/// The error with its hint, on one line: `orchestrate` keeps only the last line of standard error.
fn no_network(error: &NoNetwork) -> String {
    match error {
        NoNetwork::UnknownName(name) => {
            let closest = did_you_mean(name, NETWORKS.iter().copied());
            format!("{error}: {}", closest.as_deref().unwrap_or("`worker --help` lists all of them"))
        }
        NoNetwork::InputSize { .. } | NoNetwork::Patches { .. } | NoNetwork::NoClasses => error.to_string(),
    }
}

/// Checks that batch normalisation gets more than one value per channel. A single value has no spread.
fn check_statistics(network: &Network, batch: u32) -> Result<(), WorkerError> {
    let has_one_value = |layer: &Layer| {
        layer.running_statistics().is_some() && layer.output.elements() == layer.output.channels()
    };
    if batch > 1 || !network.layers().iter().any(has_one_value) {
        return Ok(());
    }
    Err(WorkerError::Usage(format!(
        "{} cannot be trained on one image of this size, because batch normalisation would get one value per channel: \
         raise --batch-size or --input-size",
        network.name()
    )))
}

/// Refuses settings that `device` does not support. `capability` is the compute capability of a CUDA device.
///
/// # Errors
/// [`WorkerError::Unsupported`] for a precision that the device lacks, [`WorkerError::Usage`] for a flag without effect
/// on it.
pub(crate) fn check_device(
    training: &Training,
    precision: Precision,
    device: Device,
    capability: Option<(i32, i32)>,
) -> Result<(), WorkerError> {
    let cuda = matches!(device, Device::Cuda(_));
    let is_given =
        |parameter: &&Parameter| training.parameters.value(**parameter) != parameter.default_value();
    let for_cuda = PARAMETERS.iter().filter(|parameter| parameter.needs(Need::Cuda)).filter(is_given);
    let mut flags = for_cuda.map(|parameter| parameter.declaration().flag);
    let flag = flags.next().or(training.iters_profile.map(|_| "iters-profile"));
    if let Some(flag) = flag.filter(|_| !cuda) {
        return Err(WorkerError::Usage(format!(
            "--{flag} has no effect on {device}, only on CUDA: leave it out"
        )));
    }
    if training.parameters.copy_stream && !training.parameters.pin_memory {
        return Err(WorkerError::Unsupported(
            "--copy-stream is not available without --pin-memory: from pageable memory, each copy waits"
                .to_owned(),
        ));
    }
    let ampere = cuda && capability.is_some_and(|capability| capability >= (8, 0));
    let reason = match (precision, device) {
        (Precision::Tf32, _) if !ampere => "an NVIDIA GPU of compute capability 8.0 or later",
        (Precision::Bf16, Device::Cuda(_)) if !ampere => "a compute capability of 8.0 or later",
        _ => return Ok(()),
    };
    Err(WorkerError::Unsupported(format!("{precision} is not available on {device}: it needs {reason}")))
}

/// Refuses NHWC order where libtorch's results for it are wrong. `macos` is the major version of macOS.
///
/// On Apple GPUs, the gradients of batch normalisation in this order are silently wrong on macOS 14, and an error on
/// macOS 26. See issues 175189, 181411 and 188371 of pytorch/pytorch. Before macOS 15, the output of convolutions is
/// in NCHW order whatever the order of their input.
///
/// # Errors
/// [`WorkerError::Unsupported`] says what does not work, and what does.
pub(crate) fn check_layout(
    training: &Training,
    network: &Network,
    device: Device,
    macos: Option<u32>,
) -> Result<(), WorkerError> {
    if !training.parameters.channels_last || device != Device::Mps {
        return Ok(());
    }
    let reason = if network.layers().iter().any(|layer| layer.running_statistics().is_some()) {
        format!("the gradients of {}'s batch normalisation are wrong in this order", network.name())
    } else if let Some(version) = macos.filter(|version| *version < 15) {
        format!("macOS {version} computes convolutions in NCHW order; macOS 15 or later is needed")
    } else {
        return Ok(());
    };
    Err(WorkerError::Unsupported(format!("--channels-last is not available on {device}: {reason}")))
}

/// The half precision of autocast, if any: fp16 on GPUs, which are built for it, and bf16 on the CPU. `bf16` is bf16
/// everywhere.
pub(crate) fn half(precision: Precision, device: Device) -> Option<Half> {
    match (precision, device) {
        (Precision::Fp32 | Precision::Tf32, _) => None,
        (Precision::Bf16, _) | (Precision::Amp, Device::Cpu) => Some(Half::Bfloat16),
        (Precision::Amp, Device::Cuda(_) | Device::Mps) => Some(Half::Float16),
    }
}

#[cfg(test)]
mod tests {
    use orchestrate::protocol::WorkerExit;

    use super::super::arguments::Arguments;
    use super::*;

    fn training(words: &str) -> Training {
        Arguments::read(std::iter::once("worker").chain(words.split_whitespace())).unwrap().training
    }

    fn refused(words: &str, device: Device, capability: Option<(i32, i32)>) -> Option<(String, WorkerExit)> {
        let training = training(words);
        let precision = training.precision.parse().unwrap();
        let error = check_device(&training, precision, device, capability).err()?;
        let code = if error.failure().is_some() { WorkerExit::Unsupported } else { WorkerExit::Usage };
        Some((error.to_string(), code))
    }

    #[test]
    fn an_unknown_word_is_unsupported_and_named() {
        for (words, name) in [
            ("--arch resnet51", "resnet51"),
            ("--precision fp8", "fp8"),
            ("--optimizer adam", "adam"),
            ("--backend tpu", "tpu"),
            ("--backend cuda:1", "cuda:1"),
        ] {
            let error = Request::parse(&training(words)).unwrap_err();
            assert!(error.failure().is_some(), "{words}");
            assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
        }
        for (name, hint) in
            [("resnet51", "did you mean `resnet50`?"), ("unet", "`worker --help` lists all of them")]
        {
            let message = Request::parse(&training(&format!("--arch {name}"))).unwrap_err().to_string();
            assert_eq!(message, format!("`{name}` is not a network of the shipped worker: {hint}"));
        }
        let request = Request::parse(&training("--arch vgg16 --precision bf16 --optimizer adamw")).unwrap();
        assert_eq!(
            (request.network.name(), request.precision, request.optimizer, request.backend),
            ("vgg16", Precision::Bf16, Optimizer::AdamW, Backend::Auto)
        );
    }

    #[test]
    fn a_device_is_known_or_refused_by_name() {
        assert_eq!(device("cpu").unwrap(), Backend::Only(Device::Cpu));
        assert_eq!(device("cuda:0").unwrap(), Backend::Only(Device::Cuda(0)));
        for word in ["cuda:1", "tpu"] {
            let error = device(word).unwrap_err();
            assert!(error.failure().is_some() && error.to_string().contains(&format!("`{word}`")), "{error}");
        }
    }

    #[test]
    fn one_value_has_no_spread() {
        let parse = |words: &str| Request::parse(&training(words)).err().map(|error| error.to_string());
        let message = parse("--arch resnet18 --input-size 32 --batch-size 1").unwrap();
        assert!(message.starts_with("resnet18 cannot be trained on one image of this size"), "{message}");
        assert_eq!(parse("--arch resnet18 --input-size 32 --batch-size 2"), None);
        assert_eq!(parse("--arch resnet18 --input-size 64 --batch-size 1"), None);
        assert_eq!(parse("--arch vgg16 --input-size 32 --batch-size 1"), None);
    }

    #[test]
    fn half_precision_is_pytorchs_choice() {
        use Half::{Bfloat16, Float16};
        for (precision, on_cpu, on_cuda, on_mps) in [
            (Precision::Fp32, None, None, None),
            (Precision::Tf32, None, None, None),
            (Precision::Amp, Some(Bfloat16), Some(Float16), Some(Float16)),
            (Precision::Bf16, Some(Bfloat16), Some(Bfloat16), Some(Bfloat16)),
        ] {
            let halves = [Device::Cpu, Device::Cuda(0), Device::Mps].map(|device| half(precision, device));
            assert_eq!(halves, [on_cpu, on_cuda, on_mps], "{precision}");
        }
    }

    #[test]
    fn flags_without_effect_on_the_device_are_refused() {
        for (flag, beside) in [
            ("--pin-memory", "--data images"),
            ("--copy-stream", "--data images"),
            ("--nvtx", ""),
            ("--iters-profile", "1"),
            ("--cudnn-benchmark", ""),
            ("--cuda-graph", ""),
        ] {
            let words = format!("{flag} {beside}");
            for device in [Device::Cpu, Device::Mps] {
                let (message, code) = refused(&words, device, None).unwrap();
                assert!(message.starts_with(flag), "{message}");
                assert_eq!(code, WorkerExit::Usage);
            }
            let pin = if flag == "--copy-stream" { "--pin-memory" } else { "" };
            assert_eq!(refused(&format!("{words} {pin}"), Device::Cuda(0), Some((7, 5))), None, "{words}");
        }
    }

    #[test]
    fn a_stream_for_copies_that_wait_is_unsupported() {
        let (message, code) = refused("--copy-stream --data images", Device::Cuda(0), None).unwrap();
        assert!(message.contains("without --pin-memory"), "{message}");
        assert_eq!(code, WorkerExit::Unsupported);
    }

    #[test]
    fn channels_last_is_refused_where_its_results_are_wrong() {
        let refused = |words: &str, device: Device, macos: Option<u32>| {
            let training = training(words);
            let network = Request::parse(&training).unwrap().network;
            check_layout(&training, &network, device, macos).err().map(|error| error.to_string())
        };
        let resnet = "--arch resnet18 --channels-last";
        let message = refused(resnet, Device::Mps, Some(26)).unwrap();
        assert!(message.contains("gradients of resnet18's batch normalisation are wrong"), "{message}");
        let message = refused("--arch vgg16 --channels-last", Device::Mps, Some(14)).unwrap();
        assert!(message.contains("macOS 14 computes"), "{message}");
        assert_eq!(refused("--arch vgg16 --channels-last", Device::Mps, Some(15)), None);
        assert_eq!(refused("--arch resnet18", Device::Mps, Some(14)), None);
        for device in [Device::Cpu, Device::Cuda(0)] {
            assert_eq!(refused(resnet, device, None), None);
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
            ("amp", Device::Mps, None, true),
            ("bf16", Device::Mps, None, true),
            ("tf32", Device::Cuda(0), Some((7, 5)), false),
            ("tf32", Device::Cuda(0), Some((8, 9)), true),
            ("bf16", Device::Cuda(0), Some((7, 5)), false),
            ("bf16", Device::Cuda(0), Some((9, 0)), true),
            ("amp", Device::Cuda(0), Some((7, 5)), true),
        ];
        for (precision, device, capability, exists) in cases {
            let refused = refused(&format!("--precision {precision}"), device, capability);
            assert_eq!(refused.is_none(), exists, "{precision} on {device}: {refused:?}");
            assert!(refused.is_none_or(|(_, code)| code == WorkerExit::Unsupported));
        }
    }
}
