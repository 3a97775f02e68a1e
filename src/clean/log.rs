//! Pieces of the output of a program, as text.

/// The number of bytes without an incomplete letter at the end of `bytes`.
pub fn whole_letters(bytes: &[u8]) -> usize {
    match str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

/// A piece of a log with all line ends as `\n`, including the carriage returns of a progress bar.
pub fn lines_of_log(piece: &[u8]) -> String {
    String::from_utf8_lossy(piece).replace("\r\n", "\n").replace('\r', "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_whole_letters_and_lines() {
        assert_eq!(whole_letters("aé".as_bytes()), 3);
        assert_eq!(whole_letters(&"aé".as_bytes()[..2]), 1);
        assert_eq!(whole_letters(b"\xff\xff"), 2, "these bytes cannot begin a letter");
        assert_eq!(lines_of_log(b"10 %\r20 %\r\nend"), "10 %\n20 %\nend");
    }
}
