//! The operators of a row with their rates and limits, by group, by part and by limit.

use super::memory::{Level, MemoryShare, levels};
use super::part::Part;
use crate::analysis::bound::{AT_ROOF, Bound, FAR_FROM_ROOF};
use crate::analysis::group::Row;
use crate::analysis::peaks::{Peaks, Range};
use crate::job::Precision;
use crate::operator::{self, Work};
use crate::protocol::{OperatorClass, OperatorProfile, OperatorSample};

/// Profiled iterations that took more than this many times as long as those of the timing runs are those of another
/// program: the profiler slowed the host.
const MOST_SLOWDOWN: f64 = 1.5;

/// The traffic counts as known if operators with unknown bytes take at most this share of an iteration.
const MOST_UNKNOWN: f64 = 0.1;

/// The time of an iteration of a row, operator by operator.
#[derive(Clone, Debug)]
pub struct Breakdown<'r> {
    /// As reported by the worker.
    pub profile: &'r OperatorProfile,
    /// Seconds of a profiled iteration.
    pub iteration_s: f64,
    /// Seconds of an iteration in the timing runs, if they have a throughput.
    pub timed_s: Option<f64>,
    /// The operators, the slowest first.
    pub operators: Vec<PlacedOperator<'r>>,
    /// The operators of each class together, the slowest first.
    pub groups: Vec<Group>,
    /// The share of each part of an iteration. They add up to 1.
    pub parts: Vec<(Part, f64)>,
    /// The shares of an iteration by limit.
    pub limits: TimeByLimit,
}

/// An operator with its rates and its limit. All numbers are of one iteration.
#[derive(Clone, Debug)]
pub struct PlacedOperator<'r> {
    /// As reported by the worker.
    pub sample: &'r OperatorSample,
    /// The kind of its work.
    pub class: OperatorClass,
    /// Its rank by time, from 1.
    pub rank: usize,
    /// Its time and its rates.
    pub rates: Rates,
    /// Its limit.
    pub limit: Limit,
}

/// All operators of a class.
#[derive(Clone, Debug)]
pub struct Group {
    /// The class.
    pub class: OperatorClass,
    /// Their time and rates together.
    pub rates: Rates,
}

/// A time with its work.
#[derive(Clone, Debug)]
pub struct Rates {
    /// Seconds per iteration.
    pub seconds: f64,
    /// The share of an iteration.
    pub time_share: f64,
    /// FLOPs per iteration, if known.
    pub flops: Option<f64>,
    /// Compulsory bytes per iteration, if known.
    pub bytes: Option<f64>,
    /// FLOP/s ÷ the compute ceiling at its precision.
    pub of_compute: Option<Range>,
    /// The bounds of its share of the bandwidth.
    pub of_memory: Option<MemoryShare>,
}

/// The limit of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// It is at the compute roof.
    Compute,
    /// It is at the bandwidth roof of the memory or of a cache.
    Memory,
    /// It is far from both roofs: latency, or dispatch.
    Latency,
    /// It is at neither roof: its implementation.
    Kernel,
    /// It waits for data.
    Data,
    /// It is unknown.
    Open,
}

/// Shares of an iteration by limit. They add up to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimeByLimit {
    /// In operators at the compute roof.
    pub compute: f64,
    /// In operators at a bandwidth roof.
    pub memory: f64,
    /// In operators far from both roofs, and on an accelerator that waits for the launch of its next kernel.
    pub latency: f64,
    /// In operators that are at neither roof, and not far from both.
    pub kernel: f64,
    /// Waiting for data.
    pub data: f64,
    /// Outside of all operators: the script, the framework, or sleep.
    pub host: f64,
    /// In operators with an unknown limit.
    pub open: f64,
}

impl Limit {
    /// The bound of a row with this limit.
    pub fn bound(self) -> Bound {
        match self {
            Limit::Compute => Bound::Compute,
            Limit::Memory => Bound::Memory,
            Limit::Latency => Bound::Latency,
            Limit::Kernel => Bound::Kernel,
            Limit::Data => Bound::Host,
            Limit::Open => Bound::Unknown,
        }
    }

