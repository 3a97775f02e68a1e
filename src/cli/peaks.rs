//! `orchestrate peaks`: the ceilings there are, and measuring those of a device.
#![expect(
    clippy::disallowed_methods,
    reason = "the command line says which day it is and makes the directory"
)]

use std::path::{Path, PathBuf};

use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;

use super::study::{load_catalogue, print, say};
use super::{Exit, Failure, Global};
use crate::analysis::peaks::{Catalogue, MEASURED_SCHEMA, MeasuredFile, Origin, Peaks, Range};
use crate::job::{Device, Precision};
use crate::run::host::{hash_file, probe_host};
use crate::run::peaks::{MEASURED, MeasureError, Measurement, measure_peaks};
use crate::run::write_atomic;
use crate::stats;

/// A measured bandwidth below this share of the vendor's is suspicious: few threads, or a slower memory than thought.
const LEAST_BANDWIDTH: f64 = 0.5;

/// Measured FLOP/s above this share of the vendor's cannot be: wrong device, zeros as operands, or wrong figures.
const MOST_FLOPS: f64 = 1.05;

/// What `orchestrate peaks` takes.
#[derive(Debug, clap::Args)]
pub(super) struct PeaksArgs {
    #[command(subcommand)]
    verb: PeaksVerb,
}

#[derive(Debug, clap::Subcommand)]
enum PeaksVerb {
    /// List the peaks there are.
    List(ListArgs),
    /// Measure a device of this host: matrix products on random data, copy and triad beyond the caches.
    Measure(MeasureArgs),
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Directory of the devices' peaks.
    #[arg(long, value_name = "DIR", default_value = "peaks")]
    peaks_dir: PathBuf,
}

#[derive(Debug, clap::Args)]
struct MeasureArgs {
    /// The device: cpu, mps, cuda, cuda:<index>.
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: Device,
    /// The worker to measure with; the one that comes with this program if not given.
    #[arg(long, value_name = "PATH")]
    worker: Option<PathBuf>,
    /// Compute threads; by default as many as there are usable processors.
    #[arg(long, value_name = "N")]
    threads: Option<u32>,
    /// Fewer sizes and repetitions: a few seconds, a less certain ceiling.
    #[arg(long)]
    quick: bool,
    /// Do nothing if this host has a measured file for this device already.
    #[arg(long)]
    if_missing: bool,
    /// Directory of the devices' peaks; the file goes to `measured/` in it.
    #[arg(long, value_name = "DIR", default_value = "peaks")]
    peaks_dir: PathBuf,
}

/// Lists or measures.
pub(super) fn run(args: PeaksArgs, global: &Global) -> Result<Exit, Failure> {
    match args.verb {
        PeaksVerb::List(args) => list(&args, global),
        PeaksVerb::Measure(args) => measure(&args, global),
    }
}

fn list(args: &ListArgs, global: &Global) -> Result<Exit, Failure> {
    let catalogue = load_catalogue(&args.peaks_dir, global)?;
    print(&table(catalogue.all()));
    Ok(Exit::Done)
}

