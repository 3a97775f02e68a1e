//! Turns a [`Recording`] into the reported [`OperatorProfile`]: calls with the same inputs are added up.

use std::collections::BTreeMap;
use std::ops::Add;

use orchestrate::protocol::{OperatorClass, OperatorProfile, OperatorSample, Phase};

use super::super::shim::Clock;
use super::bookkeeping::is_bookkeeping;
use super::recording::{Call, Kernel, Recording};
use super::time::{Phases, busy_ns, self_times};
use super::{kernels, lists};

/// The name of the time in which the training thread waits for images.
const DATA_WAIT: &str = "orchestrate::data_wait";

/// The profiler.
const SOURCE: &str = "kineto";

/// The iterations that were recorded.
#[derive(Clone, Debug)]
pub(super) struct Iterations {
    /// Where the seconds of the device come from.
    pub(super) clock: Clock,
    /// The number of iterations.
    pub(super) count: u32,
    /// Seconds of all of them, from synchronisation to synchronisation.
    pub(super) elapsed_s: f64,
    /// Seconds in which they waited for images.
    pub(super) data_wait_s: f64,
    /// Whether a CUDA graph trained them.
    pub(super) are_replays: bool,
}

/// The profile of `iterations`, of which `recording` was made.
pub(super) fn profile(recording: &Recording, iterations: &Iterations) -> OperatorProfile {
    let mut operators = samples(recording, iterations.clock);
    operators.extend(without_operator(recording));
    operators.extend(data_wait(iterations));
    let (operators, rest_s) = most_expensive(operators, LISTED);
    let has_kernels = iterations.clock == Clock::Kernels;
    OperatorProfile {
        source: SOURCE.to_owned(),
        iterations: iterations.count,
        elapsed_s: iterations.elapsed_s,
        device_busy_s: has_kernels.then(|| busy_ns(&recording.kernels) as f64 / 1e9),
        operators,
        rest_s,
        notes: notes(iterations).map(str::to_owned).collect(),
    }
}

/// The time of a call.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    host_s: f64,
    device_s: Option<f64>,
    kernels: Option<u64>,
}

/// The calls of operators, those with the same name, phase and inputs added up.
fn samples(recording: &Recording, clock: Clock) -> Vec<OperatorSample> {
    let phases = Phases::of(&recording.operators);
    let mut samples: BTreeMap<String, OperatorSample> = BTreeMap::new();
    for (call, cost) in recording.operators.iter().zip(costs(recording, clock)) {
        if !call.is_scope {
            let phase = phases.at(call);
            add(samples.entry(identity(call, phase)).or_insert_with(|| first(call, phase)), call, cost);
        }
    }
    samples.into_values().collect()
}

/// The identity of an operator within a profile.
fn identity(call: &Call, phase: Option<Phase>) -> String {
    let inputs =
        (!is_bookkeeping(&call.name)).then_some((&call.shapes, &call.types, &call.arguments, &call.lists));
    let parts = (&call.name, phase, inputs);
    serde_json::to_string(&parts).expect("lists of names and numbers have no failing serializer")
}

/// An operator without any call yet.
fn first(call: &Call, phase: Option<Phase>) -> OperatorSample {
    let bare = OperatorSample { name: call.name.clone(), phase, ..OperatorSample::default() };
    if is_bookkeeping(&call.name) {
        return bare;
    }
    let Call { shapes, types, arguments, .. } = call.clone();
    OperatorSample { shapes, types, arguments, ..bare }
}

fn add(sample: &mut OperatorSample, call: &Call, cost: Cost) {
    sample.calls += 1;
    sample.host_s += cost.host_s;
    sample.device_s = plus(sample.device_s, cost.device_s);
    sample.kernels = plus(sample.kernels, cost.kernels);
    sample.bytes = plus(sample.bytes, lists::bytes(&call.name, &call.lists).map(|bytes| bytes as f64));
}

fn plus<N: Add<Output = N> + Copy + Default>(sum: Option<N>, more: Option<N>) -> Option<N> {
    more.map(|more| sum.unwrap_or_default() + more).or(sum)
}

/// The cost of each call.
fn costs(recording: &Recording, clock: Clock) -> Vec<Cost> {
    let host = self_times(&recording.operators, |call| (call.end_ns - call.start_ns) as f64 / 1e9);
    let mut costs: Vec<Cost> =
        host.into_iter().map(|host_s| Cost { host_s, device_s: None, kernels: None }).collect();
    match clock {
        Clock::Host => {}
        Clock::Kernels => add_kernels(&mut costs, recording),
        Clock::Events => {
            let device = self_times(&recording.operators, |call| call.device_us.unwrap_or(0.0) / 1e6);
            costs.iter_mut().zip(device).for_each(|(cost, device_s)| cost.device_s = Some(device_s));
        }
        Clock::Waits => costs.iter_mut().for_each(|cost| cost.device_s = Some(cost.host_s)),
    }
    costs
}

