//! Selects the metrics to request on a device: [`select_metrics`], [`select_named`].
//!
//! Names differ by chip. For each compute capability, `metrics.csv` lists the tensor paths that NVIDIA's own roofline
//! adds and whether memory traffic is counted (from the section files of Nsight Compute, October 2025). The device's
//! own list takes precedence: one unknown name fails the whole job, so a metric that the device lacks is reported as
//! not measured instead.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::metric::{
    Capability, CoreFormat, CoreOperation, Meaning, TensorPath, UnknownMetric, core_bases, disjoint_paths,
    split_names, unknown_metrics,
};

/// Lines of a capability and the base name of a metric.
const TABLE: &str = include_str!("metrics.csv");

/// Represents all tensor paths of a chip without known counters of tensor operations.
const ANY_TENSOR_PATH: &str = "sm__ops_path_tensor_src_*.sum";

/// The metrics to request, and those that are unavailable. Stored with the attempt, because interpreting the counters
/// requires the list of requested metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Selection {
    /// Full names, `dram__bytes.sum`, each once.
    pub metrics: Vec<String>,
    /// Full names of metrics that will not be measured, and why.
    pub missing: BTreeMap<String, String>,
}

impl Selection {
    fn take(&mut self, base: &str) {
        let name = format!("{base}.sum");
        if !self.metrics.contains(&name) {
            self.metrics.push(name);
        }
    }

    fn miss(&mut self, base: &str, why: &str) {
        self.missing.insert(format!("{base}.sum"), why.to_owned());
    }

    /// Takes the first of `bases` that the device has. All of them have the same meaning.
    fn take_one(&mut self, device: &Device<'_>, bases: &[&str]) {
        match bases.iter().find(|base| device.has(base)) {
            Some(base) => self.take(base),
            None => self.miss(bases[0], "the device does not offer it"),
        }
    }
}

/// The known facts about a device.
struct Device<'a> {
    capability: Option<Capability>,
    listed: Option<&'a BTreeSet<String>>,
}

impl Device<'_> {
    /// Whether it has the metric: listed, or presumed if there is no list.
    fn has(&self, base: &str) -> bool {
        match self.listed {
            Some(listed) => listed.contains(base),
            None => presumed(self.capability, base),
        }
    }
}

/// Selects the metrics for floating-point operations, memory and bus traffic, and durations.
///
/// `listed` are the base names of [`parse_query_metrics`]. It is `None` if the device could not be asked; then only its
/// capability decides. Integer tensor paths are left out: they carry no floating-point operations.
pub fn select_metrics(capability: Option<Capability>, listed: Option<&BTreeSet<String>>) -> Selection {
    let device = Device { capability, listed };
    let mut selection = Selection::default();
    selection.take_one(&device, &["gpu__time_duration"]);
    for format in CoreFormat::ALL {
        for operation in CoreOperation::ALL {
            let bases = core_bases(format, operation);
            selection.take_one(&device, &bases.each_ref().map(String::as_str));
        }
    }
    select_tensor(&mut selection, &device);
    selection.take_one(&device, &["dram__bytes"]);
    // The first name is that of the chip's own generation, so this is the one reported as missing.
    let [read, write] = split_names(capability);
    selection.take_one(&device, &read);
    selection.take_one(&device, &write);
    selection.take_one(&device, &["pcie__read_bytes"]);
    selection.take_one(&device, &["pcie__write_bytes"]);
    selection
}

/// Why a metric that the matrix does not list is missing.
const NOT_NAMED: &str = "it is not listed under `metrics` in the matrix";

/// Selects the metrics that a matrix names. If some of them count floating-point operations, all others that count them
/// are reported as missing, so that a partial count is not mistaken for a complete one.
///
/// # Errors
/// Every name that the device does not know, translated if it is a name of `nvprof`, and every name whose values cannot
/// be summed over kernels.
pub fn select_named(
    names: &[String],
    capability: Option<Capability>,
    listed: Option<&BTreeSet<String>>,
) -> Result<Selection, Vec<UnknownMetric>> {
    let unknown = unknown_metrics(names, capability, listed);
    if !unknown.is_empty() {
        return Err(unknown);
    }
    let mut selection = Selection::default();
    for name in names {
        selection.take(name.strip_suffix(".sum").unwrap_or(name));
    }
    if selection.metrics.iter().any(|name| counts_flops(name)) {
        let whole = select_metrics(capability, listed);
        let unnamed = whole.metrics.into_iter().filter(|name| !selection.metrics.contains(name));
        let unnamed = unnamed.map(|name| (name, NOT_NAMED.to_owned()));
        let all: Vec<_> = unnamed.chain(whole.missing).filter(|(name, _)| counts_flops(name)).collect();
        selection.missing.extend(all);
    }
    Ok(selection)
}

/// Whether a kernel's count of floating-point operations is incomplete without the metric `name`.
pub(super) fn counts_flops(name: &str) -> bool {
    Meaning::of(name).is_some_and(|meaning| meaning.counts_flops())
}

