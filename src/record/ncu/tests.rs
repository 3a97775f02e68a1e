use std::collections::BTreeMap;

use proptest::prelude::*;

use super::output::Metrics;
use super::table::Kernel;
use super::*;
use crate::metric::Capability;
use crate::record::garble::{edits, garble};
use crate::record::{Counters, ReportedExit};

/// H100: three kernels in the measured range, units with prefixes, a tensor path together with a part of it.
const WIDE: &str = include_str!("../../../tests/records/ncu_wide_nvtx.csv");
/// H200, `ncu` 2025.3.1 with orchestrate's options: the first kernels of a window of resnet18 in TF32, on 64 × 64
/// pixels. No message announces kernels or follows the table.
const H200: &str = include_str!("../../../tests/records/ncu_wide_h200.csv");
/// T4: a process and its child, each with a kernel 0, and a second table with rules.
const LONG: &str = include_str!("../../../tests/records/ncu_long_child_process_rules.csv");
/// From 2021, in a German locale, with a log that does not announce kernels.
const GERMAN: &str = include_str!("../../../tests/records/ncu_wide_older_german.csv");

const EXIT_0: Option<ReportedExit> = Some(ReportedExit::Code(0));

/// The whole output of Nsight Compute.
#[derive(Clone, Copy, Default)]
struct Output<'a> {
    csv: &'a str,
    log: &'a str,
    exit: Option<ReportedExit>,
    program_stderr: &'a str,
}

fn parse_ncu(output: &Output<'_>, selection: &Selection) -> Result<NcuCounters, NcuFailure> {
    let Output { csv, log, exit, program_stderr } = *output;
    super::parse_ncu(csv.as_bytes(), &NcuOutput { log, exit, program_stderr }, selection)
}

fn exited_with_0(csv: &str) -> Output<'_> {
    Output { csv, exit: EXIT_0, ..Output::default() }
}

fn hopper() -> Selection {
    let listed = include_str!("../../../tests/records/ncu_query_metrics_gh100.txt");
    select_metrics(Some("9.0".parse().unwrap()), Some(&parse_query_metrics(listed)))
}

fn parse(csv: &str) -> Result<NcuCounters, NcuFailure> {
    parse_ncu(&exited_with_0(csv), &Selection::default())
}

#[test]
fn a_wide_table_of_the_measured_range() {
    let counters = parse(WIDE).unwrap();
    assert_eq!((counters.kernels, counters.kernel_names), (3, 2));
    assert_eq!(counters.capability, Some(Capability { major: 9, minor: 0 }));
    let totals = counters.totals();
    // fadd 1 000 + 1 001, fmul 2 000 + 2 000, and twice the ffma 30 000 + 30 000.
    assert_eq!(totals.fp32_flops, Some(2_001 + 4_000 + 120_000));
    // Twice the hfma 16 + 16.
    assert_eq!(totals.fp16_flops, Some(64));
    assert_eq!(totals.fp64_flops, Some(0));
    assert_eq!(totals.tensor_flops["tf32_dst_fp32"], 2 * 2_147_483_648);
    // The part by instruction is not added again.
    assert_eq!(totals.tensor_flops.values().sum::<u64>(), 4_294_967_296);
    assert_eq!(totals.flops, Some(4_294_967_296 + 126_001 + 64));
    // 12.50 + 12.75 + 1.00 Mbyte; 8.25 + 8.50 + 0 Mbyte; 4 250 + 4 250 + 1 000 Kbyte.
    assert_eq!(totals.dram_bytes, Some(26_250_000));
    assert_eq!((totals.dram_read_bytes, totals.dram_write_bytes), (Some(16_750_000), Some(9_500_000)));
    assert_eq!(totals.seconds, Some(220e-6));
    assert_eq!((totals.pcie_read_bytes, totals.pcie_write_bytes), (None, None));
    assert_eq!(counters.zero_flop_s, Some(10e-6));
    assert_eq!(counters.zero_flop_share(), Some(10e-6 / 220e-6));
    assert!(!counters.unproven);
}

#[test]
fn kernels_are_grouped_by_name_and_sorted_by_duration() {
    let [gemm, fill] = &parse(WIDE).unwrap().top_kernels[..] else { panic!("two names") };
    assert!(gemm.name.ends_with("align4, \"tf32\">(T1::Params)"), "{}", gemm.name);
    assert_eq!((gemm.launches, gemm.seconds), (2, Some(210e-6)));
    assert_eq!((gemm.flops, gemm.dram_bytes), (Some(4_295_093_361), Some(25_250_000)));
    assert!(fill.name.contains("FillFunctor<float>, at::detail::Array<char *, 1>>(int, T2, T3)"));
    assert_eq!((fill.launches, fill.flops, fill.dram_bytes), (1, Some(0), Some(1_000_000)));
}

