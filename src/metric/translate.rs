//! Names that Nsight Compute does not know, and what to ask for instead.
//!
//! `flop_count_sp` and its like are names of `nvprof`, the profiler before Nsight Compute, which refuses to run with
//! them. The translations are those of NVIDIA's own transition guide.

use std::collections::BTreeSet;
use std::fmt;

use super::name::{Capability, CoreFormat, CoreOperation, Meaning, core_bases, split_names};

/// What to ask Nsight Compute for instead of a name that it does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    /// Whole names, to be asked for together.
    pub metrics: Vec<String>,
    /// How their values make up what was meant, where it is not their sum.
    pub note: Option<&'static str>,
}

/// A name of a metric that cannot be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMetric {
    /// As it was written.
    pub name: String,
    /// Its values cannot be added over kernels, though Nsight Compute knows it.
    pub no_sum: bool,
    /// What to ask for instead, where that is known.
    pub translation: Option<Translation>,
}

impl fmt::Display for UnknownMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        if self.no_sum {
            return write!(f, "`{name}` cannot be added over kernels: ask for a `.sum`");
        }
        match &self.translation {
            None => write!(f, "this device has no metric `{name}`"),
            Some(Translation { metrics, note }) => {
                write!(f, "this device has no metric `{name}`: ask for `{}`", metrics.join(","))?;
                note.map_or(Ok(()), |note| write!(f, " ({note})"))
            }
        }
    }
}

/// A fused multiply-add is one instruction and two operations.
const FMA: &str = "an ffma counts twice; what runs on tensor cores is in sm__ops_path_tensor_*";

/// Names of `nvprof` that Nsight Compute has one name for.
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

/// What to ask for instead of `name` on a device of this capability; `None` if we know nothing.
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

/// `flop_count_sp`, `flop_count_hp_fma` and the like.
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

/// A name of the memory's read and write counters on chips of the other generation.
fn of_other_generation(base: &str, capability: Option<Capability>) -> Option<Translation> {
    // Where the capability is unknown, no generation is the other one.
    capability?;
    let [own, _] = split_names(capability).into_iter().find(|names| names[1] == base)?;
    Some(Translation { metrics: vec![format!("{own}.sum")], note: None })
}

/// Those of `names` that the device does not know, or whose values cannot be added over kernels.
///
/// `listed` are the base names that it offers. Where it could not be asked, only what is known to be wrong is refused.
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
            // Every metric of Nsight Compute parts its unit from what is counted in this way.
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
    fn the_seeds_names_have_a_translation() {
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
    fn a_name_of_another_generation_is_translated_too() {
        assert_eq!(metrics("dram__bytes_read.sum", "12.0"), ["dram__bytes_op_read.sum"]);
        assert_eq!(metrics("dram__bytes_op_write.sum", "9.0"), ["dram__bytes_write.sum"]);
        assert_eq!(translate("dram__bytes_read.sum", Some("9.0".parse().unwrap())), None);
        assert_eq!(translate("dram__bytes_op_read.sum", None), None);
    }

    #[test]
    fn what_the_device_does_not_know_is_said_with_the_remedy() {
        let listed = ["dram__bytes", "dram__bytes_read"].map(str::to_owned).into();
        let names =
            ["flop_count_sp_fma", "dram__bytes_read.sum", "dram__bytes", "foo__bar.sum", "dram__bytes.avg"]
                .map(str::to_owned);
        let told: Vec<String> =
            unknown_metrics(&names, None, Some(&listed)).iter().map(UnknownMetric::to_string).collect();
        assert_eq!(
            told,
            [
                "this device has no metric `flop_count_sp_fma`: ask for \
                 `sm__sass_thread_inst_executed_op_ffma_pred_on.sum` (an ffma counts twice; what runs on tensor \
                 cores is in sm__ops_path_tensor_*)",
                "this device has no metric `foo__bar.sum`",
                "`dram__bytes.avg` cannot be added over kernels: ask for a `.sum`",
            ]
        );
        let unasked: Vec<String> =
            unknown_metrics(&names, None, None).into_iter().map(|metric| metric.name).collect();
        assert_eq!(unasked, ["flop_count_sp_fma", "dram__bytes.avg"]);
    }
}
