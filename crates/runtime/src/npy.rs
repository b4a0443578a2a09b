//! NumPy's `.npy`: a header that is a Python dictionary, then elements (NEP 1).
//!
//! Types that NumPy lacks are written as the next one that holds them exactly: narrow floats as `<f4`, 4-bit
//! integers as `|i1`. Opaque elements of one or two bytes (`|V1`, `<V2`: how NumPy stores foreign types) are
//! read as patterns of the type asked for.

use tilewright_base::invariant::OrBroken;
use tilewright_num::{Dtype, RuleSet, convert, int_pattern, int_value, load};

use crate::array::{Array, ArrayError};

const MAGIC: &[u8] = b"\x93NUMPY";

/// Reads an array as elements of `wanted`, by a chip's rules.
pub fn read(bytes: &[u8], wanted: Dtype, rules: &RuleSet) -> Result<Array, ArrayError> {
    let (header, data) = split(bytes)?;
    let kind = quoted(header, "descr").ok_or_else(|| bad("its header has no 'descr'"))?;
    if after(header, "fortran_order").is_some_and(|rest| rest.starts_with("True")) {
        return Err(bad("it is in Fortran order; save it with numpy.ascontiguousarray"));
    }
    let extents = shape(header).ok_or_else(|| bad("its header has no 'shape' of numbers"))?;
    let count = Array::count(&extents).ok_or_else(|| bad("it has too many elements"))?;
    if let Some(wide) = WideElement::of(kind) {
        if wide.is_float() != wanted.is_float() {
            return Err(ArrayError::Type { found: wide.name().to_string(), wanted: wanted.name() });
        }
        return wide.read(data, count, extents)?.converted(rules, wanted);
    }
    let refused = || ArrayError::Type { found: numpy_name(kind), wanted: wanted.name() };
    let stored = stored_type(kind, wanted).ok_or_else(refused)?;
    if data.len() != count * stored.storage_bits() as usize / 8 {
        return Err(bad(&format!("its header asks for {count} elements, its data has {} bytes", data.len())));
    }
    let patterns = (0..count).map(|index| load(stored, data, index)).collect();
    Array { dtype: stored, extents, patterns }.converted(rules, wanted)
}

/// Reads integers or bools of any width that NumPy has, with their extents.
///
/// # Errors
/// What is no array of integers.
pub fn read_ints(bytes: &[u8]) -> Result<(Vec<u64>, Vec<i64>), ArrayError> {
    let (header, data) = split(bytes)?;
    if quoted(header, "descr") != Some("<i8") {
        let stored = quoted(header, "descr").and_then(|kind| stored_type(kind, Dtype::I32));
        let wanted = stored.filter(|dtype| !dtype.is_float()).unwrap_or(Dtype::I32);
        let array = read(bytes, wanted, &RuleSet::TCP)?;
        let values = array.patterns.iter().map(|pattern| int_value(array.dtype, *pattern)).collect();
        return Ok((array.extents, values));
    }
    if after(header, "fortran_order").is_some_and(|rest| rest.starts_with("True")) {
        return Err(bad("it is in Fortran order; save it with numpy.ascontiguousarray"));
    }
    let extents = shape(header).ok_or_else(|| bad("its header has no 'shape' of numbers"))?;
    let count = Array::count(&extents).ok_or_else(|| bad("it has too many elements"))?;
    let (words, rest) = data.as_chunks::<8>();
    if words.len() != count || !rest.is_empty() {
        return Err(bad(&format!("its header asks for {count} elements, its data has {} bytes", data.len())));
    }
    Ok((extents, words.iter().map(|word| i64::from_le_bytes(*word)).collect()))
}

