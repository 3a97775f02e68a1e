//! The cost of a config: parameters, MACs and FLOPs from the network's description, by a named convention.

use std::fmt;

use super::unconfirmed::listed;
use crate::architecture::{NETWORKS, Network, NoNetwork, network};
use crate::job::{Key, Name, ParamValue, Precision};
use crate::protocol::Measurement;

/// How training FLOPs are counted. Every table that shows them names its convention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum FlopsConvention {
    /// 2 FLOPs per MAC of the forward pass, the input gradients and the weight gradients, layer by layer.
    #[default]
    LayerByLayer,
    /// As in the first seed report: 2 × the FLOPs of the forward pass.
    Seed1,
    /// As in the second seed report: 3 × the MACs of the forward pass.
    Seed2,
}

impl FlopsConvention {
    /// Training FLOPs of one image.
    pub fn training_flops(self, network: &Network) -> u64 {
        match self {
            FlopsConvention::LayerByLayer => network.training_flops(),
            FlopsConvention::Seed1 => 2 * 2 * network.forward_macs(),
            FlopsConvention::Seed2 => 3 * network.forward_macs(),
        }
    }
}

impl fmt::Display for FlopsConvention {
    /// A sentence that explains the convention.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FlopsConvention::LayerByLayer => {
                "Training FLOPs are 2 × the MACs of the forward pass, the input gradients and the weight gradients, \
                 counted layer by layer over convolutions, linear layers and attention; the first layer has no input \
                 gradient, and the optimizer is not counted (convention `layer-by-layer`)."
            }
            FlopsConvention::Seed1 => {
                "Training FLOPs are 2 × the FLOPs of the forward pass, which leaves out a third of the work; for \
                 comparison with the first seed report alone (convention `seed1`)."
            }
            FlopsConvention::Seed2 => {
                "Training FLOPs are 3 × the MACs of the forward pass, which is half of the work; for comparison with \
                 the second seed report alone (convention `seed2`)."
            }
        })
    }
}

/// The cost of one image and of one iteration of a config.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Height and width of the images, in pixels.
    pub input_size: u32,
    /// Trainable parameters.
    pub parameters: u64,
    /// MACs of one image's forward pass.
    pub forward_macs: u64,
    /// FLOPs of one image's training step, by the study's convention.
    pub training_flops: u64,
    /// The modelled bytes of one image: those of an iteration ÷ its batch.
    pub modelled_bytes: f64,
}

/// Why the cost of a config is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCost {
    /// `architecture` does not describe the network, or not for images of this size.
    #[error("orchestrate has no description of the network `{model}`: {source}")]
    NotDescribed {
        /// The network's name.
        model: Name,
        /// The reason.
        source: NoNetwork,
    },
    /// Neither the job nor its worker tells the size of the images, or the number of classes.
    #[error(
        "{} of `{model}` {are} unknown: declare {them} under `params`, or let the worker report {them} under \
         `effective`",
        listed(missing),
        are = if missing.len() == 1 { "is" } else { "are" },
        them = if missing.len() == 1 { "it" } else { "them" }
    )]
    NoShape {
        /// The network's name.
        model: Name,
        /// The missing parameters.
        missing: Vec<&'static str>,
    },
    /// The worker trained a network other than the described one.
    #[error(
        "the worker's {model} has {reported} parameters, but orchestrate's description of it has {described}"
    )]
    OtherNetwork {
        /// The network's name.
        model: Name,
        /// Parameters that the worker reports.
        reported: u64,
        /// Parameters of the description.
        described: u64,
    },
}

/// The cost of `key`, checked against what its worker measured, if it did.
///
/// The shape is what the worker reports, or else what it was told. An external worker without either could have trained
/// on images of any size, because the shipped worker's defaults mean nothing to it.
///
/// # Errors
/// [`NoCost`]: the FLOPs of another network would be wrong, so there are none.
pub fn cost(key: &Key, measured: Option<&Measurement>, convention: FlopsConvention) -> Result<Cost, NoCost> {
    let not_described = |source| NoCost::NotDescribed { model: key.model.clone(), source };
    if !NETWORKS.contains(&key.model.as_str()) {
        return Err(not_described(NoNetwork::UnknownName(key.model.to_string())));
    }
    let (input_size, classes) = shape(key, measured)?;
    let network = network(&key.model, input_size, classes).map_err(not_described)?;
    let described = network.parameters();
    if let Some(reported) = measured.and_then(|measured| measured.details.parameters)
        && reported != described
    {
        return Err(NoCost::OtherNetwork { model: key.model.clone(), reported, described });
    }
    let bytes = network.modelled_bytes(key.batch, element_bytes(key.precision));
    Ok(Cost {
        input_size,
        parameters: described,
        forward_macs: network.forward_macs(),
        training_flops: convention.training_flops(&network),
        modelled_bytes: bytes as f64 / f64::from(key.batch),
    })
}

