//! Operators of deep-learning frameworks: the class, the FLOPs and the compulsory bytes of a call, from its name,
//! shapes, types and arguments.
//! `analysis` calls it.
//! It never sees a time, and never guesses: the FLOPs and bytes of unknown operators are unknown.
//!
//! # Conventions
//!
//! - **FLOPs** are those of the model, as in `architecture`: 2 per multiply-accumulate of a matrix product, a
//!   convolution or attention. All else has 0, biases included, so that the FLOP/s of an operator compare with those
//!   of its row. What an algorithm recomputes is not counted.
//! - **Bytes** are compulsory: each input is read once and each output is written once, whatever is in caches. An
//!   operator in place reads and writes the same tensor. A tensor that is broadcast counts with its original size. Two
//!   inputs of the same shape count as two tensors.
//! - **Work belongs to the operator that does it.** A profile lists the time of an operator without that of the
//!   operators that it calls. So an operator that only calls others (`aten::conv2d`, `aten::matmul`, `aten::to`) has
//!   0 FLOPs and 0 bytes. The same is true of views and allocations. Some operators do the work on one device and call
//!   another operator on the next: [`works`] looks for their callees in the same profile.
//!
//! # Files
//!
//! | file | what it is |
//! |---|---|
//! | `table` | PyTorch's names, with the class and the rule of each |
//! | `entry` | the class, the rule and the callees of an operator, by its name |
//! | `families` | names that follow a pattern: compiled kernels, collectives, nodes of autograd |
//! | `callees` | operators that leave their work to others |
//! | `inputs` | shapes, types and arguments of a call |
//! | `count` | counts that overflow to unknown |
//! | `rule` | computes work from inputs |
//! | `convolution`, `product`, `attention`, … | the rules |
//!
//! Shapes and arguments are those of PyTorch's `native_functions.yaml`, version 2.11.

mod attention;
mod callees;
mod convolution;
mod count;
mod elementwise;
mod entry;
mod families;
mod inputs;
mod lookup;
mod normalisation;
mod pooling;
mod product;
#[cfg(test)]
mod profile_tests;
mod rule;
mod table;
#[cfg(test)]
mod testing;
mod window;
mod work;

use crate::protocol::{OperatorClass, OperatorSample, Phase};

use entry::Entry;
use inputs::Inputs;

pub use work::Work;

/// The kind of work that `operator` does: as reported, or by its name. In the phase of the optimizer, arithmetic on
/// elements and what surrounds it are the optimizer's step.
pub fn class(operator: &OperatorSample) -> OperatorClass {
    operator.class.unwrap_or_else(|| match (entry(operator).class, operator.phase) {
        (OperatorClass::Elementwise | OperatorClass::Other, Some(Phase::Optimizer)) => {
            OperatorClass::Optimizer
        }
        (class, _) => class,
    })
}

/// The work of one call of `operator`, regardless of the other operators of its profile. Where PyTorch's
/// devices differ in which operator does the work, it is the one that does it on processors and on CUDA.
pub fn work(operator: &OperatorSample) -> Work {
    let entry = entry(operator);
    if entry.callees.is_some_and(|callees| callees.are_usual) { Work::ZERO } else { entry.work(operator) }
}

/// The work of one call of each of `operators`, which are all operators of a profile.
pub fn works(operators: &[OperatorSample]) -> Vec<Work> {
    let called = callees::Called::of(operators);
    let of = |operator: &OperatorSample| {
        let entry = entry(operator);
        let is_delegated = entry.callees.is_some_and(|callees| called.does_work_of(operator, callees));
        if is_delegated { Work::ZERO } else { entry.work(operator) }
    };
    operators.iter().map(of).collect()
}

fn entry(operator: &OperatorSample) -> Entry {
    entry::named(&operator.name).unwrap_or_else(|| families::entry(&operator.name))
}

impl Entry {
    fn work(self, operator: &OperatorSample) -> Work {
        self.rule.work(&Inputs::of(operator))
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{sample, with_arguments};
    use super::*;
    use serde_json::json;

    #[test]
    fn a_reported_class_precedes_that_of_the_name() {
        let mut operator = sample("aten::mm", &[]);
        assert_eq!(class(&operator), OperatorClass::Product);
        operator.class = Some(OperatorClass::Communication);
        assert_eq!(class(&operator), OperatorClass::Communication);
    }

    #[test]
    fn arithmetic_of_the_optimizer_is_its_step() {
        let mut operator = sample("aten::add_", &[]);
        assert_eq!(class(&operator), OperatorClass::Elementwise);
        operator.phase = Some(Phase::Optimizer);
        assert_eq!(class(&operator), OperatorClass::Optimizer);
        // Muon multiplies matrices in its step.
        let product = OperatorSample { name: "aten::mm".into(), phase: Some(Phase::Optimizer), ..operator };
        assert_eq!(class(&product), OperatorClass::Product);
    }

    #[test]
    fn an_unknown_operator_has_no_work() {
        for name in ["aten::not_an_operator", "my_layer", ""] {
            let operator = sample(name, &["float32 4 4"]);
            assert_eq!((class(&operator), work(&operator)), (OperatorClass::Other, Work::UNKNOWN), "{name}");
        }
    }

    #[test]
    fn damaged_shapes_have_no_work_and_do_not_panic() {
        let huge = format!("float32 {0} {0} {0} {0}", u64::MAX);
        for name in entry::names() {
            for shapes in
                [&[][..], &["float32"], &[&huge, &huge, &huge, &huge], &["float32 0 0", "float32 0"]]
            {
                let arguments = [json!([0, 0]), json!([]), json!(-1), json!("x"), json!([-1, "x"])];
                for argument in arguments {
                    let arguments = vec![argument; 12];
                    let operator = with_arguments(sample(&format!("aten::{name}"), shapes), arguments);
                    let _ = (work(&operator), works(std::slice::from_ref(&operator)));
                }
            }
        }
    }
}