/// Parses the base names in the output of `ncu --query-metrics`, a table or CSV. Other lines are skipped.
pub fn parse_query_metrics(text: &str) -> BTreeSet<String> {
    text.lines().filter_map(listed_metric).collect()
}

/// The metric in a line of the listing: its first word, if it contains `__` as every metric does.
fn listed_metric(line: &str) -> Option<String> {
    let end = |letter: char| letter == ',' || letter == '"' || letter.is_whitespace();
    let word = line.trim_start().trim_start_matches('"').split(end).next()?;
    // A listing with suffixes has several lines per base name.
    let base = word.split_once('.').map_or(word, |(base, _)| base);
    let is_name = base.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    let (unit, counted) = base.split_once("__")?;
    (is_name && !unit.is_empty() && !counted.is_empty()).then(|| base.to_owned())
}

fn select_tensor(selection: &mut Selection, device: &Device<'_>) {
    let tabled = tabled_paths(device.capability);
    if tabled.is_empty() {
        select_tensor_by_listing(selection, device.listed);
        return;
    }
    for path in tabled {
        if device.has(&path.base()) {
            selection.take(&path.base());
        } else {
            selection.miss(&path.base(), "the device does not offer it");
        }
    }
}

/// For a chip that the table lacks: all paths on its list that can be added.
fn select_tensor_by_listing(selection: &mut Selection, listed: Option<&BTreeSet<String>>) {
    let listed = listed.into_iter().flatten().filter_map(|base| TensorPath::of(base));
    let (taken, left_out) = disjoint_paths(listed);
    if taken.is_empty() {
        let why = "no counter of tensor operations is known for this device";
        selection.missing.insert(ANY_TENSOR_PATH.to_owned(), why.to_owned());
    }
    for path in taken {
        selection.take(&path.base());
    }
    for path in left_out {
        selection.miss(&path.base(), "it might count operations that another path counts too");
    }
}

/// The metrics of a capability in the table.
fn tabled(capability: Option<Capability>) -> impl Iterator<Item = &'static str> {
    let capability = capability.map(|capability| capability.to_string());
    TABLE.lines().filter_map(move |line| {
        let (of, base) = line.split_once(',')?;
        (Some(of) == capability.as_deref()).then_some(base)
    })
}

/// The floating-point tensor paths in the table, which together cover all operations; none if the table lacks the chip.
pub(super) fn tabled_paths(capability: Option<Capability>) -> Vec<TensorPath> {
    tabled(capability).filter_map(TensorPath::of).collect()
}

