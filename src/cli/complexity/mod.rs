//! `orchestrate complexity`: the cost of networks (FLOPs, bytes, memory), computed from their descriptions.

mod render;

use std::path::{Path, PathBuf};

use super::output::{Layout, print, print_json, print_whole, write_files};
use super::{Exit, Failure, Global};
use crate::analysis::complexity::{Complexity, Counting};
use crate::analysis::cost::FlopsConvention;
use crate::architecture::{NETWORKS, NoNetwork, network};
use crate::job::{Optimizer, Precision};
use crate::text::did_you_mean;
use render::{Summary, layer_csv, layer_listing, summary_csv, summary_table};

/// The arguments of `orchestrate complexity`.
#[derive(Debug, clap::Args)]
pub(super) struct ComplexityArgs {
    /// The networks, by torchvision's names.
    #[arg(value_name = "NETWORK", required_unless_present = "all")]
    networks: Vec<String>,
    /// Count every known network.
    #[arg(long, conflicts_with = "networks")]
    all: bool,
    /// Images per iteration; separate several sizes by commas.
    #[arg(long = "batch", value_name = "N,…", value_delimiter = ',', default_value = "16",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    batches: Vec<u32>,
    /// Height and width of the images, in pixels.
    #[arg(long, value_name = "N", default_value_t = 224)]
    input_size: u32,
    /// Number of classes.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    classes: u32,
    /// Precision, which decides the bytes of an activation: fp32, tf32, amp or bf16.
    #[arg(long, value_name = "WORD", default_value = "fp32")]
    precision: Precision,
    /// The optimizer whose state and step are counted: sgd or adamw.
    #[arg(long, value_name = "WORD", default_value = "sgd")]
    optimizer: Optimizer,
    /// How the FLOPs of a training step are counted.
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    flops_convention: FlopsConvention,
    /// List every layer.
    #[arg(long)]
    layers: bool,
    /// Print CSV: one row per network and batch, or with `--layers` one row per layer and batch.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Write summary.csv, summary.json, and the layers of each network as NETWORK.txt and NETWORK.csv to this
    /// directory.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["layers", "csv", "json"])]
    out: Option<PathBuf>,
}

/// Counts the costs, and prints or writes them.
pub(super) fn run(args: ComplexityArgs, _global: &Global) -> Result<Exit, Failure> {
    let summary = args.count()?;
    match &args.out {
        Some(directory) => write(&summary, directory)?,
        None if args.json => print_json(&summary)?,
        None if args.csv && args.layers => print_whole(&layer_csv(&summary.networks)?)?,
        None if args.csv => print_whole(&summary_csv(&summary.networks)?)?,
        None if args.layers => {
            for complexity in &summary.networks {
                print(&layer_listing(&summary, complexity, Layout::of_stdout()))?;
            }
        }
        None => print(&summary_table(&summary, Layout::of_stdout()))?,
    }
    Ok(Exit::Done)
}

impl ComplexityArgs {
    /// The costs of all requested networks.
    fn count(&self) -> Result<Summary, Failure> {
        let mut batches = self.batches.clone();
        batches.sort_unstable();
        batches.dedup();
        let counting = Counting {
            batches: &batches,
            precision: self.precision,
            optimizer: self.optimizer,
            convention: self.flops_convention,
        };
        let asked: Vec<&str> =
            if self.all { NETWORKS.to_vec() } else { self.networks.iter().map(String::as_str).collect() };
        let with_layers = self.layers || self.out.is_some();
        let counted = asked.into_iter().map(|name| {
            let network =
                network(name, self.input_size, self.classes).map_err(|error| failure(error, name))?;
            Ok(Complexity::of(&network, &counting, with_layers))
        });
        Ok(Summary {
            schema: render::SCHEMA,
            convention: self.flops_convention.to_string(),
            input_size: self.input_size,
            classes: self.classes,
            precision: self.precision,
            optimizer: self.optimizer,
            networks: counted.collect::<Result<_, Failure>>()?,
        })
    }
}

fn failure(error: NoNetwork, name: &str) -> Failure {
    let hint = match &error {
        NoNetwork::UnknownName(_) => {
            let closest = did_you_mean(name, NETWORKS.iter().copied()).map(|closest| format!("{closest} "));
            format!("{}`orchestrate complexity --all` lists them", closest.unwrap_or_default())
        }
        NoNetwork::InputSize { least, .. } => format!("the smallest is `--input-size {least}`"),
        NoNetwork::Patches { input_size, patch, .. } => {
            format!("the next larger is `--input-size {}`", input_size.next_multiple_of(*patch))
        }
        NoNetwork::NoClasses => "ImageNet has 1000: `--classes 1000`".to_owned(),
    };
    Failure::new(Exit::Usage, error).hint(hint)
}

/// Writes all files atomically, and prints how many.
fn write(summary: &Summary, directory: &Path) -> Result<(), Failure> {
    let json = format!("{}\n", serde_json::to_string_pretty(summary)?);
    let mut files =
        vec![("summary.csv".to_owned(), summary_csv(&summary.networks)?), ("summary.json".to_owned(), json)];
    for complexity in &summary.networks {
        let name = complexity.network;
        files.push((format!("{name}.txt"), layer_listing(summary, complexity, Layout::Plain)));
        files.push((format!("{name}.csv"), layer_csv(std::slice::from_ref(complexity))?));
    }
    write_files(directory, &files)?;
    print(&format!("{}: {} files\n", directory.display(), files.len()))
}
