//! The behaviour of a worker on a simulated CUDA device: `device.cpp` documents what that can show.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};

use orchestrate::job::Device;
use orchestrate::protocol::{
    Failure, FailureKind, IterationClock, MeasuredPeaks, Measurement, Operands, Phase, Report, WorkerExit,
};
use serde_json::json;

use super::{Stubs, said};

/// A short training.
const TINY: &str = "--arch mobilenet_v3_small --input-size 32 --classes 4 --batch-size 2 --threads 1 --iters 4 \
                    --out measurement.json --iterations-out iterations.csv";

/// The call at both ends of a window.
const WAIT: &str = "wait for the device";

/// A training that ended well.
struct Trained {
    measurement: Measurement,
    losses: Vec<f64>,
    /// The calls of the device, in order.
    trace: Vec<String>,
}

impl Trained {
    /// The value that was reported for the parameter called `name`.
    fn setting(&self, name: &str) -> serde_json::Value {
        serde_json::to_value(self.measurement.effective.settings.get(name)).unwrap()
    }

    /// The calls of the device within the window, between the last two waits.
    #[track_caller]
    fn window(&self) -> &[String] {
        let waits: Vec<usize> = (0..self.trace.len()).filter(|line| self.trace[*line] == WAIT).collect();
        let [.., begin, end] = waits[..] else { panic!("{:?}", self.trace) };
        &self.trace[begin + 1..end]
    }
}

fn run(stubs: &Stubs, backend: &str, words: &str, order: &str) -> Output {
    let _ = fs::remove_file(stubs.path("trace"));
    let mut worker = stubs.worker(TINY);
    // The last one of two equal flags would be a mistake.
    let has_warmup = words.contains("--warmup-iters");
    worker.args(["--backend", backend]).args(words.split_whitespace());
    worker.args(if has_warmup { &[][..] } else { &["--warmup-iters", "4"] });
    worker.env("STUB_DEVICE", order).output().unwrap()
}

/// Trains as [`TINY`] and `words` say, on a device that follows `order`.
#[track_caller]
fn train(stubs: &Stubs, backend: &str, words: &str, order: &str) -> Trained {
    let ended = run(stubs, backend, words, order);
    assert!(ended.status.success(), "{backend} {words}: {}", said(&ended));
    let read = |name: &str| fs::read_to_string(stubs.path(name)).unwrap_or_default();
    let Ok(Report::Measured(measurement)) = Report::parse(&read("measurement.json")) else {
        panic!("{}", read("measurement.json"))
    };
    let losses = read("iterations.csv");
    let losses =
        losses.lines().skip(1).map(|line| line.split(',').nth(3).unwrap().parse().unwrap()).collect();
    let trace = read("trace").lines().map(str::to_owned).collect();
    Trained { measurement: *measurement, losses, trace }
}

/// The failure of a training of [`TINY`] and `words` on a device that follows `order`: its exit code, the last line of
/// its standard error, and the failure in `measurement.json`.
#[track_caller]
fn fail(stubs: &Stubs, words: &str, order: &str) -> (i32, String, Option<Failure>) {
    let _ = fs::remove_file(stubs.path("measurement.json"));
    let ended = run(stubs, "cuda", words, order);
    let failure = fs::read_to_string(stubs.path("measurement.json")).ok().map(|text| {
        let Ok(Report::Failed(failure)) = Report::parse(&text) else { panic!("{text}") };
        failure
    });
    let last = said(&ended).lines().last().unwrap_or_default().to_owned();
    (ended.status.code().unwrap(), last, failure)
}

/// An ImageFolder called `images`.
fn make_images(stubs: &Stubs) {
    let mut make = stubs.command(env!("CARGO_BIN_EXE_orchestrate"));
    make.args("dataset make images --classes 4 --images-per-class 4 --size 40x40".split_whitespace());
    let made = make.output().unwrap();
    assert!(made.status.success(), "{}", said(&made));
}

#[track_caller]
fn assert_close(found: &[f64], expected: &[f64], share: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (one, other) in found.iter().zip(expected) {
        assert!((one - other).abs() <= share * other.abs().max(1e-3), "{what}: {found:?} {expected:?}");
    }
}

