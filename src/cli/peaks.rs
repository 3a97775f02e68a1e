//! `orchestrate peaks`: lists known ceilings and measures those of a device.
#![expect(
    clippy::disallowed_methods,
    reason = "the command line provides the date and creates the directory"
)]

use std::path::{Path, PathBuf};

use super::catalogue::{load_catalogue, peaks_so_far};
use super::output::{Layout, print, print_line, say, table, table_text};
use super::{Exit, Failure, Global};
use crate::analysis::marks::Thresholds;
use crate::analysis::peaks::{
    Catalogue, Ceiling, MEASURED_SCHEMA, METHOD, MeasuredFile, Origin, Peaks, Range, suspicions,
};
use crate::files::write_atomic;
use crate::host::{hash_file, probe_host};
use crate::job::{Device, Precision};
use crate::prepare::peaks::{MEASURED, MeasureError, Measured, Measurement, measure_peaks};
use crate::protocol::{ConvolutionSample, GemmSample, InstructionSample, Operands};
use crate::record::HostFacts;
use crate::stats;
use crate::text::beyond;

/// The arguments of `orchestrate peaks`.
#[derive(Debug, clap::Args)]
pub(super) struct PeaksArgs {
    #[command(subcommand)]
    verb: PeaksVerb,
}

#[derive(Debug, clap::Subcommand)]
enum PeaksVerb {
    /// List the known peaks.
    List(ListArgs),
    /// Measure a device of this host with matrix products on random data, and copy and triad beyond the caches.
    Measure(MeasureArgs),
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Directory of the peaks.
    #[arg(long, value_name = "DIR", default_value = "peaks")]
    peaks_dir: PathBuf,
}

#[derive(Debug, clap::Args)]
struct MeasureArgs {
    /// The device: cpu, mps, cuda or cuda:<index>.
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: Device,
    /// The worker for the measurement [default: the shipped one].
    #[arg(long, value_name = "PATH")]
    worker: Option<PathBuf>,
    /// Number of compute threads [default: the number of usable processors].
    #[arg(long, value_name = "N")]
    threads: Option<u32>,
    /// Measure fewer sizes and repetitions: about ten seconds instead of a minute, for a less certain ceiling.
    #[arg(long)]
    quick: bool,
    /// Do nothing if the peaks of this device were measured already. Those of a quick measurement only count with
    /// `--quick`.
    #[arg(long)]
    if_missing: bool,
    /// Directory of the peaks; the file is written to its `measured/`.
    #[arg(long, value_name = "DIR", default_value = "peaks")]
    peaks_dir: PathBuf,
}

/// Lists or measures peaks.
pub(super) fn run(args: PeaksArgs, global: &Global) -> Result<Exit, Failure> {
    match args.verb {
        PeaksVerb::List(args) => list(&args, global),
        PeaksVerb::Measure(args) => measure(&args, global),
    }
}

fn list(args: &ListArgs, global: &Global) -> Result<Exit, Failure> {
    let catalogue = load_catalogue(&args.peaks_dir, global)?;
    print_line(&catalogue_table(catalogue.all()))?;
    Ok(Exit::Done)
}

fn catalogue_table(all: &[Peaks]) -> String {
    let mut header = vec!["name", "for"];
    header.extend(Precision::ALL.map(Precision::as_str));
    header.extend(["ceiling", "GB/s", "origin", "date", "confidence"]);
    let mut table = table(header.into_iter().map(str::to_owned).collect(), Layout::lines());
    for peaks in all {
        let mut cells = vec![peaks.name.clone(), peaks.names.join("\n")];
        cells.extend(Precision::ALL.map(|precision| {
            peaks.ceiling(precision).map_or("-".to_owned(), |ceiling| text(ceiling.flops_per_s, 1e12))
        }));
        cells.push(kinds_text(peaks));
        cells.push(peaks.bandwidth.map_or("-".to_owned(), |bandwidth| text(bandwidth, 1e9)));
        cells.extend([peaks.origin.to_string(), peaks.date.clone(), peaks.confidence.to_string()]);
        table.add_row(cells);
    }
    format!("{}fp32, tf32, amp and bf16 in TFLOP/s, dense", table_text(&table))
}

/// The kinds of its ceilings, without duplicates.
fn kinds_text(peaks: &Peaks) -> String {
    let mut kinds: Vec<String> = Vec::new();
    for kind in peaks.flops.iter().map(|ceiling| ceiling.kind.to_string()) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds.join("\n")
}

