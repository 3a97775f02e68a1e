//! The shipped worker's profile by operator, on the processor.
#![cfg(feature = "torch")]
#![expect(clippy::disallowed_methods, reason = "tests drive programs")]

use std::process::Command;

use orchestrate::architecture::{self, Layer, Network, Op};
use orchestrate::protocol::{
    Measurement, OPERATORS_VARIABLE, OperatorProfile, OperatorSample, Phase, Report,
};

/// Profiled iterations, and images in each.
const ITERATIONS: u32 = 2;
const BATCH: u32 = 3;

/// A training of a few seconds.
const TINY: &str = "--arch resnet18 --batch-size 3 --input-size 64 --classes 4 --warmup-iters 1 --iters 2 --threads 1 \
                    --backend cpu";

/// The measurement of [`TINY`] and `words`, whose environment has these `variables`.
#[track_caller]
fn train(words: &str, variables: &[(&str, &str)]) -> Measurement {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("measurement.json");
    let mut worker = Command::new(env!("CARGO_BIN_EXE_worker"));
    worker.args(TINY.split_whitespace()).args(words.split_whitespace()).arg("--out").arg(&out);
    worker.env_remove(OPERATORS_VARIABLE).envs(variables.iter().copied());
    let ended = worker.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    assert_eq!(said.lines().count(), 1, "the profiler prints nothing: {said}");
    let text = std::fs::read_to_string(out).unwrap();
    let Ok(Report::Measured(measurement)) = Report::parse(&text) else { panic!("{text}") };
    *measurement
}

fn network() -> Network {
    architecture::network("resnet18", 64, 4).unwrap()
}

fn convolutions(network: &Network) -> impl Iterator<Item = &Layer> {
    network.layers().iter().filter(|layer| matches!(layer.op, Op::Conv2d(_)))
}

fn called<'a>(ops: &'a OperatorProfile, name: &str) -> Vec<&'a OperatorSample> {
    ops.operators.iter().filter(|operator| operator.name == name).collect()
}

fn calls(operators: &[&OperatorSample]) -> usize {
    usize::try_from(operators.iter().map(|operator| operator.calls).sum::<u64>()).unwrap()
}

/// MACs of all calls of backward passes of convolutions, whose inputs are the gradient of the output, the input and the
/// weight, and whose last argument says which gradients are computed: of the input, of the weight, of the bias.
fn backward_macs(operators: &[&OperatorSample]) -> u64 {
    let macs = |operator: &&OperatorSample| {
        let size = |input: usize| operator.shapes[input].as_ref().unwrap();
        let one = size(0).iter().product::<u64>() * size(2)[1..].iter().product::<u64>();
        let mask = operator.arguments.last().unwrap().as_array().unwrap();
        let gradients = mask[..2].iter().filter(|wanted| wanted.as_bool() == Some(true)).count();
        operator.calls * one * u64::try_from(gradients).unwrap()
    };
    operators.iter().map(macs).sum()
}

#[test]
fn a_profile_has_each_convolution_with_its_shapes() {
    let ops = train(&format!("--operators {ITERATIONS}"), &[]).ops.unwrap();
    assert_eq!((ops.source.as_str(), ops.iterations, ops.device_busy_s), ("kineto", ITERATIONS, None));
    let network = network();
    let layers = convolutions(&network).count();
    for (name, phase) in
        [("aten::convolution", Phase::Forward), ("aten::convolution_backward", Phase::Backward)]
    {
        let found = called(&ops, name);
        assert_eq!(calls(&found), layers * usize::try_from(ITERATIONS).unwrap(), "{name}");
        assert!(found.iter().all(|operator| operator.phase == Some(phase)), "{name}: {found:?}");
        assert!(found.iter().all(|operator| operator.types[0].as_deref() == Some("float32")), "{name}");
    }
    let expected: u64 =
        convolutions(&network).map(|layer| layer.macs().input_gradient + layer.macs().weight_gradient).sum();
    let samples = u64::from(ITERATIONS * BATCH);
    assert_eq!(backward_macs(&called(&ops, "aten::convolution_backward")), samples * expected);
    let first = called(&ops, "aten::convolution")
        .into_iter()
        .find(|operator| operator.shapes[0] == Some(vec![u64::from(BATCH), 3, 64, 64]))
        .unwrap();
    assert_eq!(first.shapes[1], Some(vec![64, 3, 7, 7]));
    assert_eq!(serde_json::to_string(&first.arguments[3..5]).unwrap(), "[[2,2],[3,3]]", "stride and padding");
}

#[test]
fn the_step_of_the_optimizer_has_the_bytes_of_all_parameters() {
    for (optimizer, name, accesses) in [("sgd", "aten::_fused_sgd_", 5), ("adamw", "aten::_fused_adamw_", 7)]
    {
        let ops = train(&format!("--operators {ITERATIONS} --optimizer {optimizer}"), &[]).ops.unwrap();
        let [step] = called(&ops, name)[..] else { panic!("{name}: {ops:?}") };
        assert_eq!((step.phase, step.calls), (Some(Phase::Optimizer), u64::from(ITERATIONS)));
        // AdamW also reads the number of its steps, a number of single precision for each tensor.
        let bytes = f64::from(ITERATIONS) * (accesses * 4 * network().parameters()) as f64;
        let share = step.bytes.unwrap() / bytes;
        assert!((1.0..1.0001).contains(&share), "{name}: {share}");
    }
}

/// Operators account for nearly all of the time, and for no time twice.
#[test]
fn operators_cover_the_profiled_time() {
    for precision in ["fp32", "bf16"] {
        let ops = train(&format!("--operators {ITERATIONS} --precision {precision}"), &[]).ops.unwrap();
        let listed: f64 = ops.operators.iter().map(OperatorSample::seconds).sum();
        let share = (listed + ops.rest_s) / ops.elapsed_s;
        assert!((0.9..=1.0).contains(&share), "{precision}: {share}");
    }
}

/// The number comes from the environment, too, and is rounded up to whole steps.
#[test]
fn the_measurement_is_the_same_with_and_without_a_profile() {
    let words = "--grad-accum-steps 2";
    let plain = train(words, &[]);
    let profiled = train(words, &[(OPERATORS_VARIABLE, "3")]);
    assert_eq!(plain.ops, None);
    let ops = profiled.ops.as_ref().unwrap();
    assert_eq!((ops.iterations, calls(&called(ops, "aten::_fused_sgd_"))), (4, 2));
    assert_eq!((plain.samples, &plain.effective), (profiled.samples, &profiled.effective));
    let losses = |measurement: &Measurement| (measurement.details.first_loss, measurement.details.last_loss);
    assert_eq!(losses(&plain), losses(&profiled));
    assert_eq!(plain.details.optimizer_steps, profiled.details.optimizer_steps);
}