fn table(all: &[Peaks]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    let mut header = vec!["name", "for"];
    header.extend(Precision::ALL.map(Precision::as_str));
    header.extend(["GB/s", "origin", "date"]);
    table.set_header(header);
    for peaks in all {
        let mut cells = vec![peaks.name.clone(), peaks.names.join("\n")];
        cells.extend(Precision::ALL.map(|precision| {
            peaks.ceiling(precision).map_or("-".to_owned(), |ceiling| text(ceiling.flops_per_s, 1e12))
        }));
        cells.push(peaks.bandwidth.map_or("-".to_owned(), |bandwidth| text(bandwidth, 1e9)));
        cells.extend([peaks.origin.to_string(), peaks.date.clone()]);
        table.add_row(cells);
    }
    format!("{table}\nfp32, tf32, amp and bf16 in TFLOP/s, dense")
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
    let catalogue = load_catalogue(&args.peaks_dir, global)?;
    let host = probe_host().hostname;
    if args.if_missing
        && let Some(known) = measured_here(&catalogue, &host, args.device)
    {
        print(&format!("{} are there already: {} of {}", args.device, known.name, known.date));
        return Ok(Exit::Done);
    }
    if !global.quiet {
        say(&format!("measuring {}: this takes up to half a minute", args.device));
    }
    let mut flags: Vec<String> = Vec::new();
    flags.extend(args.threads.map(|threads| format!("--threads={threads}")));
    flags.extend(args.quick.then(|| "--quick".to_owned()));
    let wanted = Measurement { device: args.device, worker: args.worker.as_deref(), flags: &flags };
    let measured = measure_peaks(&wanted, &mut |waiting| {
        let holder = waiting.holder.as_deref().unwrap_or("another program");
        say(&format!("waiting for {}: {holder}", waiting.what));
    })
    .map_err(failure)?;
    let file = MeasuredFile {
        schema: MEASURED_SCHEMA,
        host,
        date: chrono::Utc::now().format("%Y-%m-%d").to_string(),
        orchestrate: env!("CARGO_PKG_VERSION").to_owned(),
        worker_sha256: hash_file(wanted.worker()).ok(),
        measured,
    };
    let name = format!("{MEASURED}/{}-{}", slug(&file.host), slug(&file.measured.device_name));
    let peaks = file.peaks(&name).map_err(|message| Failure::new(Exit::Unexpected, message))?;
    let path = save(&args.peaks_dir, &name, &file)?;
    print(&samples_table(&file));
    for warning in suspicions(&peaks, &catalogue) {
        say(&format!("warning: {warning}"));
    }
    print(&format!("peaks: {}", path.display()));
    Ok(Exit::Done)
}

/// The peaks that were measured on this host's device.
fn measured_here<'a>(catalogue: &'a Catalogue, host: &str, device: Device) -> Option<&'a Peaks> {
    catalogue.all().iter().find(|peaks| {
        matches!(&peaks.origin, Origin::Measured { host: other, .. } if other == host)
            && peaks.backend == device.backend()
    })
}

fn save(directory: &Path, name: &str, file: &MeasuredFile) -> Result<PathBuf, Failure> {
    let path = directory.join(format!("{name}.yaml"));
    std::fs::create_dir_all(directory.join(MEASURED))?;
    let yaml = serde_yaml::to_string(file)?;
    let text = format!(
        "# Measured by `orchestrate peaks measure`. The ceilings are the best samples, derived on reading.\n{yaml}"
    );
    write_atomic(&path, text.as_bytes())?;
    Ok(path)
}

/// `name` in lower case with `-` for everything but letters and digits.
fn slug(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

fn samples_table(file: &MeasuredFile) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["measured", "n", "best", "median", "spread (MAD)", "unit"]);
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
        row(
            format!("GEMM {} {} × {}", sample.precision, sample.size, sample.size),
            &sample.flops_per_s,
            1e9,
            "GFLOP/s",
        );
    }
    for sample in &file.measured.stream {
        let size = format!("{} of {:.0} MB", sample.kernel, sample.bytes as f64 / 1e6);
        row(size, &sample.bytes_per_s, 1e9, "GB/s");
    }
    format!("{} on {}\n{table}", file.measured.device_name, file.host)
}

/// What makes `measured` doubtful beside the vendor's figures for a device of the same name.
fn suspicions(measured: &Peaks, catalogue: &Catalogue) -> Vec<String> {
    let vendors = catalogue.all().iter().filter(|vendor| {
        vendor.origin == Origin::Vendor
            && vendor.backend == measured.backend
            && vendor.names.iter().any(|name| measured.names.contains(name))
    });
    vendors.flat_map(|vendor| suspicions_beside(measured, vendor)).collect()
}