/// Kernels are those of the processor, so the losses are the same except for the order of sums.
#[test]
fn a_network_trains_there_as_on_the_processor() {
    let stubs = Stubs::with_device();
    for (words, precision, share) in [
        ("", "fp32", 1e-4),
        ("--channels-last --optimizer adamw", "fp32", 1e-4),
        ("--grad-accum-steps 3 --deterministic", "fp32", 1e-4),
        // Half precision has three digits, and results have no more.
        ("--precision bf16 --channels-last", "bf16", 0.1),
    ] {
        let there = train(&stubs, "cuda", words, "");
        let here = train(&stubs, "cpu", words, "");
        assert_close(&there.losses, &here.losses, share, words);
        let effective = &there.measurement.effective;
        assert_eq!((effective.device, effective.precision.as_str()), (Device::Cuda(0), precision), "{words}");
        assert_eq!(there.setting("channels_last"), words.contains("--channels-last"), "{words}");
        assert_eq!(there.setting("deterministic"), words.contains("--deterministic"), "{words}");
        let details = &there.measurement.details;
        assert_eq!(details.device_name.as_deref(), Some("Made-Up GPU"));
        assert_eq!(details.compute_capability.as_deref(), Some("9.0"));
        assert_eq!(details.iteration_clock, Some(IterationClock::DeviceEvents));
        assert!(details.peak_device_allocated_bytes > Some(4 * details.parameters.unwrap()), "{details:?}");
        assert!(here.trace.is_empty(), "{:?}", here.trace);
    }
}

#[test]
fn the_arithmetic_of_a_gpu_is_the_requested_one() {
    let stubs = Stubs::with_device();
    let amp = train(&stubs, "cuda", "--precision amp", "");
    assert_eq!(amp.measurement.effective.precision.as_str(), "amp");
    assert_eq!(amp.measurement.details.autocast.as_deref(), Some("float16"));
    let scale = amp.measurement.details.loss_scale.unwrap();
    assert!(scale.log2().fract() == 0.0 && scale <= 65536.0, "{scale}");
    let plain = train(&stubs, "cpu", "", "");
    assert_close(&amp.losses[..1], &plain.losses[..1], 0.2, "amp");
    for (precision, rounds) in [("fp32", false), ("tf32", true)] {
        let trained = train(&stubs, "cuda", &format!("--precision {precision} --cudnn-benchmark"), "");
        let effective = &trained.measurement.effective;
        assert_eq!((effective.precision.as_str(), effective.tf32), (precision, Some(rounds)));
        assert_eq!(trained.setting("cudnn_benchmark"), true);
    }
}

/// More iterations than marks may wait for the device.
#[test]
fn a_window_waits_for_the_device_only_at_its_ends() {
    let stubs = Stubs::with_device();
    let words = "--arch squeezenet1_1 --input-size 17 --classes 2 --batch-size 1 --threads 1 --backend cuda --iters 600 \
                 --warmup-iters 1 --out measurement.json --iterations-out iterations.csv";
    let ended = stubs.worker(words).output().unwrap();
    assert!(ended.status.success(), "{}", said(&ended));
    let trace = fs::read_to_string(stubs.path("trace")).unwrap();
    let lines: Vec<&str> = trace.lines().collect();
    let waits: Vec<usize> = (0..lines.len()).filter(|line| lines[*line] == WAIT).collect();
    let [begin, end] = waits[..] else { panic!("{trace}") };
    assert_eq!(&lines[begin + 1..end], [""; 0], "{trace}");
    let iterations = fs::read_to_string(stubs.path("iterations.csv")).unwrap();
    assert_eq!(iterations.lines().count(), 1 + 600);
    let seconds =
        iterations.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().parse::<f64>().unwrap());
    let all: Vec<f64> = seconds.collect();
    let Ok(Report::Measured(measurement)) =
        Report::parse(&fs::read_to_string(stubs.path("measurement.json")).unwrap())
    else {
        panic!()
    };
    assert!(all.iter().all(|seconds| *seconds > 0.0), "{all:?}");
    assert!(all.iter().sum::<f64>() <= measurement.elapsed_s, "the iterations are within the window");
}