#[test]
fn a_long_table_of_two_processes_with_rules() {
    let counters = parse(LONG).unwrap();
    assert_eq!((counters.kernels, counters.kernel_names), (3, 2));
    let totals = counters.totals();
    // 2 816 + 134 221 568 + 1 024, and 0 + 43 631 104 + 64.
    assert_eq!((totals.dram_read_bytes, totals.dram_write_bytes), (Some(134_225_408), Some(43_631_168)));
    assert_eq!(totals.dram_bytes, Some(177_856_576));
    assert_eq!(totals.seconds, Some(302_112e-9));
    let ffma = "sm__sass_thread_inst_executed_op_ffma_pred_on.sum";
    assert_eq!(counters.metrics[ffma], 16_777_223);
    // One kernel has `n/a`, so the sums of additions and of all operations are unknown.
    let fadd = "sm__sass_thread_inst_executed_op_fadd_pred_on.sum";
    assert_eq!(
        counters.not_measured,
        BTreeMap::from([(fadd.to_owned(), "1 of 3 kernels have no value".to_owned())])
    );
    assert_eq!((totals.fp32_flops, totals.flops, counters.zero_flop_s), (None, None, None));
    assert_eq!(counters.top_kernels[1].name, "branch()");
    assert_eq!((counters.top_kernels[1].launches, counters.top_kernels[1].seconds), (2, Some(9_184e-9)));
}

#[test]
fn another_locale_and_an_older_version() {
    let counters = parse(GERMAN).unwrap();
    let totals = counters.totals();
    assert_eq!(
        (totals.dram_read_bytes, totals.dram_write_bytes),
        (Some(27_595_520 + 512), Some(1_024 + 2_048))
    );
    // 1 234,56 and 5,18 microseconds.
    assert_eq!(totals.seconds, Some(1_239_740e-9));
    assert_eq!((counters.capability, counters.kernels, counters.kernel_names), (None, 2, 1));
}

/// A file that is made while it is read, `rows` times the same rows with another id each.
struct Endless {
    head: &'static str,
    row: fn(usize) -> String,
    rows: usize,
    made: usize,
    piece: Vec<u8>,
}

impl std::io::Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.piece.is_empty() && self.made <= self.rows {
            let text = if self.made == 0 { self.head.to_owned() } else { (self.row)(self.made - 1) };
            self.piece = text.into_bytes();
            self.made += 1;
        }
        let length = buffer.len().min(self.piece.len());
        buffer[..length].copy_from_slice(&self.piece[..length]);
        self.piece.drain(..length);
        Ok(length)
    }
}

/// The whole file would have tens of megabytes. Only names, requested values and ambiguous values are kept.
#[test]
fn a_table_of_any_length_is_read_as_a_stream() {
    let long = Endless {
        head: "\"ID\",\"Process ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n",
        row: |index| {
            let (kernel, name) = (index / 2, ["gpu__time_duration.sum", "dram__bytes.sum"][index % 2]);
            let unit = ["ns", "byte"][index % 2];
            format!("\"{kernel}\",\"7\",\"k{}\",\"{name}\",\"{unit}\",\"1,024\"\n", kernel % 3)
        },
        rows: 60_000,
        made: 0,
        piece: Vec::new(),
    };
    let exit = NcuOutput { exit: EXIT_0, ..NcuOutput::default() };
    let counters = super::parse_ncu(std::io::BufReader::new(long), &exit, &Selection::default()).unwrap();
    assert_eq!((counters.kernels, counters.kernel_names), (30_000, 3));
    assert_eq!(counters.metrics["dram__bytes.sum"], 30_000 * 1024);
    let wide = Endless {
        head: "\"ID\",\"Process ID\",\"Kernel Name\",\"dram__bytes.sum\",\"sm__x.sum\"\n\"\",\"\",\"\",\"Kbyte\",\"\"\n",
        row: |index| format!("\"{index}\",\"7\",\"a, \"\"b\"\"\",\"1.50\",\"{}\"\n", "9".repeat(1000)),
        rows: 10_000,
        made: 0,
        piece: Vec::new(),
    };
    let counters = super::parse_ncu(std::io::BufReader::new(wide), &exit, &Selection::default()).unwrap();
    assert_eq!((counters.kernels, counters.metrics["dram__bytes.sum"]), (10_000, 10_000 * 1500));
    assert_eq!(counters.top_kernels[0].name, "a, \"b\"");
}

