//! Estimates with a standard error: the mean of logs, the difference of two sides, and tests on them.

use super::centre::{mean, standard_deviation};
use super::student;
use super::{Interval, MEAN_INTERVAL_NEEDS, TooFew, need};

/// An estimate whose error, divided by its standard error, follows Student's distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// The degrees of freedom of the standard error; need not be whole, and may be infinite.
    pub freedom: f64,
}

impl Estimate {
    /// The mean of `values`, by Student (1908). Given logs, it is the log of their geometric mean.
    ///
    /// # Errors
    /// There are fewer than [`MEAN_INTERVAL_NEEDS`] numbers.
    pub fn mean(values: &[f64]) -> Result<Self, TooFew> {
        need(values, MEAN_INTERVAL_NEEDS)?;
        let n = values.len() as f64;
        let standard_error = standard_deviation(values)? / n.sqrt();
        Ok(Estimate { value: mean(values)?, standard_error, freedom: n - 1.0 })
    }

    /// The mean difference of `pairs`, second less first: common effects of a pair cancel.
    ///
    /// # Errors
    /// There are fewer than [`MEAN_INTERVAL_NEEDS`] pairs.
    pub fn paired(pairs: &[(f64, f64)]) -> Result<Self, TooFew> {
        Self::mean(&pairs.iter().map(|(from, to)| to - from).collect::<Vec<_>>())
    }

    /// The mean of `to` less the mean of `from`, by Welch (1947): the sides can have different variances.
    ///
    /// # Errors
    /// A side has fewer than [`MEAN_INTERVAL_NEEDS`] numbers.
    pub fn welch(from: &[f64], to: &[f64]) -> Result<Self, TooFew> {
        Ok(Self::mean(to)?.less(Self::mean(from)?))
    }

    /// This estimate less an independent one, with the degrees of freedom of Satterthwaite (1946).
    #[must_use]
    pub fn less(self, other: Estimate) -> Estimate {
        let [own, others] = [self, other].map(|one| one.standard_error.powi(2));
        let variance = own + others;
        let freedom = if variance > 0.0 {
            variance.powi(2) / (own.powi(2) / self.freedom + others.powi(2) / other.freedom)
        } else {
            self.freedom + other.freedom
        };
        Estimate { value: self.value - other.value, standard_error: variance.sqrt(), freedom }
    }

    /// The confidence interval.
    pub fn interval(&self, confidence: f64) -> Interval {
        let half = student::upper_quantile((1.0 - confidence) / 2.0, self.freedom) * self.standard_error;
        Interval { low: self.value - half, high: self.value + half, coverage: confidence }
    }

    /// The two-sided p-value of "the true value is `value`".
    pub fn p_equal(&self, value: f64) -> f64 {
        2.0 * student::upper_tail(self.distance(value).abs(), self.freedom)
    }

    /// The one-sided p-value of "the true value is `value` or more": small if the estimate is clearly below it.
    pub fn p_at_least(&self, value: f64) -> f64 {
        student::upper_tail(-self.distance(value), self.freedom)
    }

    /// The one-sided p-value of "the true value is `value` or less": small if the estimate is clearly above it.
    pub fn p_at_most(&self, value: f64) -> f64 {
        student::upper_tail(self.distance(value), self.freedom)
    }

    /// The p-value of "the true value is `margin` or more away from 0", by two one-sided tests (Schuirmann 1987). It is
    /// at most 5 % if, and only if, the 90 % interval is within the margin.
    pub fn p_beyond(&self, margin: f64) -> f64 {
        self.p_at_most(-margin).max(self.p_at_least(margin))
    }

    /// The distance of the estimate above `value`, in standard errors.
    fn distance(&self, value: f64) -> f64 {
        let difference = self.value - value;
        if difference == 0.0 { 0.0 } else { difference / self.standard_error }
    }
}
