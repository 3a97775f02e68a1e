//! Shifts of level: a stretch of a series that is above or below the rest.

use super::series::autocorrelation;
use super::student::upper_tail;
use super::{TooFew, mean, need, quantile};

/// The least n for a shift of level. A stretch of fewer than five numbers is a group of outliers, and both levels and
/// the correlation must be estimated from the same numbers.
pub const LEVEL_SHIFT_NEEDS: usize = 20;

/// The shortest stretch, and the shortest rest.
const SHORTEST: usize = 5;

/// The share of the numbers that a stretch and the rest must each have at least.
const LEAST_SHARE: f64 = 0.1;

/// Numbers further beyond the quartiles than this multiple of the interquartile range are moved to that fence (Tukey).
const FENCE: f64 = 1.5;

/// A stretch of a series whose level differs from that of the rest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelShift {
    /// The index of its first number.
    pub from: usize,
    /// The index after its last number.
    pub to: usize,
    /// The probability that a level series shows such a stretch somewhere; an upper bound, at most 1.
    pub p: f64,
}

/// The stretch that differs most from the rest of `values`: circular binary segmentation with one segment (Olshen et
/// al. 2004). A step is a stretch that reaches one end of the series.
///
/// Numbers beyond Tukey's fences are moved to them first, so single outliers are not a level. Student's t of the two
/// means decides, with Bonferroni's correction for all stretches.
///
/// Neighbours can correlate. So the variance of the means is multiplied by (1 + ρ) ÷ (1 − ρ), and the degrees of
/// freedom are divided by it, as in [`super::correlated_slope`]. ρ is the autocorrelation of the residuals of both
/// levels, corrected for a bias of −(4 + 8ρ) ÷ n. That is twice the bias of a line (Kendall 1954): there are two means,
/// and the place is chosen by the same numbers.
///
/// Examines n² ÷ 2 stretches.
///
/// # Errors
/// There are fewer than [`LEVEL_SHIFT_NEEDS`] numbers.
pub fn level_shift(values: &[f64]) -> Result<LevelShift, TooFew> {
    need(values, LEVEL_SHIFT_NEEDS)?;
    let values = within_fences(values)?;
    let Stretch { from, to, number, t } = farthest(&values);
    let rest = leftover(&values, from, to)?;
    let n = values.len() as f64;
    let squares: f64 = rest.iter().map(|value| value * value).sum();
    let largest = values.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    let deviation = (squares / (n - 3.0)).sqrt();
    // Equal numbers have residuals from rounding.
    if deviation <= 1e-12 * largest {
        return Ok(LevelShift { from, to, p: if t <= 1e-10 * largest { 1.0 } else { 0.0 } });
    }
    let correlation = ((n * autocorrelation(&rest)? + 4.0) / (n - 8.0)).clamp(0.0, 1.0 - 1e-9);
    let inflation = (1.0 + correlation) / (1.0 - correlation);
    let freedom = n / inflation - 3.0;
    let p = if freedom < 1.0 {
        1.0
    } else {
        (2.0 * upper_tail(t / (deviation * inflation.sqrt()), freedom) * number as f64).min(1.0)
    };
    Ok(LevelShift { from, to, p })
}

/// `values`, with those beyond Tukey's fences moved to them.
fn within_fences(values: &[f64]) -> Result<Vec<f64>, TooFew> {
    let [low, high] = [quantile(values, 0.25)?, quantile(values, 0.75)?];
    let reach = FENCE * (high - low);
    Ok(values.iter().map(|value| value.clamp(low - reach, high + reach)).collect())
}

/// A stretch among all examined ones.
struct Stretch {
    from: usize,
    to: usize,
    /// The number of examined stretches.
    number: usize,
    /// The distance between the means, in units of the standard error per standard deviation.
    t: f64,
}

/// The stretch whose mean is farthest from that of the rest, by Student's t.
fn farthest(values: &[f64]) -> Stretch {
    let n = values.len();
    let least = SHORTEST.max((LEAST_SHARE * n as f64).ceil() as usize);
    // Relative to the first number, so that equal numbers have sums of 0.
    let mut sums = vec![0.0];
    for value in values {
        sums.push(sums[sums.len() - 1] + value - values[0]);
    }
    let mut best = Stretch { from: 0, to: n, number: 0, t: -1.0 };
    for from in 0..n {
        for to in from + least..=n.min(from + n - least) {
            let (inside, outside) = ((to - from) as f64, (n - (to - from)) as f64);
            let sum = sums[to] - sums[from];
            let distance = sum / inside - (sums[n] - sum) / outside;
            let t = distance.abs() / (1.0 / inside + 1.0 / outside).sqrt();
            best.number += 1;
            if t > best.t {
                best = Stretch { from, to, number: best.number, t };
            }
        }
    }
    best
}

/// The residual of each number from the mean of its side.
fn leftover(values: &[f64], from: usize, to: usize) -> Result<Vec<f64>, TooFew> {
    let outside: Vec<f64> = values[..from].iter().chain(&values[to..]).copied().collect();
    let means = [mean(&values[from..to])?, mean(&outside)?];
    let side = |at: usize| means[usize::from(!(from..to).contains(&at))];
    Ok(values.iter().enumerate().map(|(at, value)| value - side(at)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    fn with(n: usize, level: impl Fn(usize) -> f64, scatter: f64) -> Vec<f64> {
        let mut random = SplitMix64::new(7);
        (0..n).map(|at| level(at) + scatter * random.normal()).collect()
    }

    #[test]
    fn a_step_and_a_stretch_are_found_where_they_are() {
        let step = |at: usize| if at < 25 { 1.0 } else { 1.15 };
        let found = level_shift(&with(50, step, 0.02)).unwrap();
        // Either side is a stretch, and the first one wins.
        assert_eq!((found.from, found.to), (0, 25));
        assert!(found.p < 1e-6, "{found:?}");
        let stretch = |at: usize| if (20..35).contains(&at) { 0.8 } else { 1.0 };
        let found = level_shift(&with(60, stretch, 0.02)).unwrap();
        assert_eq!((found.from, found.to), (20, 35));
        assert!(found.p < 1e-6, "{found:?}");
    }

    #[test]
    fn exact_levels_need_no_scatter() {
        let step: Vec<f64> = (0..40).map(|at| if at < 10 { 3.0 } else { 1.0 }).collect();
        assert_eq!(level_shift(&step), Ok(LevelShift { from: 0, to: 10, p: 0.0 }));
        assert_eq!(level_shift(&[0.1; 40]).unwrap().p, 1.0);
        assert_eq!(level_shift(&[0.0; 40]).unwrap().p, 1.0);
        assert!(level_shift(&[1.0; 19]).is_err());
    }

    #[test]
    fn outliers_are_not_a_level() {
        let mut series = with(50, |_| 1.0, 0.02);
        series[10..14].fill(9.0);
        assert!(level_shift(&series).unwrap().p > 0.01);
    }
}