#[test]
fn a_file_that_cannot_be_read_to_its_end_is_torn() {
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("a bad sector"))
        }
    }
    let file = std::io::Read::chain(WIDE.as_bytes(), Broken);
    let output = NcuOutput { exit: EXIT_0, ..NcuOutput::default() };
    let failure =
        super::parse_ncu(std::io::BufReader::new(file), &output, &Selection::default()).unwrap_err();
    assert!(matches!(failure, NcuFailure::Table(TableError::Torn { .. })), "{failure}");
}

#[test]
fn a_table_of_todays_profiler_on_a_real_device_is_whole() {
    let counters = parse(H200).unwrap();
    assert!(!counters.unproven);
    assert_eq!((counters.kernels, counters.kernel_names), (6, 5));
    assert_eq!(counters.capability, Some(Capability { major: 9, minor: 0 }));
    let totals = counters.totals();
    // 8 images of 32 × 32 outputs and 64 channels: products of 7 × 7 × 3 = 147 numbers, filled up to 160.
    assert_eq!(totals.tensor_flops["tf32_dst_fp32"], 2 * (8 * 32 * 32) * 64 * 160);
    assert_eq!((totals.dram_bytes, totals.dram_write_bytes), (Some(7_241_472), Some(0)));
    assert_eq!(totals.seconds, Some(34_272e-9));
    assert_eq!(
        counters.warnings.len(),
        1,
        "it warns that the clocks are not locked: {:?}",
        counters.warnings
    );
}

/// The last row of `csv`, made longer by a name until the table is `length` bytes long.
fn filled(csv: &str, length: usize) -> String {
    let (head, last) = csv.trim_end().rsplit_once('\n').unwrap();
    let name = last.find("void ").unwrap();
    format!("{head}\n{}{}{}\n", &last[..name], "x".repeat(length - csv.len()), &last[name..])
}

/// A table that was cut at the end of a row, when the disk was full, looks like a shorter table.
#[test]
fn a_table_that_a_full_disk_can_have_cut_is_unproven_even_after_exit_0() {
    let unproven = |csv: &str| parse(csv).unwrap().unproven;
    let kernels = H200.lines().count() - 5;
    for kept in 1..=kernels {
        // Where both a row and a block end.
        let shorter: String = H200.lines().take(5 + kept).map(|line| format!("{line}\n")).collect();
        if !shorter.lines().last().unwrap().contains("void ") {
            continue;
        }
        let block = shorter.len().next_multiple_of(512);
        assert!(unproven(&filled(&shorter, block)), "{kept} kernels: the disk may have been full");
        assert!(!unproven(&filled(&shorter, block + 1)), "{kept} kernels: a full disk cuts between blocks");
    }
    let message = "==PROF== Disconnected from process 7\n";
    let block = H200.len().next_multiple_of(512) + 512;
    assert!(!unproven(&format!("{}{message}", filled(H200, block - message.len()))), "a message follows");
    assert!(!unproven(&filled(WIDE, WIDE.len().next_multiple_of(512))), "all announced kernels");
}

/// As in a ledger of another script. An incomplete copy can end anywhere.
#[test]
fn a_table_is_unproven_if_the_end_of_the_profiler_was_not_observed() {
    for (csv, expected) in [(H200, true), (GERMAN, true), (WIDE, false), (LONG, false)] {
        let unseen = Output { csv, ..Output::default() };
        assert_eq!(parse_ncu(&unseen, &Selection::default()).unwrap().unproven, expected, "{csv}");
    }
}

#[test]
fn a_table_without_some_of_its_ids_is_unproven() {
    let unproven = |csv: &str| {
        assert_ne!(csv.len() % 512, 0);
        parse(csv).unwrap().unproven
    };
    for id in ["\"0\",", "\"3\","] {
        let kept = H200.lines().filter(|line| !line.starts_with(id));
        assert!(unproven(&kept.map(|line| format!("{line}\n")).collect::<String>()), "{id}");
    }
    // Three kernels of one process and three of another, numbered per process, together, or with a gap.
    for (ids, expected) in [(["0", "1", "2"], false), (["3", "4", "5"], false), (["1", "2", "3"], true)] {
        let of_other = |line: &str| {
            let other = ["3", "4", "5"].iter().position(|id| line.starts_with(&format!("\"{id}\",")));
            let id_of = |place: usize| {
                format!("\"{}\",\"99999\",{}", ids[place], line.splitn(3, ',').nth(2).unwrap())
            };
            other.map_or(line.to_owned(), id_of)
        };
        let csv: String = H200.lines().map(|line| of_other(line) + "\n").collect();
        assert_eq!(unproven(&csv), expected, "{ids:?}");
    }
}

