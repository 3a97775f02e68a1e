//! Fused scaled dot-product attention.
//!
//! Let there be B samples, H heads, L queries and S keys of E channels, and values of F channels. Forward multiplies
//! Q Kᵀ and P V: B·H·L·S·(E + F) multiply-accumulates. Backward needs four products, with twice as many: the gradients
//! of P and V (F channels), and of Q and K (E channels). Fused kernels also compute Q Kᵀ again to save memory. That is
//! their choice and not the model's, so it does not count here or in `architecture`; PyTorch's
//! `torch.utils.flop_counter` counts it, as a fifth product.
//!
//! With `is_causal`, query i sees the first i + 1 keys. Only those pairs are compulsory and count, where PyTorch's
//! counter counts all. If the argument is not recorded, the FLOPs are unknown: they could be twice what is executed. A
//! mask as a tensor excludes pairs by its values, which no profile shows, so all pairs count.

use super::count::{product, sum};
use super::inputs::{Element, Inputs, Tensor};
use super::work::Work;

/// The places of the arguments.
#[derive(Clone, Copy)]
pub(super) struct Places {
    /// The place of the query. Key and value follow it. In backward, the gradient of the output is before it.
    query: usize,
    is_causal: Causal,
    /// Tensors that are read besides, such as a mask; the output and the sums of the softmax in backward.
    read: &'static [usize],
    /// The place of the offsets of sequences of different lengths. If it has a tensor, the work is unknown.
    offsets: Option<usize>,
    order: Order,
}

/// How the operator knows that attention is causal.
#[derive(Clone, Copy)]
enum Causal {
    /// By a truth value.
    Flag(usize),
    /// By the number 0 for no, 1 for causal.
    Kind(usize),
}

/// The order of the sizes of query, key and value.
#[derive(Clone, Copy)]
enum Order {
    /// Samples, heads, length, channels.
    HeadsFirst,
    /// Samples, length, heads, channels.
    LengthFirst,
}

/// `_scaled_dot_product_flash_attention(q, k, v, dropout, is_causal, …)`
pub(super) const FLASH: Places =
    Places { query: 0, is_causal: Causal::Flag(4), read: &[], offsets: None, order: Order::HeadsFirst };
/// `_scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout, is_causal, mask, scale)`
pub(super) const FLASH_CPU: Places = Places { read: &[5], ..FLASH };
/// `_scaled_dot_product_efficient_attention(q, k, v, bias, compute_log_sumexp, dropout, is_causal, …)`
pub(super) const EFFICIENT: Places = Places { is_causal: Causal::Flag(6), read: &[3], ..FLASH };
/// `_scaled_dot_product_fused_attention_overrideable(q, k, v, bias, dropout, is_causal, …)`; also that of MPS.
pub(super) const OVERRIDEABLE: Places = Places { is_causal: Causal::Flag(5), read: &[3], ..FLASH };
/// `_flash_attention_forward(q, k, v, offsets, offsets, max_q, max_k, dropout, is_causal, …)`
pub(super) const FLASH_FORWARD: Places =
    Places { is_causal: Causal::Flag(8), offsets: Some(3), order: Order::LengthFirst, ..FLASH };
/// `_efficient_attention_forward(q, k, v, bias, offsets, offsets, max_q, max_k, dropout, custom_mask_type, …)`
pub(super) const EFFICIENT_FORWARD: Places =
    Places { is_causal: Causal::Kind(9), read: &[3], offsets: Some(4), ..FLASH_FORWARD };
/// `_cudnn_attention_forward(q, k, v, bias, offsets, offsets, max_q, max_k, log_sumexp, dropout, is_causal, …)`
pub(super) const CUDNN_FORWARD: Places =
    Places { is_causal: Causal::Flag(10), read: &[3], offsets: Some(4), ..FLASH };

/// `_scaled_dot_product_flash_attention_backward(g, q, k, v, out, sums, offsets, offsets, max_q, max_k, dropout,
/// is_causal, …)`
pub(super) const FLASH_BACKWARD: Places =
    Places { query: 1, is_causal: Causal::Flag(11), read: &[4, 5], ..FLASH };
/// `_scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, out, sums, dropout, is_causal, mask, scale)`
pub(super) const FLASH_CPU_BACKWARD: Places =
    Places { is_causal: Causal::Flag(7), read: &[4, 5, 8], ..FLASH_BACKWARD };
