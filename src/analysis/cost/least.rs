//! A lower bound of the bytes that an iteration of a described network moves between memory and caches, for any
//! behaviour of the caches: [`Described::least_bytes`].
//!
//! A pass over S bytes reads or writes each of them once. At its start, the caches contain at most C of these bytes,
//! where C is their capacity. At the end of a pass that writes, at most C bytes have not been written back yet. So each
//! pass moves at least S − C bytes. An iteration makes these passes, one after the other:
//!
//! - over all parameters: forward reads them, and backward writes their gradients;
//! - over all parameters in each step of the optimizer: it reads parameters and gradients, and writes parameters. Other
//!   state such as momentum is not counted, because few workers report it;
//! - over the output of each convolution, which is written, and read by the next layer. The same is true of its
//!   gradient.
//!
//! Assumptions: layers run one after the other over the whole batch, and one optimizer updates all parameters, as in
//! the shipped worker. Runs report the number of trained parameters, which must be that of the network, and the number
//! of optimizer steps. Numbers have at least as many bits as the precision says.

use super::{Described, element_bytes};
use crate::architecture::{Op, network};
use crate::job::Key;

/// Passes over all parameters in forward and backward.
const OF_LAYERS: f64 = 2.0;

/// Passes over all parameters in a step of the optimizer.
const OF_STEP: f64 = 3.0;

/// Passes over the output of a convolution and its gradient.
const OF_OUTPUTS: f64 = 4.0;

impl Described {
    /// The fewest bytes that an iteration of `key` moves if all caches together have `capacity` bytes. `None` if runs
    /// do not report what the assumptions need.
    pub(in crate::analysis) fn least_bytes(&self, key: &Key, capacity: f64) -> Option<f64> {
        let passes = OF_LAYERS + OF_STEP * self.steps_per_iteration?;
        let network = network(&key.model, self.input_size, self.classes).ok()?;
        let element = u64::from(element_bytes(key.precision));
        let moved = |elements: u64| ((element * elements) as f64 - capacity).max(0.0);
        let convolutions = network.layers().iter().filter(|layer| matches!(layer.op, Op::Conv2d(_)));
        let outputs = convolutions.map(|layer| moved(u64::from(key.batch) * layer.activation_elements()));
        Some(passes * moved(self.parameters) + OF_OUTPUTS * outputs.sum::<f64>())
    }
}

#[cfg(test)]
mod tests {
    use crate::analysis::cost::{FlopsConvention, cost};
    use crate::analysis::fixture;
    use crate::job::{Key, Precision};
    use crate::protocol::Measurement;

    /// The lower bound for `key` with caches of `capacity` bytes, after `change` of its run.
    fn least(key: &Key, capacity: f64, change: impl Fn(&mut Measurement)) -> Option<f64> {
        let mut run = fixture::measurement(key, 10.0);
        run.details.optimizer_steps = Some(run.samples / u64::from(key.batch));
        run.details.parameters = Some(61_100_840);
        change(&mut run);
        let cost = cost(key, &[&run], FlopsConvention::default()).unwrap();
        cost.described().unwrap().least_bytes(key, capacity)
    }

    /// AlexNet has 61 100 840 parameters. Its convolutions have 64·55², 192·27², 384·13² and twice 256·13² outputs.
    #[test]
    fn bytes_beyond_the_caches_are_moved_in_every_pass() {
        let parameters = 4.0 * 61_100_840.0;
        let outputs = [64.0 * 3025.0, 192.0 * 729.0, 384.0 * 169.0, 256.0 * 169.0, 256.0 * 169.0];
        let key = fixture::key("cpu", "alexnet", 64, 1);
        let same = |_: &mut Measurement| ();
        let all: f64 = outputs.iter().map(|it| 4.0 * 4.0 * 64.0 * it).sum();
        assert_eq!(least(&key, 0.0, same), Some(5.0 * parameters + all));
        // All outputs but the first two fit into 32 MB.
        let beyond: f64 = outputs[..2].iter().map(|it| 4.0 * (4.0 * 64.0 * it - 32e6)).sum();
        assert_eq!(least(&key, 32e6, same), Some(5.0 * (parameters - 32e6) + beyond));
        assert_eq!(least(&key, 1e9, same), Some(0.0));
        let half = Key { precision: Precision::Bf16, ..key.clone() };
        assert_eq!(least(&half, 0.0, same), Some((5.0 * parameters + all) / 2.0));
    }

    #[test]
    fn reported_optimizer_steps_are_counted() {
        let key = fixture::key("cpu", "alexnet", 1, 1);
        let caches = 100e6;
        let per_pass = 4.0 * 61_100_840.0 - caches;
        let steps = |steps| {
            least(&key, caches, |run| run.details.optimizer_steps = steps)
                .map(|bytes| (bytes / per_pass).round())
        };
        let iterations = fixture::measurement(&key, 10.0).samples;
        assert_eq!([steps(Some(iterations)), steps(Some(0)), steps(None)], [Some(5.0), Some(2.0), None]);
        assert_eq!(least(&key, caches, |run| run.details.parameters = None), None, "some may be frozen");
    }
}
