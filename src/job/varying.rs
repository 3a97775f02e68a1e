//! The parameters that distinguish jobs with the same label.

use std::collections::BTreeSet;

use super::Key;

/// The names of the parameters that differ between `keys`: the varying axes other than model, batch and precision.
/// Labels do not contain them, so printed lists of jobs must show them.
pub fn varying_parameters<'a>(keys: impl IntoIterator<Item = &'a Key>) -> Vec<String> {
    let mut keys = keys.into_iter();
    let Some(first) = keys.next() else { return Vec::new() };
    // Most keys declare the same names as the first one, so they add no new ones.
    let differs = |key: &&Key| key.params != first.params || key.worker != first.worker;
    let others: Vec<&Key> = keys.filter(differs).collect();
    let names: BTreeSet<&str> =
        std::iter::once(&first).chain(&others).flat_map(|key| key.params.keys()).collect();
    let varies = |name: &&str| {
        let value = first.param(name);
        others.iter().any(|key| key.param(name) != value)
    };
    names.into_iter().filter(varies).map(str::to_owned).collect()
}

/// ` name=value` for each of the parameters `varying`, which distinguish `key` from jobs with the same label.
pub fn distinction(key: &Key, varying: &[String]) -> String {
    varying.iter().filter_map(|name| Some(format!(" {name}={}", key.param(name)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{ParamValue, Params};

    fn key(name: &str, value: ParamValue) -> Key {
        Key { params: Params::from([(name.into(), value)]), ..Key::example() }
    }

    #[test]
    fn a_parameter_at_its_default_does_not_vary() {
        let keys = [
            key("warmup", ParamValue::Int(10)),
            key("augment", ParamValue::Bool(false)),
            key("threads", ParamValue::Int(2)),
        ];
        // The default of `warmup` is 10; `threads` has none.
        assert_eq!(varying_parameters(&keys), ["augment", "threads"]);
        assert_eq!(varying_parameters(&keys[..1]), Vec::<String>::new());
        assert_eq!(varying_parameters([]), Vec::<String>::new());
        let varying = varying_parameters(&keys);
        assert_eq!(distinction(&keys[1], &varying), " augment=false");
        assert_eq!(distinction(&keys[2], &varying), " augment=true threads=2");
    }
}
