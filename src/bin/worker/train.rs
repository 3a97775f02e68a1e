//! Training: warm-up, then one synchronised window around all measured iterations.

#![expect(clippy::disallowed_methods, reason = "a worker measures time")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use orchestrate::job::Device;
use orchestrate::protocol::{NVTX_RANGE, Phase, Progress};
use tch::{Kind, Reduction, Tensor};

use super::arguments::Training;
use super::batches::{Batch, Batches};
use super::device::{self, OpenDevice};
use super::failure::WorkerError;
use super::measurement::{Arithmetic, Observed, Shapes};
use super::model::{Layout, Model, Products};
use super::operators;
use super::optimizer::Optimizer;
use super::output::{self, Reporter};
use super::recorded::{self, ITERATIONS_BEFORE, Recorded};
use super::request::{self, Request};
use super::shim::{self, Autocast, EffectiveFlags, Half, PeakMemory, Scope};
use super::stretch::{Iterations, Stretch};
use super::{process, settings};

/// Trains as requested, and writes the results. `started` is when `main` began.
///
/// # Errors
/// Everything that prevents a measurement.
pub(crate) fn run(training: &Training, started: Instant) -> Result<(), WorkerError> {
    settings::prepare_environment(training)?;
    for path in [&training.out, &training.iterations_out].into_iter().flatten() {
        output::check_destination(path)?;
    }
    let mut reporter = Reporter::default();
    reporter.report(Progress::Preparing);
    let request = Request::parse(training)?;
    let device = OpenDevice::open(request.backend)?;
    request::check_device(training, request.precision, device.device, device.capability)?;
    request::check_layout(training, &request.network, device.device, device::macos_version())?;
    if training.parameters.cuda_graph {
        recorded::prepare(training)?;
    }
    shim::keep_memory();
    settings::set_threads(training.parameters.threads);
    settings::set_flags(training, request.precision, device.device)?;
    let mut trainer = Trainer::new(training, &request, device, started)?;
    let warmup = Stretch::begin(&trainer.device, false);
    let report = |done, of| reporter.report(Progress::Warmup { done, of });
    let warmup = trainer.iterate(training.parameters.warmup, warmup, report)?.read()?;
    let report = |done, of| reporter.report(Progress::Measure { done, of });
    let window = trainer.measure(training, report)?;
    let observed = trainer.observe(&request, &warmup, window)?;
    if let Some(path) = &training.iterations_out {
        output::write_iterations(path, &observed.iterations.all, observed.iterations.clock)?;
    }
    // Collected before the profiler takes memory and trains further.
    let mut measurement = observed.measurement(training);
    measurement.ops = training.operators.and_then(|count| trainer.profile(count)).map(Into::into);
    output::write_measurement(training.out.as_deref(), &measurement)?;
    if let Some(warning) = trainer.batches.warning() {
        eprintln!("warning: {warning}");
    }
    eprintln!("{}", observed.summary(training));
    Ok(())
}

/// Everything a training step needs.
pub(crate) struct Trainer {
    /// The device that it trains on.
    pub(crate) device: OpenDevice,
    half: Option<Half>,
    model: Model,
    optimizer: Optimizer,
    batches: Batches,
    accumulate: u32,
    /// Whether the parts of an iteration are marked for the profiler.
    marks: bool,
    /// Whether steps are to be recorded.
    records: bool,
    /// Iterations that were trained.
    trained: u32,
    /// The step that was recorded.
    recorded: Option<Recorded>,
    /// When `main` began.
    started: Instant,
    /// Seconds from the start of the process to the first step.
    first_step_s: Option<f64>,
    /// The arithmetic of the last forward pass.
    arithmetic: Arithmetic,
    /// The sizes of the last forward pass.
    shapes: Shapes,
}

/// The measured window, whose losses are still on the device.
pub(crate) struct Window {
    elapsed_s: f64,
    started_at: Option<f64>,
    stretch: Stretch,
    peak_memory: PeakMemory,
    /// How often this process was preempted within it.
    involuntary_switches: Option<u64>,
    /// Whether an NVTX range marked it.
    has_range: bool,
}