/// Whether a device without a list presumably has the metric. Orin, Thor and GB10 do not count memory traffic.
fn presumed(capability: Option<Capability>, base: &str) -> bool {
    let is_tabled = |base: &str| tabled(capability).any(|known| known == base);
    let generation = split_names(capability).map(|names| names[0]);
    match Meaning::of(&format!("{base}.sum")) {
        Some(Meaning::Tensor(_) | Meaning::DramBytes) => is_tabled(base),
        Some(Meaning::DramRead | Meaning::DramWrite) => {
            is_tabled("dram__bytes") && generation.contains(&base)
        }
        Some(Meaning::Core(..)) => base.starts_with("sm__"),
        Some(_) => true,
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GH100: &str = include_str!("../../../tests/records/ncu_query_metrics_gh100.txt");
    const UNKNOWN: &str = include_str!("../../../tests/records/ncu_query_metrics_unknown_chip.csv");

    fn capability(text: &str) -> Option<Capability> {
        Some(text.parse().unwrap())
    }

    fn asks_for(selection: &Selection, part: &str) -> bool {
        selection.metrics.iter().any(|name| name.contains(part))
    }

    #[test]
    fn a_listing_is_parsed_as_a_table_and_as_csv() {
        let listed = parse_query_metrics(GH100);
        assert!(listed.contains("dram__bytes_read") && listed.contains("gpu__time_duration"));
        assert_eq!(listed.iter().find(|name| name.contains([' ', '"', '.'])), None);
        assert_eq!(listed.len(), 24);
        assert_eq!(parse_query_metrics(UNKNOWN).len(), 20);
        assert!(
            parse_query_metrics("==ERROR== Unknown option.\n---- --\nMetric Name\n__x y\nx__\n").is_empty()
        );
    }

    #[test]
    fn hopper_is_asked_only_for_whole_paths() {
        let selection = select_metrics(capability("9.0"), Some(&parse_query_metrics(GH100)));
        assert_eq!(selection.metrics.len(), 1 + 9 + 4 + 3 + 2);
        for name in [
            "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
            "sm__ops_path_tensor_src_fp16.sum",
            "sm__ops_path_tensor_src_tf32_dst_fp32.sum",
            "sm__ops_path_tensor_src_fp64.sum",
            "dram__bytes.sum",
            "dram__bytes_read.sum",
            "dram__bytes_write.sum",
            "sm__sass_thread_inst_executed_op_hfma_pred_on.sum",
        ] {
            assert!(selection.metrics.iter().any(|metric| metric == name), "{name}");
        }
        assert!(!asks_for(&selection, "_op_hgmma_"), "a part in addition to its whole");
        assert!(!asks_for(&selection, "int8"));
        // In the table, but not in this listing.
        let missing: Vec<&str> = selection.missing.keys().map(String::as_str).collect();
        assert_eq!(
            missing,
            ["sm__ops_path_tensor_src_fp8_sparsity_off.sum", "sm__ops_path_tensor_src_fp8_sparsity_on.sum"]
        );
    }

    #[test]
    fn an_unknown_chip_gets_the_metrics_it_lists() {
        let selection = select_metrics(capability("13.0"), Some(&parse_query_metrics(UNKNOWN)));
        let tensor: Vec<&String> = selection.metrics.iter().filter(|name| name.contains("tensor")).collect();
        assert_eq!(tensor, ["sm__ops_path_tensor_src_bf16_dst_fp32.sum", "sm__ops_path_tensor_src_fp16.sum"]);
        assert!(selection.metrics.contains(&"dram__bytes_op_read.sum".to_owned()));
        // This chip counts only per sub-partition of an SM.
        assert!(
            selection.metrics.contains(&"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum".to_owned())
        );
        assert_eq!(
            selection.missing.keys().map(String::as_str).collect::<Vec<_>>(),
            ["pcie__read_bytes.sum", "pcie__write_bytes.sum"]
        );
    }

    #[test]
    fn metrics_that_the_device_lacks_are_not_asked_for() {
        let selection = select_metrics(capability("8.0"), Some(&BTreeSet::new()));
        assert_eq!(selection.metrics, Vec::<String>::new());
        assert!(selection.missing.contains_key("dram__bytes.sum"));
        let volta = select_metrics(capability("7.0"), Some(&parse_query_metrics("dram__bytes x\n")));
        assert_eq!(volta.metrics, ["dram__bytes.sum"]);
        assert!(volta.missing.contains_key(ANY_TENSOR_PATH));
        assert!(Meaning::of(ANY_TENSOR_PATH).unwrap().counts_flops());
    }

    #[test]
    fn without_a_listing_the_capability_decides() {
        let names = |text: &str| select_metrics(capability(text), None);
        assert!(names("8.9").metrics.contains(&"dram__bytes_read.sum".to_owned()));
        assert!(names("12.0").metrics.contains(&"dram__bytes_op_write.sum".to_owned()));
        for shared_memory in ["8.7", "11.0", "12.1"] {
            let selection = names(shared_memory);
            assert!(!asks_for(&selection, "dram__"), "{shared_memory}");
            assert!(selection.missing.contains_key("dram__bytes.sum"), "{shared_memory}");
        }
        assert!(asks_for(&names("7.5"), "src_fp16_bf16_tf32_dst_fp32.sum"));
    }

    #[test]
    fn the_paths_of_the_table_never_overlap() {
        let capabilities: BTreeSet<&str> =
            TABLE.lines().skip(1).map(|line| line.split_once(',').unwrap().0).collect();
        assert_eq!(capabilities.len(), 12 - 1);
        for text in capabilities {
            let mut paths: Vec<TensorPath> = tabled(capability(text)).filter_map(TensorPath::of).collect();
            paths.sort();
            let (taken, left_out) = disjoint_paths(paths.clone());
            assert_eq!((taken, left_out), (paths, vec![]), "{text}");
        }
    }

    #[test]
    fn one_unknown_name_in_the_matrix_refuses_all() {
        let listed = parse_query_metrics(GH100);
        let names = ["dram__bytes.sum".to_owned(), "dram__bytes.sum".to_owned()];
        assert_eq!(
            select_named(&names, capability("9.0"), Some(&listed)).unwrap().metrics,
            ["dram__bytes.sum"]
        );
        assert!(select_named(&names, capability("9.0"), Some(&listed)).unwrap().missing.is_empty());
        let seed = ["flop_count_sp", "flop_count_hp", "dram__bytes_read.sum"].map(str::to_owned);
        let refused = select_named(&seed, capability("9.0"), Some(&listed)).unwrap_err();
        assert_eq!(
            refused.iter().map(|metric| metric.name.as_str()).collect::<Vec<_>>(),
            ["flop_count_sp", "flop_count_hp"]
        );
    }

    #[test]
    fn a_matrix_that_counts_some_operations_reports_the_missing_ones() {
        let listed = parse_query_metrics(GH100);
        let path = "sm__ops_path_tensor_src_bf16_dst_fp32.sum";
        let part = [path.to_owned(), "dram__bytes.sum".to_owned()];
        let selection = select_named(&part, capability("9.0"), Some(&listed)).unwrap();
        assert_eq!(selection.metrics, part);
        assert_eq!(selection.missing["sm__ops_path_tensor_src_fp16.sum"], NOT_NAMED);
        assert_eq!(selection.missing["sm__sass_thread_inst_executed_op_ffma_pred_on.sum"], NOT_NAMED);
        assert!(!selection.missing.contains_key("dram__bytes_read.sum"), "it has no parts");
        let all = select_metrics(capability("9.0"), Some(&listed));
        let named = select_named(&all.metrics, capability("9.0"), Some(&listed)).unwrap();
        assert_eq!(named, Selection { metrics: all.metrics, missing: all.missing }, "the whole list");
    }
}