/// One line per precision: its ceiling, the source of that, and the part that libraries attain.
fn ceiling_lines(peaks: &Peaks) -> impl Iterator<Item = String> {
    peaks.flops.iter().map(|ceiling| {
        let Ceiling { precision, flops_per_s, kind, attainable, .. } = ceiling;
        let gflops = |flops: f64| format!("{:.1} GFLOP/s", flops / 1e9);
        let attained = |name: &str, flops: Option<f64>| {
            let flops = flops?;
            Some(format!("; best {name} {} ({:.0} %)", gflops(flops), 100.0 * flops / flops_per_s.high))
        };
        let parts =
            [attained("product", attainable.product), attained("convolution", attainable.convolution)];
        let parts: String = parts.into_iter().flatten().collect();
        format!("{precision}: {} by {kind}{parts}", gflops(flops_per_s.high))
    })
}

fn text(range: Range, unit: f64) -> String {
    let number = |value: f64| {
        let value = value / unit;
        if value < 10.0 { format!("{value:.3}") } else { format!("{value:.1}") }
    };
    if range.is_wide() {
        format!("{} to {}", number(range.low), number(range.high))
    } else {
        number(range.high)
    }
}

fn measure(args: &MeasureArgs, global: &Global) -> Result<Exit, Failure> {
    let catalogue = peaks_so_far(&args.peaks_dir, global)?;
    let host = probe_host();
    if let Some(why) = host.no_gpu(args.device) {
        return Err(Failure::new(Exit::Unexpected, why).hint("`orchestrate doctor` lists the GPUs"));
    }
    if args.if_missing
        && let Some(known) = measured_here(&catalogue, &host, args.device, args.quick)
    {
        print_line(&format!("{} was measured already: {} of {}", args.device, known.name, known.date))?;
        return Ok(Exit::Done);
    }
    if !global.quiet {
        let time = if args.quick { "about ten seconds" } else { "about a minute" };
        say(&format!("measuring {}: this takes {time}", args.device));
    }
    let mut file = measured_file(args, host, global.quiet)?;
    let name = file_name(&file);
    let peaks = file.peaks(&name).map_err(|message| Failure::new(Exit::Unexpected, message))?;
    file.warnings.extend(suspicions(&peaks, &catalogue));
    let path = save(&args.peaks_dir, &name, &file)?;
    print(&samples_table(&file, Layout::lines()))?;
    for line in ceiling_lines(&peaks) {
        print_line(&line)?;
    }
    for left_out in &file.measured.left_out {
        print_line(&format!("no ceiling for {}: {}", left_out.precision, left_out.reason))?;
    }
    for warning in &file.warnings {
        say(&format!("warning: {warning}"));
    }
    print_line(&format!("peaks: {}", path.display()))?;
    Ok(Exit::Done)
}

/// Runs the measurement of the worker, and adds the facts that only this program knows. Its warnings are those of a
/// busy host.
fn measured_file(args: &MeasureArgs, host: HostFacts, quiet: bool) -> Result<MeasuredFile, Failure> {
    let mut flags: Vec<String> = Vec::new();
    flags.extend(args.threads.map(|threads| format!("--threads={threads}")));
    flags.extend(args.quick.then(|| "--quick".to_owned()));
    let (worker, gpus) = (args.worker.as_deref(), &host.cuda_entries());
    let wanted = Measurement { device: args.device, worker, flags: &flags, quiet, gpus };
    let Measured { peaks: mut measured, foreign_cores, stolen_cores } =
        measure_peaks(&wanted, &mut |waiting| {
            let holder = waiting.holder.as_deref().unwrap_or("another program");
            say(&format!("waiting for {}: {holder}", waiting.what));
        })
        .map_err(failure)?;
    let warnings = disturbances(foreign_cores, stolen_cores, &host);
    if let (Device::Cuda(_), Some(driver)) = (args.device, host.nvidia_driver) {
        measured.versions.entry("driver".to_owned()).or_insert(driver);
    }
    Ok(MeasuredFile {
        schema: MEASURED_SCHEMA,
        method: Some(METHOD.to_owned()),
        host: host.hostname,
        date: chrono::Utc::now().format("%Y-%m-%d").to_string(),
        orchestrate: env!("CARGO_PKG_VERSION").to_owned(),
        worker_sha256: hash_file(wanted.worker()).ok(),
        warnings,
        measured,
    })
}

