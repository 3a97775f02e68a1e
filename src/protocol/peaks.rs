//! The output of `worker peaks`: the measured ceilings of one device.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::job::{Device, Precision};

/// The output of `worker peaks`, one JSON object: the measured ceilings of one device. It contains the raw samples;
/// readers take the best one and report the spread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredPeaks {
    /// [`super::MEASUREMENT_SCHEMA`].
    pub schema: u32,
    /// The device measured.
    pub device: Device,
    /// The device's name.
    pub device_name: String,
    /// The device's UUID, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_uuid: Option<String>,
    /// The number of compute threads, on a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Whether the measurement was short, which makes the ceiling less certain.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quick: bool,
    /// The clock of the arithmetic units meanwhile, if the system reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clocks: Option<Clocks>,
    /// Multiply-adds on the registers of a processor, by instruction set. Absent from older files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<InstructionSample>,
    /// The arithmetic units of a GPU, from its driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<GpuUnits>,
    /// Matrix products on random data, all dense.
    pub gemm: Vec<GemmSample>,
    /// Convolutions on random data, forward. Absent from older files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub convolutions: Vec<ConvolutionSample>,
    /// Streams through arrays larger than the caches, and through arrays that fit into one of them.
    pub stream: Vec<StreamSample>,
    /// The data caches of the processors that could be used, or of the GPU, if the system reports them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<CacheFact>,
    /// Precisions without a hardware ceiling, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// Notes for readers, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Versions of libraries by name.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
}

/// Independent multiply-adds on registers, by all threads simultaneously.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstructionSample {
    /// The precision, as in [`GemmSample::precision`].
    pub precision: Precision,
    /// The number format of the factors. Sums are in single precision.
    pub operands: Operands,
    /// The instruction set, such as `avx512f` or `amx_bf16`.
    pub isa: String,
    /// How many threads computed.
    pub threads: u32,
    /// Passes through the loop per timing.
    pub passes: u32,
    /// Multiplications and additions of all threads ÷ seconds for each timing, in FLOP/s.
    pub flops_per_s: Vec<f64>,
}

/// The arithmetic units of an NVIDIA GPU, which determine its operations per cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuUnits {
    /// The number of multiprocessors.
    pub multiprocessors: u32,
    /// The compute capability: major and minor number.
    pub capability: (u32, u32),
}

/// Repeated products of two square matrices of random numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GemmSample {
    /// The precision. On a CPU, a sample of [`Precision::Bf16`] is also valid for [`Precision::Amp`].
    pub precision: Precision,
    /// The number format of the matrices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operands: Option<Operands>,
    /// The number format in which products are added up: `fp32`, or a phrase if that is not documented.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accumulate: Option<String>,
    /// Whether the hardware lacks an instruction for it, so that the sample is not a ceiling of its units.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub emulated: bool,
    /// The layout of the matrices in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
    /// Rows and columns of each matrix.
    pub size: u64,
    /// Products per timing. On a fast device these are several, so that launching them does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub products: Option<u32>,
    /// 2 × size³ × products ÷ seconds for each timing, in FLOP/s.
    pub flops_per_s: Vec<f64>,
}

/// The number format of matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operands {
    /// IEEE single precision.
    Fp32,
    /// Single precision, rounded to TF32 on the way into the multipliers.
    Tf32,
    /// bfloat16.
    Bf16,
    /// IEEE half precision.
    Fp16,
}

impl Operands {
    /// Its name, everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Operands::Fp32 => "fp32",
            Operands::Tf32 => "tf32",
            Operands::Bf16 => "bf16",
            Operands::Fp16 => "fp16",
        }
    }

    /// The precision whose matrix products have these operands, on a GPU and, except for [`Precision::Amp`], on a CPU.
    pub fn precision(self) -> Precision {
        match self {
            Operands::Fp32 => Precision::Fp32,
            Operands::Tf32 => Precision::Tf32,
            Operands::Bf16 => Precision::Bf16,
            Operands::Fp16 => Precision::Amp,
        }
    }
}

impl std::fmt::Display for Operands {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether each of the two matrices is read as stored (N) or transposed (T), in the terms of BLAS. Libraries have one
/// routine for each combination, and which of them is fastest depends on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Layout {
    /// A · B.
    NN,
    /// A · Bᵀ: the forward pass of a linear layer.
    NT,
    /// Aᵀ · B: the gradient of its weights.
    TN,
}

impl Layout {
    /// Every layout that is measured.
    pub const ALL: [Layout; 3] = [Layout::NN, Layout::NT, Layout::TN];

    /// Its name, everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Layout::NN => "NN",
            Layout::NT => "NT",
            Layout::TN => "TN",
        }
    }
}