/// Adds the kernels to the calls that launched them.
fn add_kernels(costs: &mut [Cost], recording: &Recording) {
    for cost in costs.iter_mut() {
        *cost = Cost { device_s: Some(0.0), kernels: Some(0), ..*cost };
    }
    let calls = by_id(recording);
    for kernel in &recording.kernels {
        if let Some(&launcher) = calls.get(&kernel.launcher) {
            let cost = &mut costs[launcher];
            cost.device_s = plus(cost.device_s, Some(seconds(kernel)));
            cost.kernels = plus(cost.kernels, Some(1));
        }
    }
}

/// The calls of operators by their ids. Scopes do not launch kernels themselves.
fn by_id(recording: &Recording) -> BTreeMap<u64, usize> {
    let calls = recording.operators.iter().enumerate().filter(|(_, call)| !call.is_scope);
    calls.map(|(index, call)| (call.id, index)).collect()
}

fn seconds(kernel: &Kernel) -> f64 {
    (kernel.end_ns - kernel.start_ns) as f64 / 1e9
}

/// The kernels that no operator launched, such as those of a CUDA graph: by their own names.
fn without_operator(recording: &Recording) -> Vec<OperatorSample> {
    let calls = by_id(recording);
    let mut samples: BTreeMap<&str, OperatorSample> = BTreeMap::new();
    for kernel in recording.kernels.iter().filter(|kernel| !calls.contains_key(&kernel.launcher)) {
        let sample = samples.entry(&kernel.name).or_insert_with(|| OperatorSample {
            name: kernel.name.clone(),
            class: Some(kernels::class(&kernel.name)),
            ..OperatorSample::default()
        });
        sample.calls += 1;
        sample.device_s = plus(sample.device_s, Some(seconds(kernel)));
        sample.kernels = plus(sample.kernels, Some(1));
    }
    samples.into_values().collect()
}

/// The wait for images, if there was any.
fn data_wait(iterations: &Iterations) -> Option<OperatorSample> {
    (iterations.data_wait_s > 0.0).then(|| OperatorSample {
        name: DATA_WAIT.to_owned(),
        phase: Some(Phase::Data),
        class: Some(OperatorClass::Data),
        calls: iterations.count.into(),
        host_s: iterations.data_wait_s,
        ..OperatorSample::default()
    })
}

/// The most operators that are listed: all of most networks, or 99 % of their time. Longer files are slow to read.
const LISTED: usize = 400;

/// The `most` operators that took longest, the longest first, and the seconds of all others.
fn most_expensive(mut operators: Vec<OperatorSample>, most: usize) -> (Vec<OperatorSample>, f64) {
    operators.sort_by(|a, b| b.seconds().total_cmp(&a.seconds()));
    let rest = operators.split_off(most.min(operators.len()));
    (operators, rest.iter().map(OperatorSample::seconds).sum())
}

