//! What a sample costs against how fast samples are trained, in dollars or in joules. A row of a network is on the
//! front if no other one is both faster and cheaper.
//!
//! Only rows of one network and one unit are compared: a sample of another network is other work. If all rows have the
//! same price of an hour, dollars say nothing that throughput does not say, so there is no such comparison.

use super::energy::{Draw, cpu_draw, gpu_draw, row_energy};
use super::group::Row;
use crate::job::ModelName;
use crate::record::Record;

/// What is paid for a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Price {
    /// US dollars for the machine.
    Dollars,
    /// Energy of the processor packages.
    ProcessorEnergy,
    /// Energy of the GPU's board.
    GpuEnergy,
}

impl Price {
    /// Every price, in the order of the figures.
    pub const ALL: [Price; 3] = [Price::Dollars, Price::ProcessorEnergy, Price::GpuEnergy];

    /// One word, for the names of files.
    pub fn as_str(self) -> &'static str {
        match self {
            Price::Dollars => "dollars",
            Price::ProcessorEnergy => "processor_energy",
            Price::GpuEnergy => "gpu_energy",
        }
    }

    /// In words, with its unit for samples called `samples`.
    pub fn text(self, samples: &str) -> String {
        match self {
            Price::Dollars => format!("USD per million {samples}"),
            Price::ProcessorEnergy => format!("J of the processor per sample ({samples})"),
            Price::GpuEnergy => format!("J of the GPU per sample ({samples})"),
        }
    }

    /// What `row` costs: dollars per million samples, or joules per sample.
    fn of(self, row: &Row<'_>) -> Option<f64> {
        let energy = |draw: fn(&Record) -> Option<Draw>| Some(row_energy(row, draw)?.joules_per_sample);
        let price = match self {
            Price::Dollars => row.usd_per_million(),
            Price::ProcessorEnergy => energy(cpu_draw),
            Price::GpuEnergy => energy(gpu_draw),
        };
        price.filter(|price| *price > 0.0)
    }
}

/// The rows of a network by throughput and price; two or more.
#[derive(Clone, Debug, PartialEq)]
pub struct Tradeoff {
    /// What is paid.
    pub price: Price,
    /// The network.
    pub model: ModelName,
    /// The rows that have a price, by throughput.
    pub offers: Vec<Offer>,
}

/// A row with what it costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offer {
    /// The row's index among the analysis's rows.
    pub row: usize,
    /// Its median throughput.
    pub samples_per_s: f64,
    /// Dollars per million samples, or joules per sample.
    pub price: f64,
    /// Whether no other row of the network is both as fast and as cheap, and better in one of the two.
    pub is_on_front: bool,
}

/// The tradeoffs of `rows`, by price and in the order of the networks.
pub(super) fn tradeoffs(rows: &[Row<'_>]) -> Vec<Tradeoff> {
    let mut models: Vec<&ModelName> = Vec::new();
    for row in rows {
        if !models.contains(&&row.config.model) {
            models.push(&row.config.model);
        }
    }
    let of_price = |price: Price| models.iter().filter_map(move |model| of_model(price, model, rows));
    Price::ALL.into_iter().flat_map(of_price).collect()
}

fn of_model(price: Price, model: &ModelName, rows: &[Row<'_>]) -> Option<Tradeoff> {
    let members = rows.iter().enumerate().filter(|(_, row)| row.config.model == *model);
    let offer = |(row, it): (usize, &Row<'_>)| {
        let (samples_per_s, price) = it.median().zip(price.of(it))?;
        Some(Offer { row, samples_per_s, price, is_on_front: false })
    };
    let mut offers: Vec<Offer> = members.filter_map(offer).collect();
    let first = offers.first()?;
    let hourly = |offer: &Offer| rows[offer.row].usd_per_hour;
    let units_differ = offers.iter().any(|offer| rows[offer.row].unit() != rows[first.row].unit());
    let prices_agree = offers.iter().all(|offer| hourly(offer) == hourly(first));
    if offers.len() < 2 || units_differ || (price == Price::Dollars && prices_agree) {
        return None;
    }
    offers.sort_by(|one, other| {
        one.samples_per_s.total_cmp(&other.samples_per_s).then(one.row.cmp(&other.row))
    });
    for index in 0..offers.len() {
        offers[index].is_on_front = !offers.iter().any(|other| beats(other, &offers[index]));
    }
    Some(Tradeoff { price, model: model.clone(), offers })
}

/// Whether `one` is as fast and as cheap as `other`, and better in one of the two.
fn beats(one: &Offer, other: &Offer) -> bool {
    one.samples_per_s >= other.samples_per_s
        && one.price <= other.price
        && (one.samples_per_s > other.samples_per_s || one.price < other.price)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::{StudyBuilder, key};
    use crate::record::{Sensor, Telemetry};

    /// Rows by batch, with throughput and joules per sample.
    fn study(rows: &[(u32, f64, f64)]) -> StudyBuilder {
        rows.iter().fold(StudyBuilder::new(), |study, (batch, rate, joules)| {
            study.run_with(key("cpu", "resnet18", *batch, 1), *rate, |record| {
                let energy = joules * record.measurement.as_ref().unwrap().samples as f64;
                record.observed.telemetry = Some(Telemetry::default().with(Sensor::CpuEnergy, energy));
            })
        })
    }

    #[test]
    fn the_front_holds_what_nothing_beats() {
        let study = study(&[(4, 10.0, 3.0), (8, 20.0, 2.0), (16, 19.0, 2.5), (32, 30.0, 4.0)]).build();
        let analysis = analyse(&study);
        let [tradeoff] = &analysis.tradeoffs[..] else { panic!("{:?}", analysis.tradeoffs) };
        assert_eq!(tradeoff.price, Price::ProcessorEnergy);
        let front: Vec<u32> = tradeoff
            .offers
            .iter()
            .filter(|offer| offer.is_on_front)
            .map(|offer| analysis.rows[offer.row].config.batch)
            .collect();
        assert_eq!(front, [8, 32]);
    }

    #[test]
    fn of_equals_both_are_on_the_front_and_one_row_is_no_tradeoff() {
        let equal = study(&[(4, 10.0, 3.0), (8, 10.0, 3.0)]).build();
        let on_front = |study| -> Vec<bool> {
            let analysis = analyse(study);
            analysis.tradeoffs.iter().flat_map(|of| &of.offers).map(|offer| offer.is_on_front).collect()
        };
        assert_eq!(on_front(&equal), [true, true]);
        assert!(on_front(&study(&[(4, 10.0, 3.0)]).build()).is_empty());
    }

    #[test]
    fn dollars_say_something_only_where_the_price_of_an_hour_differs() {
        let mut study = StudyBuilder::new()
            .usd_per_hour(3.6)
            .runs("cpu", "resnet18", 4, &[10.0])
            .runs("cpu", "resnet18", 8, &[20.0])
            .build();
        assert!(analyse(&study).tradeoffs.is_empty());
        study.cells[1].usd_per_hour = Some(36.0);
        let analysis = analyse(&study);
        let [tradeoff] = &analysis.tradeoffs[..] else { panic!("one") };
        assert_eq!(tradeoff.price, Price::Dollars);
        assert!(
            (tradeoff.offers[0].price - 100.0).abs() < 1e-9
                && tradeoff.offers.iter().all(|it| it.is_on_front)
        );
    }
}