    /// The limit of an operator with `rates` in a profile whose iterations differ from the timed ones by the factor
    /// `pace`. Open unless both ends of `pace` agree.
    pub(in crate::analysis) fn of(class: OperatorClass, rates: &Rates, pace: Range) -> Limit {
        if class == OperatorClass::Data {
            return Limit::Data;
        }
        let compute = rates.of_compute.map(|share| share.scaled(pace));
        let Some(memory) = &rates.of_memory else { return Limit::by_compute_only(compute) };
        let streams = memory.streams.as_ref().map(|(_, share)| share.scaled(pace));
        if streams.is_some_and(|share| share.low >= AT_ROOF) {
            return Limit::Memory;
        }
        let Some(compute) = compute.or((rates.flops == Some(0.0)).then_some(Range::exactly(0.0))) else {
            return Limit::Open;
        };
        if compute.low >= AT_ROOF {
            return Limit::Compute;
        }
        let at_most = memory.at_most.map(|share| share.scaled(pace));
        match at_most.or(streams).map(|share| share.high) {
            Some(most) if most < FAR_FROM_ROOF && compute.high < FAR_FROM_ROOF => Limit::Latency,
            Some(most) if most < AT_ROOF && compute.high < AT_ROOF => Limit::Kernel,
            _ => Limit::Open,
        }
    }

    fn by_compute_only(share: Option<Range>) -> Limit {
        if share.is_some_and(|share| share.low >= AT_ROOF) { Limit::Compute } else { Limit::Open }
    }
}

impl TimeByLimit {
    fn add(&mut self, limit: Limit, share: f64) {
        *match limit {
            Limit::Compute => &mut self.compute,
            Limit::Memory => &mut self.memory,
            Limit::Latency => &mut self.latency,
            Limit::Kernel => &mut self.kernel,
            Limit::Data => &mut self.data,
            Limit::Open => &mut self.open,
        } += share;
    }
}

/// The ceilings that operators are compared with.
struct Roofs<'p> {
    peaks: Option<&'p Peaks>,
    levels: Vec<Level>,
    /// The precision of the config.
    precision: Precision,
    /// The factors by which operators can have been faster or slower in the timing runs.
    pace: Range,
}

impl Roofs<'_> {
    /// The compute ceiling for operands of `kind`.
    fn compute(&self, kind: &str) -> Option<Range> {
        let peaks = self.peaks?;
        let precision = match kind {
            "float32" if self.precision == Precision::Tf32 => Precision::Tf32,
            "float32" => Precision::Fp32,
            "bfloat16" => Precision::Bf16,
            // Mixed precision multiplies fp16 on accelerators.
            "float16" if peaks.backend != "cpu" => Precision::Amp,
            _ => return None,
        };
        Some(peaks.ceiling(precision)?.flops_per_s)
    }
}