fn notes(iterations: &Iterations) -> impl Iterator<Item = &'static str> {
    let clock = match iterations.clock {
        Clock::Host | Clock::Kernels => None,
        Clock::Events => Some(
            "CUPTI recorded no kernels; the variable KINETO_LOG_LEVEL=0 makes libtorch say why. The seconds on the device are those between CUDA events around each operator: \
             they include gaps between its kernels.",
        ),
        Clock::Waits => Some(
            "The worker waited for the device after each operator. So an iteration took longer than in the window, and \
             the seconds on the device include the submission of the work.",
        ),
    };
    let graph = iterations.are_replays.then_some(
        "A CUDA graph trained these iterations. Its kernels are listed by their own names, without operators and shapes.",
    );
    clock.into_iter().chain(graph)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: Iterations =
        Iterations { clock: Clock::Host, count: 2, elapsed_s: 1.0, data_wait_s: 0.0, are_replays: false };

    /// A call of `aten::mm` with one input of 4 × `columns`, from `start` for 100 ns.
    fn product(id: u64, start: i64, columns: u64) -> Call {
        Call {
            name: "aten::mm".into(),
            id,
            thread: 1,
            start_ns: start,
            end_ns: start + 100,
            shapes: vec![Some(vec![4, columns])],
            types: vec![Some("float32".into())],
            ..Call::default()
        }
    }

    fn scope(name: &str, start_ns: i64, end_ns: i64) -> Call {
        Call { name: name.into(), thread: 1, start_ns, end_ns, is_scope: true, ..Call::default() }
    }

    fn kernel(name: &str, launcher: u64, start_ns: i64, end_ns: i64) -> Kernel {
        Kernel { name: name.into(), launcher, start_ns, end_ns }
    }

    #[test]
    fn calls_with_the_same_inputs_in_the_same_phase_are_added_up() {
        let operators = vec![
            scope("orchestrate::forward", 0, 1000),
            product(1, 0, 8),
            product(2, 200, 8),
            product(3, 400, 9),
            scope("orchestrate::backward", 1000, 2000),
            product(4, 1000, 8),
        ];
        let profile = profile(&Recording { operators, kernels: Vec::new() }, &CPU);
        let found: Vec<_> = profile
            .operators
            .iter()
            .map(|operator| (operator.phase, operator.shapes[0].as_ref().unwrap()[1], operator.calls))
            .collect();
        assert_eq!(found[0], (Some(Phase::Forward), 8, 2));
        assert!(
            found.contains(&(Some(Phase::Forward), 9, 1)) && found.contains(&(Some(Phase::Backward), 8, 1))
        );
        assert_eq!(found.len(), 3, "a scope is no operator: {found:?}");
        assert!((profile.operators[0].host_s - 200e-9).abs() < 1e-15);
        assert_eq!((profile.device_busy_s, profile.operators[0].device_s), (None, None));
        assert_eq!((profile.iterations, profile.notes.len()), (2, 0));
    }

    #[test]
    fn bookkeeping_is_added_up_whatever_its_inputs() {
        let empty =
            |id, columns| Call { name: "aten::empty".into(), ..product(id, 200 * id as i64, columns) };
        let recording = Recording { operators: vec![empty(1, 8), empty(2, 9)], kernels: Vec::new() };
        let profile = profile(&recording, &CPU);
        let [sample] = &profile.operators[..] else { panic!("{:?}", profile.operators) };
        assert_eq!((sample.calls, sample.shapes.len()), (2, 0));
    }

    #[test]
    fn kernels_count_for_the_operator_that_launched_them() {
        let operators = vec![scope("orchestrate::forward", 0, 500), product(1, 0, 8), product(2, 200, 9)];
        let kernels =
            vec![kernel("gemm", 1, 50, 90), kernel("bias", 1, 90, 95), kernel("Memset (Device)", 0, 80, 100)];
        let cuda = Iterations { clock: Clock::Kernels, ..CPU };
        let profile = profile(&Recording { operators, kernels }, &cuda);
        let of = |columns| {
            let shape = [Some(vec![4, columns])];
            profile.operators.iter().find(|operator| operator.shapes == shape).unwrap()
        };
        assert!((of(8).device_s.unwrap() - 45e-9).abs() < 1e-15);
        assert_eq!((of(8).kernels, of(9).kernels, of(9).device_s), (Some(2), Some(0), Some(0.0)));
        let unlaunched =
            profile.operators.iter().find(|operator| operator.name == "Memset (Device)").unwrap();
        assert_eq!((unlaunched.class, unlaunched.calls), (Some(OperatorClass::Copy), 1));
        assert_eq!((unlaunched.phase, unlaunched.host_s), (None, 0.0));
        assert!((profile.device_busy_s.unwrap() - 50e-9).abs() < 1e-15);
    }

    #[test]
    fn events_around_an_operator_exclude_those_within_it() {
        let outer = Call { device_us: Some(70.0), end_ns: 500, ..product(1, 0, 8) };
        let inner = Call { device_us: Some(50.0), ..product(2, 100, 9) };
        let cuda = Iterations { clock: Clock::Events, ..CPU };
        let recording = Recording { operators: vec![outer, inner], kernels: Vec::new() };
        let profile = profile(&recording, &cuda);
        let seconds: Vec<f64> = profile.operators.iter().filter_map(|operator| operator.device_s).collect();
        assert!((seconds[0] - 50e-6).abs() < 1e-12 && (seconds[1] - 20e-6).abs() < 1e-12, "{seconds:?}");
        assert_eq!(profile.device_busy_s, None, "gaps between kernels are not known");
        assert!(profile.notes[0].contains("CUPTI recorded no kernels"));
    }

    #[test]
    fn the_wait_for_images_is_an_operator() {
        let waited = Iterations { data_wait_s: 0.25, ..CPU };
        let profile = profile(&Recording::default(), &waited);
        let [wait] = &profile.operators[..] else { panic!("{:?}", profile.operators) };
        assert_eq!((wait.class, wait.phase), (Some(OperatorClass::Data), Some(Phase::Data)));
        assert_eq!((wait.calls, wait.host_s), (2, 0.25));
    }

    #[test]
    fn operators_that_are_not_listed_are_in_the_rest() {
        let operators: Vec<_> =
            (1..=5_u32).map(|host| OperatorSample { host_s: host.into(), ..Default::default() }).collect();
        let (listed, rest_s) = most_expensive(operators, 2);
        assert_eq!(listed.iter().map(|operator| operator.host_s).collect::<Vec<_>>(), [5.0, 4.0]);
        assert_eq!(rest_s, 6.0);
    }

    #[test]
    fn lists_of_tensors_have_bytes() {
        let step = Call { name: "aten::_fused_sgd_".into(), lists: vec![40, 40, 40], ..Call::default() };
        let recording =
            Recording { operators: vec![step.clone(), Call { id: 2, ..step }], kernels: Vec::new() };
        assert_eq!(profile(&recording, &CPU).operators[0].bytes, Some(400.0));
    }
}
