//! Whether neighbours in many short series are alike, where each series alone is too short to show it.

use super::centre::mean;
use super::student;

/// The least number of series to be judged together.
pub const NEIGHBOURS_NEED: usize = 5;

/// The shortest series that says something of its neighbours.
const SHORTEST: usize = 3;

/// How alike neighbours are, over many series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbours {
    /// The autocorrelation at lag one, of an autoregressive process of order one with the same expectation.
    pub correlation: f64,
    /// The one-sided p-value of "there is none".
    pub p: f64,
    /// How many series were judged.
    pub series: usize,
}

/// How alike neighbours are in `series`, each of which may have its own mean and scatter. The correlation is the one
/// whose expectation of Σ e_i e_(i+1), given the Σ e_i², is the sum that was seen.
///
/// The statistic of a series of n is r = Σ e_i e_(i+1) ÷ Σ e_i², with e the distance from its mean. Of independent normal
/// numbers it has the expectation −1 ÷ n and the variance (n − 2)² ÷ (n² (n − 1)) (Moran 1948, "Some theorems on time
/// series II"). The sum over the series is tested, as normal. What the series have in common must have been taken out.
/// That makes them depend on each other a little: hence the variance × k ÷ (k − 1) for k series.
///
/// `None` for fewer than [`NEIGHBOURS_NEED`] series of three or more numbers that differ.
pub fn neighbours(series: &[Vec<f64>]) -> Option<Neighbours> {
    let sums: Vec<Sums> = series.iter().filter_map(|values| Sums::of(values)).collect();
    let k = sums.len();
    if k < NEIGHBOURS_NEED {
        return None;
    }
    let excess: f64 = sums.iter().map(|it| it.ratio() + 1.0 / it.n as f64).sum();
    let variance: f64 = sums.iter().map(|it| variance(it.n)).sum::<f64>() * k as f64 / (k - 1) as f64;
    let products: f64 = sums.iter().map(|it| it.products).sum();
    let expected =
        |correlation| sums.iter().map(|it| expectation(correlation, it.n) * it.squares).sum::<f64>();
    Some(Neighbours {
        correlation: solved(expected, products),
        p: student::upper_tail(excess / variance.sqrt(), f64::INFINITY),
        series: k,
    })
}

/// By how much Student's interval of the mean of `n` numbers is too narrow if neighbours have this autocorrelation: the
/// true standard error of the mean ÷ what the scatter of the numbers makes it. The process is autoregressive of order one.
pub fn too_narrow_by(correlation: f64, n: usize) -> f64 {
    let of_mean = variance_of_mean(correlation, n);
    (of_mean * (n - 1) as f64 / (1.0 - of_mean)).sqrt()
}

/// The sums of a series over the distances from its mean.
struct Sums {
    n: usize,
    squares: f64,
    /// Of neighbours.
    products: f64,
}

impl Sums {
    /// `None` if the series is too short, or does not scatter.
    fn of(values: &[f64]) -> Option<Sums> {
        let n = values.len();
        let centre = mean(values).ok().filter(|_| n >= SHORTEST)?;
        let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
        let products = values.windows(2).map(|pair| (pair[0] - centre) * (pair[1] - centre)).sum();
        // Rounding is no scatter.
        (squares > n as f64 * (1e-12 * centre).powi(2)).then_some(Sums { n, squares, products })
    }

    fn ratio(&self) -> f64 {
        self.products / self.squares
    }
}

/// The variance of the ratio of independent numbers.
fn variance(n: usize) -> f64 {
    let n = n as f64;
    (n - 2.0).powi(2) / (n.powi(2) * (n - 1.0))
}

/// The variance of the mean of `n` numbers of variance 1, neighbours of which have this autocorrelation.
fn variance_of_mean(correlation: f64, n: usize) -> f64 {
    let pairs: f64 = (1..n).map(|lag| (n - lag) as f64 * correlation.powi(lag as i32)).sum();
    (n as f64 + 2.0 * pairs) / (n * n) as f64
}

