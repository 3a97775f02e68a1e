//! The meanings of the metrics of Nsight Compute, and the compute capabilities of chips.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A GPU's compute capability: 9.0 is Hopper. The names of metrics depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Capability {
    /// The number before the point.
    pub major: u8,
    /// The number after the point.
    pub minor: u8,
}

/// A text is not a compute capability.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a compute capability such as 9.0")]
pub struct BadCapability(String);

impl FromStr for Capability {
    type Err = BadCapability;

    fn from_str(text: &str) -> Result<Self, BadCapability> {
        let parts = text.split_once('.').and_then(|(major, minor)| Some((digits(major)?, digits(minor)?)));
        let (major, minor) = parts.ok_or_else(|| BadCapability(text.to_owned()))?;
        Ok(Capability { major, minor })
    }
}

/// A number that consists only of digits; `parse` would also accept a sign.
fn digits(text: &str) -> Option<u8> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

impl TryFrom<String> for Capability {
    type Error = BadCapability;

    fn try_from(text: String) -> Result<Self, BadCapability> {
        text.parse()
    }
}

impl From<Capability> for String {
    fn from(capability: Capability) -> String {
        capability.to_string()
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A number format of the CUDA cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CoreFormat {
    /// 32 bits.
    Fp32,
    /// 16 bits.
    Fp16,
    /// 64 bits.
    Fp64,
}

impl CoreFormat {
    /// All of them.
    pub const ALL: [CoreFormat; 3] = [CoreFormat::Fp32, CoreFormat::Fp16, CoreFormat::Fp64];

    /// The letter before `add` in the names of instructions.
    fn letter(self) -> char {
        match self {
            CoreFormat::Fp32 => 'f',
            CoreFormat::Fp16 => 'h',
            CoreFormat::Fp64 => 'd',
        }
    }
}

/// An arithmetic instruction of the CUDA cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CoreOperation {
    /// An addition.
    Add,
    /// A multiplication.
    Mul,
    /// A fused multiply-add.
    Fma,
}

impl CoreOperation {
    /// All of them.
    pub const ALL: [CoreOperation; 3] = [CoreOperation::Add, CoreOperation::Mul, CoreOperation::Fma];

    fn word(self) -> &'static str {
        match self {
            CoreOperation::Add => "add",
            CoreOperation::Mul => "mul",
            CoreOperation::Fma => "fma",
        }
    }

    /// Floating-point operations per instruction.
    pub fn flops(self) -> u64 {
        if self == CoreOperation::Fma { 2 } else { 1 }
    }
}

/// The quantity that a metric measures.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Meaning {
    /// Instructions executed by CUDA cores, counted once per thread that was not predicated off.
    Core(CoreFormat, CoreOperation),
    /// Operations of the tensor cores on one path, which is named after its types: `bf16_dst_fp32`.
    Tensor(TensorPath),
    /// Bytes read from and written to device memory.
    DramBytes,
    /// Bytes read from device memory.
    DramRead,
    /// Bytes written to device memory.
    DramWrite,
    /// Bytes read over PCIe by the whole device.
    PcieRead,
    /// Bytes written over PCIe by the whole device.
    PcieWrite,
    /// The kernel's duration, at the clocks during profiling.
    Duration,
}

impl Meaning {
    /// The meaning of a metric by its full name, `dram__bytes.sum`; `None` if `orchestrate` does not interpret it.
    pub fn of(name: &str) -> Option<Meaning> {
        let base = name.strip_suffix(".sum")?;
        let fixed = match base {
            "dram__bytes" => Some(Meaning::DramBytes),
            "dram__bytes_read" | "dram__bytes_op_read" => Some(Meaning::DramRead),
            "dram__bytes_write" | "dram__bytes_op_write" => Some(Meaning::DramWrite),
            "pcie__read_bytes" => Some(Meaning::PcieRead),
            "pcie__write_bytes" => Some(Meaning::PcieWrite),
            "gpu__time_duration" => Some(Meaning::Duration),
            _ => None,
        };
        fixed.or_else(|| core_meaning(base)).or_else(|| TensorPath::of(base).map(Meaning::Tensor))
    }

    /// Whether a kernel's count of floating-point operations is incomplete without it.
    pub fn counts_flops(&self) -> bool {
        match self {
            Meaning::Core(..) => true,
            Meaning::Tensor(path) => path.is_floating(),
            _ => false,
        }
    }
}

