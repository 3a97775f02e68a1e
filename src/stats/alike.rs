//! A test whether several estimates are of one value.

use super::Estimate;

/// A bound of the p-value of "all `estimates` are of one value". Each is compared with the mean of the others, by Welch
/// (1947), and the least p-value is multiplied by their number (Bonferroni). The degrees of freedom are no more than
/// those of the estimate itself: with many groups of a few numbers, the usual ones report a difference far too often.
/// `None` below two estimates, and if one has no error.
pub fn p_alike(estimates: &[Estimate]) -> Option<f64> {
    let number = estimates.len() as f64;
    if estimates.len() < 2 || estimates.iter().any(|it| it.standard_error <= 0.0) {
        return None;
    }
    let variance = |it: &Estimate| it.standard_error.powi(2);
    let doubt = |it: &Estimate| it.standard_error.powi(4) / it.freedom;
    let all: f64 = estimates.iter().map(|it| it.value).sum();
    let variances: f64 = estimates.iter().map(variance).sum();
    let doubts: f64 = estimates.iter().map(doubt).sum();
    let p = |own: &Estimate| {
        let others = variances - variance(own);
        let others = Estimate {
            value: (all - own.value) / (number - 1.0),
            standard_error: others.sqrt() / (number - 1.0),
            freedom: others.powi(2) / (doubts - doubt(own)),
        };
        let difference = own.less(others);
        Estimate { freedom: difference.freedom.min(own.freedom), ..difference }.p_equal(0.0)
    };
    let least = estimates.iter().map(p).fold(1.0, f64::min);
    Some((number * least).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(groups: &[&[f64]]) -> Vec<Estimate> {
        groups.iter().map(|numbers| Estimate::mean(numbers).unwrap()).collect()
    }

    #[test]
    fn finds_one_that_is_far_from_the_others() {
        let equal = of(&[&[1.0, 2.0, 3.0, 4.0], &[2.0, 3.0, 4.0], &[1.5, 2.5, 3.5]]);
        assert!(p_alike(&equal).unwrap() > 0.5);
        let other = of(&[&[1.0, 2.0, 3.0, 4.0], &[2.0, 3.0, 4.0], &[91.5, 92.5, 93.5]]);
        assert!(p_alike(&other).unwrap() < 0.001);
    }

    #[test]
    fn of_two_it_is_twice_the_p_value_of_their_difference() {
        let two = of(&[&[1.0, 2.0, 3.0, 4.0], &[3.0, 5.0, 7.0]]);
        // No more degrees of freedom than the first one has.
        let difference = Estimate { freedom: 3.0, ..two[0].less(two[1]) };
        assert!((p_alike(&two).unwrap() - 2.0 * difference.p_equal(0.0)).abs() < 1e-12);
        assert_eq!(p_alike(&two[..1]), None);
        assert_eq!(p_alike(&of(&[&[1.0, 1.0, 1.0], &[1.0, 2.0, 3.0]])), None, "without an error");
    }
}
