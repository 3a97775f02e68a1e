//! The inputs of a call: tensors with shapes and types, and arguments with values.

use serde_json::Value;

use crate::protocol::OperatorSample;

use super::count::{elements, product};

/// The inputs of one call, by their place among the arguments.
pub(super) struct Inputs<'a>(&'a OperatorSample);

/// A tensor among the inputs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tensor<'a> {
    /// Its sizes, the outermost first.
    pub(super) sizes: &'a [u64],
    /// The type of its elements; `None` if it is unknown.
    pub(super) element: Option<Element>,
}

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element {
    /// Bytes of an element.
    pub(super) bytes: u64,
    /// Whether it is an integer or a truth value, and not a floating-point or complex number.
    pub(super) is_integer: bool,
    /// Whether it is `bfloat16`, which has the size of `float16`.
    is_brain: bool,
}

impl Element {
    /// A single-precision number.
    pub(super) const FLOAT32: Element = Element { bytes: 4, is_integer: false, is_brain: false };
    /// A truth value.
    pub(super) const BOOL: Element = Element { bytes: 1, is_integer: true, is_brain: false };
    /// An index.
    pub(super) const INT64: Element = Element { bytes: 8, is_integer: true, is_brain: false };

    /// The type that PyTorch calls `name`.
    fn named(name: &str) -> Option<Element> {
        let float = |bytes| Some(Element { bytes, ..Element::FLOAT32 });
        let integer = |bytes| Some(Element { bytes, ..Element::BOOL });
        match name {
            "bool" | "uint8" | "int8" => integer(1),
            "int16" | "uint16" => integer(2),
            "int32" | "uint32" => integer(4),
            "int64" | "uint64" => integer(8),
            "float16" => float(2),
            "bfloat16" => Some(Element { bytes: 2, is_brain: true, ..Element::FLOAT32 }),
            "float32" => float(4),
            "float64" | "complex64" => float(8),
            "complex128" => float(16),
            _ => name.starts_with("float8_").then_some(Element { bytes: 1, ..Element::FLOAT32 }),
        }
    }

    /// The type with this number in PyTorch's `c10/core/ScalarType.h`, which is how a profile has an argument `dtype`.
    fn numbered(number: u64) -> Option<Element> {
        let name = match number {
            0 => "uint8",
            1 => "int8",
            2 => "int16",
            3 => "int32",
            4 => "int64",
            5 => "float16",
            6 => "float32",
            7 => "float64",
            11 => "bool",
            15 => "bfloat16",
            _ => return None,
        };
        Element::named(name)
    }
}

impl<'a> Tensor<'a> {
    pub(super) fn elements(&self) -> Option<u64> {
        elements(self.sizes)
    }

    pub(super) fn bytes(&self) -> Option<u64> {
        self.bytes_of(self.elements())
    }

    /// Bytes of `elements` of its type.
    pub(super) fn bytes_of(&self, elements: Option<u64>) -> Option<u64> {
        product([elements, self.element.map(|element| element.bytes)])
    }
}

impl<'a> Inputs<'a> {
    pub(super) fn of(operator: &'a OperatorSample) -> Self {
        Inputs(operator)
    }

    /// Whether the operator changes its first input: its name then ends with `_`, PyTorch's convention.
    pub(super) fn are_changed(&self) -> bool {
        self.0.name.ends_with('_')
    }

    /// Places of arguments.
    pub(super) fn len(&self) -> usize {
        self.0.shapes.len()
    }

    /// The tensor at `place`; `None` if there is none.
    pub(super) fn tensor(&self, place: usize) -> Option<Tensor<'a>> {
        let sizes = self.0.shapes.get(place)?.as_deref()?;
        let element = self.0.types.get(place).and_then(|name| Element::named(name.as_deref()?));
        Some(Tensor { sizes, element })
    }

    /// The tensors at these places, where there are any.
    pub(super) fn tensors(
        &self,
        places: impl IntoIterator<Item = usize>,
    ) -> impl Iterator<Item = Tensor<'a>> {
        places.into_iter().filter_map(|place| self.tensor(place))
    }

    /// Bytes of the tensor at `place`; 0 if there is none.
    pub(super) fn bytes(&self, place: usize) -> Option<u64> {
        self.tensor(place).map_or(Some(0), |tensor| tensor.bytes())
    }

    /// The truth value at `place`.
    pub(super) fn flag(&self, place: usize) -> Option<bool> {
        self.0.arguments.get(place)?.as_bool()
    }

    /// The whole number from 0 at `place`.
    pub(super) fn number(&self, place: usize) -> Option<u64> {
        self.0.arguments.get(place)?.as_u64()
    }

    /// The type that the argument at `place` names.
    pub(super) fn element(&self, place: usize) -> Option<Element> {
        self.number(place).and_then(Element::numbered)
    }

    /// The list of numbers at `place`, of which some may be below 0.
    pub(super) fn integers(&self, place: usize) -> Option<Vec<i64>> {
        self.list(place, Value::as_i64)
    }

    /// The list of sizes at `place`.
    pub(super) fn sizes(&self, place: usize) -> Option<Vec<u64>> {
        self.list(place, Value::as_u64)
    }

    /// The truth values at `place`: the gradients that a backward pass computes.
    pub(super) fn mask(&self, place: usize) -> Option<[bool; 3]> {
        let mut mask = self.list(place, Value::as_bool)?;
        mask.resize(3, false);
        mask.try_into().ok()
    }

    fn list<T>(&self, place: usize, item: fn(&Value) -> Option<T>) -> Option<Vec<T>> {
        self.0.arguments.get(place)?.as_array()?.iter().map(item).collect()
    }
}