/// The base names of one kind of CUDA-core instructions: counted per SM, and per SM sub-partition. Both have the same
/// sum; the first is preferred if a chip has both.
pub fn core_bases(format: CoreFormat, operation: CoreOperation) -> [String; 2] {
    let (letter, word) = (format.letter(), operation.word());
    ["sm", "smsp"].map(|unit| format!("{unit}__sass_thread_inst_executed_op_{letter}{word}_pred_on"))
}

fn core_meaning(base: &str) -> Option<Meaning> {
    let (unit, rest) = base.split_once("__sass_thread_inst_executed_op_")?;
    let instruction = rest.strip_suffix("_pred_on").filter(|_| matches!(unit, "sm" | "smsp"))?;
    let mut all = CoreFormat::ALL.into_iter().flat_map(|format| CoreOperation::ALL.map(|op| (format, op)));
    let (format, operation) =
        all.find(|(format, op)| instruction.strip_prefix(format.letter()) == Some(op.word()))?;
    Some(Meaning::Core(format, operation))
}

/// The prefix of a tensor path in the name of its metric.
const TENSOR_PREFIX: &str = "sm__ops_path_tensor_";

/// A path through the tensor cores: the `<path>` of the metric `sm__ops_path_tensor_<path>.sum`.
///
/// Some chips count a path as a whole and also by sparsity and by instruction (`op_hgmma_src_…`). Only paths that do
/// not overlap can be added.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TensorPath(String);

impl TensorPath {
    /// The path in the base name of a metric.
    pub fn of(base: &str) -> Option<TensorPath> {
        base.strip_prefix(TENSOR_PREFIX).map(|path| TensorPath(path.to_owned()))
    }

    /// The base name of its metric.
    pub fn base(&self) -> String {
        format!("{TENSOR_PREFIX}{}", self.0)
    }

    /// Its name without `src_`: `bf16_dst_fp32`, `op_hgmma_src_fp16_sparsity_off`.
    pub fn name(&self) -> &str {
        self.0.strip_prefix("src_").unwrap_or(&self.0)
    }

    /// Whether its operations are floating-point operations.
    pub fn is_floating(&self) -> bool {
        !self.source().starts_with("int")
    }

    /// Whether it counts one instruction's share of another path.
    fn is_by_instruction(&self) -> bool {
        self.0.starts_with("op_")
    }

    /// Its source types: `bf16`, `fp4_fp6_fp8`.
    fn source(&self) -> &str {
        let rest = self.0.split_once("src_").map_or(self.0.as_str(), |(_, rest)| rest);
        let end = ["_dst_", "_sparsity_"].iter().filter_map(|tag| rest.find(tag)).min();
        &rest[..end.unwrap_or(rest.len())]
    }

    /// What follows `tag` in the name, up to the next part.
    fn part(&self, tag: &str) -> Option<&str> {
        let (_, rest) = self.0.split_once(tag)?;
        Some(rest.split_once("_sparsity_").map_or(rest, |(part, _)| part))
    }

    /// Whether both paths can count the same operation.
    fn overlaps(&self, other: &TensorPath) -> bool {
        let agree = |tag: &str| match (self.part(tag), other.part(tag)) {
            (Some(own), Some(others)) => own == others,
            _ => true,
        };
        overlapping_sources(self.source(), other.source()) && agree("_dst_") && agree("_sparsity_")
    }

    /// The number of its qualifiers: `_dst_`, `_sparsity_`.
    fn qualifiers(&self) -> usize {
        ["_dst_", "_sparsity_"].iter().filter(|tag| self.part(tag).is_some()).count()
    }
}

/// Whether two names of source types can refer to the same operations. The rooflines of Nsight Compute add `fp4` and
/// `fp4_fp6_fp8`, which are different instructions. This is not known of the wider types, so for them one shared
/// type is enough.
fn overlapping_sources(one: &str, other: &str) -> bool {
    let is_wide = |name: &&str| matches!(*name, "fp16" | "bf16" | "tf32" | "fp64");
    one == other
        || one.split('_').filter(is_wide).any(|name| other.split('_').any(|of_other| of_other == name))
}

