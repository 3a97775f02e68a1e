//! The probability of a count by chance, and corrections for multiple tests.

use statrs::distribution::{DiscreteCDF, Hypergeometric};

/// Fisher's one-sided exact test: the probability that at least `found` of `drawn` things are marked. They are drawn at
/// random, without replacement, from `of` things of which `marked` are marked. The probability is 1 if `drawn` or
/// `marked` exceeds `of`.
pub fn chance_of_at_least(found: usize, drawn: usize, marked: usize, of: usize) -> f64 {
    let Ok(law) = Hypergeometric::new(of as u64, marked as u64, drawn as u64) else { return 1.0 };
    if found == 0 { 1.0 } else { law.sf(found as u64 - 1) }
}

/// Holm's adjusted p-values (1979, "A simple sequentially rejective multiple test procedure"), in the given order.
/// If those of at most 5 % are rejected, at most 5 % of families have a false rejection, for any dependence between the
/// tests. Equal p-values have equal results.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut greatest = 0.0f64;
    for (rank, &index) in order.iter().enumerate() {
        greatest = greatest.max((p_values.len() - rank) as f64 * p_values[index]).min(1.0);
        adjusted[index] = greatest;
    }
    adjusted
}
