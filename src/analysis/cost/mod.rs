//! The cost of a sample ([`Cost`]): parameters, MACs and FLOPs from orchestrate's description of the network, or FLOPs
//! from the report of the worker. [`cost`] checks it against the measurements of the runs.
//!
//! For ResNet-50 at 224 × 224 and 1000 classes, a training step takes 24.3 GFLOP per image by
//! [`FlopsConvention::LayerByLayer`].

mod convention;
mod least;

use super::step::step_bytes;
use super::unconfirmed::listed;
use crate::architecture::{NETWORKS, NoNetwork, network};
use crate::job::{Key, ModelName, Optimizer, ParamValue, Precision};
use crate::protocol::Measurement;

pub use convention::FlopsConvention;

/// The cost of one sample of a config.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cost {
    /// From orchestrate's description of the network.
    Described(Described),
    /// From the report of the worker.
    Reported(Reported),
}

/// The cost of one sample from the report of the worker. The layers are unknown, so there is no model of the bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reported {
    /// FLOPs of one sample's training step.
    pub training_flops: f64,
    /// Trainable parameters, if the worker reports them.
    pub parameters: Option<u64>,
    /// Whether the worker's library counted the FLOPs in an iteration. Otherwise the worker declares them.
    pub is_counted: bool,
    /// The FLOPs that the library counted, for comparison; `None` if it did not, or if these are `training_flops`.
    pub counted_flops: Option<f64>,
}

/// The cost of one image by the network's description.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Described {
    /// Height and width of the images, in pixels.
    pub input_size: u32,
    /// The number of classes.
    pub classes: u32,
    /// Trainable parameters.
    pub parameters: u64,
    /// MACs of one image's forward pass.
    pub forward_macs: u64,
    /// FLOPs of one image's training step, by `convention`.
    pub training_flops: u64,
    /// The convention of the study.
    pub convention: FlopsConvention,
    /// FLOPs of one image's training step, layer by layer, for any convention.
    pub needed_flops: u64,
    /// The modelled bytes of one image: those of an iteration ÷ its batch, with its share of the optimizer's step.
    pub modelled_bytes: f64,
    /// The optimizer whose step is in `modelled_bytes`; `None` if it is unknown.
    pub optimizer: Option<Optimizer>,
    /// The number of iterations per step of the optimizer.
    pub iterations_per_step: u64,
    /// The fewest optimizer steps per iteration, among runs that report them and their parameters. `None` without such
    /// runs.
    pub steps_per_iteration: Option<f64>,
    /// FLOPs of one image's training step as the worker reports them, for comparison with `training_flops`. `None` if
    /// it reports none, or if the convention of the study leaves out work.
    pub reported_flops: Option<f64>,
    /// FLOPs of one image's training step as the worker's library counted them. `None` as for `reported_flops`.
    pub counted_flops: Option<f64>,
}

impl Described {
    /// The difference of the worker's count from the description's, as a share of the latter, and its likely cause.
    /// `None` without a count of the worker.
    pub(super) fn miscounted(&self) -> Option<(f64, &'static str)> {
        /// Training takes 3 × the FLOPs of the forward pass, except for the input gradient of the first layer.
        const NEAR: f64 = 0.1;
        let ratio = self.reported_flops? / self.needed_flops as f64;
        let is_near = |other: f64| (ratio / other - 1.0).abs() <= NEAR;
        let cause = if is_near(1.0 / 6.0) {
            "a sixth suggests the MACs of the forward pass alone"
        } else if is_near(1.0 / 3.0) {
            "a third suggests the forward pass alone"
        } else if is_near(0.5) {
            "half suggests MACs, and one MAC is two FLOPs"
        } else {
            "one of them counts another network or other operations"
        };
        Some((ratio - 1.0, cause))
    }
}

impl Cost {
    /// FLOPs that one sample's training step takes, for any convention of the study.
    pub fn needed_flops(&self) -> f64 {
        match self {
            Cost::Described(described) => described.needed_flops as f64,
            Cost::Reported(reported) => reported.training_flops,
        }
    }

