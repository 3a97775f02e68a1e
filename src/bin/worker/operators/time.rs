//! The self time of a call, the part of an iteration that it belongs to, and the busy time of a device.

use std::cmp::Reverse;

use orchestrate::protocol::Phase;

use super::recording::{Call, Kernel};

/// The parts of an iteration, by the names of their scopes.
const PHASES: [Phase; 4] = [Phase::Forward, Phase::Backward, Phase::Optimizer, Phase::Data];

/// The name of the scope that marks `phase`.
pub(super) fn scope_name(phase: Phase) -> String {
    format!("orchestrate::{phase}")
}

/// The self time of each call: its `length` without that of the calls within it.
pub(super) fn self_times(calls: &[Call], length: impl Fn(&Call) -> f64) -> Vec<f64> {
    let mut times: Vec<f64> = calls.iter().map(&length).collect();
    for (call, caller) in callers(calls).into_iter().enumerate() {
        if let Some(caller) = caller {
            times[caller] -= length(&calls[call]);
        }
    }
    // Two readings of the clock can differ by a tick from those of the call around them.
    times.into_iter().map(|length| length.max(0.0)).collect()
}

/// For each call, the index of the innermost call around it on the same thread.
fn callers(calls: &[Call]) -> Vec<Option<usize>> {
    let mut order: Vec<usize> = (0..calls.len()).collect();
    order.sort_by_key(|&index| (calls[index].thread, calls[index].start_ns, Reverse(calls[index].end_ns)));
    let mut callers = vec![None; calls.len()];
    let mut open: Vec<usize> = Vec::new();
    for index in order {
        let call = &calls[index];
        let is_around = |outer: &Call| outer.thread == call.thread && call.end_ns <= outer.end_ns;
        while open.last().is_some_and(|&outer| !is_around(&calls[outer])) {
            open.pop();
        }
        callers[index] = open.last().copied();
        open.push(index);
    }
    callers
}

/// When an iteration was in which of its parts.
#[derive(Debug)]
pub(super) struct Phases(Vec<(i64, i64, Phase)>);

impl Phases {
    /// The phases that the scopes among `calls` mark. They follow each other, whatever thread computes meanwhile.
    pub(super) fn of(calls: &[Call]) -> Self {
        let marked = |call: &Call| {
            let phase = PHASES.into_iter().find(|phase| call.is_scope && call.name == scope_name(*phase))?;
            Some((call.start_ns, call.end_ns, phase))
        };
        let mut phases: Vec<_> = calls.iter().filter_map(marked).collect();
        phases.sort_by_key(|(start, ..)| *start);
        Phases(phases)
    }

    /// The phase that `call` began in.
    pub(super) fn at(&self, call: &Call) -> Option<Phase> {
        let begun = self.0.partition_point(|(start, ..)| *start <= call.start_ns);
        let (_, end, phase) = self.0[..begun].last()?;
        (call.start_ns < *end).then_some(*phase)
    }
}

/// Nanoseconds in which at least one of `kernels` was at work.
pub(super) fn busy_ns(kernels: &[Kernel]) -> i64 {
    let mut intervals: Vec<_> = kernels.iter().map(|kernel| (kernel.start_ns, kernel.end_ns)).collect();
    intervals.sort_unstable();
    let (mut busy, mut until) = (0, i64::MIN);
    for (start, end) in intervals {
        busy += (end - start.max(until)).max(0);
        until = until.max(end);
    }
    busy
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, thread: u64, start_ns: i64, end_ns: i64) -> Call {
        let is_scope = name.starts_with("orchestrate::");
        Call { name: name.into(), thread, start_ns, end_ns, is_scope, ..Call::default() }
    }

    fn length(call: &Call) -> f64 {
        (call.end_ns - call.start_ns) as f64
    }

    #[test]
    fn self_time_excludes_direct_children_only() {
        // In the order in which they end, as a profiler could report them.
        let calls = [
            call("grandchild", 1, 20, 30),
            call("child", 1, 10, 40),
            call("other thread", 2, 15, 35),
            call("second child", 1, 40, 55),
            call("parent", 1, 0, 100),
            call("next", 1, 100, 110),
        ];
        assert_eq!(self_times(&calls, length), [10.0, 20.0, 20.0, 15.0, 55.0, 10.0]);
    }

    #[test]
    fn a_call_as_long_as_its_only_child_has_no_self_time() {
        let calls = [call("wrapper", 1, 5, 9), call("inner", 1, 5, 9), call("empty", 1, 9, 9)];
        assert_eq!(self_times(&calls, length).iter().sum::<f64>(), 4.0);
        assert_eq!(self_times(&calls, length)[0], 0.0);
    }

    /// Self times add up to the time in which any call was open, on each thread.
    #[test]
    fn self_times_add_up_to_the_outermost_calls() {
        let mut calls = Vec::new();
        for outer in 0..20 {
            let start = outer * 100;
            calls.push(call("outer", 1, start, start + 80 + outer % 7));
            for inner in 0..outer % 5 {
                calls.push(call("inner", 1, start + 10 * inner, start + 10 * inner + 9));
                calls.push(call("innermost", 1, start + 10 * inner + 3, start + 10 * inner + 3 + inner));
            }
        }
        let outermost: f64 = calls.iter().filter(|call| call.name == "outer").map(length).sum();
        assert_eq!(self_times(&calls, length).iter().sum::<f64>(), outermost);
    }

    #[test]
    fn a_call_on_another_thread_belongs_to_the_phase_of_its_time() {
        let calls = [
            call("orchestrate::backward", 1, 50, 90),
            call("orchestrate::forward", 1, 0, 50),
            call("orchestrate::optimizer", 1, 95, 99),
        ];
        let phases = Phases::of(&calls);
        for (start, phase) in [
            (-1, None),
            (0, Some(Phase::Forward)),
            (49, Some(Phase::Forward)),
            (50, Some(Phase::Backward)),
            (92, None),
            (95, Some(Phase::Optimizer)),
            (99, None),
        ] {
            assert_eq!(phases.at(&call("aten::mm", 2, start, start + 1)), phase, "{start}");
        }
    }

    #[test]
    fn an_operator_with_the_name_of_a_scope_marks_no_phase() {
        let operator = Call { is_scope: false, ..call("orchestrate::forward", 1, 0, 50) };
        assert_eq!(Phases::of(&[operator]).at(&call("aten::mm", 1, 10, 20)), None);
    }

    #[test]
    fn a_device_is_busy_once_while_kernels_overlap() {
        let kernel = |start_ns, end_ns| Kernel { start_ns, end_ns, ..Kernel::default() };
        assert_eq!(busy_ns(&[]), 0);
        assert_eq!(
            busy_ns(&[kernel(30, 40), kernel(0, 10), kernel(5, 20), kernel(6, 8), kernel(40, 45)]),
            35
        );
    }
}