impl std::fmt::Display for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Repeated convolutions of random numbers, with stride 1 and as many rows and columns in as out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConvolutionSample {
    /// The precision, as in [`GemmSample::precision`].
    pub precision: Precision,
    /// The number format of images and weights.
    pub operands: Operands,
    /// The layout of images and weights in memory.
    pub format: MemoryFormat,
    /// Images.
    pub batch: u32,
    /// Channels of an image.
    pub input_channels: u32,
    /// Channels of the result.
    pub output_channels: u32,
    /// Rows and columns of an image.
    pub size: u32,
    /// Rows and columns of the kernel.
    pub kernel: u32,
    /// 2 × batch × size² × channels in × channels out × kernel² ÷ seconds for each timing, in FLOP/s. An algorithm that
    /// multiplies less, such as Winograd's, can exceed what the hardware executes.
    pub flops_per_s: Vec<f64>,
}

/// The order of the elements of images in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryFormat {
    /// Each channel is one block (NCHW).
    Contiguous,
    /// The channels of each pixel are adjacent (NHWC).
    ChannelsLast,
}

impl MemoryFormat {
    /// Its name, everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            MemoryFormat::Contiguous => "contiguous",
            MemoryFormat::ChannelsLast => "channels_last",
        }
    }
}

impl std::fmt::Display for MemoryFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Repeated passes over arrays, by all threads simultaneously.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamSample {
    /// `read`, `copy` (c = a) or `triad` (c = a + s·b). `copy_nt` and `triad_nt` write with non-temporal stores, which
    /// do not read a line before they write it.
    pub kernel: String,
    /// `memory`, or the cache that contains the arrays: `L1`, `L2`, … Absent from older files, which only have memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// The instruction set of the worker's loops. Absent if libtorch's kernels streamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isa: Option<String>,
    /// Bytes read and written per pass. Lines that a store reads before it writes them do not count.
    pub bytes: u64,
    /// Passes per timing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<u32>,
    /// Bytes read and written ÷ seconds for each timing, in bytes/s.
    pub bytes_per_s: Vec<f64>,
}

/// The caches of one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheFact {
    /// Its number: 1 is nearest to the arithmetic units.
    pub level: u32,
    /// Bytes of one of them.
    pub bytes: u64,
    /// How many there are.
    pub instances: u32,
}

/// A precision without a hardware ceiling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The precision.
    pub precision: Precision,
    /// The reason, as the end of a sentence.
    pub reason: String,
}

/// Clocks of the arithmetic units, in MHz.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clocks {
    /// The lowest seen while matrices were multiplied.
    pub low_mhz: f64,
    /// The highest seen while matrices were multiplied.
    pub high_mhz: f64,
    /// The highest clock that the device supports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_mhz: Option<f64>,
    /// The clock of the memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mhz: Option<f64>,
}

impl std::fmt::Display for Clocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0}", self.low_mhz)?;
        if self.high_mhz > self.low_mhz {
            write!(f, " to {:.0}", self.high_mhz)?;
        }
        f.write_str(" MHz while measured")?;
        if let Some(most) = self.most_mhz {
            write!(f, ", at most {most:.0}")?;
        }
        if let Some(memory) = self.memory_mhz {
            write!(f, ", memory at {memory:.0}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_their_json() {
        for operands in [Operands::Fp32, Operands::Tf32, Operands::Bf16, Operands::Fp16] {
            assert_eq!(serde_json::to_value(operands).unwrap(), operands.as_str());
        }
        for layout in Layout::ALL {
            assert_eq!(serde_json::to_value(layout).unwrap(), layout.as_str());
        }
        for format in [MemoryFormat::Contiguous, MemoryFormat::ChannelsLast] {
            assert_eq!(serde_json::to_value(format).unwrap(), format.as_str());
        }
    }

    #[test]
    fn known_clocks_are_printed() {
        let clocks = Clocks { low_mhz: 2596.1, high_mhz: 2596.1, most_mhz: None, memory_mhz: None };
        assert_eq!(clocks.to_string(), "2596 MHz while measured");
        let clocks =
            Clocks { low_mhz: 1410.0, high_mhz: 1980.0, most_mhz: Some(1980.0), memory_mhz: Some(2619.0) };
        assert_eq!(clocks.to_string(), "1410 to 1980 MHz while measured, at most 1980, memory at 2619");
    }

    /// The output of an earlier worker.
    #[test]
    fn a_minimal_output_is_enough() {
        let text = r#"{ "schema": 1, "device": "cpu", "device_name": "A",
            "gemm": [{ "precision": "fp32", "size": 512, "flops_per_s": [1e9] }],
            "stream": [{ "kernel": "copy", "bytes": 10, "bytes_per_s": [1e9] }] }"#;
        let peaks: MeasuredPeaks = serde_json::from_str(text).unwrap();
        assert!(!peaks.gemm[0].emulated && peaks.gemm[0].layout.is_none() && !peaks.quick);
        assert_eq!(
            serde_json::from_str::<MeasuredPeaks>(&serde_json::to_string(&peaks).unwrap()).unwrap(),
            peaks
        );
    }
}