    /// The convention of [`Cost::training_flops`]; `worker` if the worker counts them.
    pub fn convention(&self) -> &'static str {
        self.described().map_or("worker", |described| described.convention.as_str())
    }

    /// FLOPs of one sample's training step, by the study's convention.
    pub fn training_flops(&self) -> f64 {
        match self {
            Cost::Described(described) => described.training_flops as f64,
            Cost::Reported(reported) => reported.training_flops,
        }
    }

    /// Trainable parameters, if known.
    pub fn parameters(&self) -> Option<u64> {
        match self {
            Cost::Described(described) => Some(described.parameters),
            Cost::Reported(reported) => reported.parameters,
        }
    }

    /// The cost from the network's description; `None` if it comes from the worker.
    pub fn described(&self) -> Option<&Described> {
        match self {
            Cost::Described(described) => Some(described),
            Cost::Reported(_) => None,
        }
    }

    /// The FLOPs that the worker's library counted in an iteration, if other FLOPs are used.
    pub(super) fn counted_flops(&self) -> Option<f64> {
        match self {
            Cost::Described(described) => described.counted_flops,
            Cost::Reported(reported) => reported.counted_flops,
        }
    }

    /// The source of the FLOPs: `described`, `reported` or `counted`.
    pub fn source(&self) -> &'static str {
        match self {
            Cost::Described(_) => "described",
            Cost::Reported(Reported { is_counted: true, .. }) => "counted",
            Cost::Reported(_) => "reported",
        }
    }
}

/// Why the cost of a config is unknown.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoCost {
    /// `architecture` does not describe the network, or not for images of this size.
    #[error(
        "orchestrate has no description of the network `{model}`: {source}; a custom worker can report \
         `details.flops_per_sample`"
    )]
    NotDescribed {
        /// The network's name.
        model: ModelName,
        /// The reason.
        source: NoNetwork,
    },
    /// Neither the job nor its worker declares the size of the images or the number of classes.
    #[error(
        "{} of `{model}` {are} unknown: declare {them} under `params`, or let the worker report {them} under \
         `effective`",
        listed(missing),
        are = if missing.len() == 1 { "is" } else { "are" },
        them = if missing.len() == 1 { "it" } else { "them" }
    )]
    NoShape {
        /// The network's name.
        model: ModelName,
        /// The missing parameters.
        missing: Vec<&'static str>,
    },
    /// The worker trained a network other than the described one.
    #[error(
        "the worker's {model} has {reported} parameters, but orchestrate's description of it has {described}; a custom \
         worker can report `details.flops_per_sample`"
    )]
    OtherNetwork {
        /// The network's name.
        model: ModelName,
        /// Parameters that the worker reports.
        reported: u64,
        /// Parameters of the description.
        described: u64,
    },
    /// What the worker reports cannot be the FLOPs of a training step.
    #[error("the worker of `{model}` reports {reported} FLOPs per sample: expected a positive number")]
    NotFlops {
        /// The network's name.
        model: ModelName,
        /// The reported FLOPs per sample.
        reported: f64,
    },
    /// The runs of a row report different FLOPs.
    #[error("the runs of `{model}` report different FLOPs per sample: from {least} to {most}")]
    RunsDisagree {
        /// The network's name.
        model: ModelName,
        /// The fewest reported FLOPs per sample.
        least: f64,
        /// The most reported FLOPs per sample.
        most: f64,
    },
    /// The worker counts the FLOPs, and a convention changes only orchestrate's count.
    #[error("the worker counts the FLOPs of `{model}` itself, so `--flops-convention` cannot change them")]
    OwnConvention {
        /// The network's name.
        model: ModelName,
    },
}

/// The largest relative difference in reported FLOPs between runs of a row: rounding does not make another network.
const SAME_FLOPS: f64 = 1e-3;