/// `_scaled_dot_product_efficient_attention_backward(g, q, k, v, bias, out, sums, seed, offset, dropout, mask,
/// is_causal, …)`
pub(super) const EFFICIENT_BACKWARD: Places = Places { read: &[4, 5, 6], ..FLASH_BACKWARD };
/// `_scaled_dot_product_cudnn_attention_backward(g, q, k, v, out, sums, seed, offset, bias, offsets, offsets, max_q,
/// max_k, dropout, is_causal, …)`
pub(super) const CUDNN_BACKWARD: Places =
    Places { is_causal: Causal::Flag(14), read: &[4, 5, 8], ..FLASH_BACKWARD };
/// `_scaled_dot_product_fused_attention_overrideable_backward(g, q, k, v, bias, mask, out, sums, offsets, offsets,
/// max_q, max_k, dropout, is_causal, …)`
pub(super) const OVERRIDEABLE_BACKWARD: Places =
    Places { is_causal: Causal::Flag(13), read: &[4, 6, 7], ..FLASH_BACKWARD };
/// `_flash_attention_backward(g, q, k, v, out, sums, offsets, offsets, max_q, max_k, dropout, is_causal, …)`
pub(super) const PLAIN_FLASH_BACKWARD: Places =
    Places { offsets: Some(6), order: Order::LengthFirst, ..FLASH_BACKWARD };
/// `_efficient_attention_backward(g, q, k, v, bias, out, offsets, offsets, max_q, max_k, sums, dropout, seed, offset,
/// custom_mask_type, …)`
pub(super) const PLAIN_EFFICIENT_BACKWARD: Places =
    Places { is_causal: Causal::Kind(14), read: &[4, 5, 10], ..PLAIN_FLASH_BACKWARD };

/// A forward pass. It reads query, key and value, and writes the output and one single-precision sum per query.
pub(super) fn forward(inputs: &Inputs<'_>, places: &Places) -> Work {
    let Some(shape) = Shape::of(inputs, places) else { return Work::UNKNOWN };
    let output = shape.query.bytes_of(product([shape.queries(), Some(shape.value_channels)]));
    let sums = product([shape.queries(), Some(Element::FLOAT32.bytes)]);
    let read = places.read.iter().map(|place| inputs.bytes(*place));
    let moved = shape.tensors().into_iter().chain(read).chain([output, sums]);
    Work::multiplying(shape.macs(), sum(moved))
}

/// A backward pass. It reads what forward read and wrote and the gradient, and writes three gradients.
pub(super) fn backward(inputs: &Inputs<'_>, places: &Places) -> Work {
    let Some(shape) = Shape::of(inputs, places) else { return Work::UNKNOWN };
    let read = [0].iter().chain(places.read).map(|place| inputs.bytes(*place));
    let written = shape.tensors();
    let moved = shape.tensors().into_iter().chain(read).chain(written);
    Work::multiplying(product([shape.macs(), Some(2)]), sum(moved))
}

struct Shape<'a> {
    query: Tensor<'a>,
    key: Tensor<'a>,
    value: Tensor<'a>,
    /// Samples × heads.
    heads: Option<u64>,
    /// Queries of a head.
    length: u64,
    /// Keys of a head.
    keys: u64,
    channels: u64,
    value_channels: u64,
    is_causal: Option<bool>,
}

impl<'a> Shape<'a> {
    /// `None` if the shapes are not those of attention, or sequences have different lengths.
    fn of(inputs: &Inputs<'a>, places: &Places) -> Option<Self> {
        if places.offsets.is_some_and(|place| inputs.tensor(place).is_some()) {
            return None;
        }
        let [query, key, value] =
            [0, 1, 2].map(|place| Sized::of(inputs.tensor(places.query + place), places.order));
        let (query, key, value) = (query?, key?, value?);
        let fits =
            query.channels == key.channels && key.length == value.length && query.samples == key.samples;
        fits.then_some(Shape {
            heads: product([Some(query.samples), Some(query.heads)]),
            length: query.length,
            keys: key.length,
            channels: query.channels,
            value_channels: value.channels,
            is_causal: places.is_causal.read(inputs),
            query: query.tensor,
            key: key.tensor,
            value: value.tensor,
        })
    }

    /// Queries of all heads and samples.
    fn queries(&self) -> Option<u64> {
        product([self.heads, Some(self.length)])
    }

    fn tensors(&self) -> [Option<u64>; 3] {
        [self.query, self.key, self.value].map(|tensor| tensor.bytes())
    }

    /// Multiply-accumulates of the two products of forward.
    fn macs(&self) -> Option<u64> {
        let pairs =
            if self.is_causal? { self.causal_pairs() } else { product([self.length, self.keys].map(Some)) };
        product([self.heads, pairs, self.channels.checked_add(self.value_channels)])
    }

