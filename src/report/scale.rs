//! Axes: from values to pixels, with ticks at 1, 2 and 5 times powers of ten.

/// The kind of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Linear,
    Log,
}

/// The ratio of its ends below which a logarithmic axis has the ticks of a linear one.
const NARROW: f64 = 5.0;

/// An axis that maps the values `low ..= high` to the pixels `from ..= to`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    pub(super) kind: Kind,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) from: f64,
    pub(super) to: f64,
}

impl Scale {
    /// The pixel of `value`.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = match self.kind {
            Kind::Linear => (value - self.low) / (self.high - self.low),
            Kind::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        self.from + share * (self.to - self.from)
    }

    /// Round values on the axis, about ten at most. None if an end is not a number, or the ends are too close together
    /// or too far apart.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let spread = match self.kind {
            Kind::Linear => self.high - self.low,
            Kind::Log => self.high / self.low,
        };
        if !(spread.is_normal() && spread > 0.0 && round_up(spread / 7.0).is_normal()) {
            return Vec::new();
        }
        match self.kind {
            Kind::Linear => linear_ticks(self.low, self.high),
            // Within a small range, powers of ten and their halves are too few.
            Kind::Log if spread < NARROW => linear_ticks(self.low, self.high),
            Kind::Log => log_ticks(self.low, self.high),
        }
    }
}

/// The smallest of 1, 2, 5 × 10ᵏ that is not below `value`.
pub(super) fn round_up(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    let step = steps.into_iter().find(|step| step * decade >= value * (1.0 - 1e-9)).unwrap_or(10.0);
    step * decade
}

fn linear_ticks(low: f64, high: f64) -> Vec<f64> {
    let step = round_up((high - low) / 7.0);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|index| index as f64 * step).collect()
}

fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = (high / low).log10();
    let steps: &[f64] = if decades <= 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let range = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    range
        .flat_map(|exponent| steps.iter().map(move |step| step * 10f64.powi(exponent)))
        .filter(|tick| *tick >= low * (1.0 - 1e-9) && *tick <= high * (1.0 + 1e-9))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(linear_ticks(0.0, 23.0), [0.0, 5.0, 10.0, 15.0, 20.0]);
        assert_eq!(linear_ticks(0.0, 0.7), [0.0, 0.1, 0.2, 0.1 * 3.0, 0.4, 0.5, 0.1 * 6.0, 0.1 * 7.0]);
        assert_eq!(log_ticks(3.0, 120.0), [5.0, 10.0, 20.0, 50.0, 100.0]);
        assert_eq!(log_ticks(1.0, 1e5).len(), 6);
        assert_eq!([round_up(3.0), round_up(5.0), round_up(0.06), round_up(99.0)], [5.0, 5.0, 0.1, 100.0]);
    }

    #[test]
    fn an_axis_with_invalid_ends_has_few_ticks() {
        for (low, high) in [(0.0, f64::INFINITY), (0.0, f64::NAN), (1.0, 1.0), (0.0, 1e-320), (0.0, f64::MAX)]
        {
            for kind in [Kind::Linear, Kind::Log] {
                let ticks = Scale { kind, low, high, from: 0.0, to: 100.0 }.ticks();
                assert!(ticks.len() <= 12, "{low} to {high}: {}", ticks.len());
            }
        }
    }

    proptest! {
        #[test]
        fn ticks_are_few_and_within_the_axis(low in 1e-3..1e6f64, factor in 1.5..1e6f64) {
            for kind in [Kind::Linear, Kind::Log] {
                let scale = Scale { kind, low, high: low * factor, from: 0.0, to: 100.0 };
                let ticks = scale.ticks();
                prop_assert!(ticks.len() <= 12, "{ticks:?}");
                for tick in ticks {
                    prop_assert!((-1e-3..=100.001).contains(&scale.place(tick)), "{tick}");
                }
            }
        }
    }
}