/// The cost of one sample of `key`, checked against the measurements of its `runs`, if there are any. All `runs` are in
/// the same circumstances.
///
/// The FLOPs are those of orchestrate's description of the network, or else those that the worker declares
/// (`details.flops_per_sample`), or else those that its library counted (`details.counted_flops_per_sample`).
///
/// # Errors
/// [`NoCost`]: the FLOPs of another network would be wrong, so there are none.
pub fn cost(key: &Key, runs: &[&Measurement], convention: FlopsConvention) -> Result<Cost, NoCost> {
    let declared = agreed(key, runs, |run| run.details.flops_per_sample);
    let counted = agreed(key, runs, |run| run.details.counted_flops_per_sample);
    // The other conventions leave out a part of the work, so their numbers cannot be compared.
    let by_layer = convention == FlopsConvention::LayerByLayer;
    let compared = |flops: &Result<Option<f64>, NoCost>| flops.as_ref().ok().copied().flatten();
    let counted_flops = compared(&counted).filter(|_| by_layer);
    let not_described = match described(key, runs, convention) {
        Ok(network) => {
            let reported_flops = compared(&declared).filter(|_| by_layer);
            return Ok(Cost::Described(Described { reported_flops, counted_flops, ..network }));
        }
        Err(error) => error,
    };
    let (training_flops, is_counted) = match (declared?, counted) {
        (Some(flops), _) => (flops, false),
        (None, counted) => (counted?.ok_or(not_described)?, true),
    };
    if !by_layer {
        return Err(NoCost::OwnConvention { model: key.model.clone() });
    }
    let parameters = runs.iter().find_map(|run| run.details.parameters);
    let counted_flops = counted_flops.filter(|_| !is_counted);
    Ok(Cost::Reported(Reported { training_flops, parameters, is_counted, counted_flops }))
}

/// The FLOPs per sample that `runs` agree on; `None` if no run reports `flops`.
fn agreed(
    key: &Key,
    runs: &[&Measurement],
    flops: impl Fn(&Measurement) -> Option<f64>,
) -> Result<Option<f64>, NoCost> {
    let reported = || runs.iter().filter_map(|run| flops(run));
    let Some(first) = reported().next() else { return Ok(None) };
    if let Some(reported) = reported().find(|flops| !(flops.is_finite() && *flops > 0.0)) {
        return Err(NoCost::NotFlops { model: key.model.clone(), reported });
    }
    let (least, most) = reported().fold((first, first), |(least, most), it| (least.min(it), most.max(it)));
    if most / least - 1.0 > SAME_FLOPS {
        return Err(NoCost::RunsDisagree { model: key.model.clone(), least, most });
    }
    Ok(Some(first))
}

/// The cost by the network's description.
///
/// The shape is the reported one, or else the requested one. An external worker without either could have trained on
/// images of any size, because the defaults of the shipped worker do not apply to it.
fn described(key: &Key, runs: &[&Measurement], convention: FlopsConvention) -> Result<Described, NoCost> {
    let not_described = |source| NoCost::NotDescribed { model: key.model.clone(), source };
    if !NETWORKS.contains(&key.model.as_str()) {
        return Err(not_described(NoNetwork::UnknownName(key.model.to_string())));
    }
    let (input_size, classes) = shape(key, runs)?;
    let network = network(&key.model, input_size, classes).map_err(not_described)?;
    let parameters = network.parameters();
    let mut reported = runs.iter().filter_map(|run| run.details.parameters);
    if let Some(reported) = reported.find(|reported| *reported != parameters) {
        return Err(NoCost::OtherNetwork { model: key.model.clone(), reported, described: parameters });
    }
    let optimizer = optimizer(key, runs);
    let iterations_per_step = iterations_per_step(key, runs);
    let step =
        optimizer.map_or(0.0, |rule| (step_bytes(rule) * parameters) as f64 / iterations_per_step as f64);
    let bytes = network.modelled_bytes(key.batch, element_bytes(key.precision)) as f64 + step;
    Ok(Described {
        input_size,
        classes,
        parameters,
        forward_macs: network.forward_macs(),
        training_flops: convention.training_flops(network.macs()),
        convention,
        needed_flops: network.training_flops(),
        modelled_bytes: bytes / f64::from(key.batch),
        optimizer,
        iterations_per_step,
        steps_per_iteration: steps_per_iteration(key, runs),
        reported_flops: None,
        counted_flops: None,
    })
}

