//! Cost against throughput: one plot per network and unit, with the Pareto front.

use crate::analysis::Analysis;
use crate::analysis::table::{Keys, offer_sections, offer_table};
use crate::analysis::tradeoff::{Offer, Price, Tradeoff};
use crate::report::figure::{Drawing, Figure};
use crate::report::frame::{self, MARGIN, SMALL, Sheet, WIDTH};
use crate::report::hover::{self, row_anchor, suffix};
use crate::report::inks::{GREY, INK, colour};
use crate::report::labels::Labels;
use crate::report::scale::{Kind, Scale};
use crate::report::svg::{Look, Stroke, shape};
use crate::text::{count_text, significant};

pub(super) const TRADEOFF: Figure = Figure {
    name: "tradeoff",
    heading: "Cost and energy against throughput",
    one_per: "unit and price: dollars, energy of the processor, energy of the GPU",
    needs: "\
It needs two rows of a network and unit with a measured energy, or with envs whose `usd_per_hour` differ. If they do not
differ, dollars show the same as throughput.",
    explanation: "\
Each marker is a row: its throughput, and what a sample costs at that throughput. Further right is faster,
further down is cheaper. A filled marker is on the front: no other row of the plot is as fast and as cheap, and
better in one of the two. The line joins them. Shapes and colours are envs; a name has precision, batch and what else
varies.

Each network has a separate plot, because a sample of another network is different work. If rows of a network count
their samples in different units, each unit has a separate plot, too. Energies are medians over the runs that have one,
by counter or by samples of the power.

The axes are logarithmic, so rows that cost nothing are on the lower edge of their plot. Rows without a price or
without that energy are not shown; a sentence below the plots has their number.",
    columns: offer_sections,
    keys: Keys::WITHIN_ROWS,
    draw,
};

/// The most plots in a drawing.
const PLOTS: usize = 6;

const HEIGHT: f64 = 190.0;

fn draw(analysis: &Analysis<'_>) -> Vec<Drawing> {
    Price::ALL.into_iter().flat_map(|price| of_price(price, analysis)).collect()
}

/// The drawings of a price. Each is of one unit, because the titles of the axes name it.
fn of_price(price: Price, analysis: &Analysis<'_>) -> Vec<Drawing> {
    let mut units: Vec<Vec<&Tradeoff>> = Vec::new();
    for tradeoff in analysis.tradeoffs.iter().filter(|it| it.price == price) {
        match units.iter_mut().find(|members| members[0].unit == tradeoff.unit) {
            Some(members) => members.push(tradeoff),
            None => units.push(vec![tradeoff]),
        }
    }
    let chunks: Vec<&[&Tradeoff]> = units.iter().flat_map(|members| members.chunks(PLOTS)).collect();
    let all = chunks.len();
    let drawing = |(chunk, number): (&[&Tradeoff], usize)| {
        let place = if number == 1 { String::new() } else { format!("_{number}") };
        let part = if all > 1 { format!(" ({number} of {all})") } else { String::new() };
        let what = if price == Price::Dollars { "Cost" } else { "Energy" };
        let title = format!("{what} against throughput{part}");
        let svg = of_networks(&title, chunk, analysis);
        Drawing {
            of: format!("{}{place}", price.as_str()),
            title,
            svg,
            numbers: offer_table(chunk, analysis),
        }
    };
    chunks.into_iter().zip(1..).map(drawing).collect()
}

/// A drawing of `tradeoffs`, which are of one price and one unit.
fn of_networks(title: &str, tradeoffs: &[&Tradeoff], analysis: &Analysis<'_>) -> String {
    let samples = tradeoffs[0].unit.to_string();
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
    for note in notes(tradeoffs) {
        sheet.paragraph(GREY, &note);
    }
    sheet.finish()
}