#[test]
fn warnings_of_the_profiler_are_kept() {
    let warned = format!("==WARNING== The clocks\u{1b}[31m were not locked.\n{WIDE}");
    assert_eq!(parse(&warned).unwrap().warnings, ["The clocks were not locked."]);
    assert!(parse(WIDE).unwrap().warnings.is_empty());
    let many: String = (0..100).map(|kernel| format!("==WARNING== kernel {kernel}\n")).collect();
    assert_eq!(parse(&format!("{many}{WIDE}")).unwrap().warnings.len(), 20);
}

/// Nsight Compute ends the program, so its exit code is a consequence.
#[test]
fn nsight_computes_own_error_comes_before_the_programs_exit() {
    for (error, remedy) in [
        ("Failed to open/create lock file /tmp/nsight-compute-lock.", "lock file"),
        ("Clocks cannot be locked on MIG devices.", "whole GPU"),
        ("std::bad_alloc", "smaller batch"),
        ("An unknown error on device 0 occurred.", "dmesg"),
        ("Something new.", "command.sh"),
    ] {
        let text = format!(
            "==PROF== Connected to process 7\n==ERROR== {error}\n\
             ==ERROR== The application returned an error code (9).\n"
        );
        let output = Output { csv: &text, exit: Some(ReportedExit::Code(9)), ..Output::default() };
        let failure = parse_ncu(&output, &Selection::default()).unwrap_err();
        assert_eq!(failure, NcuFailure::Other(error.to_owned()));
        assert!(failure.remedy().contains(remedy), "{error}: {}", failure.remedy());
    }
}

#[test]
fn an_infinite_value_is_missing_and_the_others_are_kept() {
    let cell = "\"105.25\"";
    assert!(WIDE.contains(cell));
    let infinite = parse(&WIDE.replacen(cell, "\"inf\"", 1)).unwrap();
    assert_eq!(infinite.not_measured.len(), 1, "{:?}", infinite.not_measured);
    assert_eq!(infinite.metrics.len(), parse(WIDE).unwrap().metrics.len() - 1);
}

#[test]
fn unknown_values_are_not_blamed_on_a_full_disk() {
    let invalid = |from: &str, to: &str| parse(&WIDE.replacen(from, to, 1)).unwrap_err();
    let value = invalid("\"1,001\"", "\"a lot\"");
    assert!(matches!(&value, NcuFailure::Table(TableError::Value { .. })), "{value}");
    assert!(!value.remedy().contains("disk") && value.remedy().contains("ncu.csv"), "{}", value.remedy());
    let torn = parse(&WIDE[..WIDE.len() - 1]).unwrap_err();
    assert!(torn.remedy().contains("disk"), "{torn}: {}", torn.remedy());
}

#[test]
fn requested_metrics_without_values_are_not_measured() {
    let counters = parse_ncu(&exited_with_0(WIDE), &hopper()).unwrap();
    let missing: Vec<(&str, &str)> =
        counters.not_measured.iter().map(|(name, why)| (name.as_str(), why.as_str())).collect();
    assert_eq!(
        missing,
        [
            ("pcie__read_bytes.sum", "no kernel has a value for it"),
            ("pcie__write_bytes.sum", "no kernel has a value for it"),
            ("sm__ops_path_tensor_src_fp8_sparsity_off.sum", "the device does not offer it"),
            ("sm__ops_path_tensor_src_fp8_sparsity_on.sum", "the device does not offer it"),
        ]
    );
    // Some operations might be missing, so there is no total, but the parts remain.
    assert_eq!((counters.totals().flops, counters.totals().fp32_flops), (None, Some(126_001)));
    let bytes = Selection { metrics: vec!["lts__t_sectors.sum".to_owned()], ..Selection::default() };
    assert!(parse_ncu(&exited_with_0(WIDE), &bytes).unwrap().not_measured.contains_key("lts__t_sectors.sum"));
}