impl<'r> Breakdown<'r> {
    /// The breakdown of `row`; `None` without a profile.
    pub(in crate::analysis) fn of(row: &Row<'r>) -> Option<Breakdown<'r>> {
        let profile = row.counted.ops.or_else(|| reported_by_runs(row))?;
        let iterations = f64::from(profile.iterations);
        let iteration_s = profile.elapsed_s / iterations;
        let timed_s = row.samples_per_s().map(|rate| f64::from(row.config.batch) / rate);
        let peaks = row.ceilings();
        let roofs = Roofs {
            peaks,
            levels: peaks.map(levels).unwrap_or_default(),
            precision: row.config.precision,
            pace: pace(timed_s.map(|timed| iteration_s / timed)),
        };
        let clock = Clock::of(profile);
        let works = operator::works(&profile.operators);
        let samples = profile.operators.iter().zip(works);
        let mut operators: Vec<PlacedOperator<'r>> =
            samples.map(|(sample, work)| place(sample, work, clock, &roofs)).collect();
        operators.sort_by(|left, right| right.rates.seconds.total_cmp(&left.rates.seconds));
        for (operator, rank) in operators.iter_mut().zip(1..) {
            operator.rank = rank;
        }
        let rest = profile.rest_s * clock.share_per_s;
        let parts = parts(&operators, rest);
        Some(Breakdown {
            profile,
            iteration_s,
            timed_s,
            groups: groups(&operators),
            limits: limits(&operators, rest, &parts, clock.launches),
            parts,
            operators,
        })
    }

    /// The duration of a profiled iteration ÷ that of a timed one.
    pub fn slowdown(&self) -> Option<f64> {
        self.timed_s.map(|timed| self.iteration_s / timed)
    }

    /// The factors by which operators can have been faster or slower in the timing runs than in the profile.
    pub(in crate::analysis) fn pace(&self) -> Range {
        pace(self.slowdown())
    }

    /// Whether the profiled iterations are comparable to the timed ones, apart from a small overhead of the profiler.
    pub fn is_representative(&self) -> bool {
        self.slowdown().is_none_or(|slowdown| (1.0 / MOST_SLOWDOWN..=MOST_SLOWDOWN).contains(&slowdown))
    }

    /// Bytes per iteration, if each operator reads its inputs and writes its outputs once. `None` if operators with
    /// unknown bytes take more than a tenth of an iteration.
    pub fn compulsory_bytes(&self) -> Option<f64> {
        let known = self.operators.iter().filter_map(|it| Some((it.rates.bytes?, it.rates.time_share)));
        let (bytes, known) = known.fold((0.0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        let unknown = 1.0 - self.share(Part::Idle) - self.share(Part::DataWait) - known;
        Some(bytes).filter(|bytes| *bytes > 0.0 && unknown <= MOST_UNKNOWN)
    }

    /// The share of `part` in an iteration.
    pub fn share(&self, part: Part) -> f64 {
        share_of(&self.parts, part)
    }
}

/// From 1 to `slowdown`: a cause that slowed the whole iteration can have slowed any of its operators as much, or not
/// at all.
fn pace(slowdown: Option<f64>) -> Range {
    let slowdown = slowdown.unwrap_or(1.0);
    Range { low: slowdown.min(1.0), high: slowdown.max(1.0) }
}

/// The profile that a timing run of `row` reports in addition to its window.
fn reported_by_runs<'r>(row: &Row<'r>) -> Option<&'r OperatorProfile> {
    let counting = row.runs.iter().filter(|run| run.counts());
    counting.filter_map(|run| Some(run.cell.success()?.1)).find_map(|measured| measured.ops.as_deref())
}

/// The conversion from seconds of a profile to those of one iteration.
#[derive(Clone, Copy)]
struct Clock {
    /// Whether an accelerator's seconds count, and not the host's.
    on_accelerator: bool,
    /// Seconds of one iteration ÷ seconds of the profile.
    per_iteration: f64,
    /// The share of an iteration per second of an operator.
    share_per_s: f64,
    /// Whether the host was busy in operators most of the time, which on an accelerator is the launch of kernels.
    launches: bool,
}

/// The host counts as launching kernels all the time if its operators take at least this share of it.
const LAUNCHING: f64 = 0.5;

impl Clock {
    /// Kernels of several streams can overlap. Their seconds are then scaled to the busy time of the device.
    fn of(profile: &OperatorProfile) -> Clock {
        let on_accelerator = profile.device_busy_s.is_some();
        let most = profile.device_busy_s.unwrap_or(profile.elapsed_s);
        let working = profile.operators.iter().filter(|it| operator::class(it) != OperatorClass::Data);
        let (mut all, mut host) = (profile.rest_s, 0.0);
        for operator in working {
            all += if on_accelerator { operator.device_s.unwrap_or(0.0) } else { operator.host_s };
            host += operator.host_s;
        }
        let overlap = if all > most && all > 0.0 { most / all } else { 1.0 };
        Clock {
            on_accelerator,
            per_iteration: overlap / f64::from(profile.iterations),
            share_per_s: overlap / profile.elapsed_s,
            launches: on_accelerator && host >= LAUNCHING * profile.elapsed_s,
        }
    }

