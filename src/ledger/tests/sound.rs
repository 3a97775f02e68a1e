//! A consistent ledger has no errors, for any numbers and any rounding.

use proptest::prelude::*;

use super::{Severity, audit, read};
use crate::analysis::peaks::Catalogue;
use crate::architecture::network;
use crate::ledger::counting::Counting;

/// A config with its runs' rates.
#[derive(Clone, Debug)]
struct Config {
    model: &'static str,
    batch: u32,
    rates: Vec<f64>,
}

fn config() -> impl Strategy<Value = Config> {
    let model = prop::sample::select(vec!["resnet18", "alexnet", "vgg11", "mobilenet_v2"]);
    let runs = prop::collection::vec(0.95..1.05f64, 1..8);
    (model, 1..512u32, 0.5..5000.0f64, runs).prop_map(|(model, batch, rate, noise)| Config {
        model,
        batch,
        rates: noise.into_iter().map(|noise| rate * noise).collect(),
    })
}

fn counting() -> impl Strategy<Value = Counting> {
    prop::sample::select(Counting::all().collect::<Vec<_>>())
}

proptest! {
    /// Means of runs, with FLOP/s by any counting and intensities by any bandwidth, or counted.
    #[test]
    fn a_summary_of_sound_runs_has_no_error(
        configs in prop::collection::vec(config(), 1..16),
        counting in counting(),
        decimals in 1..5usize,
        bandwidth in prop::option::of(10.0..2000.0f64),
        hosts in 1..4usize,
    ) {
        let mut text = "host,model,batch,runs,images_per_s,images_per_sec_std,attained_gflops,ai\n".to_owned();
        for (index, Config { model, batch, rates }) in configs.iter().enumerate() {
            let rate = crate::stats::mean(rates).unwrap();
            let sd = crate::stats::standard_deviation(rates).map_or("NA".to_owned(), |sd| format!("{sd:.decimals$}"));
            let macs = network(model, 224, 1000).unwrap().macs();
            let attained = rate * counting.flops(macs) / 1e9;
            // Counted intensities differ by network and batch.
            let counted = 3.0 + f64::from(*batch).sqrt() * (1.0 + model.len() as f64 / 7.0);
            let intensity = bandwidth.map_or(counted, |bandwidth| attained / bandwidth);
            text += &format!(
                "h{},{model},{batch},{},{rate:.decimals$},{sd},{attained:.decimals$},{intensity:.decimals$}\n",
                index % hosts,
                rates.len(),
            );
        }
        let audited = audit(&read("l.csv", &text, &[]).unwrap().entries, &Catalogue::default());
        prop_assert_eq!(audited.number(Severity::Error), 0, "{}\n{:#?}", text, audited.objections);
    }

    /// Runs one after another, as a driver appends them.
    #[test]
    fn a_ledger_of_sound_runs_has_no_error_and_none_overlap(
        configs in prop::collection::vec((config(), 1..200u32), 1..8),
        decimals in 2..7usize,
    ) {
        let mut text = "timestamp,hostname,arch,batch_size,measured_iters,elapsed_sec,images_per_sec,label\n".to_owned();
        let mut end = 1e9;
        for (Config { model, batch, rates }, iterations) in &configs {
            for rate in rates {
                let seconds = f64::from(batch * iterations) / rate;
                end += seconds + 2.0;
                text += &format!(
                    "{},h,{model},{batch},{iterations},{seconds:.decimals$},{rate:.decimals$},r\n",
                    end as u64
                );
            }
        }
        let audited = audit(&read("l.csv", &text, &[]).unwrap().entries, &Catalogue::default());
        prop_assert_eq!(audited.number(Severity::Error), 0, "{}\n{:#?}", text, audited.objections);
        let overlaps = audited.objections.iter().any(|it| it.rule == super::Rule::Overlap);
        prop_assert!(!overlaps, "{}\n{:#?}", text, audited.objections);
    }

    /// Reading and auditing terminate for any content of a file.
    #[test]
    fn any_text_is_read_or_refused(text in "(model|batch|n|ai|images_per_s|,|\n|[0-9.e-]{1,6}|\"|;|é)*") {
        if let Ok(ledger) = read("l.csv", &text, &[]) {
            audit(&ledger.entries, &Catalogue::default());
        }
    }
}
