//! The numbers in the reports of both kinds of `time`. `None` means: not such a number.

/// A number of seconds: digits, with or without a fraction.
pub(super) fn seconds(value: &str) -> Option<f64> {
    // `f64` would also take signs, exponents, `inf` and `nan`, none of which a clock prints.
    let plain = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if plain { value.parse().ok() } else { None }
}

/// A count: digits alone.
pub(super) fn count(value: &str) -> Option<u64> {
    if value.bytes().all(|byte| byte.is_ascii_digit()) { value.parse().ok() } else { None }
}

/// Bytes of a number of units of 1024 bytes, which `time` calls kbytes.
pub(super) fn kilobytes(value: &str) -> Option<u64> {
    count(value)?.checked_mul(1024)
}
