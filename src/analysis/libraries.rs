//! The libraries of a worker, in a uniform notation and under uniform names: `PyTorch` for `torch` and `libtorch`.

use std::collections::BTreeMap;

/// The name of PyTorch, which Python calls `torch` and C++ `libtorch`.
const PYTORCH: &str = "PyTorch";

/// The `versions` that a worker reports, so that those of a script compare with those of the shipped worker.
pub(super) fn libraries(versions: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let named = |(name, version): (&String, &String)| match name.as_str() {
        "torch" | "libtorch" => (PYTORCH.to_owned(), version.clone()),
        "cuda" => (name.clone(), cuda(version)),
        _ => (name.clone(), version.clone()),
    };
    versions.iter().map(named).collect()
}

/// The version of PyTorch among `versions`, if it is.
pub(super) fn pytorch(versions: &BTreeMap<String, String>) -> Option<&String> {
    versions.get("libtorch").or_else(|| versions.get("torch"))
}

/// Whether `one` and `other` may be the same version of the library `name`. Only Python reports for which devices
/// PyTorch was built: `2.11.0+cpu`.
pub(super) fn is_same(name: &str, one: &str, other: &str) -> bool {
    let parts = |version| str::split_once(version, '+').unwrap_or((version, ""));
    let [(this, build), (that, other_build)] = [one, other].map(parts);
    one == other || (name == PYTORCH && this == that && (build.is_empty() || other_build.is_empty()))
}

/// CUDA's own notation of a version, as reported by Python, from the number reported by C++: `13.0` from `13000`.
fn cuda(version: &str) -> String {
    match version.parse::<u32>() {
        Ok(number @ 1000..) => format!("{}.{}", number / 1000, number % 1000 / 10),
        _ => version.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(of: &[(&str, &str)]) -> BTreeMap<String, String> {
        of.iter().map(|(name, version)| ((*name).to_owned(), (*version).to_owned())).collect()
    }

    #[test]
    fn a_script_and_the_shipped_worker_have_equal_libraries() {
        let shipped = versions(&[("libtorch", "2.11.0"), ("cuda", "13000"), ("cudnn", "91002")]);
        let python = versions(&[("torch", "2.11.0"), ("cuda", "13.0"), ("cudnn", "91002")]);
        assert_eq!(libraries(&shipped), libraries(&python));
        assert_eq!(libraries(&versions(&[("cuda", "12080")]))["cuda"], "12.8");
        assert_eq!(pytorch(&python), pytorch(&shipped));
        assert_eq!(pytorch(&versions(&[("jax", "0.7")])), None);
    }

    #[test]
    fn build_facts_that_only_one_reports_do_not_differ() {
        assert!(is_same("PyTorch", "2.11.0", "2.11.0+cpu"));
        assert!(!is_same("PyTorch", "2.11.0+cu130", "2.11.0+cpu"));
        assert!(!is_same("PyTorch", "2.11.0", "2.8.0+cpu"));
        assert!(!is_same("jax", "0.7", "0.7+local"));
    }
}