    /// Pairs of a query and a key that it sees: 1 + 2 + … up to the number of keys, then all keys for each query.
    fn causal_pairs(&self) -> Option<u64> {
        let growing = self.length.min(self.keys);
        let triangle = growing.checked_mul(growing.checked_add(1)?)? / 2;
        sum([Some(triangle), product([Some(self.length - growing), Some(self.keys)])])
    }
}

impl Causal {
    fn read(self, inputs: &Inputs<'_>) -> Option<bool> {
        match self {
            Causal::Flag(place) => inputs.flag(place),
            Causal::Kind(place) => match inputs.number(place)? {
                0 => Some(false),
                1 => Some(true),
                // Aligned at the last key.
                _ => None,
            },
        }
    }
}

/// A query, key or value with its sizes by name.
struct Sized<'a> {
    tensor: Tensor<'a>,
    samples: u64,
    heads: u64,
    length: u64,
    channels: u64,
}

impl<'a> Sized<'a> {
    fn of(tensor: Option<Tensor<'a>>, order: Order) -> Option<Self> {
        let tensor = tensor?;
        let &[samples, first, second, channels] = tensor.sizes else { return None };
        let (heads, length) = match order {
            Order::HeadsFirst => (first, second),
            Order::LengthFirst => (second, first),
        };
        Some(Sized { tensor, samples, heads, length, channels })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{known, work_of};
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// 2 samples, 3 heads, 5 queries and 7 keys of 4 channels, and values of 6.
    const INPUTS: [&str; 3] = ["float32 2 3 5 4", "float32 2 3 7 4", "float32 2 3 7 6"];

    #[test]
    fn forward_is_two_products() {
        let work = work_of("_scaled_dot_product_flash_attention_for_cpu", &INPUTS, &json!({ "4": false }));
        let (query, key, value) = (2 * 3 * 5 * 4, 2 * 3 * 7 * 4, 2 * 3 * 7 * 6);
        let (output, sums) = (2 * 3 * 5 * 6, 2 * 3 * 5);
        let expected = known(2 * 2 * 3 * 5 * 7 * (4 + 6), 4 * (query + key + value + output + sums));
        assert_eq!(work, expected);
        let lengths_first = ["float32 2 5 3 4", "float32 2 7 3 4", "float32 2 7 3 6"];
        assert_eq!(work_of("_flash_attention_forward", &lengths_first, &json!({ "8": false })), expected);
        assert_eq!(work_of("_efficient_attention_forward", &lengths_first, &json!({ "9": 0 })), expected);
    }

    #[test]
    fn backward_is_four_products() {
        let inputs = ["float32 2 3 5 6", INPUTS[0], INPUTS[1], INPUTS[2], "float32 2 3 5 6", "float32 2 3 5"];
        let work =
            work_of("_scaled_dot_product_flash_attention_for_cpu_backward", &inputs, &json!({ "7": false }));
        let (query, key, value) = (2 * 3 * 5 * 4, 2 * 3 * 7 * 4, 2 * 3 * 7 * 6);
        let (output, sums) = (2 * 3 * 5 * 6, 2 * 3 * 5);
        let moved = 4 * (2 * output + 2 * (query + key + value) + sums);
        assert_eq!(work, known(2 * 2 * 2 * 3 * 5 * 7 * (4 + 6), moved));
    }

    #[test]
    fn an_unrecorded_flag_leaves_the_flops_open_but_not_the_bytes() {
        let open = work_of("_scaled_dot_product_flash_attention_for_cpu", &INPUTS, &json!({}));
        let full = work_of("_scaled_dot_product_flash_attention_for_cpu", &INPUTS, &json!({ "4": false }));
        assert_eq!(open, Work { flops: None, ..full });
        let aligned_last = work_of("_efficient_attention_forward", &INPUTS, &json!({ "9": 2 }));
        assert_eq!(aligned_last.flops, None);
    }

    #[test]
    fn sequences_of_different_lengths_are_unknown() {
        let inputs = ["float32 35 3 4", "float32 35 3 4", "float32 35 3 4", "int32 8", "int32 8"];
        assert_eq!(work_of("_flash_attention_forward", &inputs, &json!({ "8": false })), Work::UNKNOWN);
    }

    proptest! {
        #[test]
        fn causal_pairs_are_those_below_the_diagonal(queries in 1..12u64, keys in 1..12u64) {
            let pairs = (0..queries).flat_map(|i| (0..keys).filter(move |j| *j <= i)).count() as u64;
            let inputs = [format!("float16 1 1 {queries} 8"), format!("float16 1 1 {keys} 8")];
            let inputs = [inputs[0].as_str(), &inputs[1], &inputs[1]];
            let work = work_of("_scaled_dot_product_flash_attention", &inputs, &json!({ "4": true }));
            prop_assert_eq!(work.flops, Some(2 * pairs * 16));
        }
    }
}
