//! The tradeoff between throughput and the price of a sample, in dollars or in joules. A row is on the Pareto front if
//! no other row of its network and unit is both faster and cheaper.
//!
//! Only rows of one network and one unit are compared, because a sample of another network is other work. If all rows
//! have the same price per hour, dollars follow from throughput, so there is no tradeoff in dollars. A price of 0 USD
//! is possible, but an energy of 0 J is not a measurement.

use super::energy::{Draw, cpu_draw, gpu_draw, row_energy};
use super::group::Row;
use crate::job::ModelName;
use crate::protocol::SampleUnit;
use crate::record::Record;

/// The kind of price of a sample.
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

    /// The label of an axis: `USD per million images`. `samples` is the unit of the samples.
    pub fn text(self, samples: &str) -> String {
        match self {
            Price::Dollars => format!("USD per million {samples}"),
            Price::ProcessorEnergy => format!("J of the processor per sample ({samples})"),
            Price::GpuEnergy => format!("J of the GPU per sample ({samples})"),
        }
    }

    /// The price of `row`: dollars per million samples, or joules per sample.
    fn of(self, row: &Row<'_>) -> Option<f64> {
        let energy = |draw: fn(&Record) -> Option<Draw>| {
            row_energy(row, draw).map(|energy| energy.joules_per_sample).filter(|joules| *joules > 0.0)
        };
        let price = match self {
            Price::Dollars => row.usd_per_million().filter(|usd| *usd >= 0.0),
            Price::ProcessorEnergy => energy(cpu_draw),
            Price::GpuEnergy => energy(gpu_draw),
        };
        price.filter(|price| price.is_finite())
    }
}

/// The rows of one network and unit with throughput and price; two or more.
#[derive(Clone, Debug, PartialEq)]
pub struct Tradeoff {
    /// The kind of price.
    pub price: Price,
    /// The network.
    pub model: ModelName,
    /// The unit of the samples.
    pub unit: SampleUnit,
    /// The rows that have a price, sorted by throughput.
    pub offers: Vec<Offer>,
    /// The number of rows of the network and unit that have a throughput but no such price.
    pub without_price: usize,
}

/// A row with its throughput and price.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offer {
    /// The index of the row among the rows of the analysis.
    pub row: usize,
    /// The throughput in samples per second.
    pub samples_per_s: f64,
    /// Dollars per million samples, or joules per sample.
    pub price: f64,
    /// Whether no other row of the network and unit beats this one: is as fast and as cheap, and better in one of both.
    pub is_on_front: bool,
}

impl Offer {
    /// Whether the price is 0.
    pub fn is_free(&self) -> bool {
        self.price == 0.0
    }
}