#[test]
fn images_from_pinned_memory_do_not_wait_for_the_device() {
    let stubs = Stubs::with_device();
    make_images(&stubs);
    for (pin, copy) in [("--pin-memory", "copy in"), ("", "copy in and wait")] {
        let words = format!("--data images {pin}");
        let trained = train(&stubs, "cuda", &words, "");
        // Images and labels of four iterations.
        assert_eq!(trained.window(), [copy; 8], "{pin}");
        assert_eq!(trained.setting("pin_memory"), !pin.is_empty());
        let seconds = trained.measurement.details.copy_s.unwrap();
        assert!(seconds > 0.0 && seconds < trained.measurement.elapsed_s, "{seconds}");
        // libtorch would warn of a function that is out of use, at each of its calls.
        let said = said(&run(&stubs, "cuda", &words, ""));
        assert!(!said.to_lowercase().contains("warn"), "{said}");
    }
}

/// The pixels and labels of a late copy are those of another batch, or uninitialised. A copy that comes too early
/// overwrites pixels that are still to be read. So the losses show every violation of the order, whichever stream is
/// late.
#[test]
fn copies_on_a_separate_stream_keep_the_order() {
    let stubs = Stubs::with_device();
    make_images(&stubs);
    for words in
        ["", "--uint8-images --channels-last --precision bf16", "--uint8-images --grad-accum-steps 2"]
    {
        let words = format!("--data images --pin-memory {words}");
        let plain = train(&stubs, "cuda", &words, "");
        // Batches differ, so their losses cannot be confused.
        assert!(plain.losses[0] != plain.losses[1], "{:?}", plain.losses);
        for order in ["", "late=0", "late=1"] {
            let aside = train(&stubs, "cuda", &format!("{words} --copy-stream"), order);
            let share = if words.contains("bf16") { 0.05 } else { 1e-3 };
            assert_close(&aside.losses, &plain.losses, share, &format!("{words} {order}"));
            // Images and labels of four iterations. While a batch is copied, the step before it is still to be done.
            let copy = if order == "late=0" { "copy in beside other work" } else { "copy in" };
            assert_eq!(aside.window(), [copy; 8], "{words} {order}");
            let setting = |name: &str| aside.setting(name);
            assert_eq!((setting("copy_stream"), setting("pin_memory")), (json!(true), json!(true)));
            assert_eq!(setting("uint8_images"), words.contains("uint8"));
            assert_eq!(plain.setting("copy_stream"), false);
        }
    }
}

/// The device normalises images instead of the loader, on a processor with identical bits.
#[test]
fn bytes_train_as_the_numbers_that_they_represent() {
    let stubs = Stubs::with_device();
    make_images(&stubs);
    for (backend, words) in [("cpu", ""), ("cpu", "--channels-last --no-augment"), ("cuda", "--pin-memory")] {
        let words = format!("--data images {words}");
        let (numbers, bytes) = (
            train(&stubs, backend, &words, ""),
            train(&stubs, backend, &format!("{words} --uint8-images"), ""),
        );
        assert_close(&bytes.losses, &numbers.losses, if backend == "cpu" { 0.0 } else { 1e-3 }, &words);
        assert_eq!(
            (numbers.setting("uint8_images"), bytes.setting("uint8_images")),
            (json!(false), json!(true))
        );
        assert!(bytes.measurement.details.copy_s > Some(0.0), "normalising is a part of the way");
    }
}

#[test]
fn a_recorded_step_trains_as_the_step_itself() {
    let stubs = Stubs::with_device();
    // AdamW amplifies the last digit of a small gradient: on some processors, its third loss differs.
    for (words, share, compared) in [
        ("", 1e-3, 4),
        ("--optimizer adamw --channels-last", 2e-3, 2),
        ("--precision bf16", 0.05, 4),
        ("--precision amp", 0.05, 4),
    ] {
        let plain = train(&stubs, "cuda", words, "");
        let recorded = train(&stubs, "cuda", &format!("{words} --cuda-graph"), "");
        assert_close(&recorded.losses[..compared], &plain.losses[..compared], share, words);
        assert!(words.contains("amp") || plain.losses[0] != plain.losses[3], "{:?}", plain.losses);
        assert_eq!(
            (plain.setting("cuda_graph"), recorded.setting("cuda_graph")),
            (json!(false), json!(true))
        );
        assert_eq!(recorded.window(), ["replay"; 4]);
        let count = |line: &str| recorded.trace.iter().filter(|other| *other == line).count();
        // Three iterations of the warm-up come before the recording, one after it.
        assert_eq!((count("record"), count("recorded"), count("replay")), (1, 1, 1 + 4));
        // The memory that the allocator caches would be missing while a step with separate memory is recorded.
        let place = |line: &str| recorded.trace.iter().position(|other| other == line);
        assert!(place("empty the cache").is_some_and(|emptied| Some(emptied) < place("record")), "{words}");
        let bytes = |trained: &Trained| trained.measurement.details.peak_device_allocated_bytes.unwrap();
        assert!(bytes(&recorded) >= bytes(&plain), "{} {}", bytes(&recorded), bytes(&plain));
    }
}

