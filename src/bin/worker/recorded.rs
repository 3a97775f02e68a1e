//! A training step as a CUDA graph: recorded once, submitted again as a whole for every iteration.

use tch::Tensor;

use super::arguments::Training;
use super::batches::Batch;
use super::failure::WorkerError;
use super::shim::{self, Graph, PeakMemory};

/// Iterations that are trained before one is recorded. During them, libraries load their kernels, cuDNN chooses its
/// algorithms, and the optimizer creates its state, which cannot be recorded. PyTorch's manual recommends this number.
pub(crate) const ITERATIONS_BEFORE: u32 = 3;

/// Prepares to record iterations of `training`: from now on, work is submitted to a stream that can be recorded.
///
/// # Errors
/// [`WorkerError::Unsupported`] if this libtorch has no CUDA graphs, or names what of this training cannot be recorded.
/// Errors of libtorch.
pub(crate) fn prepare(training: &Training) -> Result<(), WorkerError> {
    check(training)?;
    shim::has_graphs()
        .map_err(|lack| WorkerError::Unsupported(format!("--cuda-graph is not available here: {lack}")))?;
    shim::leave_default_stream()
}

/// Refuses trainings that cannot be recorded: each iteration must do exactly the same, with the same memory.
fn check(training: &Training) -> Result<(), WorkerError> {
    let parameters = &training.parameters;
    let reason = if parameters.data.is_some() {
        "it reads the same images each time, so it needs synthetic data".to_owned()
    } else if parameters.grad_accum_steps > 1 {
        format!("only some of the iterations of --grad-accum-steps {} are steps", parameters.grad_accum_steps)
    } else if parameters.warmup <= ITERATIONS_BEFORE {
        format!(
            "it is recorded after {ITERATIONS_BEFORE} iterations of the warm-up and must run once before the window, \
             so --warmup-iters must be at least {}",
            ITERATIONS_BEFORE + 1
        )
    } else {
        return Ok(());
    };
    Err(WorkerError::Unsupported(format!("--cuda-graph is not available here: {reason}")))
}

/// A training step that was recorded with one batch, which it reads again each time.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// Where the step writes its loss. Declared before the graph, whose memory it is.
    loss: Tensor,
    batch: Batch,
    peak_memory: PeakMemory,
    graph: Graph,
}

impl Recorded {
    /// Records `step`, which returns its loss, with `batch`, without running it.
    ///
    /// A recorded step gets separate memory and cannot use the blocks that the allocator caches. While a step is
    /// recorded, the allocator does not return these blocks to the device, however little memory is left. So they are
    /// returned before.
    ///
    /// # Errors
    /// The step cannot be recorded, or errors of the step.
    pub(crate) fn record(
        batch: Batch,
        step: impl FnOnce(&Batch) -> Result<Tensor, WorkerError>,
    ) -> Result<Self, WorkerError> {
        shim::empty_cache()?;
        let counted = shim::reset_peak_memory();
        let (graph, loss) = Graph::record(|| step(&batch))?;
        let peak_memory = shim::peak_memory(counted);
        Ok(Recorded { loss, batch, peak_memory, graph })
    }

    /// Trains on `batch`, which must be the one that was recorded. Returns the loss, still on the device.
    ///
    /// # Errors
    /// It is another batch. Errors of CUDA.
    pub(crate) fn replay(&mut self, batch: &Batch) -> Result<Tensor, WorkerError> {
        if batch.images().data_ptr() != self.batch.images().data_ptr() {
            return Err(WorkerError::Torch("a CUDA graph was asked to train on another batch".to_owned()));
        }
        self.graph.replay()?;
        // The next replay overwrites it.
        Ok(self.loss.f_detach_copy()?)
    }

    /// The memory that a step takes. The allocator does not count it when the step is submitted again.
    pub(crate) fn peak_memory(&self) -> PeakMemory {
        self.peak_memory
    }
}

#[cfg(test)]
mod tests {
    use super::super::arguments::Arguments;
    use super::*;

    fn training(words: &str) -> Training {
        Arguments::read(std::iter::once("worker").chain(words.split_whitespace())).unwrap().training
    }

    #[test]
    fn refuses_trainings_that_cannot_be_recorded() {
        let refused = |words: &str| {
            check(&training(words)).err().map(|error| (error.to_string(), error.failure().is_some()))
        };
        for (words, reason) in [
            ("--data images", "needs synthetic data"),
            ("--grad-accum-steps 2", "iterations of --grad-accum-steps 2 are steps"),
            ("--warmup-iters 3", "--warmup-iters must be at least 4"),
            ("--warmup-iters 0", "--warmup-iters must be at least 4"),
        ] {
            let (message, is_unsupported) = refused(&format!("--cuda-graph {words}")).unwrap();
            assert!(message.contains(reason) && is_unsupported, "{message}");
        }
        assert_eq!(refused("--cuda-graph --warmup-iters 4"), None);
    }
}
