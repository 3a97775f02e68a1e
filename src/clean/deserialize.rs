//! A deserializer adapter that cleans every text, both values and names.

use std::borrow::Cow;
use std::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};
use serde::{Deserialize, Serialize};

use super::letters::clean_text;

/// Deserializes a `T` and cleans all of its texts with [`clean_text`]. For `#[serde(deserialize_with)]`.
///
/// # Errors
/// As without cleaning.
pub fn deserialize_clean<'de, D: Deserializer<'de>, T: Deserialize<'de>>(source: D) -> Result<T, D::Error> {
    T::deserialize(Clean(source))
}

/// `value` with all of its texts cleaned.
///
/// # Panics
/// The JSON of a `T` cannot be deserialized as a `T`. The types of records can.
pub fn cleaned<T: Serialize + DeserializeOwned>(value: &T) -> T {
    let json = serde_json::to_value(value).expect("a part of a record has string keys");
    deserialize_clean(json).expect("a part of a record can be read back")
}

/// A wrapper for each of serde's traits between a format and a type. Passes on everything except texts unchanged.
struct Clean<T>(T);

macro_rules! pass_on {
    ($($method:ident ( $($name:ident : $type:ty),* ))*) => {
        $(
            fn $method<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Result<V::Value, D::Error> {
                self.0.$method($($name,)* Clean(visitor))
            }
        )*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Clean<D> {
    type Error = D::Error;

    pass_on! {
        deserialize_any() deserialize_bool() deserialize_i8() deserialize_i16() deserialize_i32() deserialize_i64()
        deserialize_i128() deserialize_u8() deserialize_u16() deserialize_u32() deserialize_u64() deserialize_u128()
        deserialize_f32() deserialize_f64() deserialize_char() deserialize_str() deserialize_string()
        deserialize_bytes() deserialize_byte_buf() deserialize_option() deserialize_unit() deserialize_seq()
        deserialize_map() deserialize_identifier()
        deserialize_unit_struct(name: &'static str)
        deserialize_newtype_struct(name: &'static str)
        deserialize_tuple(length: usize)
        deserialize_tuple_struct(name: &'static str, length: usize)
        deserialize_struct(name: &'static str, fields: &'static [&'static str])
        deserialize_enum(name: &'static str, variants: &'static [&'static str])
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_ignored_any(visitor)
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

macro_rules! visit {
    ($($method:ident : $type:ty),*) => {
        $(
            fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
                self.0.$method(value)
            }
        )*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Clean<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    visit! {
        visit_bool: bool, visit_i64: i64, visit_i128: i128, visit_u64: u64, visit_u128: u128, visit_f64: f64,
        visit_bytes: &[u8], visit_borrowed_bytes: &'de [u8], visit_byte_buf: Vec<u8>
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<V::Value, E> {
        self.0.visit_str(&clean_text(text))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<V::Value, E> {
        match clean_text(text) {
            Cow::Borrowed(text) => self.0.visit_borrowed_str(text),
            Cow::Owned(text) => self.0.visit_string(text),
        }
    }

    fn visit_string<E: Error>(self, text: String) -> Result<V::Value, E> {
        match clean_text(&text) {
            Cow::Borrowed(_) => self.0.visit_string(text),
            Cow::Owned(clean) => self.0.visit_string(clean),
        }
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Clean(value))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Clean(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, values: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Clean(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Clean(entries))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, value: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(Clean(value))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Clean<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Clean(source))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Clean<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Clean(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Clean<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(Clean(seed))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Clean(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Clean<A> {
    type Error = A::Error;
    type Variant = Clean<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Clean<A::Variant>), A::Error> {
        let (value, variant) = self.0.variant_seed(Clean(seed))?;
        Ok((value, Clean(variant)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Clean<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(Clean(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(length, Clean(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, Clean(visitor))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Words {
        some: Option<String>,
        list: Vec<String>,
        map: BTreeMap<String, String>,
        tagged: Tagged,
        plain: Plain,
        pair: (String, Newtype),
        number: f64,
        #[serde(flatten)]
        rest: BTreeMap<String, Value>,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "kind")]
    enum Tagged {
        Said { message: String },
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Plain {
        One(String),
        Fields { a: String },
        Two(String, String),
        None,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Newtype(String);

    /// A value with `word` in every place of a text, and `plain` for the enum.
    fn words(word: &str, plain: Value) -> Value {
        json!({
            "some": word, "list": [word, word], "map": { word: word },
            "tagged": { "kind": "Said", "message": word }, "plain": plain, "pair": [word, word],
            "number": 0.1, format!("rest{word}"): [{ word: word }, 18_446_744_073_709_551_615_u64, -1, null, true]
        })
    }

    #[test]
    fn cleans_every_text_of_a_value() {
        let raw = "\u{1b}[31mRTX™\u{202e}\u{0}";
        for (dirty, clean) in [
            (json!({ "One": raw }), json!({ "One": "RTX™" })),
            (json!({ "Fields": { "a": raw } }), json!({ "Fields": { "a": "RTX™" } })),
            (json!({ "Two": [raw, raw] }), json!({ "Two": ["RTX™", "RTX™"] })),
            (json!("None"), json!("None")),
        ] {
            let text = words(raw, dirty).to_string();
            let read: Words = deserialize_clean(&mut serde_json::Deserializer::from_str(&text)).unwrap();
            let expected = words("RTX™", clean);
            assert_eq!(serde_json::to_value(&read).unwrap(), expected);
            let kept: Words = serde_json::from_str(&text).unwrap();
            assert_eq!(serde_json::to_value(cleaned(&kept)).unwrap(), expected);
        }
    }

    #[test]
    fn errors_equal_those_without_cleaning() {
        let wrong = |text: &str| {
            let source = &mut serde_json::Deserializer::from_str(text);
            deserialize_clean::<_, Words>(source).unwrap_err().to_string()
        };
        for text in ["{}", "[", r#"{ "some": 3 }"#, r#"{ "plain": "Other" }"#] {
            assert_eq!(wrong(text), serde_json::from_str::<Words>(text).unwrap_err().to_string());
        }
        assert!(!wrong(r#"{ "plain": "\u001b[31m\u0007Other" }"#).contains(char::is_control));
    }
}
