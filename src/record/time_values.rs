//! The numbers in the reports of GNU and BSD `time`. Every function returns `None` for any other text.

/// Seconds: digits, with or without a fraction. No `time` prints `.05`: a digit in front of the point was lost.
pub(super) fn seconds(value: &str) -> Option<f64> {
    // `f64` would also accept signs, exponents, `inf` and `nan`. No clock prints those.
    let plain = value.starts_with(|letter: char| letter.is_ascii_digit())
        && value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if plain { value.parse().ok() } else { None }
}

/// A count: only digits.
pub(super) fn count(value: &str) -> Option<u64> {
    if value.bytes().all(|byte| byte.is_ascii_digit()) { value.parse().ok() } else { None }
}

/// Bytes, from the kbytes of GNU `time`, which have 1024 bytes.
pub(super) fn kilobytes(value: &str) -> Option<u64> {
    count(value)?.checked_mul(1024)
}
