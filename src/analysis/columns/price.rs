//! The columns of `summary.csv` that say what samples and runs cost, in dollars and in joules.

use crate::analysis::column::{Column, Sourced, of};
use crate::analysis::energy::{Draw, NOT_MEASURED, RowEnergy, cpu_draw, gpu_draw, row_energy};
use crate::analysis::group::Row;
use crate::analysis::source::Source;
use crate::record::Record;

/// The meaning of a column that says how an energy was measured.
pub(super) const ENERGY_SOURCE: &str = "How that energy was measured: `counter` if by an energy counter, `sampled` if \
                                        by samples of the power, else `not measured`.";

type Of<'a> = Column<&'a Row<'a>>;

/// What a row costs.
pub(super) fn price_columns<'a>() -> Vec<Sourced<&'a Row<'a>>> {
    let price = [
        Of::maybe(
            "usd_per_million_samples",
            "The price of a million samples at the row's throughput.",
            "the env has no `usd_per_hour`, or no run counts",
            |row| row.usd_per_million(),
        ),
        Of::maybe(
            "median_run_usd",
            "The median price of a run that counts: of its attempt, from start to end.",
            "the env has no `usd_per_hour`, or no run counts",
            |row| row.usd_per_run(),
        ),
    ];
    let energy = [
        energy_columns(("cpu_joules_per_sample", "cpu_energy_n", "cpu_energy_source"), cpu_draw),
        energy_columns(("gpu_joules_per_sample", "gpu_energy_n", "gpu_energy_source"), gpu_draw),
    ];
    of(Source::Computed, price.into_iter().chain(energy.into_iter().flatten()))
}

fn energy_columns<'a>(
    (joules, n, source): (&'static str, &'static str, &'static str),
    draw: fn(&Record) -> Option<Draw>,
) -> [Of<'a>; 3] {
    let energy = move |row: &&Row<'_>| -> Option<RowEnergy> { row_energy(row, draw) };
    [
        Of::maybe(
            joules,
            "The median energy of a sample over the runs that count and have one.",
            "no run that counts has an energy",
            move |row| Some(energy(row)?.joules_per_sample),
        ),
        Of::known(n, "How many runs that is.", move |row| energy(row).map_or(0, |energy| energy.n)),
        Of::known(source, ENERGY_SOURCE, move |row| {
            energy(row).map_or(NOT_MEASURED, |energy| energy.source.as_str())
        }),
    ]
}
