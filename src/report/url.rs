//! Texts as parts of URLs: of paths to files, and of the names of places within a page.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The letters that a URL could take for something else, and `~`, which [`anchor`] needs.
const OTHERS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'=');

/// `name` as a part of a URL's path.
pub fn encoded(name: &str) -> String {
    utf8_percent_encode(name, OTHERS).to_string()
}

/// `text` as the name of a place within a page. Different texts have different names. Links write such a name as it is,
/// since nothing in it is encoded by `%`.
pub(super) fn anchor(text: &str) -> String {
    encoded(text).replace('%', "~")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_letter_is_read_otherwise_and_none_is_mistaken_for_another() {
        assert_eq!(encoded("a-Z_0.9=b/ü %~"), "a-Z_0.9=b%2F%C3%BC%20%25%7E");
        assert_eq!(anchor("a-Z_0.9=b/ü %~"), "a-Z_0.9=b~2F~C3~BC~20~25~7E");
        assert_ne!(anchor("a b"), anchor("a~20b"));
    }
}