/// Warnings about other activity on `host` during the measurement, if it exceeded the thresholds of an uncalibrated
/// run.
fn disturbances(foreign_cores: Option<f64>, stolen_cores: Option<f64>, host: &HostFacts) -> Vec<String> {
    let limit = Thresholds::default().foreign_limit(host.cpu.usable);
    let warning = |cores: Option<f64>, limit: f64, subject: &str, effect: &str| {
        let [cores, limit] = beyond(cores.filter(|cores| *cores > limit)?, limit, 2);
        Some(format!(
            "{subject} {cores} processors {effect} meanwhile (threshold {limit}): the ceilings may be too low"
        ))
    };
    let foreign = warning(foreign_cores, limit + host.room_beside(), "others kept", "busy");
    let stolen = warning(stolen_cores, limit, "the hypervisor gave", "to others");
    foreign.into_iter().chain(stolen).collect()
}

/// `measured/<host>-<device>`, with the first digits of the device's UUID, because a host can have several devices of
/// the same name.
fn file_name(file: &MeasuredFile) -> String {
    let MeasuredFile { host, measured, .. } = file;
    let uuid = measured.device_uuid.as_deref().unwrap_or_default();
    let first: String = uuid.trim_start_matches("GPU-").chars().take(8).collect();
    format!("{MEASURED}/{}", slug(&format!("{host} {} {first}", measured.device_name)))
}

/// The measured peaks of the `device` of this `host`. Those of a quick measurement only count if `quick_will_do`. A
/// whole GPU is identified by its UUID, if known, because its number depends on `CUDA_VISIBLE_DEVICES`.
fn measured_here<'a>(
    catalogue: &'a Catalogue,
    host: &HostFacts,
    device: Device,
    quick_will_do: bool,
) -> Option<&'a Peaks> {
    let ours = host.gpu(device).and_then(|gpu| gpu.uuid.as_ref());
    let is_whole = |uuid: &&String| uuid.starts_with("GPU-");
    let is_device = |of: Device, uuid: Option<&String>| match (ours, uuid.filter(is_whole)) {
        (Some(ours), Some(uuid)) => ours == uuid,
        _ => of == device,
    };
    catalogue.all().iter().find(|peaks| {
        matches!(&peaks.origin, Origin::Measured { host: other, device: of, uuid, quick, .. }
            if *other == host.hostname && is_device(*of, uuid.as_ref()) && (quick_will_do || !quick))
    })
}

fn save(directory: &Path, name: &str, file: &MeasuredFile) -> Result<PathBuf, Failure> {
    let path = directory.join(format!("{name}.yaml"));
    std::fs::create_dir_all(directory.join(MEASURED))?;
    let yaml = serde_yaml::to_string(file)?;
    let text = format!("{}{yaml}", heading(file));
    write_atomic(&path, text.as_bytes())?;
    Ok(path)
}

/// The summary as a comment. Programs derive all values from the samples, so it is never read.
fn heading(file: &MeasuredFile) -> String {
    let mut text =
        "# Measured by `orchestrate peaks measure`. The ceilings are the best samples, derived on reading:\n\
                    #\n"
        .to_owned();
    for line in samples_table(file, Layout::Lines(None)).lines() {
        text.push_str(format!("# {line}").trim_end());
        text.push('\n');
    }
    text.push_str("#\n");
    text
}

/// `name` in lower case, with `-` for everything but letters and digits.
fn slug(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

fn samples_table(file: &MeasuredFile, layout: Layout) -> String {
    let header = ["measured", "n", "best", "median", "spread (MAD)", "unit"];
    let mut table = table(header.map(str::to_owned).into(), layout);
    let mut row = |what: String, samples: &[f64], unit: f64, name: &str| {
        let number = |value: Result<f64, stats::TooFew>| {
            value.map_or_else(|too_few| too_few.to_string(), |value| format!("{:.2}", value / unit))
        };
        let best = samples.iter().copied().max_by(f64::total_cmp).ok_or(stats::TooFew { n: 0, needs: 1 });
        let n = samples.len().to_string();
        table.add_row([
            what,
            n,
            number(best),
            number(stats::median(samples)),
            number(stats::mad(samples)),
            name.to_owned(),
        ]);
    };
    for sample in &file.measured.gemm {
        row(product(sample), &sample.flops_per_s, 1e9, "GFLOP/s");
    }
    for sample in &file.measured.instructions {
        let InstructionSample { operands, isa, .. } = sample;
        row(format!("multiply-adds {operands} {isa}"), &sample.flops_per_s, 1e9, "GFLOP/s");
    }
    for sample in &file.measured.convolutions {
        row(convolution(sample), &sample.flops_per_s, 1e9, "GFLOP/s");
    }
    for sample in &file.measured.stream {
        let level = sample.level.as_deref().filter(|level| level.starts_with('L'));
        let place = level.map(|level| format!(" within {level}")).unwrap_or_default();
        let size = format!("{} of {}{place}", sample.kernel, bytes_text(sample.bytes));
        row(size, &sample.bytes_per_s, 1e9, "GB/s");
    }
    format!("{} on {}\n{}", file.measured.device_name, file.host, table_text(&table))
}

/// `48 kB` or `120 MB`.
fn bytes_text(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.0} kB", bytes as f64 / 1e3),
        _ => format!("{:.0} MB", bytes as f64 / 1e6),
    }
}