#[test]
fn other_metrics_of_the_matrix_are_summed_too() {
    let csv = WIDE.replace("gpu__time_duration.sum", "lts__t_sectors.sum").replace("\"us\"", "\"sector\"");
    let asked = Selection { metrics: vec!["lts__t_sectors.sum".to_owned()], ..Selection::default() };
    assert!(!parse(&csv).unwrap().metrics.contains_key("lts__t_sectors.sum"));
    assert_eq!(
        parse_ncu(&exited_with_0(&csv), &asked).unwrap().metrics["lts__t_sectors.sum"],
        105 + 105 + 10
    );
}

#[test]
fn line_endings_and_quotes_make_no_difference() {
    let windows = format!("\u{feff}{}", GERMAN.replace('\n', "\r\n"));
    assert_eq!(parse(&windows), parse(GERMAN));
    let (_, table) = GERMAN.split_once("5268\n==PROF== Disconnected from process 5268\n").unwrap();
    let saved_again = format!(
        "\u{feff}{}",
        table
            .replace("(const float *, const float *, float *, int)", "")
            .replace("5,18", "5.180")
            .replace("1.234,56", "1234.56")
            .replace("77,", "77.")
            .replace("27.595.520", "27595520")
            .replace("1.024", "1024")
            .replace("2.048", "2048")
            .replace('"', "")
    );
    let totals = parse(&saved_again).unwrap().totals();
    assert_eq!(totals, parse(GERMAN).unwrap().totals());
}