/// Writes integers of 64 bits.
pub fn write_ints(extents: &[u64], values: &[i64]) -> Vec<u8> {
    let mut bytes = head("<i8", extents);
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

/// Writes bools: what is not zero is true.
pub fn write_bools(extents: &[u64], values: &[i64]) -> Vec<u8> {
    let mut bytes = head("|b1", extents);
    bytes.extend(values.iter().map(|value| u8::from(*value != 0)));
    bytes
}

/// Writes an array.
pub fn write(array: &Array, rules: &RuleSet) -> Vec<u8> {
    let (kind, stored) = match array.dtype {
        Dtype::I4 | Dtype::I5 | Dtype::I8 => ("|i1", Dtype::I8),
        Dtype::U8 => ("|u1", Dtype::U8),
        Dtype::I9 | Dtype::I16 => ("<i2", Dtype::I16),
        Dtype::U16 => ("<u2", Dtype::U16),
        Dtype::I32 => ("<i4", Dtype::I32),
        Dtype::U32 => ("<u4", Dtype::U32),
        Dtype::F16 => ("<f2", Dtype::F16),
        _ => ("<f4", Dtype::F32),
    };
    let mut bytes = head(kind, &array.extents);
    let widened = array.patterns.iter().map(|pattern| widen(rules, array.dtype, stored, *pattern)).collect();
    bytes.extend(Array { dtype: stored, extents: array.extents.clone(), patterns: widened }.bytes());
    bytes
}

/// All that comes before the elements.
fn head(kind: &str, extents: &[u64]) -> Vec<u8> {
    let written: Vec<String> = extents.iter().map(u64::to_string).collect();
    let comma = if written.len() == 1 { "," } else { "" };
    let mut header =
        format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({}{comma}), }}", written.join(", "));
    // The data starts at a multiple of 64.
    while !(MAGIC.len() + 4 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend(
        u16::try_from(header.len()).or_broken("a header of a few extents fits 16 bits").to_le_bytes(),
    );
    bytes.extend(header.as_bytes());
    bytes
}

fn widen(rules: &RuleSet, from: Dtype, to: Dtype, pattern: u32) -> u32 {
    if from.is_float() {
        convert(rules, from, to, pattern).or_broken("floats are converted to floats")
    } else {
        int_pattern(to, int_value(from, pattern))
    }
}

fn stored_type(kind: &str, wanted: Dtype) -> Option<Dtype> {
    let opaque = |bits: u32| (wanted.storage_bits() == bits).then_some(wanted);
    match kind {
        "|i1" => Some(Dtype::I8),
        "|u1" | "|b1" => Some(Dtype::U8),
        "<i2" => Some(Dtype::I16),
        "<u2" => Some(Dtype::U16),
        "<i4" => Some(Dtype::I32),
        "<u4" => Some(Dtype::U32),
        "<f2" => Some(Dtype::F16),
        "<f4" => Some(Dtype::F32),
        "|V1" => opaque(8),
        "<V2" | "|V2" => opaque(16),
        _ => None,
    }
}

/// What NumPy makes unless told otherwise: eight bytes an element.
#[derive(Clone, Copy)]
enum WideElement {
    Integer,
    Float,
}

impl WideElement {
    fn of(kind: &str) -> Option<WideElement> {
        match kind {
            "<i8" => Some(WideElement::Integer),
            "<f8" => Some(WideElement::Float),
            _ => None,
        }
    }

    fn is_float(self) -> bool {
        matches!(self, WideElement::Float)
    }

    fn name(self) -> &'static str {
        if self.is_float() { "float64" } else { "int64" }
    }

    /// Integers that fit 32 bits; floats rounded to the nearest of 32 bits.
    fn read(self, data: &[u8], count: usize, extents: Vec<u64>) -> Result<Array, ArrayError> {
        if data.len() != count.saturating_mul(8) {
            return Err(bad(&format!(
                "its header asks for {count} elements, its data has {} bytes",
                data.len()
            )));
        }
        let words = data
            .chunks_exact(8)
            .map(|bytes| bytes.iter().rev().fold(0_u64, |all, byte| all << 8 | u64::from(*byte)));
        let dtype = match self {
            WideElement::Integer => Dtype::I32,
            WideElement::Float => Dtype::F32,
        };
        let pattern = |(index, word): (usize, u64)| match self {
            WideElement::Integer => {
                let value = word.cast_signed();
                let narrow = i32::try_from(value);
                narrow.map(i32::cast_unsigned).map_err(|_| ArrayError::Range {
                    index,
                    value,
                    wanted: dtype.name(),
                })
            }
            WideElement::Float => {
                let (wide, narrow) = (f64::from_bits(word), rounded(word));
                if wide.is_finite() && narrow.is_infinite() {
                    return Err(bad(&format!("element {index} is {wide:e}, which float32 does not reach")));
                }
                Ok(narrow.to_bits())
            }
        };
        let patterns: Result<Vec<u32>, ArrayError> = words.enumerate().map(pattern).collect();
        Ok(Array { dtype, extents, patterns: patterns? })
    }
}

