//! The versions of the libraries that compute.

use std::ffi::c_char;

use super::driver::nvidia_driver;
use super::text;

// SAFETY: these are declarations of `shim.cpp`, of which none throws.
unsafe extern "C" {
    safe fn shim_libtorch_version() -> *const c_char;
    safe fn shim_onednn_version() -> *const c_char;
    safe fn shim_cuda_version() -> i64;
    safe fn shim_cudnn_version() -> i64;
}

/// Versions of libraries by name.
pub(crate) fn versions() -> impl Iterator<Item = (String, String)> {
    let number = |version: i64| (version >= 0).then(|| version.to_string());
    [
        ("libtorch", Some(text(shim_libtorch_version()))),
        ("onednn", onednn_version(&text(shim_onednn_version()))),
        ("cuda", number(shim_cuda_version())),
        ("cudnn", number(shim_cudnn_version())),
        ("nvidia_driver", if shim_cuda_version() < 0 { None } else { nvidia_driver() }),
    ]
    .into_iter()
    .filter_map(|(name, version)| Some((name.to_owned(), version?)))
}

/// `3.7.1` of `Intel(R) MKL-DNN v3.7.1 (Git Hash …)`.
fn onednn_version(text: &str) -> Option<String> {
    let version = text.split_whitespace().find_map(|word| word.strip_prefix('v'))?;
    Some(version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn onednn_names_its_version_among_other_words() {
        assert_eq!(onednn_version("Intel(R) MKL-DNN v3.7.1 (Git Hash 8d263e6)"), Some("3.7.1".into()));
        assert_eq!(onednn_version("MKLDNN not found"), None);
    }

    #[test]
    fn libtorch_is_the_pinned_one() {
        let version = versions().find(|(name, _)| name == "libtorch").unwrap().1;
        assert!(version.starts_with("2.11.0"), "{version}");
    }
}