/// The type of the result of arithmetic on `tensors`, by PyTorch's type promotion. A tensor without dimensions counts
/// only if no other one has any. `None` if a type is unknown or the rule is not one of those here.
pub(super) fn promoted<'a>(tensors: impl Iterator<Item = Tensor<'a>> + Clone) -> Option<Element> {
    let has_dimensions = tensors.clone().any(|tensor| !tensor.sizes.is_empty());
    let counting = tensors.filter(|tensor| !has_dimensions || !tensor.sizes.is_empty());
    let mut types = counting.map(|tensor| tensor.element);
    let first = types.next()??;
    types.try_fold(first, |left, right| {
        let right = right?;
        match (left.is_integer, right.is_integer) {
            (true, false) => Some(right),
            (false, true) => Some(left),
            // float16 and bfloat16 make float32.
            (false, false) if left.bytes == right.bytes && left != right => Some(Element::FLOAT32),
            _ => Some(if left.bytes >= right.bytes { left } else { right }),
        }
    })
}

/// The sizes of the result of arithmetic on tensors of `sizes`. `None` if they do not fit.
pub(super) fn broadcast<'a>(sizes: impl Iterator<Item = &'a [u64]> + Clone) -> Option<Vec<u64>> {
    let rank = sizes.clone().map(<[u64]>::len).max()?;
    let mut result = vec![1; rank];
    for sizes in sizes {
        for (result, size) in result.iter_mut().rev().zip(sizes.iter().rev().copied()) {
            match (*result, size) {
                (_, 1) => {}
                (1, _) => *result = size,
                (same, _) if same == size => {}
                _ => return None,
            }
        }
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{sample, with_arguments};
    use super::*;
    use serde_json::json;

    #[test]
    fn types_have_the_sizes_of_pytorch() {
        for (name, bytes) in [
            ("bool", 1),
            ("float8_e4m3fn", 1),
            ("float16", 2),
            ("bfloat16", 2),
            ("float32", 4),
            ("int64", 8),
            ("float64", 8),
            ("complex128", 16),
        ] {
            assert_eq!(Element::named(name).map(|element| element.bytes), Some(bytes), "{name}");
        }
        assert_eq!(Element::named("float"), None);
        assert_eq!(Element::numbered(15), Element::named("bfloat16"));
    }

    #[test]
    fn a_place_without_a_tensor_has_no_bytes_and_one_of_unknown_type_has_unknown_bytes() {
        let operator = sample("f", &["float32 2 3", "-", "quint4x2 2"]);
        let inputs = Inputs::of(&operator);
        assert_eq!([0, 1, 2, 3].map(|place| inputs.bytes(place)), [Some(24), Some(0), None, Some(0)]);
    }

    #[test]
    fn arguments_are_read_by_their_kind() {
        let arguments =
            vec![json!(null), json!([1, 2]), json!([-1]), json!([true, false]), json!(3), json!(true)];
        let operator = with_arguments(sample("f", &[]), arguments);
        let inputs = Inputs::of(&operator);
        assert_eq!(inputs.sizes(1), Some(vec![1, 2]));
        assert_eq!((inputs.sizes(2), inputs.integers(2)), (None, Some(vec![-1])));
        assert_eq!(inputs.mask(3), Some([true, false, false]));
        assert_eq!((inputs.number(4), inputs.flag(5), inputs.flag(0)), (Some(3), Some(true), None));
    }

    #[test]
    fn promotion_follows_pytorch() {
        for (shapes, bytes) in [
            (&["bfloat16 2", "float32 2"][..], Some(4)),
            (&["float16 2", "bfloat16 2"], Some(4)),
            (&["bfloat16 2", "float32"], Some(2)),
            (&["int64 2", "bfloat16 2"], Some(2)),
            (&["bool 2", "int64 2"], Some(8)),
            (&["unknown 2", "int64 2"], None),
        ] {
            let operator = sample("f", shapes);
            let inputs = Inputs::of(&operator);
            let tensors = (0..shapes.len()).filter_map(|place| inputs.tensor(place));
            assert_eq!(promoted(tensors).map(|element| element.bytes), bytes, "{shapes:?}");
        }
    }

    #[test]
    fn broadcasting_follows_pytorch() {
        let of = |sizes: &[&[u64]]| broadcast(sizes.iter().copied());
        assert_eq!(of(&[&[8, 1, 6], &[7, 1]]), Some(vec![8, 7, 6]));
        assert_eq!(of(&[&[], &[3]]), Some(vec![3]));
        assert_eq!(of(&[&[0], &[1]]), Some(vec![0]));
        assert_eq!(of(&[&[2], &[3]]), None);
    }
}
