//! Texts as parts of URLs: paths to files, and anchors within a page.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters with a meaning in URLs, and `~`, which [`anchor`] uses.
const OTHERS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'=');

/// `name` as a part of a URL's path.
pub fn encoded(name: &str) -> String {
    utf8_percent_encode(name, OTHERS).to_string()
}

/// `text` as an anchor within a page. Different texts have different anchors. Links use an anchor as it is,
/// since nothing in it is encoded by `%`.
pub(super) fn anchor(text: &str) -> String {
    encoded(text).replace('%', "~")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_valid_in_urls_and_unique() {
        assert_eq!(encoded("a-Z_0.9=b/ü %~"), "a-Z_0.9=b%2F%C3%BC%20%25%7E");
        assert_eq!(anchor("a-Z_0.9=b/ü %~"), "a-Z_0.9=b~2F~C3~BC~20~25~7E");
        assert_ne!(anchor("a b"), anchor("a~20b"));
    }
}
