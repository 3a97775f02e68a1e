//! The columns of the table behind each figure of costs.

use super::shared::{OfRow, config_columns, host_column, part_column, unit_column};
use crate::analysis::column::{Column, Columns, Sourced, of};
use crate::analysis::group::Row;
use crate::analysis::own::Own;
use crate::analysis::source::Source;
use crate::analysis::tradeoff::{Offer, Price};

/// A row with what it costs.
pub(in crate::analysis) struct OfferLine<'a> {
    /// The row.
    pub(in crate::analysis) row: &'a Row<'a>,
    /// What is paid.
    pub(in crate::analysis) price: Price,
    /// How much.
    pub(in crate::analysis) offer: Offer,
}

type Of<'a> = Column<OfferLine<'a>>;

impl OfRow for OfferLine<'_> {
    fn row(&self) -> &Row<'_> {
        self.row
    }
}

/// Every column of a row with what it costs.
pub(in crate::analysis) fn offer_columns<'a>(own: &Own) -> Columns<OfferLine<'a>> {
    let mut columns: Vec<Sourced<OfferLine<'a>>> = config_columns(own);
    columns.extend([part_column(), unit_column(), host_column()]);
    columns.extend(of(Source::Computed, prices()));
    Columns::plain(columns)
}

fn prices<'a>() -> [Of<'a>; 5] {
    [
        Of::known("geometric_mean_samples_per_s", "The throughput of the row.", |line| {
            line.offer.samples_per_s
        }),
        Of::known("paid", "What is paid: `dollars`, `processor_energy` or `gpu_energy`.", |line| {
            line.price.as_str()
        }),
        Of::maybe(
            "usd_per_million_samples",
            "The price of a million samples.",
            "it is paid in joules",
            |line| Some(line.offer.price).filter(|_| line.price == Price::Dollars),
        ),
        Of::maybe("joules_per_sample", "The energy of a sample.", "it is paid in dollars", |line| {
            Some(line.offer.price).filter(|_| line.price != Price::Dollars)
        }),
        Of::known(
            "is_on_front",
            "`true` if no other row of the network and unit is as fast and as cheap, and better in one of the two.",
            |line| line.offer.is_on_front,
        ),
    ]
}