#[test]
fn trainings_that_cannot_be_recorded_are_unsupported() {
    let stubs = Stubs::with_device();
    for (words, reason) in [
        ("--cuda-graph --data images", "it needs synthetic data"),
        ("--cuda-graph --warmup-iters 3", "--warmup-iters must be at least 4"),
        ("--cuda-graph --grad-accum-steps 2", "are steps"),
    ] {
        let (code, last, failure) = fail(&stubs, words, "");
        assert_eq!(code, i32::from(WorkerExit::Unsupported.code()), "{last}");
        assert!(last.contains(reason), "{last}");
        assert_eq!(failure.unwrap().kind, FailureKind::Unsupported);
    }
}

#[test]
fn profilers_see_only_the_window() {
    let stubs = Stubs::with_device();
    stubs.compile("profiler.c", "driver/profiler.so");
    let mut worker = stubs.worker(TINY);
    worker.args("--backend cuda --warmup-iters 4 --nvtx".split_whitespace());
    let ended = worker.env("LD_PRELOAD", stubs.path("driver/profiler.so")).output().unwrap();
    assert!(ended.status.success(), "{}", said(&ended));
    let trace = fs::read_to_string(stubs.path("trace")).unwrap();
    let is_relevant =
        |line: &&str| !line.starts_with("copy") && *line != "read a number" && !line.ends_with(".so.1");
    let lines: Vec<&str> = trace.lines().filter(is_relevant).collect();
    let order =
        ["libtorch_cuda.so", WAIT, "begin orchestrate", "profilers start", WAIT, "profilers stop", "end"];
    assert_eq!(lines, order);
}

/// A made-up device has no CUPTI.
#[test]
fn operators_are_timed_by_events_where_cupti_records_no_kernels() {
    let stubs = Stubs::with_device();
    let trained = train(&stubs, "cuda", "--operators 2", "");
    let ops = trained.measurement.ops.unwrap();
    assert_eq!((ops.source.as_str(), ops.iterations, ops.device_busy_s), ("kineto", 2, None));
    assert!(ops.notes[0].starts_with("CUPTI recorded no kernels"), "{:?}", ops.notes);
    let device: f64 = ops.operators.iter().map(|operator| operator.device_s.unwrap()).sum();
    assert!(device > 0.0 && device < ops.elapsed_s, "{device} of {}", ops.elapsed_s);
    // On CUDA, the backward pass runs on another thread.
    let mut backward = ops.operators.iter().filter(|operator| operator.name == "aten::convolution_backward");
    assert!(backward.clone().count() > 0 && backward.all(|operator| operator.phase == Some(Phase::Backward)));
}

#[test]
fn a_profile_that_fails_does_not_fail_the_measurement() {
    let stubs = Stubs::with_device();
    let ended = run(&stubs, "cuda", "--cuda-graph --operators 2", "");
    assert!(ended.status.success(), "{}", said(&ended));
    let warning = "warning: operators are not profiled: libtorch: CUPTI recorded no kernels, and a CUDA graph has no \
                   operators";
    assert!(said(&ended).contains(warning), "{}", said(&ended));
    assert_eq!(train(&stubs, "cuda", "--cuda-graph", "").measurement.ops, None);
}

#[test]
fn the_ceilings_of_a_device_are_measured() {
    let stubs = Stubs::with_device();
    let mut worker = stubs.worker("peaks --device cuda --quick --threads 1");
    let ended = worker.env("STUB_DEVICE", "memory=268435456").output().unwrap();
    assert!(ended.status.success(), "{}", said(&ended));
    let peaks: MeasuredPeaks = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!((peaks.device, peaks.device_name.as_str()), (Device::Cuda(0), "Made-Up GPU"));
    for operands in [Operands::Fp32, Operands::Tf32, Operands::Bf16, Operands::Fp16] {
        assert!(peaks.gemm.iter().any(|sample| sample.operands == Some(operands)), "{operands:?}");
    }
    let waits = fs::read_to_string(stubs.path("trace")).unwrap();
    // Each time of a product or a stream ends with the device.
    let waits = waits.lines().filter(|line| *line == WAIT).count();
    let times: usize = peaks.gemm.iter().map(|sample| sample.flops_per_s.len()).sum();
    assert!(waits >= times && times > 8, "{waits} {times}");
}

