use std::fmt;
use std::sync::Arc;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::ParamValue;

/// A job's parameters by name: those of [`super::PARAMETERS`], or placeholders in an external worker's command.
///
/// It is a map, sorted by the bytes of the names. Its clones share their content until one of them is changed, since
/// all repeats of a config have the same parameters. A config has few parameters and a plan can have a million configs,
/// so the map is a list, and names are shared too.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Params(Arc<Vec<Param>>);

type Param = (Arc<str>, ParamValue);

impl Params {
    /// No parameters.
    pub fn new() -> Params {
        Params::default()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of the parameter `name`.
    pub fn get(&self, name: &str) -> Option<&ParamValue> {
        self.place(name).ok().map(|place| &self.0[place].1)
    }

    /// Whether there is a parameter `name`.
    pub fn contains_key(&self, name: &str) -> bool {
        self.place(name).is_ok()
    }

    /// The names and values, sorted by the bytes of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ParamValue)> + Clone {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// The names, sorted by their bytes.
    pub fn keys(&self) -> impl Iterator<Item = &str> + Clone {
        self.iter().map(|(name, _)| name)
    }

    /// The values, in the order of their names.
    pub fn values(&self) -> impl Iterator<Item = &ParamValue> {
        self.iter().map(|(_, value)| value)
    }

    /// The values, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut ParamValue> {
        Arc::make_mut(&mut self.0).iter_mut().map(|(_, value)| value)
    }

    /// Sets the parameter `name` to `value`. Returns its previous value, if any.
    pub fn insert(&mut self, name: Arc<str>, value: ParamValue) -> Option<ParamValue> {
        match self.place(&name) {
            Ok(place) => Some(std::mem::replace(&mut Arc::make_mut(&mut self.0)[place].1, value)),
            Err(place) => {
                let params = Arc::make_mut(&mut self.0);
                params.reserve_exact(1);
                params.insert(place, (name, value));
                None
            }
        }
    }

    /// Removes the parameter `name`. Returns its value, if any.
    pub fn remove(&mut self, name: &str) -> Option<ParamValue> {
        let place = self.place(name).ok()?;
        Some(Arc::make_mut(&mut self.0).remove(place).1)
    }

    /// Removes the parameters for which `stays` is false.
    pub fn retain(&mut self, stays: impl Fn(&str, &ParamValue) -> bool) {
        Arc::make_mut(&mut self.0).retain(|(name, value)| stays(name, value));
    }

    /// The index of the parameter `name`, or the index at which to insert it.
    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| (**other).cmp(name))
    }
}

impl fmt::Debug for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// The last value of a name counts.
impl FromIterator<(String, ParamValue)> for Params {
    fn from_iter<I: IntoIterator<Item = (String, ParamValue)>>(entries: I) -> Params {
        let mut params = Params::new();
        for (name, value) in entries {
            params.insert(name.into(), value);
        }
        params
    }
}

impl<const N: usize> From<[(String, ParamValue); N]> for Params {
    fn from(entries: [(String, ParamValue); N]) -> Params {
        entries.into_iter().collect()
    }
}

impl Serialize for Params {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Params {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ParamsVisitor)
    }
}

struct ParamsVisitor;

impl<'de> Visitor<'de> for ParamsVisitor {
    type Value = Params;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Params, A::Error> {
        let mut params = Params::new();
        while let Some((name, value)) = map.next_entry::<String, ParamValue>()? {
            params.insert(name.into(), value);
        }
        Ok(params)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn number(value: i64) -> ParamValue {
        ParamValue::Int(value)
    }

    fn borrowed<'a>((name, value): (&'a String, &'a ParamValue)) -> (&'a str, &'a ParamValue) {
        (name, value)
    }

    proptest! {
        /// The definition: a `BTreeMap`.
        #[test]
        fn it_is_a_sorted_map(steps in prop::collection::vec(("[a-c_é]{0,2}", any::<bool>(), any::<i64>()), 0..20)) {
            let (mut params, mut map) = (Params::new(), BTreeMap::new());
            for (name, inserts, value) in steps {
                let shared = params.clone();
                let before = map.clone();
                let value = number(value);
                if inserts {
                    let old = params.insert(name.as_str().into(), value.clone());
                    prop_assert_eq!(old, map.insert(name.clone(), value));
                } else {
                    prop_assert_eq!(params.remove(&name), map.remove(&name));
                }
                prop_assert_eq!(params.get(&name), map.get(&name));
                prop_assert_eq!(params.contains_key(&name), map.contains_key(&name));
                prop_assert!(shared.iter().eq(before.iter().map(borrowed)), "a copy changed");
            }
            prop_assert!(params.iter().eq(map.iter().map(borrowed)));
            prop_assert!(params.keys().eq(map.keys()) && params.values().eq(map.values()));
            prop_assert_eq!(params.is_empty(), map.is_empty());
            let json = serde_json::to_string(&params).unwrap();
            prop_assert_eq!(&json, &serde_json::to_string(&map).unwrap());
            prop_assert_eq!(&serde_json::from_str::<Params>(&json).unwrap(), &params);
            prop_assert_eq!(format!("{params:?}"), format!("{map:?}"));
            params.retain(|name, _| name != "a");
            map.remove("a");
            params.values_mut().for_each(|value| *value = number(0));
            prop_assert!(params.keys().eq(map.keys()) && params.values().all(|value| *value == number(0)));
        }
    }

    #[test]
    fn the_last_value_of_a_name_counts() {
        let params = Params::from(
            [("b", 1), ("a", 2), ("b", 3)].map(|(name, value)| (name.to_owned(), number(value))),
        );
        assert_eq!(serde_json::to_string(&params).unwrap(), r#"{"a":2,"b":3}"#);
        assert_eq!(serde_json::from_str::<Params>(r#"{"b":1,"a":2,"b":3}"#).unwrap(), params);
        assert!(serde_json::from_str::<Params>("[1]").is_err());
    }
}