/// A pattern of 64 bits as a float of 32.
#[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest")]
fn rounded(word: u64) -> f32 {
    f64::from_bits(word) as f32
}

/// How many elements of a file of float64 are others in float32; 0 of any other file.
pub fn rounded_elements(bytes: &[u8]) -> u64 {
    let Ok((header, data)) = split(bytes) else { return 0 };
    if quoted(header, "descr") != Some("<f8") {
        return 0;
    }
    let words = data.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    let changes = |word: &u64| {
        let wide = f64::from_bits(*word);
        !wide.is_nan() && f64::from(rounded(*word)).to_bits() != wide.to_bits()
    };
    words.filter(changes).count() as u64
}

/// NumPy's name of a type beside how its files spell it.
fn numpy_name(kind: &str) -> String {
    let name = match kind.trim_start_matches(['<', '>', '|', '=']) {
        "u8" => "uint64",
        "i4" => "big-endian int32",
        "f4" => "big-endian float32",
        "i8" => "big-endian int64",
        "f8" => "big-endian float64",
        "c8" => "complex64",
        "c16" => "complex128",
        _ => return format!("`{kind}`"),
    };
    format!("{name} (`{kind}`)")
}

/// Header and data.
fn split(bytes: &[u8]) -> Result<(&str, &[u8]), ArrayError> {
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| bad("it does not start as a .npy file does"))?;
    let (length, start) = match rest {
        [1, _, a, b, ..] => (usize::from(u16::from_le_bytes([*a, *b])), 4_usize),
        [2 | 3, _, a, b, c, d, ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, 6),
        _ => return Err(bad("its version is unknown")),
    };
    let end = start.checked_add(length).filter(|end| *end <= rest.len());
    let end = end.ok_or_else(|| bad("its header is cut off"))?;
    let header = std::str::from_utf8(&rest[start..end]).map_err(|_| bad("its header is no text"))?;
    Ok((header, &rest[end..]))
}

/// What follows a key.
fn after<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = header.split_once(&format!("'{key}'"))?;
    Some(rest.trim_start().strip_prefix(':')?.trim_start())
}

fn quoted<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    after(header, key)?.strip_prefix('\'')?.split_once('\'').map(|(text, _)| text)
}

fn shape(header: &str) -> Option<Vec<u64>> {
    let (inside, _) = after(header, "shape")?.strip_prefix('(')?.split_once(')')?;
    inside.split(',').map(str::trim).filter(|part| !part.is_empty()).map(|part| part.parse().ok()).collect()
}