impl Trainer {
    /// Prepares the network, the optimizer and the data.
    ///
    /// # Errors
    /// Errors of the data or of libtorch.
    pub(crate) fn new(
        training: &Training,
        request: &Request,
        device: OpenDevice,
        started: Instant,
    ) -> Result<Self, WorkerError> {
        // The command line takes at most i64::MAX.
        tch::manual_seed(i64::try_from(training.parameters.seed).unwrap_or(i64::MAX));
        let half = request::half(request.precision, device.device);
        let mut model = Model::new(&request.network, device.tch(), training.parameters.channels_last)?;
        if let Some(file) = &training.weights {
            model.load_weights(file)?;
        }
        let products = if half == Some(Half::Bfloat16) { device.bfloat16_products()? } else { None };
        if products == Some(Products::Single) {
            model.multiply_wide();
        }
        let scaled = half == Some(Half::Float16);
        let optimizer = Optimizer::with_rule(request.optimizer, model.parameters(), scaled)?;
        let batches = Batches::open(training, &device)?;
        Ok(Trainer {
            device,
            half,
            model,
            optimizer,
            batches,
            accumulate: training.parameters.grad_accum_steps,
            marks: false,
            records: training.parameters.cuda_graph,
            trained: 0,
            recorded: None,
            started,
            first_step_s: None,
            arithmetic: Arithmetic { output: Kind::Float, autocast: None, products },
            shapes: Shapes::default(),
        })
    }

    /// Trains for `count` iterations. The last one always ends with an optimizer step, so that no gradient of the
    /// warm-up remains for the window.
    ///
    /// # Errors
    /// Errors of the data or of libtorch.
    pub(crate) fn iterate(
        &mut self,
        count: u32,
        mut stretch: Stretch,
        mut report: impl FnMut(u32, u32),
    ) -> Result<Stretch, WorkerError> {
        let mut since_step = 0;
        for done in 1..=count {
            let start = Instant::now();
            let batch = self.next_batch()?;
            let data_wait_s = batch.waited_s();
            self.first_step_s.get_or_insert_with(|| process::seconds_since_start(self.started));
            since_step += 1;
            let is_step = since_step == self.accumulate || done == count;
            let loss = self.train_on(&batch, is_step)?;
            stretch.count_images(self.shapes.batch);
            stretch.count_copy(batch.copied_s());
            if is_step {
                stretch.count_step(since_step);
                since_step = 0;
            }
            if self.recorded.is_some() {
                stretch.count_replay();
            }
            self.batches.recycle(batch);
            report(done, count);
            stretch.push(start.elapsed().as_secs_f64(), data_wait_s, loss)?;
            self.trained += 1;
            if self.records && self.trained == ITERATIONS_BEFORE {
                self.record()?;
            }
        }
        Ok(stretch)
    }

    /// One iteration, which ends with an optimizer step if it `is_step`. Returns the loss, still on the device.
    fn train_on(&mut self, batch: &Batch, is_step: bool) -> Result<Tensor, WorkerError> {
        if let Some(recorded) = &mut self.recorded {
            return recorded.replay(batch);
        }
        let loss = self.forward_backward(batch)?;
        if is_step {
            let _mark = self.mark(Phase::Optimizer);
            self.optimizer.step()?;
        }
        Ok(loss)
    }

    fn next_batch(&mut self) -> Result<Batch, WorkerError> {
        let _mark = self.mark(Phase::Data);
        self.batches.next()
    }

    /// Marks a part of an iteration for the profiler, until the mark is dropped.
    fn mark(&self, phase: Phase) -> Option<Scope> {
        self.marks.then(|| operators::mark(phase)).flatten()
    }

    /// Calls `train`, in which the parts of each iteration are marked for the profiler.
    pub(crate) fn marked<T>(&mut self, train: impl FnOnce(&mut Self) -> T) -> T {
        self.marks = true;
        let trained = train(self);
        self.marks = false;
        trained
    }

    /// Iterations per optimizer step.
    pub(crate) fn accumulate(&self) -> u32 {
        self.accumulate
    }

    /// Records an iteration. From now on, every iteration replays it.
    fn record(&mut self) -> Result<(), WorkerError> {
        let batch = self.batches.next()?;
        self.device.synchronize()?;
        self.recorded = Some(Recorded::record(batch, |batch| self.train_on(batch, true))?);
        Ok(())
    }