/// The tradeoffs of `rows`, in the order of prices, networks and units.
pub(super) fn tradeoffs(rows: &[Row<'_>]) -> Vec<Tradeoff> {
    let mut models: Vec<&ModelName> = Vec::new();
    for row in rows {
        if !models.contains(&&row.config.model) {
            models.push(&row.config.model);
        }
    }
    let of_price = |price: Price| models.iter().flat_map(move |model| of_model(price, model, rows));
    Price::ALL.into_iter().flat_map(of_price).collect()
}

/// The tradeoffs of a network, one per unit.
fn of_model(price: Price, model: &ModelName, rows: &[Row<'_>]) -> Vec<Tradeoff> {
    let mut units: Vec<(SampleUnit, Vec<usize>)> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        if row.config.model != *model || row.samples_per_s().is_none() {
            continue;
        }
        let unit = row.unit();
        match units.iter_mut().find(|(known, _)| *known == unit) {
            Some((_, members)) => members.push(index),
            None => units.push((unit, vec![index])),
        }
    }
    units.into_iter().filter_map(|(unit, members)| of_unit(price, unit, &members, rows)).collect()
}

/// The tradeoff of `members`: the indices of a network's rows in `unit` that have a throughput.
fn of_unit(price: Price, unit: SampleUnit, members: &[usize], rows: &[Row<'_>]) -> Option<Tradeoff> {
    let offer = |row: usize| {
        let (samples_per_s, price) = rows[row].samples_per_s().zip(price.of(&rows[row]))?;
        Some(Offer { row, samples_per_s, price, is_on_front: false })
    };
    let mut offers: Vec<Offer> = members.iter().copied().filter_map(offer).collect();
    let first = offers.first()?;
    let hourly = |offer: &Offer| rows[offer.row].usd_per_hour;
    let prices_agree = offers.iter().all(|offer| hourly(offer) == hourly(first));
    if offers.len() < 2 || (price == Price::Dollars && prices_agree) {
        return None;
    }
    let model = rows[first.row].config.model.clone();
    offers.sort_by(|one, other| {
        one.samples_per_s.total_cmp(&other.samples_per_s).then(one.row.cmp(&other.row))
    });
    for index in 0..offers.len() {
        offers[index].is_on_front = !offers.iter().any(|other| beats(other, &offers[index]));
    }
    let without_price = members.len() - offers.len();
    Some(Tradeoff { price, model, unit, offers, without_price })
}

/// Whether `one` is as fast and as cheap as `other`, and better in one of both.
fn beats(one: &Offer, other: &Offer) -> bool {
    one.samples_per_s >= other.samples_per_s
        && one.price <= other.price
        && (one.samples_per_s > other.samples_per_s || one.price < other.price)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture::{StudyBuilder, key};
    use crate::analysis::{Study, analyse};
    use crate::record::{Sensor, Telemetry};

    /// A study with one row per `(batch, samples per second, joules per sample)`.
    fn study(rows: &[(u32, f64, f64)]) -> StudyBuilder {
        rows.iter().fold(StudyBuilder::new(), |study, (batch, rate, joules)| {
            study.run_with(key("cpu", "resnet18", *batch, 1), *rate, |record| add_energy(record, *joules))
        })
    }

    fn add_energy(record: &mut Record, joules_per_sample: f64) {
        let energy = joules_per_sample * record.measurement.as_ref().unwrap().samples as f64;
        record.observed.telemetry = Some(Telemetry::default().with(Sensor::CpuEnergy, energy));
    }

    #[test]
    fn the_front_has_the_rows_that_no_other_row_beats() {
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
    fn equal_rows_are_both_on_the_front_and_a_tradeoff_needs_two_rows() {
        let equal = study(&[(4, 10.0, 3.0), (8, 10.0, 3.0)]).build();
        let on_front = |study| -> Vec<bool> {
            let analysis = analyse(study);
            analysis.tradeoffs.iter().flat_map(|of| &of.offers).map(|offer| offer.is_on_front).collect()
        };
        assert_eq!(on_front(&equal), [true, true]);
        assert!(on_front(&study(&[(4, 10.0, 3.0)]).build()).is_empty());
    }

    #[test]
    fn a_tradeoff_in_dollars_needs_different_prices_per_hour() {
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

    #[test]
    fn free_machines_are_compared() {
        let mut study = StudyBuilder::new()
            .usd_per_hour(3.6)
            .runs("cpu", "resnet18", 4, &[10.0])
            .runs("cpu", "resnet18", 8, &[20.0])
            .runs("cpu", "resnet18", 16, &[25.0])
            .build();
        let offers = |study: &Study| -> Vec<(f64, bool, bool)> {
            let tradeoffs = analyse(study).tradeoffs;
            let offers = tradeoffs.iter().flat_map(|of| &of.offers);
            offers.map(|offer| (offer.price.round(), offer.is_free(), offer.is_on_front)).collect()
        };
        study.cells[1].usd_per_hour = Some(0.0);
        assert_eq!(offers(&study), [(100.0, false, false), (0.0, true, true), (40.0, false, true)]);
        for cell in &mut study.cells {
            cell.usd_per_hour = Some(0.0);
        }
        assert!(offers(&study).is_empty(), "all have the same price");
    }

    #[test]
    fn an_energy_of_0_is_not_a_price() {
        let study = study(&[(4, 10.0, 3.0), (8, 20.0, 0.0), (16, 25.0, 2.0)]).build();
        let analysis = analyse(&study);
        let [tradeoff] = &analysis.tradeoffs[..] else { panic!("{:?}", analysis.tradeoffs) };
        assert_eq!((tradeoff.offers.len(), tradeoff.without_price), (2, 1));
    }

    #[test]
    fn each_unit_has_its_tradeoff() {
        let images = study(&[(4, 10.0, 3.0), (8, 20.0, 2.0)]);
        let both =
            [(16, 300.0, 0.2), (32, 400.0, 0.1)].iter().fold(images, |study, (batch, rate, joules)| {
                study.run_with(key("cpu", "resnet18", *batch, 1), *rate, |record| {
                    add_energy(record, *joules);
                    record.measurement.as_mut().unwrap().unit = Some(SampleUnit::SAMPLES);
                })
            });
        let study = both.build();
        let analysis = analyse(&study);
        let on_front =
            |of: &Tradeoff| -> Vec<bool> { of.offers.iter().map(|offer| offer.is_on_front).collect() };
        let fronts: Vec<(SampleUnit, Vec<bool>)> =
            analysis.tradeoffs.iter().map(|of| (of.unit.clone(), on_front(of))).collect();
        let front = vec![false, true];
        assert_eq!(fronts, [(SampleUnit::IMAGES, front.clone()), (SampleUnit::SAMPLES, front)]);
    }

    #[test]
    fn without_price_counts_rows_with_a_result_only() {
        let study = study(&[(4, 10.0, 3.0), (8, 20.0, 2.0)])
            .run("cpu", "resnet18", 16, 1, 25.0)
            .run("cpu", "vgg16", 16, 1, 25.0)
            .not_run(key("cpu", "resnet18", 32, 1), "it never ran")
            .build();
        let analysis = analyse(&study);
        let [tradeoff] = &analysis.tradeoffs[..] else { panic!("{:?}", analysis.tradeoffs) };
        assert_eq!((tradeoff.offers.len(), tradeoff.without_price), (2, 1));
    }
}