fn bad(what: &str) -> ArrayError {
    ArrayError::Format(format!("not a .npy array: {what}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_reads_back(
            which in 0..8_usize,
            extents in proptest::collection::vec(0..5_u64, 0..4),
            seed in any::<u64>(),
        ) {
            let dtype = [
                Dtype::I4, Dtype::I8, Dtype::I32, Dtype::F32, Dtype::Bf16, Dtype::F8E4M3Fn, Dtype::U16,
                    Dtype::F16,
            ][which];
            let array = Array::random(&RuleSet::TCP, dtype, &extents, seed).unwrap();
            let bytes = write(&array, &RuleSet::TCP);
            prop_assert_eq!(read(&bytes, dtype, &RuleSet::TCP).unwrap(), array);
        }

        #[test]
        fn numpys_own_widths_are_read(values in proptest::collection::vec(-128..128_i64, 0..20)) {
            let file = |kind: &str, data: Vec<u8>| {
                let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({},), \
                                      }}", values.len());
                let mut bytes = MAGIC.to_vec();
                bytes.extend([1, 0]);
                bytes.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
                bytes.extend(header.into_bytes());
                bytes.extend(data);
                bytes
            };
            let wanted: Vec<u32> = values.iter().map(|value| int_pattern(Dtype::I8, *value)).collect();
            let integers = file("<i8", values.iter().flat_map(|value| value.to_le_bytes()).collect());
            prop_assert_eq!(read(&integers, Dtype::I8, &RuleSet::TCP).unwrap().patterns, wanted);
            let floats = file("<f8", values.iter().flat_map(|value| (*value as f64).to_le_bytes()).collect());
            let read = read(&floats, Dtype::F32, &RuleSet::TCP).unwrap().patterns;
            prop_assert_eq!(read, values.iter().map(|value| (*value as f32).to_bits()).collect::<Vec<_>>());
        }

        #[test]
        fn no_bytes_are_too_odd(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
            cut in 0..100_usize,
        ) {
            let array = Array::random(&RuleSet::TCP, Dtype::I8, &[3, 4], 1).unwrap();
            let mut edited = write(&array, &RuleSet::TCP);
            edited.truncate(edited.len().saturating_sub(cut));
            if let (Some(byte), Some(at)) = (bytes.first(), bytes.last()) {
                let at = usize::from(*at) % edited.len();
                edited[at] = *byte;
            }
            let _ = read(&edited, Dtype::I8, &RuleSet::TCP);
            bytes.splice(0..0, MAGIC.iter().copied());
            let _ = read(&bytes, Dtype::I8, &RuleSet::TCP);
        }
    }

    #[test]
    fn wide_integers_and_bools_read_back() {
        let values = [i64::MIN, -1, 0, 7, i64::MAX, 1 << 40];
        assert_eq!(read_ints(&write_ints(&[2, 3], &values)).unwrap(), (vec![2, 3], values.to_vec()));
        let bools = (vec![3], vec![1, 0, 1]);
        assert_eq!(read_ints(&write_bools(&[3], &[5, 0, -1])).unwrap(), bools);
        let refused = read(&write_ints(&[1], &[1]), Dtype::F32, &RuleSet::TCP).unwrap_err();
        assert_eq!(refused.to_string(), "elements are int64, which do not become f32");
        let floats = Array::random(&RuleSet::TCP, Dtype::F32, &[3], 1).unwrap();
        assert!(read_ints(&write(&floats, &RuleSet::TCP)).is_err());
        let mut short = write_ints(&[2, 3], &values);
        short.pop();
        assert!(read_ints(&short).is_err());
    }

    #[test]
    fn integers_must_fit() {
        let wide = Array { dtype: Dtype::I32, extents: vec![2], patterns: vec![7, 200] };
        let bytes = write(&wide, &RuleSet::TCP);
        let refused = read(&bytes, Dtype::I8, &RuleSet::TCP).unwrap_err();
        assert_eq!(refused.to_string(), "element 1 is 200, which is outside i8");
    }

    #[test]
    fn floats_of_64_bits_that_change_are_counted_and_those_beyond_float32_refused() {
        let wide = |values: &[f64]| {
            let data = values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
            let header =
                format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({},), }}\n", values.len());
            let length = u16::try_from(header.len()).expect("a short header").to_le_bytes();
            [MAGIC, &[1, 0], &length, header.as_bytes(), &data].concat()
        };
        assert_eq!(rounded_elements(&wide(&[0.5, -2.0, 0.1, f64::NAN, f64::INFINITY])), 1);
        assert!(read(&wide(&[0.1]), Dtype::F32, &RuleSet::TCP).is_ok());
        let error = read(&wide(&[0.0, 1e300]), Dtype::F32, &RuleSet::TCP).expect_err("too large").to_string();
        assert!(error.contains("element 1 is 1e300"), "{error}");
        assert_eq!(rounded_elements(b"no array"), 0);
    }
}