/// The device's facilities come first. All the rest is training, which the other tests compare with the processor's.
#[test]
fn the_self_test_passes_on_the_simulated_device() {
    let stubs = Stubs::with_device();
    stubs.compile("profiler.c", "driver/profiler.so");
    // It ends automatically, after this many seconds at the latest.
    let mut worker = stubs.worker("selftest --device cuda --threads 1 --seconds 300");
    worker.env("LD_PRELOAD", stubs.path("driver/profiler.so")).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut worker = worker.spawn().unwrap();
    let lines = BufReader::new(worker.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut said: Vec<String> = Vec::new();
    for line in lines {
        let is_last = said.last().is_some_and(|name| name.ends_with(" cuda graph"));
        said.push(line);
        if is_last {
            break;
        }
    }
    worker.kill().unwrap();
    worker.wait().unwrap();
    let facilities = [
        "first kernels",
        "flags",
        "pinned memory",
        "copy stream",
        "peak memory",
        "profiler marks",
        "out of memory",
        "cuda graph",
    ];
    assert_eq!(said.len(), 2 * facilities.len(), "{said:#?}");
    for (name, lines) in facilities.iter().zip(said.chunks(2)) {
        assert!(lines[0].ends_with(&format!(" {name}")), "{name}: {lines:?}");
        assert!(lines[1].trim_start().starts_with("passed after"), "{name}: {lines:?}");
    }
}

#[test]
fn too_little_memory_is_named_with_its_numbers() {
    let stubs = Stubs::with_device();
    let (code, last, failure) = fail(&stubs, "", "memory=9000000");
    assert_eq!(code, i32::from(WorkerExit::OutOfMemory.code()), "{last}");
    let failure = failure.unwrap();
    assert_eq!(failure.kind, FailureKind::OutOfMemory);
    assert!(last.contains("CUDA out of memory"), "{last}");
    let (needed, free) = (failure.needed_bytes.unwrap(), failure.free_bytes.unwrap());
    assert!(needed > free && free < 9_000_000, "{failure:?}");
    // cuDNN's message for it is misleading. With plenty of memory, it is correct.
    let (code, last, failure) = fail(&stubs, "", "memory=6500000,engine=0");
    assert_eq!(code, i32::from(WorkerExit::OutOfMemory.code()), "{last}");
    assert_eq!(failure.unwrap().kind, FailureKind::OutOfMemory);
    let (code, last, failure) = fail(&stubs, "", "engine=0");
    assert_eq!((code, failure), (i32::from(WorkerExit::Failed.code()), None));
    assert!(last.contains("unable to find an engine"), "{last}");
}

#[test]
fn a_late_error_is_not_a_measurement() {
    let stubs = Stubs::with_device();
    let (code, last, failure) = fail(&stubs, "", "fault=3");
    assert_eq!((code, failure), (i32::from(WorkerExit::Failed.code()), None));
    assert!(last.contains("an illegal memory access was encountered"), "{last}");
}

#[test]
fn an_absent_gpu_or_one_without_kernels_is_unsupported() {
    let stubs = Stubs::with_device();
    for (order, reason) in [
        ("kernel=0", "Made-Up GPU has compute capability 9.0, but this libtorch has kernels for 9.0"),
        ("devices=0", "libtorch sees no CUDA device"),
    ] {
        let (code, last, failure) = fail(&stubs, "", order);
        assert_eq!(code, i32::from(WorkerExit::Unsupported.code()), "{last}");
        assert!(last.contains(reason), "{last}");
        assert_eq!(failure.unwrap().kind, FailureKind::Unsupported);
    }
}

#[test]
fn without_events_the_window_is_measured_all_the_same() {
    let stubs = Stubs::with_device();
    let trained = train(&stubs, "cuda", "", "events=0");
    assert_eq!(trained.measurement.details.iteration_clock, Some(IterationClock::Submission));
    assert_eq!(trained.losses.len(), 4);
}
