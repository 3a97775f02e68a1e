//! Translates metric names that Nsight Compute does not know.
//!
//! `flop_count_sp` and similar names are those of `nvprof`, the predecessor of Nsight Compute, which refuses them. The
//! translations are those of NVIDIA's transition guide.

use std::collections::BTreeSet;
use std::fmt;

use super::name::{Capability, CoreFormat, CoreOperation, Meaning, core_bases, split_names};

/// The replacement of an unknown name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    /// Full names; all of them are needed.
    pub metrics: Vec<String>,
    /// How to combine their values, unless they are added.
    pub note: Option<&'static str>,
}

/// A metric that cannot be requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMetric {
    /// The name, as written.
    pub name: String,
    /// Nsight Compute knows it, but its values cannot be summed over kernels.
    pub no_sum: bool,
    /// Its replacement, if known.
    pub translation: Option<Translation>,
}

impl fmt::Display for UnknownMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        if self.no_sum {
            return write!(f, "`{name}` cannot be summed over kernels: ask for its `.sum`");
        }
        match &self.translation {
            None => write!(f, "this device has no metric `{name}`"),
            Some(Translation { metrics, note }) => {
                write!(f, "this device has no metric `{name}`: ask for `{}` instead", metrics.join(","))?;
                note.map_or(Ok(()), |note| write!(f, " ({note})"))
            }
        }
    }
}

/// A fused multiply-add is one instruction and two operations.
const FMA: &str = "an ffma counts as two operations; sm__ops_path_tensor_* has those of the tensor cores";

/// Names of `nvprof` that correspond to a single name of Nsight Compute.
const ONE_FOR_ONE: [(&str, &str); 12] = [
    ("pcie_total_data_received", "pcie__read_bytes.sum"),
    ("pcie_total_data_transmitted", "pcie__write_bytes.sum"),
    ("l2_read_transactions", "lts__t_sectors_op_read.sum"),
    ("l2_write_transactions", "lts__t_sectors_op_write.sum"),
    ("inst_executed", "smsp__inst_executed.sum"),
    ("inst_issued", "smsp__inst_issued.sum"),
    ("inst_fp_32", "smsp__sass_thread_inst_executed_op_fp32_pred_on.sum"),
    ("inst_fp_16", "smsp__sass_thread_inst_executed_op_fp16_pred_on.sum"),
    ("inst_fp_64", "smsp__sass_thread_inst_executed_op_fp64_pred_on.sum"),
    ("active_cycles", "sm__cycles_active.sum"),
    ("elapsed_cycles_sm", "sm__cycles_elapsed.sum"),
    ("gpu_time", "gpu__time_duration.sum"),
];

/// The replacement of `name` on a device of this capability, if known.
pub fn translate(name: &str, capability: Option<Capability>) -> Option<Translation> {
    let base = name.strip_suffix(".sum").unwrap_or(name);
    let sums = |bases: &[&str]| bases.iter().map(|base| format!("{base}.sum")).collect::<Vec<_>>();
    let [read, write] = split_names(capability).map(|names| names[0]);
    let plain = |metrics| Some(Translation { metrics, note: None });
    match base {
        "dram_read_bytes" => plain(sums(&[read])),
        "dram_write_bytes" => plain(sums(&[write])),
        "dram_read_transactions" => {
            Some(Translation { metrics: sums(&[read]), note: Some("a transaction is 32 bytes") })
        }
        "dram_write_transactions" => {
            Some(Translation { metrics: sums(&[write]), note: Some("a transaction is 32 bytes") })
        }
        "dram_read_throughput" | "dram_write_throughput" => {
            let side = if base.contains("read") { read } else { write };
            let note = Some("divide by the seconds of the timing jobs");
            Some(Translation { metrics: sums(&[side]), note })
        }
        _ => flop_count(base)
            .or_else(|| of_other_generation(base, capability))
            .or_else(|| plain(vec![ONE_FOR_ONE.iter().find(|(known, _)| *known == base)?.1.to_owned()])),
    }
}

/// Translates `flop_count_sp`, `flop_count_hp_fma` and similar names.
fn flop_count(base: &str) -> Option<Translation> {
    let rest = base.strip_prefix("flop_count_")?;
    let (format, operation) =
        rest.split_once('_').map_or((rest, None), |(format, word)| (format, Some(word)));
    let format = match format {
        "sp" => CoreFormat::Fp32,
        "hp" => CoreFormat::Fp16,
        "dp" => CoreFormat::Fp64,
        _ => return None,
    };
    let (operations, note) = match operation {
        None => (&CoreOperation::ALL[..], Some(FMA)),
        Some("add") => (&[CoreOperation::Add][..], None),
        Some("mul") => (&[CoreOperation::Mul][..], None),
        Some("fma") => (&[CoreOperation::Fma][..], Some(FMA)),
        Some(_) => return None,
    };
    let metrics = operations.iter().map(|operation| format!("{}.sum", core_bases(format, *operation)[0]));
    Some(Translation { metrics: metrics.collect(), note })
}

