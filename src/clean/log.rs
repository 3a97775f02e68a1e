//! Pieces of the output of a program, as text.

/// The number of bytes in front of a letter that the end of `bytes` cuts in two.
pub fn whole_letters(bytes: &[u8]) -> usize {
    match str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

/// A piece of a log in lines that only follow each other: a progress bar begins its line anew by a carriage return.
pub fn lines_of_log(piece: &[u8]) -> String {
    String::from_utf8_lossy(piece).replace("\r\n", "\n").replace('\r', "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_has_whole_letters_in_lines_of_their_own() {
        assert_eq!(whole_letters("aé".as_bytes()), 3);
        assert_eq!(whole_letters(&"aé".as_bytes()[..2]), 1);
        assert_eq!(whole_letters(b"\xff\xff"), 2, "that is no letter, whatever follows");
        assert_eq!(lines_of_log(b"10 %\r20 %\r\nend"), "10 %\n20 %\nend");
    }
}
