//! `ops` in `measurement.json`: the time of a few profiled iterations, operator by operator.
//!
//! A worker reports names, shapes, calls and seconds. It does not judge them: FLOPs and bytes follow from the shapes,
//! in `operator`, and the limit of an operator follows from the peaks of the device, in `analysis::operators`.
//!
//! ```json
//! "ops": { "source": "torch.profiler", "iterations": 3, "elapsed_s": 0.61,
//!          "operators": [{ "name": "aten::mm", "phase": "forward", "shapes": [[64, 512], [512, 1000]],
//!                          "types": ["float32", "float32"], "calls": 3, "host_s": 0.012 }] }
//! ```

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The variable with the number of iterations that the worker profiles after its window. It is only set in jobs of the
/// kind `ops`.
pub const OPERATORS_VARIABLE: &str = "ORCHESTRATE_OPERATORS";

/// The word under `details.profiles` of a worker that can profile operators.
pub const PROFILES_OPERATORS: &str = "ops";

/// The most operators in a profile. A worker that has more reports those that took longest, and the seconds of all
/// others in [`OperatorProfile::rest_s`].
pub const MOST_OPERATORS: usize = 2000;

/// The time of profiled iterations by operator. They are outside the window, and the device is synchronised at both
/// ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperatorProfile {
    /// The profiler: `kineto`, `torch.profiler`, `jax.profiler`, `layers`, or another word.
    pub source: String,
    /// Profiled iterations.
    #[schemars(range(min = 1))]
    pub iterations: u32,
    /// Seconds of all profiled iterations together.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub elapsed_s: f64,
    /// Seconds in which an accelerator had at least one kernel or copy at work, on any of its streams. Absent on a
    /// processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub device_busy_s: Option<f64>,
    /// Operators with the same name, phase, shapes and types, added up over the profiled iterations.
    #[schemars(length(min = 1, max = MOST_OPERATORS))]
    pub operators: Vec<OperatorSample>,
    /// Seconds of the operators that are not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0.0))]
    pub rest_s: f64,
    /// Notes for readers of this profile, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The calls of one operator with the same inputs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperatorSample {
    /// The framework's name: `aten::mm`, `aten::convolution_backward`; or a name that the worker defines.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The part of an iteration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The kind of work. Needed only if `name` is not one of PyTorch's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<OperatorClass>,
    /// The shape of each input, in the order of the arguments; `null` for an argument that is not a tensor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shapes: Vec<Option<Vec<u64>>>,
    /// The type of each input: `float32`, `bfloat16`, `int64`; `null` for an argument that is not a tensor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<Option<String>>,
    /// The value of each argument that is a number, a truth value or a list of them, such as strides and groups; `null`
    /// for the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<Value>,
    /// Calls.
    #[schemars(range(min = 1))]
    pub calls: u64,
    /// Self time: seconds on the host, without those of the operators that it called.
    #[schemars(range(min = 0.0))]
    pub host_s: f64,
    /// Seconds of the kernels and copies that it started on an accelerator. Absent on a processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub device_s: Option<f64>,
    /// Kernels and copies that it started on an accelerator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernels: Option<u64>,
    /// Floating-point operations of all calls, if the worker counts them. They replace those that follow from shapes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub flops: Option<f64>,
    /// The least bytes that all calls have to read and write, if the worker counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub bytes: Option<f64>,
}

/// The part of an iteration that an operator belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The forward pass and the loss.
    Forward,
    /// The backward pass.
    Backward,
    /// The optimizer's step.
    Optimizer,
    /// Waiting for data, or preparing them.
    Data,
}

/// The kind of work that an operator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperatorClass {
    /// Matrix products.
    Product,
    /// Convolutions.
    Convolution,
    /// Fused attention.
    Attention,
    /// Batch, layer and group normalisation.
    Normalisation,
    /// Arithmetic on each element, activations, dropout, sums and means.
    Elementwise,
    /// Pooling.
    Pooling,
    /// Losses, softmax, embeddings and gathers.
    Lookup,
    /// The optimizer's step.
    Optimizer,
    /// Copies, conversions and changes of layout.
    Copy,
    /// Exchange between devices.
    Communication,
    /// Waiting for data.
    Data,
    /// Anything else.
    Other,
}

impl OperatorClass {
    /// All classes, in the order of tables and figures.
    pub const ALL: [OperatorClass; 12] = [
        OperatorClass::Convolution,
        OperatorClass::Product,
        OperatorClass::Attention,
        OperatorClass::Normalisation,
        OperatorClass::Elementwise,
        OperatorClass::Pooling,
        OperatorClass::Lookup,
        OperatorClass::Optimizer,
        OperatorClass::Copy,
        OperatorClass::Communication,
        OperatorClass::Data,
        OperatorClass::Other,
    ];

    /// Its name in files.
    pub fn as_str(self) -> &'static str {
        match self {
            OperatorClass::Product => "product",
            OperatorClass::Convolution => "convolution",
            OperatorClass::Attention => "attention",
            OperatorClass::Normalisation => "normalisation",
            OperatorClass::Elementwise => "elementwise",
            OperatorClass::Pooling => "pooling",
            OperatorClass::Lookup => "lookup",
            OperatorClass::Optimizer => "optimizer",
            OperatorClass::Copy => "copy",
            OperatorClass::Communication => "communication",
            OperatorClass::Data => "data",
            OperatorClass::Other => "other",
        }
    }
}

