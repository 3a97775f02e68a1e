//! How likely a count is by chance, and many tests at once.

use statrs::distribution::{DiscreteCDF, Hypergeometric};

/// Fisher's one-sided exact test: the probability that at least `found` of `drawn` things are marked. They are drawn at
/// random, without replacement, from `of` things of which `marked` are marked. The probability is 1 if `drawn` or
/// `marked` exceeds `of`.
pub fn chance_of_at_least(found: usize, drawn: usize, marked: usize, of: usize) -> f64 {
    let Ok(law) = Hypergeometric::new(of as u64, marked as u64, drawn as u64) else { return 1.0 };
    if found == 0 { 1.0 } else { law.sf(found as u64 - 1) }
}