/// The sentences below the plots of `tradeoffs`, which are of one price.
fn notes(tradeoffs: &[&Tradeoff]) -> Vec<String> {
    let front = "Filled, and joined by the line: no other row of the plot is both faster and cheaper.";
    let mut notes = vec![front.to_owned()];
    if tradeoffs.iter().flat_map(|of| &of.offers).any(Offer::is_free) {
        notes.push("On the lower edge: rows that cost nothing.".to_owned());
    }
    let without: usize = tradeoffs.iter().map(|of| of.without_price).sum();
    if without > 0 {
        let what = if tradeoffs[0].price == Price::Dollars { "a price" } else { "that energy" };
        let verb = if without == 1 { "is" } else { "are" };
        notes.push(format!("{} without {what} {verb} not shown.", count_text(without, "row")));
    }
    notes
}

fn look(env: usize, is_on_front: bool) -> Look<'static> {
    Look { shape: shape(env), radius: 4.4, colour: colour(env), is_filled: is_on_front }
}

/// The network, with its unit if other rows of the network have another one.
fn heading(tradeoff: &Tradeoff, analysis: &Analysis<'_>) -> String {
    let Tradeoff { model, unit, .. } = tradeoff;
    let mut rows =
        analysis.rows.iter().filter(|row| row.config.model == *model && row.samples_per_s().is_some());
    if rows.any(|row| row.unit() != *unit) { format!("{model} ({unit})") } else { model.to_string() }
}

/// The ends of a logarithmic axis with room around those of `values` that are greater than 0.
fn ends(values: impl Iterator<Item = f64>) -> [f64; 2] {
    let values = values.filter(|value| *value > 0.0);
    let (low, high) =
        values.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), value| (low.min(value), high.max(value)));
    let room = (high / low).powf(0.12).max(1.15);
    [low / room, high * room]
}

