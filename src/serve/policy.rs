//! The security headers of the pages.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::pages::{LIVE_SCRIPT, LIVE_STYLE};
use crate::report::PageParts;

/// Other sites cannot embed an answer as an image or a script.
const CROSS_ORIGIN: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Headers of every answer.
///
/// The pages run only the embedded scripts and styles, named by their hashes, and connect only to this server. They may
/// be framed, as in the preview of VS Code, because no click on them changes anything.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    content: HeaderValue,
}

impl Policy {
    /// The policy of the pages of this version.
    pub(super) fn of_pages() -> Policy {
        let PageParts { style, drawing_style, script } = PageParts::built_in();
        let styles = hashes(&[style, &drawing_style, LIVE_STYLE]);
        let scripts = hashes(&[script, LIVE_SCRIPT]);
        let text = format!(
            "default-src 'none'; style-src {styles}; script-src {scripts}; img-src data:; connect-src 'self'; \
             base-uri 'none'; form-action 'none'"
        );
        // Hashes consist of letters, digits, `+`, `/` and `=`.
        let content = HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("default-src 'none'"));
        Policy { content }
    }

    /// Adds its headers to `headers`.
    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        headers.insert(CONTENT_SECURITY_POLICY, self.content.clone());
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(CROSS_ORIGIN, HeaderValue::from_static("same-origin"));
    }
}

/// The hashes of `texts` as sources of a policy.
fn hashes(texts: &[&str]) -> String {
    let hash = |text: &&str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    texts.iter().map(hash).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_the_hash_of_a_text() {
        // The example of the standard (CSP Level 3, 8.4).
        let text = "alert('Hello, world.');";
        assert_eq!(hashes(&[text]), "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='");
    }

    #[test]
    fn permits_only_embedded_styles_and_scripts() {
        let mut headers = HeaderMap::new();
        Policy::of_pages().add_to(&mut headers);
        let policy = headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
        assert_eq!(policy.matches("'sha256-").count(), 5);
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        assert_eq!(headers.len(), 5);
    }
}
