//! Places for labels: beside lines that end at a plot's right edge, and around points.
//!
//! A label without room is left out. Its text is in the hover text of its point and in the CSV file.

use super::frame::{Area, LINE};
use super::inks::GREY;
use super::letters::text_width;
use super::svg::{Anchor, Stroke, Svg};

/// Half the height of a label's box, in font sizes.
const HALF_HEIGHT: f64 = 0.58;

/// Places close to `wanted`, in the same order, that are a line of text apart and between `top` and `bottom`. There
/// must be room for all.
pub(super) fn spread(wanted: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|one, other| wanted[*one].total_cmp(&wanted[*other]).then(one.cmp(other)));
    let mut places = vec![0.0; wanted.len()];
    let mut least = top;
    for &index in &order {
        places[index] = wanted[index].max(least);
        least = places[index] + LINE;
    }
    let mut most = bottom;
    for &index in order.iter().rev() {
        places[index] = places[index].min(most);
        most = places[index] - LINE;
    }
    places
}

/// The height of a plot that has room for `labels` beside it.
pub(super) fn height_for(labels: usize, least: f64) -> f64 {
    least.max(labels as f64 * LINE + 6.0)
}

/// Boxes that are taken, within a plot.
pub(super) struct Labels {
    within: Area,
    taken: Vec<[f64; 4]>,
}

impl Labels {
    /// None is taken yet.
    pub(super) fn within(area: Area) -> Labels {
        Labels { within: area, taken: Vec::new() }
    }

    /// Takes the surroundings of a point up to `reach` pixels.
    pub(super) fn take(&mut self, at: (f64, f64), reach: f64) {
        self.taken.push(around(at, reach, reach));
    }

    /// Takes the place of a text that is written elsewhere. Returns whether it was free.
    pub(super) fn take_text(&mut self, at: (f64, f64), size: f64, anchor: Anchor, text: &str) -> bool {
        let width = text_width(text, size);
        let left = match anchor {
            Anchor::Start => at.0,
            Anchor::Middle => at.0 - width / 2.0,
            Anchor::End => at.0 - width,
        };
        let middle = (left + width / 2.0, at.1 - 0.35 * size);
        let place = around(middle, width / 2.0, HALF_HEIGHT * size);
        self.take_box(place)
    }

    /// Takes a box if it is free.
    pub(super) fn take_box(&mut self, place: [f64; 4]) -> bool {
        let is_free = self.is_free(&place);
        if is_free {
            self.taken.push(place);
        }
        is_free
    }

    /// Takes points along a line, so that no label is on it.
    pub(super) fn take_line(&mut self, from: (f64, f64), to: (f64, f64)) {
        let steps = ((to.0 - from.0).hypot(to.1 - from.1) / 6.0).ceil().max(1.0);
        for step in 0..=steps as u32 {
            let share = f64::from(step) / steps;
            self.take((from.0 + share * (to.0 - from.0), from.1 + share * (to.1 - from.1)), 2.0);
        }
    }

    /// Writes `text` at the nearest free place around the point `at`, whose marker has a radius of `reach` pixels. A
    /// thin line connects distant labels. Returns whether there was a place.
    pub(super) fn write(
        &mut self,
        svg: &mut Svg,
        at: (f64, f64),
        reach: f64,
        text: (&str, f64, &str),
    ) -> bool {
        let (words, size, colour) = text;
        let half = (text_width(words, size) / 2.0 + 1.0, HALF_HEIGHT * size);
        let Some(centre) = self.free_place(at, reach, half) else { return false };
        self.taken.push(around(centre, half.0, half.1));
        let away = [(centre.0 - at.0).abs() - half.0, (centre.1 - at.1).abs() - half.1];
        if away.into_iter().fold(0.0, f64::max) > reach + 8.0 {
            let end = (
                at.0.clamp(centre.0 - half.0, centre.0 + half.0),
                at.1.clamp(centre.1 - half.1, centre.1 + half.1),
            );
            svg.line(at, end, Stroke::solid(GREY, 0.6));
        }
        svg.text((centre.0, centre.1 + 0.35 * size), size, Anchor::Middle, colour, words);
        true
    }