fn plot(sheet: &mut Sheet, tradeoff: &Tradeoff, envs: &[&str], analysis: &Analysis<'_>) {
    sheet.heading(&heading(tradeoff, analysis));
    let [low, high] = ends(tradeoff.offers.iter().map(|offer| offer.price));
    let anywhere = Scale { kind: Kind::Log, low, high, from: 0.0, to: 1.0 };
    let area = sheet.plot(frame::left_of(&anywhere), WIDTH - MARGIN, HEIGHT);
    let y = area.upwards(Kind::Log, low, high);
    let [low, high] = ends(tradeoff.offers.iter().map(|offer| offer.samples_per_s));
    let x = area.across(Kind::Log, low, high);
    frame::value_axis(&mut sheet.svg, &area, &y);
    frame::axis_below(&mut sheet.svg, &area, &frame::numbered(&x));
    frame::border(&mut sheet.svg, &area);
    let at = |offer: &Offer| (x.place(offer.samples_per_s), y.place(offer.price.max(y.low)));
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
        let price = tradeoff.price.text(&tradeoff.unit.to_string());
        let text = format!("{}\n{} {price}", hover::of_row(row), significant(offer.price, 4));
        let look = look(env, offer.is_on_front);
        sheet.svg.linked_marker(at(offer), look, &text, &row_anchor(row));
    }
    // If there is only room for some names, those of the front come first.
    let others = tradeoff.offers.iter().filter(|offer| !offer.is_on_front);
    let named = front.into_iter().map(|offer| (offer, INK)).chain(others.map(|offer| (offer, GREY)));
    for (offer, ink) in named {
        let row = &analysis.rows[offer.row];
        let name = format!("{} {}{}", row.config.precision, row.config.batch, suffix(row));
        labels.write(&mut sheet.svg, at(offer), 5.0, (&name, SMALL - 1.0, ink));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::{StudyBuilder, key};
    use crate::protocol::SampleUnit;

    /// The number of an attribute of an SVG element.
    fn number_of(element: &str, name: &str) -> f64 {
        let (_, rest) = element.split_once(&format!(" {name}=\"")).unwrap();
        rest.split('"').next().unwrap().parse().unwrap()
    }

    #[test]
    fn rows_that_cost_nothing_are_on_the_lower_edge() {
        let study = StudyBuilder::new()
            .usd_per_hour(0.0)
            .runs("free", "resnet18", 4, &[10.0])
            .usd_per_hour(3.6)
            .runs("paid", "resnet18", 4, &[20.0])
            .runs("paid", "resnet18", 8, &[25.0])
            .build();
        let drawings = draw(&analyse(&study));
        let [drawing] = &drawings[..] else { panic!("{} drawings", drawings.len()) };
        let svg = &drawing.svg;
        let element = |found: fn(&str) -> bool| svg.lines().find(|line| found(line)).unwrap();
        let border = element(|line| line.starts_with("<rect") && line.contains("fill=\"none\""));
        let free = element(|line| line.contains("<title>free_resnet18"));
        let bottom = number_of(border, "y") + number_of(border, "height");
        assert!((number_of(free, "cy") - bottom).abs() < 0.03, "{free} in {border}");
        for text in
            ["\n0 USD per million images</title>", ">On the lower edge: rows that cost nothing.</text>"]
        {
            assert!(svg.contains(text), "{text}");
        }
        let numbers = drawing.numbers.read();
        let usd = numbers.header().iter().position(|name| name == "usd_per_million_samples").unwrap();
        let usd: Vec<&str> = numbers.rows.iter().map(|row| row[usd].as_str()).collect();
        assert_eq!((usd.len(), usd[0]), (3, "0"));
    }

    /// Each unit has separate drawings, since the titles of the axes name it.
    #[test]
    fn the_titles_and_the_headings_name_the_unit() {
        let in_samples = |study: StudyBuilder, batch: u32| {
            study.run_with(key("cpu", "resnet18", batch, 1), 10.0, |record| {
                record.measurement.as_mut().unwrap().unit = Some(SampleUnit::SAMPLES);
            })
        };
        let study = StudyBuilder::new().usd_per_hour(1.0).runs("cpu", "resnet18", 4, &[10.0]);
        let study = in_samples(study, 16).usd_per_hour(2.0).runs("cpu", "resnet18", 8, &[30.0]);
        let drawings = draw(&analyse(&in_samples(study, 32).build()));
        let [images, samples] = &drawings[..] else { panic!("{} drawings", drawings.len()) };
        assert_eq!([&images.of, &samples.of], ["dollars", "dollars_2"]);
        for (drawing, unit) in [(images, "images"), (samples, "samples")] {
            let axes = format!(">USD per million {unit}, over {unit} per s (log scales)</text>");
            let heading = format!(">resnet18 ({unit})</text>");
            assert!(drawing.svg.contains(&axes) && drawing.svg.contains(&heading), "{}", drawing.svg);
            assert_eq!(drawing.numbers.read().rows.len(), 2);
        }
    }

    #[test]
    fn rows_without_a_price_are_counted_below_the_plots() {
        let study = StudyBuilder::new()
            .runs("own", "resnet18", 4, &[10.0])
            .usd_per_hour(1.0)
            .runs("one", "resnet18", 4, &[20.0])
            .usd_per_hour(3.0)
            .runs("other", "resnet18", 4, &[30.0])
            .build();
        let drawings = draw(&analyse(&study));
        let [drawing] = &drawings[..] else { panic!("{} drawings", drawings.len()) };
        assert!(drawing.svg.contains(">1 row without a price is not shown.</text>"), "{}", drawing.svg);
        let notes_for = |price: Price, counts: [usize; 2]| {
            let of = |without_price: usize| Tradeoff {
                price,
                model: "resnet18".into(),
                unit: SampleUnit::IMAGES,
                offers: Vec::new(),
                without_price,
            };
            let [first, second] = counts.map(of);
            notes(&[&first, &second])[1..].to_vec()
        };
        assert_eq!(notes_for(Price::GpuEnergy, [1, 2]), ["3 rows without that energy are not shown."]);
        assert!(notes_for(Price::Dollars, [0, 0]).is_empty());
    }
}