    /// The seconds of `sample` that count. For data waits, those of the host count on any device.
    fn seconds(self, class: OperatorClass, sample: &OperatorSample) -> f64 {
        match self.on_accelerator && class != OperatorClass::Data {
            true => sample.device_s.unwrap_or(0.0),
            false => sample.host_s,
        }
    }
}

fn place<'r>(sample: &'r OperatorSample, work: Work, clock: Clock, roofs: &Roofs<'_>) -> PlacedOperator<'r> {
    let class = operator::class(sample);
    let calls = sample.calls as f64;
    // A worker's own count takes precedence; it is for all calls.
    let total =
        |reported: Option<f64>, of_call: Option<u64>| reported.or(of_call.map(|one| one as f64 * calls));
    let (flops, bytes) = (total(sample.flops, work.flops), total(sample.bytes, work.bytes));
    let seconds = clock.seconds(class, sample);
    let kind = sample.types.iter().flatten().next().map_or("float32", String::as_str);
    let has_time = seconds > 0.0;
    let of_compute = flops
        .filter(|flops| *flops > 0.0 && has_time)
        .and_then(|flops| Some(roofs.compute(kind)?.share(flops / seconds)));
    let of_memory = bytes
        .filter(|_| has_time && !roofs.levels.is_empty())
        .map(|bytes| MemoryShare::of(bytes / calls, seconds / calls, &roofs.levels));
    let rates = Rates {
        seconds: seconds * clock.per_iteration,
        time_share: seconds * clock.share_per_s,
        flops: flops.map(|flops| flops * clock.per_iteration),
        bytes: bytes.map(|bytes| bytes * clock.per_iteration),
        of_compute,
        of_memory,
    };
    let limit = Limit::of(class, &rates, roofs.pace);
    PlacedOperator { sample, class, rank: 0, rates, limit }
}

/// The operators of each class together, the slowest first.
fn groups(operators: &[PlacedOperator<'_>]) -> Vec<Group> {
    let classes = OperatorClass::ALL.into_iter();
    let of = |class: OperatorClass| {
        let members: Vec<&Rates> =
            operators.iter().filter(|it| it.class == class).map(|it| &it.rates).collect();
        (!members.is_empty()).then(|| Group { class, rates: Rates::sum(&members) })
    };
    let mut groups: Vec<Group> = classes.filter_map(of).collect();
    groups.sort_by(|left, right| right.rates.seconds.total_cmp(&left.rates.seconds));
    groups
}

impl Rates {
    /// Of several operators, one after the other. A share of a roof is the mean of theirs, weighted by their time: the
    /// time that the roof alone would take ÷ their time. It is unknown if it is unknown for one of them.
    fn sum(members: &[&Rates]) -> Rates {
        let seconds: f64 = members.iter().map(|it| it.seconds).sum();
        let mean = |share: fn(&Rates) -> Option<Range>| {
            let weighted = members.iter().map(|it| Some(share(it)?.times(it.seconds / seconds)));
            weighted.sum::<Option<SumOfRanges>>().map(|sum| sum.0)
        };
        let streams = mean(|it| Some(it.of_memory.as_ref()?.streams.as_ref()?.1));
        let at_most = mean(|it| it.of_memory.as_ref()?.at_most);
        Rates {
            seconds,
            time_share: members.iter().map(|it| it.time_share).sum(),
            flops: members.iter().map(|it| it.flops).sum(),
            bytes: members.iter().map(|it| it.bytes).sum(),
            of_compute: mean(|it| it.of_compute.or((it.flops == Some(0.0)).then_some(Range::exactly(0.0))))
                .filter(|share| share.high > 0.0),
            of_memory: (streams.is_some() || at_most.is_some())
                .then(|| MemoryShare { streams: streams.map(|share| ("memory".to_owned(), share)), at_most }),
        }
    }
}

/// A sum of ranges, end by end.
struct SumOfRanges(Range);

impl std::iter::Sum<Range> for SumOfRanges {
    fn sum<I: Iterator<Item = Range>>(ranges: I) -> Self {
        let nothing = Range::exactly(0.0);
        SumOfRanges(ranges.fold(nothing, |sum, it| Range { low: sum.low + it.low, high: sum.high + it.high }))
    }
}

/// The share of each part in an iteration; `rest` is that of unlisted operators.
///
/// An accelerator can work while the host waits for data: only the part of the wait in which it was idle counts.
fn parts(operators: &[PlacedOperator<'_>], rest: f64) -> Vec<(Part, f64)> {
    let of = |part: Part| -> f64 {
        let members = operators.iter().filter(|it| Part::of(it.class) == part);
        members.map(|it| it.rates.time_share).sum()
    };
    let working: f64 =
        Part::ALL.into_iter().filter(|part| *part != Part::DataWait).map(of).sum::<f64>() + rest;
    let wait = of(Part::DataWait).min((1.0 - working).max(0.0));
    let share = |part| match part {
        Part::DataWait => wait,
        Part::Other => of(part) + rest,
        Part::Idle => (1.0 - working - wait).max(0.0),
        _ => of(part),
    };
    Part::ALL.map(|part| (part, share(part))).into()
}

fn share_of(parts: &[(Part, f64)], part: Part) -> f64 {
    parts.iter().find(|(found, _)| *found == part).map_or(0.0, |(_, share)| *share)
}

/// Divides an iteration by the limits of its operators. Time outside of them is latency if kernels are launched all
/// the time, else the host.
fn limits(operators: &[PlacedOperator<'_>], rest: f64, parts: &[(Part, f64)], launches: bool) -> TimeByLimit {
    let mut limits = TimeByLimit { open: rest, ..TimeByLimit::default() };
    for operator in operators.iter().filter(|it| it.limit != Limit::Data) {
        limits.add(operator.limit, operator.rates.time_share);
    }
    limits.data = share_of(parts, Part::DataWait);
    let idle = share_of(parts, Part::Idle);
    *(if launches { &mut limits.latency } else { &mut limits.host }) += idle;
    limits
}