/// Height and width of the images, and the number of classes.
fn shape(key: &Key, measured: Option<&Measurement>) -> Result<(u32, u32), NoCost> {
    let told = |name| match key.param(name) {
        Some(ParamValue::Int(value)) => u64::try_from(value).ok(),
        _ => None,
    };
    let reported = |name| measured.and_then(|measured| measured.effective.settings.whole(name));
    let size = |name| reported(name).or_else(|| told(name)).and_then(|size| u32::try_from(size).ok());
    let names = ["input_size", "classes"];
    let [input_size, classes] = names.map(size);
    input_size.zip(classes).ok_or_else(|| {
        let missing = names.into_iter().filter(|name| size(name).is_none()).collect();
        NoCost::NoShape { model: key.model.clone(), missing }
    })
}

/// Bytes of an activation in memory. With mixed precision these are half-precision numbers. The model ignores that
/// weights and some layers stay in single precision.
pub(super) fn element_bytes(precision: Precision) -> u32 {
    match precision {
        Precision::Fp32 | Precision::Tf32 => 4,
        Precision::Amp | Precision::Bf16 => 2,
    }
}

/// The price of a million images at `images_per_s` on a machine that costs `usd_per_hour`.
pub fn usd_per_million_images(usd_per_hour: f64, images_per_s: f64) -> f64 {
    usd_per_hour / 3600.0 * 1e6 / images_per_s
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture;

    #[test]
    fn conventions_differ_as_the_seed_reports_do() {
        let key = fixture::key("cpu", "resnet50", 16, 1);
        let gflop = |convention| cost(&key, None, convention).unwrap().training_flops as f64 / 1e9;
        assert!((gflop(FlopsConvention::LayerByLayer) - 24.299).abs() < 0.01);
        assert!((gflop(FlopsConvention::Seed1) - 16.357).abs() < 0.01);
        assert!((gflop(FlopsConvention::Seed2) - 12.268).abs() < 0.01);
    }

    #[test]
    fn another_network_of_the_same_name_has_no_cost() {
        let key = fixture::key("cpu", "resnet50", 16, 1);
        let mut measurement = fixture::measurement(&key, 10.0);
        measurement.details.parameters = Some(11_689_512);
        assert_eq!(
            cost(&key, Some(&measurement), FlopsConvention::default()).unwrap_err().to_string(),
            "the worker's resnet50 has 11689512 parameters, but orchestrate's description of it has 25557032"
        );
        let key = fixture::key("cpu", "lenet", 16, 1);
        assert_eq!(
            cost(&key, None, FlopsConvention::default()),
            Err(NoCost::NotDescribed {
                model: "lenet".into(),
                source: NoNetwork::UnknownName("lenet".to_owned())
            })
        );
    }

    #[test]
    fn images_of_unknown_size_have_no_cost() {
        use crate::job::WorkerTemplate;
        let worker = WorkerTemplate::Command(["train.py".into()].into());
        let mut key = Key { worker, ..fixture::key("cpu", "resnet50", 16, 1) };
        let mut measurement = fixture::measurement(&key, 10.0);
        let sizes = |key: &Key, measured: Option<&Measurement>| {
            let cost = cost(key, measured, FlopsConvention::default());
            cost.map(|cost| (cost.input_size, cost.parameters)).map_err(|error| error.to_string())
        };
        let told = sizes(&key, Some(&measurement)).unwrap_err();
        assert!(
            told.starts_with("`input_size` and `classes` of `resnet50` are unknown: declare them"),
            "{told}"
        );
        measurement.effective.settings.set("input_size", 32);
        let told = sizes(&key, Some(&measurement)).unwrap_err();
        assert!(told.starts_with("`classes` of `resnet50` is unknown: declare it"), "{told}");
        key.params.insert("classes".into(), ParamValue::Int(10));
        assert_eq!(sizes(&key, Some(&measurement)), Ok((32, 23_528_522)));
        assert!(sizes(&key, None).is_err(), "a report of one run says nothing about another");
        let unknown = Key { model: "lenet".into(), ..key };
        assert!(sizes(&unknown, None).unwrap_err().contains("no description of the network `lenet`"));
    }

    #[test]
    fn a_dollar_an_hour_at_a_hundred_images_a_second() {
        assert!((usd_per_million_images(1.0, 100.0) - 2.777_777).abs() < 1e-4);
    }
}
