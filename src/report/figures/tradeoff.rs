//! What a sample costs against how fast it is: one plot per network, with the front of what nothing beats.

use crate::analysis::Analysis;
use crate::analysis::group::unit;
use crate::analysis::table::{Keys, offer_sections, offer_table};
use crate::analysis::tradeoff::{Offer, Price, Tradeoff};
use crate::report::figure::{Drawing, Figure};
use crate::report::frame::{self, MARGIN, SMALL, Sheet, WIDTH};
use crate::report::hover::{self, row_anchor, suffix};
use crate::report::inks::{GREY, INK, colour};
use crate::report::labels::Labels;
use crate::report::scale::{Kind, Scale};
use crate::report::svg::{Look, Stroke, shape};
use crate::text::significant;

pub(super) const TRADEOFF: Figure = Figure {
    name: "tradeoff",
    heading: "Cost and energy against throughput",
    one_per: "price: dollars, energy of the processor, energy of the GPU",
    needs: "\
It needs two rows of a network with a measured energy, or with envs whose `usd_per_hour` differ. If they do not differ,
dollars say the same as throughput.",
    explanation: "\
Each marker is a row: its median throughput, and what a sample costs at that throughput. Further right is faster,
further down is cheaper. A filled marker is on the front: no other row of the network is as fast and as cheap, and
better in one of the two. The line joins them. Shapes and colours are envs; a name says precision, batch and what else
varies.

Each network has a plot of its own, because a sample of another network is other work. Energies are medians over the
runs that have one, by counter or by samples of the power.",
    columns: offer_sections,
    keys: Keys::WITHIN_ROWS,
    draw,
};

/// The most plots in a drawing.
const PLOTS: usize = 6;

const HEIGHT: f64 = 190.0;

fn draw(analysis: &Analysis<'_>) -> Vec<Drawing> {
    let of_price = |price: &Price| {
        let of: Vec<&Tradeoff> = analysis.tradeoffs.iter().filter(|it| it.price == *price).collect();
        let all = of.len().div_ceil(PLOTS);
        let drawing = |(chunk, number): (&[&Tradeoff], usize)| {
            let place = if number == 1 { String::new() } else { format!("_{number}") };
            let part = if all > 1 { format!(" ({number} of {all})") } else { String::new() };
            let what = if *price == Price::Dollars { "Cost" } else { "Energy" };
            let title = format!("{what} against throughput{part}");
            let svg = of_networks(&title, chunk, analysis);
            Drawing {
                of: format!("{}{place}", price.as_str()),
                title,
                svg,
                numbers: offer_table(chunk, analysis),
            }
        };
        of.chunks(PLOTS).zip(1..).map(drawing).collect::<Vec<_>>()
    };
    Price::ALL.iter().flat_map(of_price).collect()
}

fn of_networks(title: &str, tradeoffs: &[&Tradeoff], analysis: &Analysis<'_>) -> String {
    let rows = tradeoffs.iter().flat_map(|of| &of.offers).map(|offer| &analysis.rows[offer.row]);
    let samples = unit(rows).to_string();
    let price = tradeoffs[0].price.text(&samples);
    let mut sheet = Sheet::new(title, &format!("{price}, over {samples} per s (log scales)"));
    let mut envs: Vec<&str> = Vec::new();
    for offer in tradeoffs.iter().flat_map(|of| &of.offers) {
        let env = analysis.rows[offer.row].config.env.as_str();
        if !envs.contains(&env) {
            envs.push(env);
        }
    }
    for tradeoff in tradeoffs {
        plot(&mut sheet, tradeoff, &envs, analysis);
    }
    sheet.legend(&envs.iter().enumerate().map(|(index, env)| (look(index, true), *env)).collect::<Vec<_>>());
    sheet.paragraph(
        GREY,
        "Filled, and joined by the line: nothing of that network is both faster and cheaper.",
    );
    sheet.finish()
}

fn look(env: usize, is_on_front: bool) -> Look<'static> {
    Look { shape: shape(env), radius: 4.4, colour: colour(env), is_filled: is_on_front }
}

/// The ends of a logarithmic axis with room around `values`.
fn ends(values: impl Iterator<Item = f64>) -> [f64; 2] {
    let (low, high) =
        values.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), value| (low.min(value), high.max(value)));
    let room = (high / low).powf(0.12).max(1.15);
    [low / room, high * room]
}

fn plot(sheet: &mut Sheet, tradeoff: &Tradeoff, envs: &[&str], analysis: &Analysis<'_>) {
    sheet.heading(&tradeoff.model.to_string());
    let [low, high] = ends(tradeoff.offers.iter().map(|offer| offer.price));
    let anywhere = Scale { kind: Kind::Log, low, high, from: 0.0, to: 1.0 };
    let area = sheet.plot(frame::left_of(&anywhere), WIDTH - MARGIN, HEIGHT);
    let y = area.upwards(Kind::Log, low, high);
    let [low, high] = ends(tradeoff.offers.iter().map(|offer| offer.samples_per_s));
    let x = area.across(Kind::Log, low, high);
    frame::value_axis(&mut sheet.svg, &area, &y);
    frame::axis_below(&mut sheet.svg, &area, &frame::numbered(&x));
    frame::border(&mut sheet.svg, &area);
    let at = |offer: &Offer| (x.place(offer.samples_per_s), y.place(offer.price));
    let mut labels = Labels::within(area);
    for offer in &tradeoff.offers {
        labels.take(at(offer), 6.0);
    }
    let front: Vec<&Offer> = tradeoff.offers.iter().filter(|offer| offer.is_on_front).collect();
    let line: Vec<(f64, f64)> = front.iter().map(|offer| at(offer)).collect();
    for ends in line.windows(2) {
        labels.take_line(ends[0], ends[1]);
    }
    if line.len() > 1 {
        sheet.svg.polyline(&line, Stroke { colour: GREY, width: 1.2, dashes: "5 3" });
    }
    for offer in &tradeoff.offers {
        let row = &analysis.rows[offer.row];
        let env = envs.iter().position(|env| row.config.env == *env).unwrap_or(0);
        let price = tradeoff.price.text(&row.unit().to_string());
        let text = format!("{}\n{} {price}", hover::of_row(row), significant(offer.price, 4));
        let look = look(env, offer.is_on_front);
        sheet.svg.linked_marker(at(offer), look, &text, &row_anchor(row));
    }
    for offer in front {
        let row = &analysis.rows[offer.row];
        let name = format!("{} {}{}", row.config.precision, row.config.batch, suffix(row));
        labels.write(&mut sheet.svg, at(offer), 5.0, (&name, SMALL - 1.0, INK));
    }
}