/// Splits `all` into paths that can be added without counting an operation twice, and paths that had to be left out
/// although no other path is sure to cover them. A whole path is preferred to its parts. Integer paths are in neither.
pub fn disjoint_paths(all: impl IntoIterator<Item = TensorPath>) -> (Vec<TensorPath>, Vec<TensorPath>) {
    let mut paths: Vec<TensorPath> =
        all.into_iter().filter(|path| path.is_floating() && !path.is_by_instruction()).collect();
    paths.sort_by_key(|path| (path.qualifiers(), path.clone()));
    let (mut taken, mut left_out) = (Vec::<TensorPath>::new(), Vec::new());
    for path in paths {
        match taken.iter().find(|other| other.overlaps(&path)) {
            None => taken.push(path),
            // The whole path already counts this part.
            Some(whole) if whole.source() == path.source() && whole.qualifiers() < path.qualifiers() => {}
            Some(_) => left_out.push(path),
        }
    }
    taken.sort();
    (taken, left_out)
}

/// The base names for bytes read and bytes written, which changed with Blackwell: those of the chip first, then those
/// of the other generation.
pub fn split_names(capability: Option<Capability>) -> [[&'static str; 2]; 2] {
    let older = [["dram__bytes_read", "dram__bytes_op_read"], ["dram__bytes_write", "dram__bytes_op_write"]];
    let is_blackwell = capability.is_some_and(|capability| capability.major >= 10);
    if is_blackwell { older.map(|[old, new]| [new, old]) } else { older }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> TensorPath {
        TensorPath::of(&format!("{TENSOR_PREFIX}{name}")).unwrap()
    }

    #[test]
    fn metrics_are_interpreted_by_name() {
        for (name, meaning) in [
            (
                "sm__sass_thread_inst_executed_op_ffma_pred_on.sum",
                Some(Meaning::Core(CoreFormat::Fp32, CoreOperation::Fma)),
            ),
            (
                "smsp__sass_thread_inst_executed_op_dadd_pred_on.sum",
                Some(Meaning::Core(CoreFormat::Fp64, CoreOperation::Add)),
            ),
            ("dram__bytes_op_read.sum", Some(Meaning::DramRead)),
            ("dram__bytes_write.sum", Some(Meaning::DramWrite)),
            ("dram__bytes.sum.per_second", None),
            ("dram__bytes.avg", None),
            ("sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained", None),
            ("sm__sass_thread_inst_executed_op_fp32_pred_on.sum", None),
            ("l1tex__sass_thread_inst_executed_op_fadd_pred_on.sum", None),
        ] {
            assert_eq!(Meaning::of(name), meaning, "{name}");
        }
        let tensor = Meaning::of("sm__ops_path_tensor_src_fp16.sum").unwrap();
        assert_eq!(tensor, Meaning::Tensor(path("src_fp16")));
        assert!(tensor.counts_flops());
        assert!(!Meaning::Tensor(path("src_int8_sparsity_on")).counts_flops());
        assert!(!Meaning::Tensor(path("op_imma_src_int8_sparsity_on")).counts_flops());
    }

    #[test]
    fn a_capability_is_two_numbers() {
        assert_eq!("12.1".parse(), Ok(Capability { major: 12, minor: 1 }));
        assert!(Capability { major: 9, minor: 0 } < Capability { major: 10, minor: 0 });
        for text in ["", "9", "9.", ".0", "+9.0", "9.0.0", "999.0"] {
            assert_eq!(text.parse::<Capability>(), Err(BadCapability(text.to_owned())));
        }
        assert_eq!(serde_json::to_string(&Capability { major: 7, minor: 5 }).unwrap(), r#""7.5""#);
    }

    #[test]
    fn a_path_and_its_parts_are_never_added() {
        let all = [
            "op_hmma_src_fp16_dst_fp32_sparsity_off",
            "src_fp16",
            "src_fp16_dst_fp16",
            "src_fp16_dst_fp32_sparsity_on",
            "src_bf16_dst_fp32_sparsity_off",
            "src_bf16_dst_fp32_sparsity_on",
            "src_fp4_dst_fp32",
            "src_fp4_fp6_dst_fp32",
            "src_fp16_bf16_tf32_dst_fp32",
            "src_int8",
        ];
        let (taken, left_out) = disjoint_paths(all.map(path));
        assert_eq!(
            taken,
            [
                "src_bf16_dst_fp32_sparsity_off",
                "src_bf16_dst_fp32_sparsity_on",
                "src_fp16",
                "src_fp4_dst_fp32",
                "src_fp4_fp6_dst_fp32"
            ]
            .map(path)
        );
        assert_eq!(left_out, ["src_fp16_bf16_tf32_dst_fp32"].map(path));
    }
}
