//! Sums and products of counts. The result is unknown if a count is, or if it exceeds 64 bits.

/// The sum of `parts`.
pub(super) fn sum(parts: impl IntoIterator<Item = Option<u64>>) -> Option<u64> {
    parts.into_iter().try_fold(0, |sum: u64, part| sum.checked_add(part?))
}

/// The product of `factors`.
pub(super) fn product(factors: impl IntoIterator<Item = Option<u64>>) -> Option<u64> {
    factors.into_iter().try_fold(1, |product: u64, factor| product.checked_mul(factor?))
}

/// The elements of a tensor with these sizes.
pub(super) fn elements(sizes: &[u64]) -> Option<u64> {
    product(sizes.iter().copied().map(Some))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflowing_counts_are_unknown() {
        assert_eq!(elements(&[2, 3, 4]), Some(24));
        assert_eq!(elements(&[]), Some(1));
        assert_eq!(elements(&[u64::MAX, 2]), None);
        assert_eq!(sum([Some(1), Some(2)]), Some(3));
        assert_eq!(sum([Some(u64::MAX), Some(1)]), None);
        assert_eq!(sum([Some(1), None]), None);
    }
}