    fn free_place(&self, at: (f64, f64), reach: f64, half: (f64, f64)) -> Option<(f64, f64)> {
        let sides = [
            (1.0, 0.0),
            (-1.0, 0.0),
            (0.0, -1.0),
            (0.0, 1.0),
            (1.0, -1.0),
            (-1.0, -1.0),
            (1.0, 1.0),
            (-1.0, 1.0),
        ];
        let radii = [2.0, 8.0, 16.0, 26.0, 38.0, 52.0, 70.0];
        let centre = |radius: f64, (x, y): (f64, f64)| {
            let (across, along) = (reach + radius + half.0, reach + radius + half.1);
            // Diagonals are closer, since a text is wider than high.
            let across = if y == 0.0 { across } else { reach.mul_add(0.7, radius * 0.7) + half.0 };
            (at.0 + x * across, at.1 + y * along)
        };
        let places = radii.into_iter().flat_map(|radius| sides.map(|side| centre(radius, side)));
        places.into_iter().find(|place| self.is_free(&around(*place, half.0, half.1)))
    }

    fn is_free(&self, [left, top, right, bottom]: &[f64; 4]) -> bool {
        let Area { left: least, top: highest, right: most, bottom: lowest } = self.within;
        let is_within = *left >= least && *top >= highest && *right <= most && *bottom <= lowest;
        let apart = |other: &[f64; 4]| {
            *right <= other[0] || other[2] <= *left || *bottom <= other[1] || other[3] <= *top
        };
        is_within && self.taken.iter().all(apart)
    }
}

/// A box around a point: left, top, right, bottom.
fn around(at: (f64, f64), half_width: f64, half_height: f64) -> [f64; 4] {
    [at.0 - half_width, at.1 - half_height, at.0 + half_width, at.1 + half_height]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AREA: Area = Area { left: 0.0, top: 0.0, right: 400.0, bottom: 300.0 };

    proptest! {
        #[test]
        fn labels_beside_lines_are_a_line_apart(wanted in prop::collection::vec(0.0..300.0f64, 1..15)) {
            let places = spread(&wanted, 10.0, 290.0);
            let mut sorted = places.clone();
            sorted.sort_by(f64::total_cmp);
            prop_assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= LINE - 1e-9), "{sorted:?}");
            prop_assert!(sorted.iter().all(|place| (10.0..=290.0).contains(place)), "{sorted:?}");
        }

        #[test]
        fn labels_cover_neither_points_nor_labels(
            places in prop::collection::vec((0.0..400.0f64, 0.0..300.0f64), 1..40),
        ) {
            let mut labels = Labels::within(AREA);
            for at in &places {
                labels.take(*at, 5.0);
            }
            let marks = labels.taken.len();
            let mut svg = Svg::new(400.0, "x");
            for at in &places {
                labels.write(&mut svg, *at, 5.0, ("resnet18", 11.0, GREY));
            }
            prop_assert!(labels.taken.len() > marks, "no label found a place");
            for (index, label) in labels.taken.iter().enumerate().skip(marks) {
                prop_assert!(label[0] >= 0.0 && label[1] >= 0.0 && label[2] <= 400.0 && label[3] <= 300.0);
                for other in &labels.taken[..index] {
                    let apart = label[2] <= other[0] || other[2] <= label[0] || label[3] <= other[1]
                        || other[3] <= label[1];
                    prop_assert!(apart, "{label:?} covers {other:?}");
                }
            }
        }
    }

    #[test]
    fn a_label_beside_a_line_stays_where_it_is_if_nothing_is_near() {
        assert_eq!(spread(&[100.0, 20.0, 200.0], 0.0, 300.0), [100.0, 20.0, 200.0]);
    }
}