impl Phase {
    /// Its name in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Forward => "forward",
            Phase::Backward => "backward",
            Phase::Optimizer => "optimizer",
            Phase::Data => "data",
        }
    }
}

impl fmt::Display for OperatorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl OperatorProfile {
    /// The first impossible value in it, if there is one: a part of `measurement.json: …`.
    pub(super) fn impossible(&self) -> Option<String> {
        let is_time = |seconds: f64| seconds.is_finite() && seconds >= 0.0;
        if self.iterations == 0 {
            return Some("ops.iterations is 0: expected the number of profiled iterations".to_owned());
        }
        if !(self.elapsed_s.is_finite() && self.elapsed_s > 0.0) {
            return Some(format!("ops.elapsed_s is {}: expected seconds above 0", self.elapsed_s));
        }
        if self.operators.is_empty() {
            return Some("ops.operators is empty: expected at least one operator".to_owned());
        }
        if self.operators.len() > MOST_OPERATORS {
            return Some(format!(
                "ops.operators has {} entries: expected at most {MOST_OPERATORS}; add up the others in rest_s",
                self.operators.len()
            ));
        }
        if let Some(busy) = self.device_busy_s.filter(|busy| !is_time(*busy) || *busy > 1.01 * self.elapsed_s)
        {
            return Some(format!("ops.device_busy_s is {busy}: expected 0 to elapsed_s, {}", self.elapsed_s));
        }
        if !is_time(self.rest_s) {
            return Some(format!("ops.rest_s is {}: expected seconds from 0", self.rest_s));
        }
        self.operators.iter().enumerate().find_map(|(index, operator)| {
            let wrong = operator.impossible()?;
            Some(format!("ops.operators[{index}].{wrong}"))
        })
    }
}

impl OperatorSample {
    fn impossible(&self) -> Option<String> {
        if self.name.is_empty() {
            return Some("name is empty".to_owned());
        }
        if self.calls == 0 {
            return Some("calls is 0: expected at least 1".to_owned());
        }
        let numbers = [
            ("host_s", Some(self.host_s)),
            ("device_s", self.device_s),
            ("flops", self.flops),
            ("bytes", self.bytes),
        ];
        numbers.into_iter().find_map(|(name, value)| {
            let value = value.filter(|value| !(value.is_finite() && *value >= 0.0))?;
            Some(format!("{name} is {value}: expected a number from 0"))
        })
    }

    /// Those of its kernels, or on the host if it started none.
    pub fn seconds(&self) -> f64 {
        self.device_s.unwrap_or(self.host_s)
    }
}

/// serde passes a reference.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's `skip_serializing_if` passes a reference")]
fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> OperatorProfile {
        serde_json::from_str(
            r#"{ "source": "torch.profiler", "iterations": 3, "elapsed_s": 0.5,
                 "operators": [{ "name": "aten::mm", "phase": "forward", "shapes": [[64, 512], [512, 10], null],
                                 "types": ["float32", "float32", null], "arguments": [null, null, 1],
                                 "calls": 3, "host_s": 0.012 }] }"#,
        )
        .unwrap()
    }

    #[test]
    fn classes_and_phases_have_one_spelling() {
        for class in OperatorClass::ALL {
            assert_eq!(serde_json::to_value(class).unwrap(), class.as_str());
        }
        for phase in [Phase::Forward, Phase::Backward, Phase::Optimizer, Phase::Data] {
            assert_eq!(serde_json::to_value(phase).unwrap(), phase.as_str());
        }
    }

    #[test]
    fn a_profile_reads_back_as_it_was() {
        let text = serde_json::to_string(&profile()).unwrap();
        assert_eq!(serde_json::from_str::<OperatorProfile>(&text).unwrap(), profile());
        assert_eq!(profile().impossible(), None);
    }

    #[test]
    fn impossible_profiles_are_refused() {
        type Change = fn(&mut OperatorProfile);
        let cases: [(Change, &str); 8] = [
            (|it| it.iterations = 0, "ops.iterations is 0"),
            (|it| it.elapsed_s = 0.0, "ops.elapsed_s is 0"),
            (|it| it.operators.clear(), "ops.operators is empty"),
            (|it| it.device_busy_s = Some(0.6), "ops.device_busy_s is 0.6"),
            (|it| it.rest_s = -1.0, "ops.rest_s is -1"),
            (|it| it.operators[0].calls = 0, "ops.operators[0].calls is 0"),
            (|it| it.operators[0].host_s = f64::NAN, "ops.operators[0].host_s is NaN"),
            (|it| it.operators = vec![it.operators[0].clone(); MOST_OPERATORS + 1], "ops.operators has 2001"),
        ];
        for (change, start) in cases {
            let mut changed = profile();
            change(&mut changed);
            let said = changed.impossible().unwrap();
            assert!(said.starts_with(start), "{said}");
        }
    }
}