fn suspicions_beside(measured: &Peaks, vendor: &Peaks) -> Vec<String> {
    let mut found = Vec::new();
    if let (Some(ours), Some(theirs)) = (measured.bandwidth, vendor.bandwidth)
        && ours.high < LEAST_BANDWIDTH * theirs.low
    {
        found.push(format!(
            "the measured bandwidth of {:.0} GB/s is less than {:.0} % of the {:.0} GB/s of {}",
            ours.high / 1e9,
            100.0 * LEAST_BANDWIDTH,
            theirs.low / 1e9,
            vendor.name
        ));
    }
    for ours in &measured.flops {
        let Some(theirs) = vendor.ceiling(ours.precision) else { continue };
        if ours.flops_per_s.high > MOST_FLOPS * theirs.flops_per_s.high {
            found.push(format!(
                "the measured {:.1} TFLOP/s at {} are more than {:.0} % of the {:.1} TFLOP/s of {}",
                ours.flops_per_s.high / 1e12,
                ours.precision,
                100.0 * MOST_FLOPS,
                theirs.flops_per_s.high / 1e12,
                vendor.name
            ));
        }
    }
    found
}

fn failure(error: MeasureError) -> Failure {
    let hint = match &error {
        MeasureError::NoWorker(_) => {
            "build it with `just build`, or name another one with `--worker PATH` or ORCHESTRATE_WORKER"
        }
        MeasureError::Unsupported(_) => {
            "name vendor figures instead: `peaks: NAME` in the env; `orchestrate peaks list`"
        }
        MeasureError::Lock(_) => "ORCHESTRATE_LOCK_DIR names another directory for locks",
        MeasureError::Run { .. } | MeasureError::Failed { .. } | MeasureError::Output { .. } => {
            "`WORKER peaks --device DEVICE` by hand shows what it does"
        }
    };
    Failure::new(Exit::Unexpected, error).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::peaks::parse;

    const VENDOR: &str = include_str!("../../peaks/nvidia-l4.yaml");

    fn measured(tflops: f64, gb_per_s: f64) -> Peaks {
        let mut peaks = parse("measured", VENDOR).unwrap();
        peaks.origin = Origin::Measured { host: "box".to_owned(), threads: None };
        peaks.flops.retain(|ceiling| ceiling.precision == Precision::Fp32);
        peaks.flops[0].flops_per_s = Range::exactly(tflops * 1e12);
        peaks.bandwidth = Some(Range::exactly(gb_per_s * 1e9));
        peaks
    }

    /// The seeds' seventh mistake: 92 of 400 GB/s.
    #[test]
    fn measured_peaks_are_held_against_the_vendors() {
        let catalogue = Catalogue::new(vec![parse("nvidia-l4", VENDOR).unwrap()]);
        assert_eq!(suspicions(&measured(31.0, 160.0), &catalogue), [""; 0]);
        assert_eq!(
            suspicions(&measured(33.0, 140.0), &catalogue),
            [
                "the measured bandwidth of 140 GB/s is less than 50 % of the 300 GB/s of nvidia-l4",
                "the measured 33.0 TFLOP/s at fp32 are more than 105 % of the 30.3 TFLOP/s of nvidia-l4",
            ]
        );
        let other = Peaks { names: vec!["NVIDIA L40S".to_owned()], ..measured(33.0, 140.0) };
        assert_eq!(suspicions(&other, &catalogue), [""; 0]);
    }

    #[test]
    fn slugs_are_file_names() {
        assert_eq!(slug("Intel(R) Xeon(R) @ 2.20GHz/x"), "intel-r-xeon-r-2-20ghz-x");
        assert_eq!(slug("../.."), "");
    }

    #[test]
    fn every_file_that_comes_with_the_program_is_sound() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("peaks");
        let files = crate::run::peaks::load_peaks(&directory).unwrap();
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