/// The optimizer: the reported one, or else the requested one.
fn optimizer(key: &Key, runs: &[&Measurement]) -> Option<Optimizer> {
    let reported = runs.iter().find_map(|run| run.effective.settings.get("optimizer"));
    let requested = || key.param("optimizer").map(|value| value.to_string());
    reported.map(ToString::to_string).or_else(requested)?.parse().ok()
}

/// The number of iterations per step of the optimizer: the reported one, or else the requested one, or else 1.
fn iterations_per_step(key: &Key, runs: &[&Measurement]) -> u64 {
    let reported = runs.iter().find_map(|run| run.effective.settings.whole("grad_accum_steps"));
    let requested = || match key.param("grad_accum_steps") {
        Some(ParamValue::Int(steps)) => u64::try_from(steps).ok(),
        _ => None,
    };
    reported.or_else(requested).unwrap_or(1).max(1)
}

/// The fewest optimizer steps per iteration, among runs that report them and their number of parameters.
fn steps_per_iteration(key: &Key, runs: &[&Measurement]) -> Option<f64> {
    let steps = runs.iter().filter_map(|run| {
        let iterations = run.samples as f64 / f64::from(key.batch);
        run.details.parameters?;
        Some(run.details.optimizer_steps? as f64 / iterations)
    });
    steps.min_by(f64::total_cmp)
}

/// Height and width of the images, and the number of classes.
fn shape(key: &Key, runs: &[&Measurement]) -> Result<(u32, u32), NoCost> {
    let requested = |name| match key.param(name) {
        Some(ParamValue::Int(value)) => u64::try_from(value).ok(),
        _ => None,
    };
    let reported = |name| runs.iter().find_map(|run| run.effective.settings.whole(name));
    let size = |name| reported(name).or_else(|| requested(name)).and_then(|size| u32::try_from(size).ok());
    let names = ["input_size", "classes"];
    let [input_size, classes] = names.map(size);
    input_size.zip(classes).ok_or_else(|| {
        let missing = names.into_iter().filter(|name| size(name).is_none()).collect();
        NoCost::NoShape { model: key.model.clone(), missing }
    })
}

/// Bytes of one element of an activation. With mixed precision, activations are half-precision numbers; the model
/// ignores that weights and some layers stay in single precision.
pub(super) fn element_bytes(precision: Precision) -> u32 {
    match precision {
        Precision::Fp32 | Precision::Tf32 => 4,
        Precision::Amp | Precision::Bf16 => 2,
    }
}

/// The price of `seconds` on a machine that costs `usd_per_hour`.
pub fn usd_of(usd_per_hour: f64, seconds: f64) -> f64 {
    usd_per_hour / 3600.0 * seconds
}