    /// The trainable tensors of the network.
    pub(crate) fn parameters(&self) -> &[Tensor] {
        self.model.parameters()
    }

    /// The loss scale now, if there is one.
    ///
    /// # Errors
    /// Errors of libtorch.
    pub(crate) fn loss_scale(&self) -> Result<Option<f64>, WorkerError> {
        Ok(self.optimizer.loss_scale()?)
    }

    /// One forward and backward pass. Returns the loss, still on the device.
    fn forward_backward(&mut self, batch: &Batch) -> Result<Tensor, WorkerError> {
        let loss = {
            let _mark = self.mark(Phase::Forward);
            let autocast = self.half.map(|half| Autocast::begin(self.device.tch(), half)).transpose()?;
            let output = self.model.forward(batch.images(), true)?;
            self.arithmetic.output = output.f_kind()?;
            self.arithmetic.autocast = autocast.as_ref().and_then(Autocast::state);
            self.shapes = Shapes::of(batch.images(), &output)?;
            output.f_cross_entropy_loss(batch.labels(), None::<Tensor>, Reduction::Mean, -100, 0.0)?
        };
        let _mark = self.mark(Phase::Backward);
        self.optimizer.backward(&loss, 1.0 / f64::from(self.accumulate))?;
        Ok(loss.f_detach()?)
    }

    /// Measures the window: synchronises, runs all iterations, synchronises.
    ///
    /// # Errors
    /// Errors of the data or of libtorch.
    pub(crate) fn measure(
        &mut self,
        training: &Training,
        report: impl FnMut(u32, u32),
    ) -> Result<Window, WorkerError> {
        let accelerator = self.device.device != Device::Cpu;
        self.device.synchronize()?;
        let counted = accelerator && shim::reset_peak_memory();
        let range = training.has_range().then(|| shim::Profile::begin(NVTX_RANGE)).transpose()?;
        let started_at = SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|time| time.as_secs_f64());
        let stretch = Stretch::begin(&self.device, true);
        let switches = process::involuntary_switches();
        let start = Instant::now();
        let stretch = self.iterate(training.measured_iters(), stretch, report)?;
        self.device.synchronize()?;
        let elapsed_s = start.elapsed().as_secs_f64();
        let switches = process::involuntary_switches().zip(switches);
        // The kernel of macOS counts them as a difference of two numbers, which can go back.
        let switches = switches.map(|(after, before)| after.saturating_sub(before));
        let has_range = range.is_some();
        drop(range);
        let peak_memory = if accelerator { shim::peak_memory(counted) } else { PeakMemory::default() };
        let peak_memory =
            self.recorded.as_ref().map_or(peak_memory, |step| step.peak_memory().max(peak_memory));
        Ok(Window { elapsed_s, started_at, stretch, peak_memory, involuntary_switches: switches, has_range })
    }

    /// Reads back what was effectively trained and measured.
    ///
    /// # Errors
    /// Errors of libtorch.
    pub(crate) fn observe(
        &self,
        request: &Request,
        warmup: &Iterations,
        window: Window,
    ) -> Result<Observed, WorkerError> {
        let Window { elapsed_s, started_at, stretch, peak_memory, involuntary_switches, has_range } = window;
        let iterations = stretch.read()?;
        let first = warmup.all.first().or(iterations.all.first());
        Ok(Observed {
            device: self.device.clone(),
            model: request.network.name(),
            requested: request.precision,
            arithmetic: self.arithmetic,
            shapes: self.shapes,
            seed: shim::seed()?,
            has_range,
            warmup: warmup.all.len(),
            flags: EffectiveFlags::get()?,
            channels_last: self.model.feature_maps() == Some(Layout::ChannelsLast),
            threads: settings::threads(),
            parameters: self.model.parameters().iter().map(Tensor::numel).sum(),
            grad_accum_steps: iterations.for_each_step(self.accumulate),
            optimizer: self.optimizer.rule(),
            optimizer_settings: self.optimizer.describe(),
            loss_scale: self.optimizer.loss_scale()?,
            source: self.batches.source(),
            loading: self.batches.loading(),
            elapsed_s,
            started_at,
            first_step_s: self.first_step_s,
            peak_memory,
            involuntary_switches,
            first_loss: first.map(|iteration| iteration.loss),
            iterations,
        })
    }
}