/// A convolution as a phrase: `convolution fp32 channels_last 3 × 3, 64 to 64 channels, 16 × 56 × 56`.
fn convolution(sample: &ConvolutionSample) -> String {
    let ConvolutionSample { operands, format, batch, input_channels, output_channels, size, kernel, .. } =
        sample;
    format!(
        "convolution {operands} {format} {kernel} × {kernel}, {input_channels} to {output_channels} channels, {batch} × \
         {size} × {size}"
    )
}

/// A product as a phrase: `GEMM bf16 NT 2048 × 2048`.
fn product(sample: &GemmSample) -> String {
    let operands = sample.operands.map_or(sample.precision.as_str(), Operands::as_str);
    let layout = sample.layout.map_or("", |layout| layout.as_str());
    let emulated = if sample.emulated { "emulated" } else { "" };
    let size = format!("{0} × {0}", sample.size);
    let words = ["GEMM", operands, emulated, layout, &size];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn failure(error: MeasureError) -> Failure {
    let hint = match &error {
        MeasureError::NoWorker(_) => {
            "build it with `./bootstrap.sh build`, or choose another one with `--worker PATH` or ORCHESTRATE_WORKER"
        }
        MeasureError::Unsupported(_) => {
            "use published peaks instead: `peaks: NAME` in the env (`orchestrate peaks list` shows the names)"
        }
        MeasureError::Lock(_) => "set ORCHESTRATE_LOCK_DIR to another directory for locks",
        MeasureError::Run { .. } | MeasureError::Failed { .. } | MeasureError::Output { .. } => {
            "run `WORKER peaks --device DEVICE` by hand to see its error"
        }
    };
    Failure::new(Exit::Unexpected, error).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::peaks::{parse, parse_measured};
    use crate::protocol::MeasuredPeaks;
    use crate::record::CgroupLimits;
    use crate::record::GpuFacts;

    #[test]
    fn slugs_are_file_names() {
        assert_eq!(slug("Intel(R) Xeon(R) @ 2.20GHz/x"), "intel-r-xeon-r-2-20ghz-x");
        assert_eq!(slug("../.."), "");
    }

    fn file(device: &str, uuid: Option<&str>, quick: bool) -> MeasuredFile {
        let mut measured: MeasuredPeaks = serde_json::from_str(
            r#"{ "schema": 1, "device": "cpu", "device_name": "NVIDIA L4",
                 "gemm": [{ "precision": "fp32", "layout": "NT", "size": 2048,
                            "flops_per_s": [1e14, 1.1e14, 1.2e14] },
                          { "precision": "bf16", "emulated": true, "size": 256, "flops_per_s": [1e9] }],
                 "stream": [{ "kernel": "copy", "bytes": 2000000, "bytes_per_s": [2e11, 2.5e11] }] }"#,
        )
        .unwrap();
        measured.device = device.parse().unwrap();
        measured.device_uuid = uuid.map(str::to_owned);
        measured.quick = quick;
        MeasuredFile {
            schema: MEASURED_SCHEMA,
            method: Some(METHOD.to_owned()),
            host: "box".to_owned(),
            date: "2026-10-31".to_owned(),
            orchestrate: "0.1.0".to_owned(),
            worker_sha256: None,
            warnings: vec!["it is: slow".to_owned()],
            measured,
        }
    }

    #[test]
    fn devices_of_one_name_have_separate_files() {
        let uuid = "GPU-00112233-4455-6677-8899-aabbccddeeff";
        assert_eq!(file_name(&file("cuda:1", Some(uuid), false)), "measured/box-nvidia-l4-00112233");
        assert_eq!(file_name(&file("mps", None, false)), "measured/box-nvidia-l4");
    }

    #[test]
    fn finds_existing_peaks_by_host_device_and_effort() {
        let peaks = |device, quick| file(device, None, quick).peaks(device).unwrap();
        let catalogue = Catalogue::new(vec![peaks("cpu", true), peaks("cuda:1", false)]);
        let here = |host: &str, device, quick_will_do| {
            let host = HostFacts { hostname: host.to_owned(), ..HostFacts::default() };
            let found = measured_here(&catalogue, &host, device, quick_will_do);
            found.map(|peaks| peaks.name.clone())
        };
        assert_eq!(here("box", Device::Cpu, true).as_deref(), Some("cpu"));
        assert_eq!(here("box", Device::Cpu, false), None, "a quick measurement does not replace a full one");
        assert_eq!(here("box", Device::Cuda(1), false).as_deref(), Some("cuda:1"));
        assert_eq!(here("box", Device::Cuda(0), true), None);
        assert_eq!(here("other", Device::Cpu, true), None);
    }

    #[test]
    fn finds_existing_peaks_by_uuid() {
        let measured = file("cuda:1", Some("GPU-2"), false).peaks("second").unwrap();
        let catalogue = Catalogue::new(vec![measured]);
        let here = |uuids: &[&str], device| {
            let gpu = |uuid: &&str| GpuFacts { uuid: Some((*uuid).to_owned()), ..GpuFacts::default() };
            let gpus = uuids.iter().map(gpu).collect();
            let host = HostFacts { hostname: "box".to_owned(), gpus, ..HostFacts::default() };
            measured_here(&catalogue, &host, device, false).is_some()
        };
        assert!(here(&["GPU-1", "GPU-2"], Device::Cuda(1)));
        assert!(here(&["GPU-2"], Device::Cuda(0)), "another number, the same GPU");
        assert!(!here(&["GPU-1", "GPU-3"], Device::Cuda(1)), "the same number, another GPU");
        assert!(here(&[], Device::Cuda(1)), "the UUID is unknown");
    }

    #[test]
    fn a_busy_host_is_a_warning() {
        let mut host = HostFacts::default();
        host.cpu.usable = 2;
        assert_eq!(disturbances(Some(0.2), Some(0.0), &host), [""; 0]);
        assert_eq!(disturbances(None, None, &host), [""; 0]);
        let both = [
            "others kept 0.94 processors busy meanwhile (threshold 0.20): the ceilings may be too low",
            "the hypervisor gave 0.50 processors to others meanwhile (threshold 0.20): the ceilings may be too low",
        ];
        assert_eq!(disturbances(Some(0.94), Some(0.5), &host), both);
        host.cpu.allowed = Some(64);
        host.cgroup = Some(CgroupLimits { cpus: Some(2.0), ..CgroupLimits::default() });
        assert_eq!(disturbances(Some(40.0), Some(0.5), &host), both[1..], "beside the quota");
    }

    /// The comment above the samples has best, median, spread, n and size. Only the samples are read back.
    #[test]
    fn summary_is_a_comment_and_samples_round_trip() {
        let directory = tempfile::tempdir().unwrap();
        let file = file("cuda", Some("GPU-1"), false);
        let path = save(directory.path(), "measured/x", &file).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        let row = |start: &str| {
            let line = text.lines().find(|line| line.contains(start)).unwrap();
            line.trim_start_matches('#').split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(row("GEMM fp32 NT"), "GEMM fp32 NT 2048 × 2048 3 120000.00 110000.00 10000.00 GFLOP/s");
        assert!(row("GEMM bf16 emulated 256").ends_with("GFLOP/s"));
        assert!(row("copy of 2 MB").starts_with("copy of 2 MB 2 250.00"));
        let read = parse_measured("measured/x", &text).unwrap();
        assert_eq!(read, file.peaks("measured/x").unwrap());
        assert_eq!(read.warnings, ["it is: slow"]);
    }

    #[test]
    fn all_shipped_peaks_are_valid() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("peaks");
        let files = crate::prepare::peaks::load_peaks(&directory).unwrap();
        let shipped: Vec<_> = files.iter().filter(|file| !file.is_measured).collect();
        assert!(shipped.len() >= 17);
        for file in shipped {
            let peaks = parse(&file.name, &file.text).unwrap();
            assert!(
                peaks.bandwidth.is_some() && peaks.ceiling(Precision::Fp32).is_some()
                    || peaks.origin == Origin::Published
            );
        }
    }
}