/// The price of a million samples at `samples_per_s` on a machine that costs `usd_per_hour`.
pub fn usd_per_million_samples(usd_per_hour: f64, samples_per_s: f64) -> f64 {
    usd_of(usd_per_hour, 1e6 / samples_per_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture;

    #[test]
    fn conventions_differ_as_the_seed_reports_do() {
        let key = fixture::key("cpu", "resnet50", 16, 1);
        let gflop = |convention| cost(&key, &[], convention).unwrap().training_flops() / 1e9;
        assert!((gflop(FlopsConvention::LayerByLayer) - 24.299).abs() < 0.01);
        assert!((gflop(FlopsConvention::Seed1) - 16.357).abs() < 0.01);
        assert!((gflop(FlopsConvention::Seed2) - 12.268).abs() < 0.01);
    }

    /// Executed FLOPs are compared with the needed ones, which do not depend on the convention.
    #[test]
    fn conventions_do_not_change_the_needed_flops() {
        use clap::ValueEnum;
        let key = fixture::key("cpu", "resnet50", 16, 1);
        for convention in FlopsConvention::value_variants() {
            let cost = cost(&key, &[], *convention).unwrap();
            assert!((cost.needed_flops() / 1e9 - 24.299).abs() < 0.01, "{convention:?}");
            assert_eq!(cost.convention(), convention.to_possible_value().unwrap().get_name());
            assert_eq!(convention.leaves_out_work(), cost.training_flops() < cost.needed_flops());
        }
    }

    #[test]
    fn another_network_of_the_same_name_has_no_cost() {
        let key = fixture::key("cpu", "resnet50", 16, 1);
        let mut measurement = fixture::measurement(&key, 10.0);
        measurement.details.parameters = Some(11_689_512);
        assert_eq!(
            cost(&key, &[&measurement], FlopsConvention::default()).unwrap_err().to_string(),
            "the worker's resnet50 has 11689512 parameters, but orchestrate's description of it has 25557032; a custom \
             worker can report `details.flops_per_sample`"
        );
        let key = fixture::key("cpu", "lenet", 16, 1);
        assert_eq!(
            cost(&key, &[], FlopsConvention::default()),
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
        let sizes = |key: &Key, runs: &[&Measurement]| {
            let cost = cost(key, runs, FlopsConvention::default());
            let described = cost.map(|cost| *cost.described().expect("it is described"));
            described.map(|it| (it.input_size, it.parameters)).map_err(|error| error.to_string())
        };
        let error = sizes(&key, &[&measurement]).unwrap_err();
        assert!(
            error.starts_with("`input_size` and `classes` of `resnet50` are unknown: declare them"),
            "{error}"
        );
        measurement.effective.settings.set("input_size", 32);
        let error = sizes(&key, &[&measurement]).unwrap_err();
        assert!(error.starts_with("`classes` of `resnet50` is unknown: declare it"), "{error}");
        key.params.insert("classes".into(), ParamValue::Int(10));
        assert_eq!(sizes(&key, &[&measurement]), Ok((32, 23_528_522)));
        assert!(sizes(&key, &[]).is_err(), "a report is valid for its run only");
        let unknown = Key { model: "lenet".into(), ..key };
        assert!(sizes(&unknown, &[]).unwrap_err().contains("no description of the network `lenet`"));
    }

    /// The bytes of an optimizer step depend on the optimizer, and are shared by the iterations per step.
    #[test]
    fn modelled_bytes_include_the_step_of_the_optimizer() {
        use crate::job::WorkerTemplate;
        let network = network("vgg16", 224, 1000).unwrap();
        let layers = network.modelled_bytes(16, 4) as f64 / 16.0;
        let step = |bytes: u64| (bytes * network.parameters()) as f64 / 16.0;
        let with = |params: &[(&str, ParamValue)]| {
            let params = params.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
            Key { params: params.collect(), ..fixture::key("cpu", "vgg16", 16, 1) }
        };
        let bytes = |key: &Key, runs: &[&Measurement]| {
            let described = *cost(key, runs, FlopsConvention::default()).unwrap().described().unwrap();
            (described.optimizer, described.modelled_bytes - layers)
        };
        let near = |(rule, found): (Option<Optimizer>, f64), expected: Option<Optimizer>, bytes: f64| {
            assert!(rule == expected && (found - bytes).abs() < 1.0, "{rule:?}: {found} against {bytes}");
        };
        let adamw = with(&[("optimizer", ParamValue::Text("adamw".into()))]);
        near(bytes(&with(&[]), &[]), Some(Optimizer::Sgd), step(20));
        near(bytes(&adamw, &[]), Some(Optimizer::AdamW), step(28));
        near(bytes(&with(&[("grad_accum_steps", ParamValue::Int(4))]), &[]), Some(Optimizer::Sgd), step(5));
        let shape = [("input_size", ParamValue::Int(224)), ("classes", ParamValue::Int(1000))];
        let worker = WorkerTemplate::Command(["train.py".into()].into());
        let own = Key { worker, ..with(&shape) };
        near(bytes(&own, &[]), None, 0.0);
        let mut run = fixture::measurement(&own, 10.0);
        run.effective.settings.set("optimizer", "adamw");
        near(bytes(&own, &[&run]), Some(Optimizer::AdamW), step(28));
        run.effective.settings.set("optimizer", "lion");
        near(bytes(&own, &[&run]), None, 0.0);
    }

    /// The key of an external worker, and two runs of it that report these FLOPs per sample.
    fn own_worker(model: &str, flops_per_sample: [Option<f64>; 2]) -> (Key, [Measurement; 2]) {
        use crate::job::WorkerTemplate;
        let worker = WorkerTemplate::Command(["train.py".into()].into());
        let key = Key { worker, ..fixture::key("cpu", model, 16, 1) };
        let runs = flops_per_sample.map(|flops| {
            let mut run = fixture::measurement(&key, 10.0);
            run.details.flops_per_sample = flops;
            run.details.parameters = Some(61_706);
            run
        });
        (key, runs)
    }

    #[test]
    fn reported_flops_are_used_without_a_description() {
        let of = |model, flops, convention| {
            let (key, [first, second]) = own_worker(model, flops);
            cost(&key, &[&first, &second], convention).map_err(|error| error.to_string())
        };
        let reported = Cost::Reported(Reported {
            training_flops: 2.5e6,
            parameters: Some(61_706),
            is_counted: false,
            counted_flops: None,
        });
        let default = FlopsConvention::default();
        for model in ["lenet", "resnet50"] {
            assert_eq!(of(model, [Some(2.5e6), Some(2.5e6)], default), Ok(reported), "{model}");
        }
        assert_eq!(of("lenet", [None, Some(2.5e6)], default), Ok(reported), "one run is enough");
        assert_eq!(of("lenet", [Some(2.5e6), Some(2.501e6)], default), Ok(reported), "rounded");
        for (flops, convention, why) in [
            ([None, None], default, "no description of the network `lenet`"),
            ([Some(2e6), Some(3e6)], default, "report different FLOPs per sample: from 2000000 to 3000000"),
            ([Some(2e6), Some(0.0)], default, "reports 0 FLOPs per sample: expected a positive number"),
            ([Some(-2e6), None], default, "reports -2000000 FLOPs per sample"),
            ([Some(2e6), None], FlopsConvention::Seed1, "`--flops-convention` cannot change them"),
        ] {
            let error = of("lenet", flops, convention).unwrap_err();
            assert!(error.contains(why), "{flops:?}: {error}");
        }
    }

    #[test]
    fn declared_flops_take_precedence_over_counted_ones() {
        let (key, runs) = own_worker("lenet", [None, None]);
        let of = |declared, counted| {
            let mut run = runs[0].clone();
            run.details.flops_per_sample = declared;
            run.details.counted_flops_per_sample = counted;
            cost(&key, &[&run, &runs[1]], FlopsConvention::default())
        };
        let found =
            |declared, counted| of(declared, counted).map(|cost| (cost.training_flops(), cost.source()));
        assert_eq!(found(None, Some(3e6)), Ok((3e6, "counted")));
        assert_eq!(found(Some(2e6), Some(3e6)), Ok((2e6, "reported")));
        assert_eq!(found(Some(2e6), Some(f64::NAN)), Ok((2e6, "reported")), "it is not needed");
        let compared = |declared, counted| of(declared, counted).unwrap().counted_flops();
        assert_eq!((compared(None, Some(3e6)), compared(Some(2e6), Some(3e6))), (None, Some(3e6)));
        assert!(matches!(of(None, Some(0.0)), Err(NoCost::NotFlops { .. })));
        assert!(matches!(of(None, None), Err(NoCost::NotDescribed { .. })));
    }

    #[test]
    fn a_description_takes_precedence_over_reported_flops() {
        let (key, [mut run, _]) = own_worker("resnet50", [Some(8.2e9), None]);
        run.details.parameters = Some(25_557_032);
        run.effective.settings.set("input_size", 224);
        run.effective.settings.set("classes", 1000);
        for (convention, compared) in
            [(FlopsConvention::LayerByLayer, Some(8.2e9)), (FlopsConvention::Seed1, None)]
        {
            let cost = cost(&key, &[&run], convention).unwrap();
            let described = cost.described().expect("it is described");
            assert_eq!((described.input_size, described.reported_flops), (224, compared));
            assert!(cost.training_flops() > 1.5e10 && cost.source() == "described");
        }
    }

    #[test]
    fn prices_of_a_million_samples_and_of_a_duration() {
        assert!((usd_per_million_samples(1.0, 100.0) - 2.777_777).abs() < 1e-4);
        assert!((usd_of(1.0, 90.0) - 0.025).abs() < 1e-12);
    }
}