#[test]
fn an_inconsistent_table_is_refused() {
    let table = |failure: Result<NcuCounters, NcuFailure>| match failure {
        Err(NcuFailure::Table(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    for (csv, from, to, words) in [
        (WIDE, "\"105.25\"", "\"105,25\"", "mixes decimal points and decimal commas: `105,25`"),
        (
            WIDE,
            "\"105.25\"",
            "\"-105.25\"",
            "line 8 of the table has an invalid value for `gpu__time_duration.sum`: `-105.25` in unit `us`",
        ),
        (WIDE, "\"us\"", "\"%\"", "`105.25` in unit `%`"),
        (WIDE, "\"us\"", "\"byte\"", "`105.25` in unit `byte`"),
        (WIDE, "\"105.25\",", "", "line 8 of the table is invalid: its number of fields differs"),
        (WIDE, "\"0\",\"41207\"", "\"\",\"41207\"", "it has no id"),
        (WIDE, "\"1\",\"41207\"", "\"0\",\"41207\"", "has another value"),
        (WIDE, "\"2\",\"41207\"", "\"1\",\"41207\"", "belongs to a kernel with another name"),
        (
            GERMAN,
            "\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"byte\",\"byte\",\"usecond\",\"%\"\n",
            "",
            "units is missing",
        ),
        (LONG, "\"Metric Unit\"", "\"Unit\"", "the header lacks the columns for a metric's name"),
        (
            LONG,
            "\"Metric Name\",\"Metric Unit\",\"Metric Value\"",
            "\"Metric Value\",\"Metric Unit\",\"Metric Name\"",
            "the header lacks the columns for a metric's name",
        ),
        (LONG, "\"134,221,568\"", "\"134,221,568", "is invalid"),
    ] {
        let changed = csv.replacen(from, to, 1);
        assert_ne!(changed, csv, "{from}");
        assert!(table(parse(&changed)).contains(words), "{from} → {to}: {}", table(parse(&changed)));
    }
    assert!(table(parse(&WIDE[..WIDE.len() - 5])).contains("cut off in line 10"));
    let units = WIDE.lines().find(|line| line.starts_with("\"\",")).unwrap();
    let without_units = WIDE.replacen(&format!("{units}\n"), "", 1);
    for (id, process) in [("0", "41207"), ("", "41207"), ("0", "")] {
        let first = format!("\"{id}\",\"{process}\"");
        let error = table(parse(&without_units.replacen("\"0\",\"41207\"", &first, 1)));
        assert!(error.contains("units is missing"), "{first}: {error}");
    }
    // A quoted cell can contain line breaks. The lines of the file are counted, not the rows.
    let broken = WIDE.replacen("\"0\",\"41207\",\"worker\"", "\"0\",\"41207\",\"wor\n\nker\"", 1);
    assert_eq!(parse(&broken).unwrap().totals(), parse(WIDE).unwrap().totals());
    let error = table(parse(&broken.replacen("\"2\",\"41207\"", "\"1\",\"41207\"", 1)));
    assert!(error.contains("line 12 "), "{error}");
}

/// The program prints to the same file. Only a line that begins with two whole numbers can be a row.
#[test]
fn lines_of_the_program_between_rows_are_skipped() {
    let (_, table) = LONG.split_once("max error, 0.0\n").unwrap();
    let mut rows = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(table.as_bytes());
    let row =
        |row: csv::StringRecord| row.iter().map(|field| field.replace(',', "")).collect::<Vec<_>>().join(",");
    let unquoted: String = rows.records().map(|it| row(it.unwrap()) + "\n").collect();
    let totals = |csv: &str| parse_ncu(&Output { csv, ..Output::default() }, &hopper()).map(|it| it.metrics);
    let expected = totals(&unquoted).unwrap();
    for said in ["epoch,5,loss", "5,epoch,loss", "5,7"] {
        let (header, rows) = unquoted.split_once('\n').unwrap();
        assert_eq!(totals(&format!("{header}\n{said}\n{rows}")).as_ref(), Ok(&expected), "{said}");
    }
}

/// A table can have columns after the value, for rules. Rows of metrics end before them.
#[test]
fn rows_of_metrics_lack_the_columns_of_rules() {
    let widened = LONG.replacen("\"Metric Value\"\n", "\"Metric Value\",\"Rule Name\",\"Rule Type\"\n", 1);
    assert_ne!(widened, LONG);
    assert_eq!(parse(&widened).unwrap().metrics, parse(LONG).unwrap().metrics);
    for (rest, is_read) in
        [(",\"\"", true), (",\"\",\"\"", true), (",\"x\"", false), (",\"\",\"\",\"\"", false)]
    {
        let row = widened.replacen("\"byte\",\"2,816\"", &format!("\"byte\",\"2,816\"{rest}"), 1);
        assert_eq!(parse(&row).is_ok(), is_read, "{rest}");
    }
}

#[test]
fn a_row_that_is_repeated_counts_once() {
    let row = LONG.lines().find(|line| line.contains("\"byte\",\"2,816\"")).unwrap();
    let twice = LONG.replacen(row, &format!("{row}\n{row}"), 1);
    assert_eq!(parse(&twice).unwrap().metrics, parse(LONG).unwrap().metrics);
}

/// An attribute of the device can be printed in another notation than the metrics.
#[test]
fn attributes_of_the_device_are_not_read() {
    let csv =
        WIDE.replace("gpu__time_duration.sum", "device__attribute_clock").replace("\"105.25\"", "\"105,25\"");
    let counters = parse_ncu(&exited_with_0(&csv), &Selection::default()).unwrap();
    assert_eq!(counters.totals().dram_bytes, parse(WIDE).unwrap().totals().dram_bytes);
    assert_eq!(counters.totals().seconds, None);
}

/// Without a prefix, a unit counts whole things, so one separator groups.
#[test]
fn a_separator_in_a_whole_number_groups() {
    let header = LONG.lines().find(|line| line.starts_with("\"ID\"")).unwrap();
    let row = LONG.lines().find(|line| line.contains("\"byte\",\"2,816\"")).unwrap();
    for printed in ["2,816", "2.816"] {
        let csv = format!("{header}\n{row}\n").replace("2,816", printed);
        let counters = parse_ncu(&Output { csv: &csv, ..Output::default() }, &hopper()).unwrap();
        assert_eq!(counters.metrics["dram__bytes_read.sum"], 2816, "{printed}");
    }
}

#[test]
fn a_killed_program_is_reported_with_its_signal() {
    let text = |signal| NcuFailure::Killed { signal }.to_string();
    assert!(
        text(Some(9)).starts_with(&text(None)) && text(Some(9)).ends_with("(signal 9)"),
        "{}",
        text(Some(9))
    );
}

#[test]
fn missing_last_rows_are_noticed() {
    let without_last_row = |text: &str| {
        let end = text.trim_end().rfind('\n').unwrap() + 1;
        text[..end].to_owned()
    };
    let failure = parse(&without_last_row(WIDE)).unwrap_err();
    assert_eq!(failure, NcuFailure::KernelsMissing { found: 2, announced: 3 });
    // The last row is that of a rule. Without the row before it, the last kernel lacks a metric.
    let failure = parse(&without_last_row(&without_last_row(LONG))).unwrap_err();
    assert!(failure.to_string().contains("lacks metrics that all others have"), "{failure}");
}

/// The log of a profiled process that contains `lines`.
fn log(lines: &str) -> String {
    format!(
        "==PROF== Connected to process 77 (/usr/bin/worker)\n{lines}==PROF== Disconnected from process 77\n"
    )
}

#[test]
fn failures_are_recognised() {
    let permission =
        log("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU \
        Performance Counters on the target device 0.\n==WARNING== No kernels were profiled.\n");
    let library = "==PROF== Connected to process ...\n==ERROR== An error was reported by the counter measurement \
        library:\n==ERROR== Failed to initialize the profiler: LibraryNotLoaded. Check the driver.\n\
        ==ERROR== The application returned an error code (9).\n";
    let unknown = "==PROF== Connected to process 77 (w)\n==ERROR== Failed to find metric \
        regex:^flop_count_sp\\.(sum|min|max|avg|pct|ratio|max_rate)$\n";
    let chips = log(
        "==ERROR== Profiling is not supported on device 0. To find out supported GPUs refer --list-chips \
        option.\n==WARNING== No kernels were profiled.\n",
    );
    let driver = "==ERROR== An error was reported by the driver:\n==ERROR== Cuda driver is not compatible with Nsight \
        Compute.\n==ERROR== The application returned an error code (11).\n";
    let busy = log(
        "==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool \
        (like DCGM) is concurrently collecting profiling data.\n",
    );
    let program = log("") + "==ERROR== The application returned an error code (1).\n";
    let other = log("==ERROR== Failed to profile \"gemm\" in process 77\n");
    let none = log("") + "==WARNING== No kernels were profiled.\n";
    let killed =
        "==PROF== Connected to process 77 (/usr/bin/worker)\n==PROF== Profiling \"f\" - 0: 0%....50%";
    for (text, words, remedy) in [
        (permission.as_str(), "ERR_NVGPUCTRPERM", "NVreg_RestrictProfilingToAdminUsers=0"),
        (library, "LibraryNotLoaded", "gVisor"),
        (
            unknown,
            "does not know the metric `flop_count_sp`",
            "`sm__sass_thread_inst_executed_op_fadd_pred_on.sum,",
        ),
        (&chips, "cannot profile this GPU: Profiling is not supported on device 0.", "newer Nsight Compute"),
        (
            driver,
            "incompatible with this Nsight Compute: Cuda driver is not compatible",
            "update the GPU's driver",
        ),
        (&busy, "another program is using", "dcgmi profile --pause"),
        (&program, "failed under Nsight Compute with exit code 1: ValueError: no data", "command.sh"),
        (&other, "Nsight Compute failed: Failed to profile \"gemm\" in process 77", "command.sh"),
        (&none, "exited normally but profiled no kernels", "NVTX"),
        (killed, "was killed before Nsight Compute could finish", "limits.timeout"),
        (&log(""), "wrote no table", "command.sh"),
    ] {
        let stderr = "Traceback (most recent call last):\nValueError: no data\n\n";
        // Messages are found in either place.
        for (csv, log) in [(text, ""), ("", text), (text, text)] {
            let output = Output { csv, log, exit: EXIT_0, program_stderr: stderr };
            let failure = parse_ncu(&output, &hopper()).unwrap_err();
            assert!(failure.to_string().contains(words), "{failure}");
            assert!(failure.remedy().contains(remedy), "{failure}: {}", failure.remedy());
        }
    }
}

#[test]
fn a_complete_table_is_not_used_after_a_failure() {
    let exited =
        |exit| parse_ncu(&Output { exit: Some(exit), ..exited_with_0(WIDE) }, &hopper()).unwrap_err();
    assert_eq!(exited(ReportedExit::Code(3)), NcuFailure::Exited(3));
    assert_eq!(exited(ReportedExit::Signal(9)), NcuFailure::Killed { signal: Some(9) });
    let failed = format!("{WIDE}==ERROR== The application returned an error code (1).\n");
    assert_eq!(parse(&failed), Err(NcuFailure::Application { code: Some(1), stderr: None }));
    let unfinished = WIDE.replace("==PROF== Disconnected from process 41207\n", "");
    assert_eq!(parse(&unfinished), Err(NcuFailure::Killed { signal: None }));
}

#[test]
fn a_header_alone_has_no_kernels() {
    let header_alone = GERMAN.lines().take(4).map(|line| format!("{line}\n")).collect::<String>();
    assert_eq!(parse(&header_alone), Err(NcuFailure::NoKernels));
}

#[test]
fn counters_read_back_from_a_record() {
    let counters = Counters::Ncu(Box::new(parse_ncu(&exited_with_0(WIDE), &hopper()).unwrap()));
    let json = serde_json::to_string(&counters).unwrap();
    assert!(json.starts_with(r#"{"profiler":"ncu","capability":"9.0","kernels":3,"#), "{json}");
    assert_eq!(serde_json::from_str::<Counters>(&json).unwrap(), counters);
}

#[test]
fn at_most_twenty_kernels_are_listed() {
    let kernels: Vec<Kernel> = (0..30u64)
        .map(|index| Kernel {
            name: format!("kernel_{index:02}"),
            capability: None,
            metrics: Metrics::from([("gpu__time_duration.sum".into(), 100 + index % 3)]),
        })
        .collect();
    let counters = NcuCounters::of(&kernels, &Selection::default(), false);
    let names: Vec<&str> = counters.top_kernels.iter().map(|group| group.name.as_str()).collect();
    assert_eq!((names.len(), counters.kernel_names), (20, 30));
    assert_eq!(names[..2], ["kernel_02", "kernel_05"]);
    assert_eq!(names[10..12], ["kernel_01", "kernel_04"]);
}

#[test]
fn a_sum_that_exceeds_64_bits_is_not_measured() {
    let kernel =
        Kernel { metrics: Metrics::from([("dram__bytes.sum".into(), u64::MAX)]), ..Kernel::default() };
    let counters = NcuCounters::of(&[kernel.clone(), kernel], &Selection::default(), false);
    assert_eq!(counters.totals().dram_bytes, None);
    assert_eq!(counters.not_measured["dram__bytes.sum"], "its sum exceeds 64 bits");
}

#[test]
fn a_metric_that_some_kernels_lack_is_not_measured() {
    let (without, with) = (Kernel::default(), Metrics::from([("dram__bytes.sum".into(), 8)]));
    let kernels = [without.clone(), without, Kernel { metrics: with, ..Kernel::default() }];
    let counters = NcuCounters::of(&kernels, &Selection::default(), false);
    assert_eq!(counters.not_measured["dram__bytes.sum"], "2 of 3 kernels have no value");
}

#[test]
fn kernels_without_duration_have_no_share() {
    let share = |nanoseconds: u64| {
        let metrics = BTreeMap::from([("gpu__time_duration.sum".to_owned(), nanoseconds)]);
        NcuCounters { metrics, zero_flop_s: Some(1e-9), ..NcuCounters::default() }.zero_flop_share()
    };
    assert_eq!((share(4), share(0)), (Some(0.25), None));
}

proptest! {
    #[test]
    fn a_truncated_file_has_no_wrong_totals(
        text in prop::sample::select(vec![WIDE, LONG, GERMAN, H200]),
        cut in any::<prop::sample::Index>(),
    ) {
        let cut = text.floor_char_boundary(cut.index(text.len()));
        let whole = parse(text).unwrap();
        let output = Output { csv: &text[..cut], ..Output::default() };
        if let Ok(counters) = parse_ncu(&output, &Selection::default()) {
            let is_flagged = counters.unproven && counters.kernels < whole.kernels;
            let is_whole = NcuCounters { unproven: false, ..counters.clone() } == whole;
            prop_assert!(is_whole || is_flagged, "{:?}", counters);
        }
    }

    #[test]
    fn the_order_of_kernels_changes_no_total(
        rows in Just(WIDE.lines().skip(7).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let head = WIDE.lines().take(7);
        let text: String = head.chain(rows).map(|line| format!("{line}\n")).collect();
        prop_assert_eq!(parse(&text), parse(WIDE));
    }

    #[test]
    fn a_garbled_table_does_not_panic(
        text in prop::sample::select(vec![WIDE, LONG, GERMAN, H200]),
        edits in edits(),
        exit in prop::sample::select(vec![None, EXIT_0]),
    ) {
        let text = garble(text, &edits);
        let output = Output { csv: &text, log: &text, exit, program_stderr: &text };
        if let Ok(counters) = parse_ncu(&output, &hopper()) {
            prop_assert!(counters.kernels > 0);
            prop_assert!(counters.zero_flop_share().is_none_or(|share| (0.0..=1.0).contains(&share)));
        }
    }

    #[test]
    fn an_arbitrary_listing_does_not_panic(text in "(\\PC*\n|\"?[a-z]{1,3}__[a-z]{1,3}[,. \"]\\PC*\n)*") {
        let listed = parse_query_metrics(&text);
        prop_assert!(listed.iter().all(|name| name.contains("__")));
        let _ = select_metrics(None, Some(&listed));
        let _ = parse_ncu_version(&text);
    }
}