/// The expectation of Σ e_i e_(i+1) ÷ that of Σ e_i².
fn expectation(correlation: f64, n: usize) -> f64 {
    let of_mean = variance_of_mean(correlation, n);
    // The covariance of each number with the mean.
    let with_mean = |place: usize| {
        (0..n).map(|other| correlation.powi(place.abs_diff(other) as i32)).sum::<f64>() / n as f64
    };
    let product = |place: usize| correlation - with_mean(place) - with_mean(place + 1) + of_mean;
    (0..n - 1).map(product).sum::<f64>() / (n as f64 * (1.0 - of_mean))
}

/// The correlation from 0 to 0.99 at which `expected`, which grows with it, is `seen`.
fn solved(expected: impl Fn(f64) -> f64, seen: f64) -> f64 {
    let (mut low, mut high) = (0.0, 0.99);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if expected(middle) < seen { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    /// So many series of `n`, neighbours of which have this autocorrelation.
    fn series(correlation: f64, n: usize, number: usize, random: &mut SplitMix64) -> Vec<Vec<f64>> {
        let one = |random: &mut SplitMix64| {
            let mut last = random.normal();
            let mut next = |_| {
                let value = last;
                last = correlation * last + (1.0 - correlation * correlation).sqrt() * random.normal();
                value
            };
            (0..n).map(&mut next).collect()
        };
        (0..number).map(|_| one(random)).collect()
    }

    #[test]
    fn the_moments_are_those_of_the_simulation() {
        let mut random = SplitMix64::of(46, &[1]);
        for n in [3, 5, 10] {
            let ratios: Vec<f64> = series(0.0, n, 20_000, &mut random)
                .iter()
                .map(|values| Sums::of(values).unwrap().ratio())
                .collect();
            let centre = mean(&ratios).unwrap();
            let square = ratios.iter().map(|ratio| (ratio - centre).powi(2)).sum::<f64>() / 20_000.0;
            assert!((centre + 1.0 / n as f64).abs() < 0.01, "{n}: {centre}");
            assert!((square / variance(n) - 1.0).abs() < 0.05, "{n}: {square}");
            assert!((expectation(0.0, n) + 1.0 / n as f64).abs() < 1e-12);
        }
    }

    #[test]
    fn a_correlation_is_found_in_many_short_series_and_none_where_there_is_none() {
        let mut random = SplitMix64::of(46, &[2]);
        for n in [3, 5, 10] {
            let found = neighbours(&series(0.7, n, 3000, &mut random)).unwrap();
            assert!(found.p < 1e-6 && (0.6..0.8).contains(&found.correlation), "{n}: {found:?}");
        }
        let few = |random: &mut SplitMix64| neighbours(&series(0.0, 5, 8, random)).unwrap();
        let found = (0..2000).filter(|_| few(&mut random).p < 0.01).count();
        assert!((2..50).contains(&found), "{found} of 2000 at 1 %");
    }

    #[test]
    fn an_interval_is_too_narrow_by_what_the_mean_varies_more() {
        let mut random = SplitMix64::of(46, &[3]);
        for (correlation, n) in [(0.0, 5), (0.7, 3), (0.7, 10)] {
            let all = series(correlation, n, 20_000, &mut random);
            let [mut of_mean, mut of_error] = [0.0; 2];
            for values in &all {
                let centre = mean(values).unwrap();
                of_mean += centre.powi(2);
                let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
                of_error += squares / ((n - 1) * n) as f64;
            }
            let factor = (of_mean / of_error).sqrt();
            assert!(
                (too_narrow_by(correlation, n) / factor - 1.0).abs() < 0.04,
                "{correlation} {n}: {factor}"
            );
        }
    }

    #[test]
    fn few_or_constant_series_say_nothing() {
        assert_eq!(neighbours(&vec![vec![1.0, 2.0, 3.0]; 4]), None);
        assert_eq!(neighbours(&vec![vec![1.0, 1.0, 1.0]; 9]), None);
        assert_eq!(neighbours(&vec![vec![1.0, 2.0]; 9]), None);
    }
}