/// Translates the names for bytes read and written on chips of the other generation.
fn of_other_generation(base: &str, capability: Option<Capability>) -> Option<Translation> {
    // An unknown capability belongs to neither generation.
    capability?;
    let [own, _] = split_names(capability).into_iter().find(|names| names[1] == base)?;
    Some(Translation { metrics: vec![format!("{own}.sum")], note: None })
}

/// Those of `names` that the device does not know, or whose values cannot be summed over kernels.
///
/// `listed` are the base names of the device. If it could not be asked, only names that are known to be wrong are
/// refused.
pub fn unknown_metrics(
    names: &[String],
    capability: Option<Capability>,
    listed: Option<&BTreeSet<String>>,
) -> Vec<UnknownMetric> {
    let judge = |name: &String| {
        let base = name.split_once('.').map_or(name.as_str(), |(base, _)| base);
        let translation = translate(name, capability);
        let known = match listed {
            Some(listed) => listed.contains(base),
            // Every metric of Nsight Compute has `__` between the unit of the chip and the counted quantity.
            None => translation.is_none() && (base.contains("__") || Meaning::of(name).is_some()),
        };
        let no_sum = known && !matches!(&name[base.len()..], "" | ".sum");
        (!known || no_sum).then(|| UnknownMetric {
            name: name.clone(),
            no_sum,
            translation: translation.filter(|_| !no_sum),
        })
    };
    names.iter().filter_map(judge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(name: &str, capability: &str) -> Vec<String> {
        translate(name, Some(capability.parse().unwrap())).map_or_else(Vec::new, |found| found.metrics)
    }

    #[test]
    fn the_names_in_the_seed_reports_are_translated() {
        assert_eq!(
            metrics("flop_count_sp", "8.9"),
            [
                "sm__sass_thread_inst_executed_op_fadd_pred_on.sum",
                "sm__sass_thread_inst_executed_op_fmul_pred_on.sum",
                "sm__sass_thread_inst_executed_op_ffma_pred_on.sum",
            ]
        );
        assert_eq!(
            metrics("flop_count_dp_mul", "8.9"),
            ["sm__sass_thread_inst_executed_op_dmul_pred_on.sum"]
        );
        assert_eq!(metrics("flop_count_hp", "8.9").len(), 3);
        assert_eq!(metrics("dram_read_bytes", "8.9"), ["dram__bytes_read.sum"]);
        assert_eq!(metrics("dram_write_transactions", "12.0"), ["dram__bytes_op_write.sum"]);
        assert_eq!(metrics("inst_executed", "9.0"), ["smsp__inst_executed.sum"]);
        for unknown in ["flop_count_sp_special", "flop_count_xp", "warp_efficiency", ""] {
            assert_eq!(translate(unknown, None), None, "{unknown}");
        }
    }

    #[test]
    fn names_of_another_generation_are_translated() {
        assert_eq!(metrics("dram__bytes_read.sum", "12.0"), ["dram__bytes_op_read.sum"]);
        assert_eq!(metrics("dram__bytes_op_write.sum", "9.0"), ["dram__bytes_write.sum"]);
        assert_eq!(translate("dram__bytes_read.sum", Some("9.0".parse().unwrap())), None);
        assert_eq!(translate("dram__bytes_op_read.sum", None), None);
    }

    #[test]
    fn unknown_metrics_are_explained() {
        let listed = ["dram__bytes", "dram__bytes_read"].map(str::to_owned).into();
        let names =
            ["flop_count_sp_fma", "dram__bytes_read.sum", "dram__bytes", "foo__bar.sum", "dram__bytes.avg"]
                .map(str::to_owned);
        let messages: Vec<String> =
            unknown_metrics(&names, None, Some(&listed)).iter().map(UnknownMetric::to_string).collect();
        assert_eq!(
            messages,
            [
                "this device has no metric `flop_count_sp_fma`: ask for \
                 `sm__sass_thread_inst_executed_op_ffma_pred_on.sum` instead (an ffma counts as two operations; \
                 sm__ops_path_tensor_* has those of the tensor cores)",
                "this device has no metric `foo__bar.sum`",
                "`dram__bytes.avg` cannot be summed over kernels: ask for its `.sum`",
            ]
        );
        let unasked: Vec<String> =
            unknown_metrics(&names, None, None).into_iter().map(|metric| metric.name).collect();
        assert_eq!(unasked, ["flop_count_sp_fma", "dram__bytes.avg"]);
    }
}
